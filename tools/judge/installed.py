"""toolcrib's own code on this machine and its Python, which a tool may read but not change."""

from __future__ import annotations

import fnmatch
import posixpath
from collections.abc import Callable, Iterator, Sequence

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex
from tools.judge.findings import Finding, Level, visible
from tools.judge.folders import under
from tools.judge.meaning.act import Act
from tools.judge.meaning.multiplexers import READERS, driven
from tools.judge.meaning.state import Seen
from tools.judge.meaning.value import HOLE
from tools.judge.own_code import Installed
from tools.judge.paths import may_match, spelled
from tools.judge.table import ActView
from tools.judge.writes import Touch

_WHY = "changes toolcrib's own installed code, or the Python that runs it"
_WHY_CHECKOUT = (
    "changes the code of toolcrib, which runs from this checkout; a user allows that by starting with --develop-toolcrib"
)
_GLOB = Regex(r"[*?\[]")
_CONCERNED = ("pip", "python", "uv", "git", "patch", *READERS)
"""Name prefixes of programs that change toolcrib's code without naming it, or type into terminals."""
_PIP = Regex(r"pip[\d.]*$")
_PYTHON = Regex(r"python[\d.]*$")
_CHANGES = frozenset({"install", "uninstall", "sync", "add", "remove"})
_TREE = frozenset("checkout switch pull merge rebase reset restore stash apply am cherry-pick revert clean".split())
"""Commands of git that write into the working folder without naming a file."""
_STASH_KEEPS = (["list"], ["show"], ["drop"], ["clear"], ["create"], ["store"])
_MOST_FOLDERS = 40
_FEWEST_PARTS = 3


class Ours(NamedTuple):
    """toolcrib's own code, and how a command would find it. ``path``: PATH in the session's shell, "" if it has not changed
    since toolcrib started; ``inspect_path`` returns what is at a path.
    """

    installed: Installed
    path: str
    inspect_path: Callable[[str], Seen]


def holds(installed: Installed, path: str) -> bool:
    """Return whether the absolute ``path``, or a path that matches it as a pattern, may be changed only by the user."""
    if path.startswith(installed.closed) and any(under(path, one) for one in installed.closed):
        return True
    return _GLOB.search(path) is not None and any(may_match(path, one) for one in installed.closed)


def judge_file(path: str, text: str, installed: Installed) -> list[Finding]:
    """Judge a change of the file ``path``, with links resolved. ``text`` describes the change to users."""
    if not holds(installed, path):
        return []
    return [Finding("self.installed", "block", why(path, installed), visible(text), scope=visible(path), paths=(path,))]


def why(path: str, installed: Installed) -> str:
    """Return why only the user may change ``path``."""
    return _WHY_CHECKOUT if installed.checkout and under(path, installed.checkout) else _WHY


class Change(NamedTuple):
    """A change of toolcrib's code by a command."""

    level: Level
    why: str


def of_touch(act: Act, touch: Touch, path: str, installed: Installed, home: str) -> Change | None:
    """Return how a command's change of ``path`` affects toolcrib's code: directly, or through a parent folder with all its
    contents. None if it does not.
    """
    if act.place:
        return None
    if holds(installed, path):
        return Change("block", why(path, installed))
    if path == home or path.count("/") < _FEWEST_PARTS or HOLE in path:
        return None
    if not any(one.startswith(f"{path}/") for one in installed.closed):
        return None
    if touch.mode in ("delete", "permission"):
        whole = act.name in ("mv", "gmv") or any(text[:1] == "-" and ("r" in text or "R" in text) for text in act.words())
        return Change("block", _WHY) if whole else None
    if touch.mode != "write" or any(under(cwd, path) for cwd in act.cwds):  # such as a project that contains the venv
        return None
    return Change("ask-once", "may write into toolcrib's own installed code, or the Python that runs it")


# packages


