"""Effects of a container on folders of the host that are mounted in it, by their names on the host."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.folders import under
from tools.judge.meaning.act import RedirectTarget
from tools.judge.meaning.value import HOLE, Taint, Value, names

Mounts = Sequence[tuple[str, str]]

_CHANGES = names(
    "rm unlink rmdir shred truncate find dd mv cp ln install rsync chmod chown chgrp setfacl chattr tee sponge touch sed perl"
    " tar unzip git curl wget nc ncat"
)
"""Programs that change or send their files. The effects of all other programs stay in the container."""

SENDS = names("git curl wget nc ncat rsync")
"""Programs that send files. They count even if the container has only a copy of the host's file."""

_FROM_TO = names("mv cp ln install rsync")
_SAYS_FIRST = names("chmod chown chgrp setfacl chattr sed perl")
"""Programs whose first operand is not a path."""

_BEFORE_PATH = Regex(r"(?:-\w|(?:-*[\w-]+=)?@|-*[\w-]+=)(?=/)")
_GLOB = Regex(r"[*?\[]")


def outside(
    mounts: Mounts, name: str, argv: Sequence[Value], redirects: Sequence[RedirectTarget], cwds: Sequence[str]
) -> tuple[Sequence[Value], Sequence[RedirectTarget], tuple[str, ...]] | None:
    """Return a container command's words, redirects and folders as the host names them; None if it touches none of the host's
    files.

    The container's own paths are left out, or are replaced by a file in /tmp.
    """
    places = tuple(one for cwd in cwds for one in named(mounts, Value(cwd)))
    own = bool(cwds) and not places
    whole = ("/", "/") in mounts
    """The container sees all of the host, some of it twice, so its reads count as well."""
    start = tuple(cwds) if own or whole else ()
    files = [
        RedirectTarget(one.op, path, one.fd) for one in redirects if ">" in one.op for path in _paths(mounts, one.path, start)
    ]
    if name not in _CHANGES and not whole:
        return (argv, files, places) if files else None
    words: list[Value] = list(argv[:1])
    paths = operands = 0
    for value in argv[1:]:
        option = value.text[:1] == "-" and _BEFORE_PATH.match(value.text) is None
        found = [value] if option else _paths(mounts, value, start)
        if whole and len(found) == 1 and value.text[:1] != "/":
            found = [value]  # a mode, a script, or a file without another name
        words += found or ([_elsewhere(value)] if name in _FROM_TO else [])
        operands += not option
        if found and not option:
            paths += any(one.text != value.text for one in found) or operands > 1 or name not in _SAYS_FIRST
    if not files and not paths and (own or operands):
        return None
    return words, files, places


def _elsewhere(value: Value) -> Value:
    return Value(f"/tmp/{HOLE}", Taint.UNKNOWN, shown=value.for_people())  # noqa: S108 - compared, not used


def _paths(mounts: Mounts, value: Value, cwds: Sequence[str]) -> list[Value]:
    """Return a word's names outside; [] for the container's own files. ``cwds``: the container's possible folders."""
    text = value.text
    before = _BEFORE_PATH.match(text)
    start = before.end() if before is not None else 0
    if text[start : start + 1] != "/":
        if not cwds or text[:1] == HOLE:
            return [value]
        found = [one for cwd in cwds for one in named(mounts, value._replace(text=f"{cwd.rstrip('/')}/{text}"), above=True)]
        return [value._replace(text=one, shown="") for one in found]
    given = value._replace(text=text[start:])
    return [value._replace(text=text[:start] + one, shown="") for one in named(mounts, given, above=True)]


def inside(mounts: Mounts, files: Mapping[str, Value]) -> dict[str, Value]:
    """Return the files that the line wrote into the mounted folders, by their names inside."""
    return {to + path[len(place) :]: value for to, place in mounts for path, value in files.items() if under(path, place)}


def named(mounts: Mounts, value: Value, *, above: bool = False) -> list[str]:
    """Return the host's names for ``value``. ``above``: return the mounted folder for a folder that contains it."""
    text = posixpath.normpath(value.text)
    glob = _GLOB.search(text) if value.pattern else None
    sure = text if glob is None else text[: glob.start()].rpartition("/")[0] or "/"
    known, hole, _ = text.partition(HOLE)
    found: list[str] = []
    for to, path in mounts:
        if under(text, to):
            found.append((path.rstrip("/") + text[len(to.rstrip("/")) :].rstrip("/")) or "/")
        elif (above and under(to, sure)) or (hole and to.startswith(known)):
            found.append(f"{path}/{HOLE}" if hole else path)
    return found
