"""Rules: git. Settings and plumbing that run programs, show passwords, or drop commits of branches, here or on a remote."""

from __future__ import annotations

import itertools
import posixpath
import re

from toolcrib.contract.regex import Regex
from tools.judge.file_view import Looks
from tools.judge.meaning.value import HOLE
from tools.judge.rules._discards import folders
from tools.judge.rules._git import GIT, git
from tools.judge.table import ActView, Test, operand, opt, rule, sub, value

_RUNNING = Regex(
    r"(?:core|diff|gpg|sequence|init|uploadpack|protocol|include|includeif|merge|filter|difftool|mergetool|browser|man|trailer"
    r"|tar|hook|guitool|remote|imap|sendemail|interactive|pager|credential|alias)(?:\..*)?",
    re.IGNORECASE,
)
"""Sections of settings that have keys whose values name programs."""
_VALUED = frozenset("-f --file --blob".split())
_MOST_ABOVE = 12


def _renames_into(view: ActView) -> bool:
    """Return whether the command renames a section of settings so that values in it may name programs."""
    given = [one.text.lower() for one in view.operands(_VALUED)]
    given = given[1:] if given[:1] == ["rename-section"] else given
    if len(given) < 2:
        return False
    return _RUNNING.fullmatch(given[1]) is not None and given[0].partition(".")[0] != given[1].partition(".")[0]


_RENAMES = opt("--rename-section") | sub("rename-section")
_ALL_REFS = Regex(r"remote\..*\.mirror=(?!false|no|off|0)|remote\..*\.push=(?:\+|:[^:]+$|.*:$)", re.IGNORECASE)


def _pushes_all(view: ActView) -> bool:
    """Return whether a setting makes a plain push overwrite or delete the other side's branches."""
    words = view.words
    given = [after for word, after in itertools.pairwise(words) if word == "-c"]
    if git("config", ~opt("--get --get-all --unset --unset-all -l --list"))(view):
        at = words.index("config")
        plain = [word for word in words[at + 1 :] if word[:1] != "-" and word not in ("set", "add")]
        given += [f"{key}={value}" for key, value in itertools.pairwise(plain)]
    return any(map(_ALL_REFS.match, given))


# branches


def _made_anew(view: ActView) -> str:
    """Return ``NAME START`` of ``checkout -B NAME START``."""
    wanted = frozenset(("-B",) if view.path.endswith("checkout") else ("-C", "--force-create"))
    named = [one.value for one in view.read().options if one.name in wanted and one.value]
    return " ".join((named[-1], *(one.text for one in view.operands()[:1]))) if named else ""


def _renamed(view: ActView) -> str:
    """Return ``NEW OLD`` of ``branch -M OLD NEW``; OLD is ``@`` if it is not given."""
    given = [one.text for one in view.operands()]
    forced = {one.name for one in view.read().options}
    named = forced & {"-M", "-C"} or (forced & {"-m", "-c", "--move", "--copy"} and forced & {"-f", "--force"})
    return " ".join(reversed(["@", *given][-2:])) if given and named else ""


def _updated(view: ActView) -> str:
    """Return ``NAME COMMIT`` of ``update-ref refs/heads/NAME COMMIT``."""
    given = [one.text for one in view.operands(frozenset(("-m",)))]
    heads = "refs/heads/"
    return f"{given[0].removeprefix(heads)} {given[1]}" if len(given) == 2 and given[0].startswith(heads) else ""


_FORCED = (git.at("checkout|switch", _made_anew), git.at("branch", _renamed), git.at("update-ref", _updated))


def _forced(view: ActView) -> str:
    return next((found for ask in _FORCED if (found := ask(view))), "")


def _may_drop_commits(view: ActView, looks: Looks) -> bool:
    """Return whether the moved branch may lose commits: a row's ``seen``. True if git's folder can't be read.

    False if that branch does not exist yet, or if its last commit is also that of the branch at the new start, of the current
    branch, main or master, or of the branch's copy from ``origin``.
    """
    name, _, start = _forced(view).partition(" ")
    where = folders(view)
    if where is None or HOLE in name:
        return True
    return any(_drops(top, name, start or "HEAD", looks) for top in {_top(folder, looks) for folder in where})


