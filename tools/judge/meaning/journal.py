"""The journal of a line's effects on files: what each command created, replaced, moved, linked, or may have changed.

``State.files`` is the journal, by absolute path, so each state has its own. No file counts as gone: a command that removes or
moves it may fail, and the old content would run. An entry is a file's content from then on, unless its ``shown`` marks it as:

- a link (LINK): its text is the absolute path of the target
- a path of the disk from before the line, copied or moved (DISK): its text is that path
- a file changed in an unknown way: its text is unknown, ``shown`` names the cause

``inside(folder)`` is the key of an entry for all files in a folder; a key with a HOLE stands for any file with such a name.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Mapping

from tools.judge.meaning.value import HOLE, Taint, Value, unknown

Files = Mapping[str, Value]

LINK, DISK = "link", "disk"
_BY = "by "
UNKNOWN_NAME = "a write to a name that is only known when it runs"
_MOST_LINKS = 8


def link_to(path: str) -> Value:
    return Value(path, shown=LINK)


def on_disk(path: str, taint: Taint = Taint.NONE) -> Value:
    return Value(path, taint, shown=DISK)


def changed_by(maker: str, taint: Taint = Taint.NONE) -> Value:
    """Return the entry of a file that ``maker`` (a command, for users) may have changed."""
    return unknown(taint | Taint.LOCAL, shown=_BY + maker)


def maker_of(entry: Value | None) -> str:
    """Return the name of the command that may have changed the file in an unknown way, else ""."""
    return entry.shown[len(_BY) :] if entry is not None and entry.shown.startswith(_BY) else ""


def inside(folder: str) -> str:
    """Return the key of an entry for all files in ``folder``."""
    return f"{folder.rstrip('/')}/**"


class _Noted(dict[str, Value]):
    """A journal that caches unchanged folders in ``free``: no entry concerns them or their parents.

    ``names`` are its keys as one text, each after a NUL, built when ``holds`` first needs them.
    """

    __slots__ = ("free", "names")

    free: set[str]
    names: str


def written(files: Files, path: str, entry: Value) -> Files:
    """Return the journal with one more entry."""
    new = _Noted(files)
    new[path] = entry
    of_folder = entry.shown == LINK or entry.shown == DISK or path.endswith("/**")
    new.names = ""
    new.free = set() if of_folder or not isinstance(files, _Noted) else files.free
    return new


def find(files: Files, path: str, hops: int = _MOST_LINKS) -> Value | None:
    """Return the entry that a read of ``path`` reaches, with links followed; None if the line did not change it."""
    found = files.get(path)
    if found is None:
        at = path.rfind("/")
        if at < 0 or not isinstance(files, _Noted):
            return _by_folder(files, path, hops)
        folder = path[:at]
        if folder not in files.free and (found := _by_folder(files, path, hops)) is None:
            files.free.add(folder)
        return found
    if found.shown != LINK:
        return found
    if not hops:  # a circular link
        return on_disk(path)
    return find(files, found.text, hops - 1) or on_disk(found.text)


def _by_folder(files: Files, path: str, hops: int) -> Value | None:
    if not files:
        return None
    at = path.rfind("/")
    while True:
        folder = path[:at] if at > 0 else "/"
        above = files.get(folder)
        if above is not None and (above.shown == LINK or above.shown == DISK):
            there = above.text + path[len(folder) :]
            if above.shown == DISK:
                return on_disk(there)
            return (find(files, there, hops - 1) if hops else None) or on_disk(there)
        if (whole := files.get(f"{folder}/**" if at > 0 else "/**")) is not None:
            return whole
        if at <= 0:
            return None
        at = path.rfind("/", 0, at)


def _above(path: str) -> Iterator[str]:
    at = path.rfind("/")
    while at > 0:
        yield path[:at]
        at = path.rfind("/", 0, at)
    yield "/"


def through(files: Files, path: str) -> str:
    """Return the path that a write to ``path`` reaches through the line's links."""
    if "/" in path and isinstance(files, _Noted) and path[: path.rfind("/")] in files.free:
        here = files.get(path)
        if here is None or here.shown != LINK:
            return path
    for _ in range(_MOST_LINKS):
        for folder in (path, *_above(path)):
            known = files.get(folder)
            if known is not None and known.shown == LINK:
                path = posixpath.normpath(known.text + path[len(folder) :])
                break
        else:
            return path
    return path


def perhaps_written(files: Files, path: str) -> str:
    """Return the name of the command that may have written ``path``, by a name that is partly unknown, or ""."""
    for key, entry in files.items():
        if HOLE in key and key != path:
            start, _, rest = key.partition(HOLE)
            named = start.strip("/") or rest
            if (named or maker_of(entry)) and path.startswith(start) and path.endswith(rest.rpartition(HOLE)[2]):
                return maker_of(entry) or UNKNOWN_NAME
    return ""


def anywhere(files: Files, start: str) -> str:
    """Return the name of the command that changed a folder that may hold a path with this known start, or ""."""
    for key, entry in files.items():
        if key.endswith("/**") and (maker := maker_of(entry)) and (start.startswith(key[:-2]) or key.startswith(start)):
            return maker
    return ""


def without(files: Files, path: str) -> dict[str, Value]:
    """Return the journal without ``path`` and everything below it."""
    below = f"{path.rstrip('/')}/"
    return {key: entry for key, entry in files.items() if key != path and not key.startswith(below)}


def holds(files: Files, folder: str) -> bool:
    """Return whether the line changed anything in ``folder``."""
    if not isinstance(files, _Noted):
        below = f"{folder}/"
        return any(key.startswith(below) for key in files)
    files.names = files.names or "\0" + "\0".join(files)
    return f"\0{folder}/" in files.names


def placed(files: Files, source: str, target: str, taint: Taint) -> Files:
    """Return the journal after the file or folder ``source`` was copied or moved to ``target``: entries of ``source`` and of
    files in it are repeated for ``target``.

    The entries of ``source`` stay, because a command that moves it may fail.
    """
    below = f"{source.rstrip('/')}/"
    kept = {target + key[len(source) :]: entry for key, entry in files.items() if key == source or key.startswith(below)}
    return {**without(files, target), target: find(files, source) or on_disk(source, taint), **kept}


def changed(files: Files, folder: str, maker: str, taint: Taint = Taint.NONE) -> Files:
    """Return the journal after ``maker`` may have changed everything in ``folder``."""
    return {**without(files, folder), inside(folder): changed_by(maker, taint)}
