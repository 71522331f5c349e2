"""The session's own files: written by the line or by an earlier call, or downloaded. If a program runs one, it is judged as code.

Files that existed before the session belong to the project and are accepted.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Sequence

from toolcrib.contract.regex import Regex
from tools.judge.meaning import filestate, journal
from tools.judge.meaning.act import Act
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.state import knows_origins
from tools.judge.meaning.value import HOLE, Taint, Value, names
from tools.judge.meaning.walk import Walker
from tools.judge.readers import CHANGERS, is_plain

OWN = Taint.WRITTEN | Taint.REMOTE | Taint.DECODED
_MOST = 50
"""Maximum number of files that are examined for one runner."""


def content(it: Walker, state: State, path: str) -> Value | None:
    """Return the content of one of the session's own files, as far as it can be read; None for any other file."""
    read_by_job(it, state, path)
    for name in filestate.absolute(it, state, path):
        entry = _entry(it, state, name)
        if entry is not None:
            return entry
        if filestate.origin(it, name) & OWN:
            found = filestate.content(it, state, Value(name))
            if found is not None and (found.known or found.taint & Taint.REMOTE):
                return found
    return None


def read_by_job(it: Walker, state: State, path: str, *, by_lines: bool = False) -> None:
    """Record that a background process reads this code after it was judged: ``by_lines``, as shells do, or once its earlier
    programs have ended.
    """
    if it.context.outlasts and (by_lines or filestate.is_late(it)):
        for name in filestate.absolute(it, state, path):
            filestate.runs(it, state, name)


_DATA = names("echo printf [ test true :")
"""Builtins that only print or compare their words, if there is no option ``-v``."""
_NAMELESS = _DATA | names("sleep seq expr basename dirname tr false break continue shift")
"""Programs and builtins whose words, without an option ``-v``, are neither code nor names of files that they read."""
_QUICK = _DATA | names(
    "cd pushd popd export exit let declare local typeset readonly set shift unset source . eval exec trap shopt"
)


_CHANGERS = CHANGERS | names("find gfind sed gsed git")


def opened(it: Walker, state: State, act: Act) -> None:
    """Mark the paths that an act opens late by their names, and the files that its words may come from."""
    if not it.context.outlasts:
        return
    name, argv = act.name, act.argv
    if filestate.is_late(it):
        data = name in _NAMELESS and not any(value.text[:2] == "-v" for value in argv)
        outputs = [target.path for target in act.redirects if ">" in target.op]
        for value in (*argv[: 1 if data else None], *(target.path for target in act.redirects)):
            filestate.executed(it, value)
        for value in (*(argv[1:] if name in _CHANGERS else ()), *outputs):
            _opened(it, state, value.text.rpartition("=")[2])
    if argv and name not in _QUICK:
        waits = act.stdin is not None and act.stdin.taint & Taint.INPUT
        it.found.slow = it.found.slow or bool(waits) or name in filestate.DELAYS or not is_plain(name)


def _opened(it: Walker, state: State, path: str) -> None:
    known, *rest = _SPECIAL.split(path, maxsplit=1)
    if path[:1] in ("-", HOLE) or not path:
        return
    for name in filestate.absolute(it, state, (known.rpartition("/")[0] or ".") if rest else path):
        for one in (name, filestate.real(it, name)):
            filestate.in_use(it, one, Taint.USED)


def _entry(it: Walker, state: State, name: str) -> Value | None:
    if name not in state.files:
        return None
    found = filestate.content(it, state, Value(name))
    return found if found is not None and not journal.maker_of(state.files[name]) else None


def below(it: Walker, state: State, folder: str, *endings: str, deep: bool = True) -> list[str]:
    """Return the absolute paths of the session's own files in ``folder`` whose names have one of the endings.

    ``deep``: also search the folders in it.
    """
    found: dict[str, None] = {}
    for top in filestate.absolute(it, state, folder):
        start = f"{top.rstrip('/')}/"
        known: Sequence[str] = it.snapshot.own_below(top) if knows_origins(it.snapshot) else ()
        named = [name for name in (*state.files, *known) if name.endswith(endings)]
        for name in named:
            if name.startswith(start) and HOLE not in name and (deep or "/" not in name[len(start) :]):
                found[name] = None
    return sorted(found)[:_MOST]


def matching(it: Walker, state: State, path: Value) -> list[str]:
    """Return the session's own files that may match a path which is a pattern or has an unknown part."""
    if (path.known and not path.pattern) or not path.text.strip(f"{HOLE}*/."):
        return []
    found: dict[str, None] = {}
    names = filestate.absolute(it, state, path.text)
    if names[0][:1] != "/":  # it begins with an unknown part: a folder, or a part of a name
        names = [f"{cwd}{'' if one[1:2] == '/' else '/'}{one}" for cwd in state.cwds for one in names]
    for name in names:
        named = re.compile("".join(_as_regex(part, path.pattern) for part in _SPECIAL.split(name)), re.DOTALL)
        start = _SPECIAL.split(name)[0].rpartition("/")[0]
        found |= dict.fromkeys(one for one in below(it, state, start or "/", "") if named.fullmatch(one))
    return list(found)


_SPECIAL = Regex(f"([{HOLE}*?]|\\[[^]]*\\])")


def _as_regex(part: str, pattern: bool) -> str:
    if part == HOLE:
        return ".*"
    if not pattern or not _SPECIAL.fullmatch(part):
        return re.escape(part)
    return "[^/]*" if part == "*" else "[^/]"


def first(it: Walker, state: State, *paths: str) -> tuple[str, Value] | None:
    """Return the first of these paths that is one of the session's own files, and its content."""
    for path in paths:
        found = content(it, state, path)
        if found is not None:
            return posixpath.normpath(path), found
    return None