def _top(folder: str, looks: Looks) -> str:
    at = folder
    for _ in range(_MOST_ABOVE):
        if looks.inspect_path(f"{at}/.git").kind != "missing" or at == "/":
            return at
        at = posixpath.dirname(at)
    return folder


def _drops(top: str, name: str, start: str, looks: Looks) -> bool:
    git = f"{top}/.git"
    head = looks.inspect_path(f"{git}/HEAD").text or ""
    packed = looks.inspect_path(f"{git}/packed-refs").text or ""
    now = head.strip().removeprefix("ref: refs/heads/")
    if looks.inspect_path(git).kind == "missing":
        return start != "@"  # the first branch of a repository that does not exist yet is often renamed
    if name == now and start in ("HEAD", "@"):
        return False
    others = [now if start in ("HEAD", "@") else start, "main", "master", now]
    names = [f"refs/heads/{name}", *(f"refs/heads/{one}" for one in others if one != name)]
    names += [f"refs/remotes/{one}" for one in (f"origin/{name}", start)]
    own, *kept = [_commit(git, one, packed, looks) for one in names]
    return looks.inspect_path(git).kind in ("file", "unreadable") or (bool(own) and own not in kept)


def _commit(git: str, name: str, packed: str, looks: Looks) -> str:
    """Return the commit that a branch points to; "" if there is no such branch."""
    seen = looks.inspect_path(f"{git}/{name}")
    if seen.text is not None:
        return seen.text.strip()
    return next((line.partition(" ")[0] for line in packed.splitlines() if line.endswith(f" {name}")), "")


RULES = (
    rule(
        "git.runs-code",
        "ask-once",
        GIT,
        git("config", _RENAMES & Test(_renames_into)),
        "turns settings into ones that name programs",
        yes=("git config --rename-section foo core", "git config rename-section a filter.a"),
        no=("git config --rename-section branch.a branch.b", "git config --rename-section remote.a remote.b"),
        effect="outside",
    ),
    rule(
        "secret.keys",
        "ask-once",
        "git git-credential git-credential-store git-credential-cache git-credential-libsecret git-credential-osxkeychain",
        git("credential", sub("fill"))
        | git("credential-store|credential-cache|credential-libsecret|credential-osxkeychain", sub("get"))
        | Test(lambda view: view.name.startswith("git-credential") and view.words[-1:] in (["fill"], ["get"])),
        "shows a password that git stores",
        yes=("git credential fill", "git credential-store --file=x get", "git-credential-osxkeychain get"),
        no=("git credential approve", "git credential-cache exit", "git credential reject"),
        effect="remote",
    ),
    rule(
        "git.push-force",
        "ask",
        GIT,
        Test(_pushes_all) | git("remote add", value("--mirror", "push")),
        "makes a push overwrite or delete shared branches",
        yes=(
            "git config remote.origin.mirror true",
            "git -c remote.origin.mirror=true push",
            "git config --add remote.origin.push '+refs/heads/*:refs/heads/*'",
            "git remote add --mirror=push backup ../b",
        ),
        no=(
            "git config remote.origin.mirror false",
            "git config --get remote.origin.mirror",
            "git config remote.origin.push refs/heads/main",
            "git remote add --mirror=fetch o ../o",
        ),
    ),
    rule(
        "git.push-force",
        "ask",
        GIT,
        git("send-pack", (opt("--force --mirror --stdin") | operand(r"\+.+|:.+")) & ~opt("--dry-run")),
        "overwrites or deletes shared branches",
        yes=("git send-pack ../o :refs/heads/prod", "git send-pack --force ../o main", "git send-pack ../o +main"),
        no=("git send-pack ../o main", "git send-pack --dry-run --force ../o main"),
    ),
    rule(
        "git.branch-delete",
        "ask",
        GIT,
        Test(lambda view: bool(_forced(view))),
        "moves a branch whose commits may be nowhere else",
        at=_forced,
        yes=("git checkout -B topic", "git switch -C topic main", "git branch -M a b", "git update-ref refs/heads/a HEAD"),
        no=("git checkout -b topic", "git branch -m b", "git update-ref refs/tags/v1 HEAD"),
        seen=_may_drop_commits,
    ),
)
