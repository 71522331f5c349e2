"""Find the files of keys and credentials that a command reads, so that its output, a copy or an archive may hold them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.context import Basis
from tools.judge.globs import dangerous
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import Value, names
from tools.judge.own_files import is_wild
from tools.judge.path_rules import PathRule
from tools.judge.paths import path_rules, spelled
from tools.judge.reads import places

_EXEMPT = names(
    # programs that show or change a file's name, place, size, digest or rights
    "ls ll dir vdir exa eza lsd tree stat test [ [[ echo printf file readlink realpath basename dirname du find gfind bfs fd"
    " fdfind which type cd pushd chmod chown chgrp chattr setfacl getfacl rm unlink shred rmdir touch mkdir md5sum sha1sum"
    " sha256sum sha512sum b2sum cksum sum wc export declare local readonly typeset unset alias trash trash-put"
    # programs that use keys
    " ssh mosh autossh sshfs sshuttle sshpass ssh-add ssh-keygen ssh-agent ssh-copy-id keychain gh glab kubectl oc helm k9s kind"
    " kubectx kubens kustomize k3d minikube aws gcloud az docker podman nerdctl terraform tofu pulumi packer ansible npm cargo"
    " ansible-playbook ansible-vault psql pg_dump pg_restore mysql mysqldump gpg gpg2 age sops pass twine"
    # programs that send data, which have rules of their own
    " curl wget http https xh"
)
"""Programs that show no content of the files that their words name, or whose use of keys is judged by other rules."""
_KEY_OPTION = Regex(
    r"--?(?:i|identity(?:-file)?|key|key-?file|private-key|ssh-key|kubeconfig|netrc-file|pgpass\w*|passfile)(?:=.*)?"
)
"""Options that name a key for a program to use."""
_I_IS_NO_KEY = names("grep egrep fgrep sed gsed base64 base32 awk gawk sort cp mv perl ruby rg ag xxd tar bat less")


_HIDDEN = ("~", ".")
"""First characters of words that may name a hidden file in the working folder, or the home of another user."""


def keys_read(act: Act, family: Sequence[str], basis: Basis) -> Iterator[tuple[str, PathRule]]:
    """Yield a path and its rule for each word that names files of keys which the command reads.

    ``family``: the program's names in the table.
    """
    near = "/." in "".join(act.cwds)
    if not near and not act.redirects and not any("/." in value.text or value.text[:1] in _HIDDEN for value in act.argv):
        return
    for given in _read(act, family):
        text = given.text
        if not (near or "/." in text or text[:1] in _HIDDEN):
            continue
        named = spelled(given, places(act, basis.home), basis.home)
        if is_wild(act, given):
            named += [one for path in named for one in dangerous(path)]
        leads = [there for one in named for there in basis.links.real(one)]
        found = ((path, rule) for path in (*named, *leads) for rule in path_rules(path, "read", basis.home))
        yield from itertools.islice(found, 1)


def _read(act: Act, family: Sequence[str]) -> Iterator[Value]:
    """Yield the words and redirects that may name a file whose content the command reads."""
    yield from (target.path for target in act.redirects if target.op == "<")
    yield from (value._replace(text=value.text[7:]) for value in act.argv[1:] if value.text.startswith("file:///"))
    if not _EXEMPT.isdisjoint(family) or not act.argv:
        return
    links = not {"ln", "gln"}.isdisjoint(family) and any(
        word[:2] != "--" and "s" in word for word in act.words() if word[:1] == "-"
    )
    key = False
    for value in () if links else act.argv[1:]:
        text = value.text
        used, key = key, _KEY_OPTION.fullmatch(text) is not None and not (text == "-i" and not _I_IS_NO_KEY.isdisjoint(family))
        if not used and not key:
            yield value
            if "=" in text or "@" in text:
                yield value._replace(text=text.rpartition("=")[2].rpartition("@")[2], shown="")
