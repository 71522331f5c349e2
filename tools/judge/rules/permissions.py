"""Rules: rights to read, write and run files."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tools.judge.meaning.value import HOLE, Value
from tools.judge.table import FED, ActView, Test, count, last, operand, opt, rule, value, word

_RECURSIVE = opt("-r -R --recursive")
_SAYS_MODE = frozenset({"-m", "--modify", "-x", "-M", "-X", "--set", "--from"})


def _targets(view: ActView) -> Sequence[Value]:
    """Return the operands without the mode or the owner."""
    given = view.operands(_SAYS_MODE)
    says = view.name not in ("chmod", "chown", "chgrp") or any(word.startswith("--reference") for word in view.words)
    return given if says else given[1:]


def _world_writable(view: ActView) -> bool:
    """Return whether the mode lets all users write, takes rights from the owner, or is unknown."""
    given = view.operands()
    mode = given[0].text if given else ""
    if re.fullmatch(r"[0-7]{3,5}", mode):
        return mode[-1] in "2367" or mode[-3] in "0123"
    if re.search(r"(?:^|,)(?:[ugo]*[oa][ugoa]*)?[+=][rXxst]*w", mode) and not re.match(r"u?g?[+=]", mode):
        return True
    return bool(re.search(r"(?:^|,)(?:[go]*[ua][ugoa]*)?(?:-[wxst]*r|=(?:,|$))", mode)) or HOLE in mode


RULES = (
    rule(
        "fs.permissions",
        "ask",
        "chmod",
        Test(_world_writable)
        & operand(
            r"(?:.*/)?\.(?:ssh|gnupg|aws|kube|bashrc|zshrc|profile|bash_profile|git|netrc|env)(?:/.*)?|/home/[^/]+/?"
            r"|~/?|.*id_(?:rsa|ed25519)"
        ),
        "lets all users write files that only their owner should",
        yes=("chmod 777 ~/.ssh", "chmod 666 ~/.bashrc", "chmod o+w .git"),
        no=("chmod 700 ~/.ssh", "chmod 600 ~/.ssh/id_rsa"),
        paths=_targets,
    ),
    rule(
        "fs.recursive-permissions",
        "ask",
        "chmod",
        opt("-R --recursive")
        & (Test(_world_writable) | operand(r"/.*|~.*|\.\..*"))
        & ~operand(r"u?\+[rwxX]+|u\+rwX|go-w|o-[rwx]+|go-rwx", 0),
        "changes the permissions of a whole tree",
        yes=("chmod -R 777 public", "chmod -R a+w .", "chmod -R 000 x", "chmod -R 755 /srv/app", "chmod --recursive o+w x"),
        no=(
            "chmod -R 755 public",
            "chmod -R u+rwX .",
            "chmod +x run.sh",
            "chmod -R go-w .",
            "chmod 600 key.pem",
            "chmod -R g+w shared",
        ),
        paths=_targets,
        roots=True,
    ),
    rule(
        "fs.recursive-permissions",
        "ask",
        "chmod",
        opt("-R --recursive") & operand(r"/(?:\*|[a-z]+(?:/\*)?/?)|~(?:/\*)?/?|/home/[^/]+(?:/\*)?/?|\.\.|\*|/home/[^/]+/\*"),
        "changes the permissions of a whole tree",
        yes="chmod -R 700 /etc",
        no="chmod -R 700 keys",
        paths=_targets,
        roots=True,
    ),
    rule(
        "fs.recursive-permissions",
        "ask",
        "chown chgrp setfacl chflags chcon",
        _RECURSIVE & ~Test(lambda view: view.name == "chcon" and not opt("-R --recursive")(view)),
        "changes the owners or rights of a whole tree",
        yes=("chown -R dev:dev /srv/app", "setfacl -R -m u:x:rwx data"),
        no=("chown dev a.txt", "chown --help", "chcon -r object_r a.txt"),
        paths=_targets,
        roots=True,
    ),
    rule(
        "fs.permissions",
        "ask",
        "chmod",
        Test(_world_writable) & FED,
        "lets all users write to the files of a list",
        yes="find . -type d -exec chmod 777 {} +",
        no="chmod 644 a",
    ),
    rule(
        "fs.setuid",
        "ask",
        "chmod",
        operand(r"(?:.*,)?[uga]*[+=][rwxXt]*s[rwxXst]*(?:,.*)?|0?[2467][0-7]{3}", 0),
        "lets a program run with its owner's rights",
        yes=("chmod u+s tool", "chmod 4755 tool", "chmod +s x", "chmod 6755 x", "chmod u=rwxs x"),
        no=("chmod 755 tool", "chmod 0644 a", "chmod 1777 d", "chmod u+x s"),
        paths=_targets,
    ),
    rule(
        "fs.setuid",
        "ask",
        "install ginstall",
        value("-m --mode", r"0?[2467][0-7]{3}|.*[+=]\w*s\w*"),
        "lets a program run with its owner's rights",
        yes="install -m 4755 a /tmp/b",
        no="install -m 755 a b",
        paths=last,
    ),
    rule(
        "fs.setuid",
        "ask",
        "setcap",
        (count(2) | opt("-r")) & ~opt("-v"),
        "changes which of root's rights a program has",
        yes="setcap cap_net_raw+ep tool",
        no="setcap --help",
    ),
    rule(
        "fs.immutable",
        "ask",
        "chattr",
        operand(r"[+=].*[iau].*", 0) | word("-[iau]+") | opt("-R"),
        "locks a file, or unlocks a locked one",
        yes=("chattr +i a", "chattr -i /etc/passwd"),
        no="chattr --help",
        paths=lambda view: view.operands()[1:] or view.operands(),
    ),
)