class Packages:
    """Finds commands that change the packages of toolcrib's interpreter. ``real`` returns the targets of an absolute path's
    links.
    """

    def __init__(self, act: Act, ours: Ours, real: Callable[[str], Sequence[str]]) -> None:
        self._act, self._ours, self._real = act, ours, real

    def changed(self, view: ActView) -> bool:
        act = self._act
        if act.place or not self._ours.installed.programs:
            return False
        words = [text for text in view.words if text[:1] != "-" or text == "-m"]
        name = act.name.rpartition("/")[2]
        if _PYTHON.match(name):
            pip = words[:2] == ["-m", "pip"] and not _CHANGES.isdisjoint(words[2:3])
            return (pip or words[:2] == ["-m", "ensurepip"]) and self._is_run()
        if _PIP.match(name):
            return not _CHANGES.isdisjoint(words[:2]) and (
                self._is_named(view, "--python --prefix --target -t") or self._is_run()
            )
        return (
            name == "uv"
            and words[:1] == ["pip"]
            and not _CHANGES.isdisjoint(words[1:2])
            and self._is_named(view, "--python -p --prefix --target -t")
        )

    def _is_named(self, view: ActView, options: str) -> bool:
        """Return whether an option or VIRTUAL_ENV names the interpreter, or its environment's folder."""
        named = [*view.values(frozenset(options.split())), *filter(None, [self._act.environment.get("VIRTUAL_ENV")])]
        programs = self._ours.installed.programs
        return any(
            under(there, folder) or posixpath.dirname(folder) == there
            for one in named
            for path in spelled(one, self._act.cwds)
            for there in (path, *self._real(path))
            for folder in programs
        )

    def _is_run(self) -> bool:
        """Return whether the command's program is the interpreter's own, by its path or by PATH."""
        program, installed = self._act.argv[0], self._ours.installed
        if "/" in program.text:
            return any(posixpath.dirname(path) in installed.programs for path in spelled(program, self._act.cwds))
        given = self._act.environment.get("PATH")
        at_first = installed.path.split(":")
        for entry in (given.text if given is not None else self._ours.path or installed.path).split(":")[:_MOST_FOLDERS]:
            folder = posixpath.normpath(entry or ".")
            if folder in installed.programs:
                return True
            if folder not in at_first and self._ours.inspect_path(f"{folder}/{program.text}").kind != "missing":
                return False
        return False


# version control


def overwrites(act: Act, view: ActView, installed: Installed) -> bool:
    """Return whether git, or ``patch``, writes into toolcrib's checkout, in files that the command does not name."""
    if not installed.checkout or act.place or act.name not in ("git", "patch"):
        return False
    operands = [value.text for value in view.operands(frozenset({"-C", "-c", "--git-dir", "--work-tree"}))]
    if act.name == "git" and (_TREE.isdisjoint(operands[:1]) or (operands[0] == "stash" and operands[1:2] in _STASH_KEEPS)):
        return False
    folders = [path for one in view.values(frozenset({"-C", "--work-tree", "-d"})) for path in spelled(one, act.cwds)]
    return any(under(folder, installed.checkout) or under(installed.checkout, folder) for folder in folders or act.cwds)


def is_typed_at(act: Act, installed: Installed) -> bool:
    """Return whether a multiplexer types into toolcrib's own session and could answer a prompt there."""
    if not installed.sessions or act.name not in READERS:
        return False
    for target in driven(act.name, act.argv).targets:
        name, exact = target.lstrip("=").partition(":")[0].partition(".")[0], target.startswith("=")
        for own in installed.sessions:
            if own in ("*", name) or (not exact and (own.startswith(name) or fnmatch.fnmatchcase(own, name))):
                return True
    return False


def findings(act: Act, view: ActView, ours: Ours, real: Callable[[str], Sequence[str]]) -> Iterator[tuple[str, Level, str]]:
    """Yield (key, level, why) for each effect of a command on toolcrib's code or terminal that no named file shows."""
    if not act.name.rpartition("/")[2].startswith(_CONCERNED):
        return
    if is_typed_at(act, ours.installed):
        yield "shell.attach", "ask-once", "types into the terminal that toolcrib runs in, where its prompts are answered"
    if Packages(act, ours, real).changed(view):
        yield "self.packages", "ask", "changes the packages of the Python that runs toolcrib"
    if overwrites(act, view, ours.installed):
        yield "self.checkout", "ask-once", "may change the code of toolcrib, which runs from this checkout"
