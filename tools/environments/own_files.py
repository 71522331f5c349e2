"""Recognise toolcrib's own files by device and inode, to follow hard links to them like symbolic links."""

from __future__ import annotations

import contextlib
import functools
import glob
import itertools
import os
import stat
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from toolcrib.contract.namedtuple import NamedTuple

MOST_FILES = 200_000
"""Maximum number of own files and folders to compare. Beyond it, each file with several names counts as one of them."""
_SETTLED = 2_000_000_000
"""Nanoseconds after which a change of a folder is certain to show in its timestamp."""
_TICK = 20_000_000
"""Nanoseconds that the kernel's timestamp may lag behind the clock."""
_PAUSE, _LONGEST = 20, 5.0
"""Folders of installed code are checked again after 20 times the check's duration, at most after ``_LONGEST`` seconds.

They are checked at once if the file in question was changed or linked since.
"""

_Inode = tuple[int, int]


@runtime_checkable
class MatchesHardLinks(Protocol):
    """An environment whose ``resolve`` also takes a shell pattern.

    If a match is a hard link to one of toolcrib's own files, ``resolve`` returns that file.
    """

    matches_hard_links: bool


class OwnFiles:
    """The files of toolcrib that tools must not change: ``kept`` (settings, keys, state) and ``code`` (installed code).

    Both are absolute paths of files and of whole folders. Thread-safe.
    """

    def __init__(self, kept: Sequence[str] = (), code: Sequence[str] = ()) -> None:
        self.know(kept, code)

    def know(self, kept: Sequence[str], code: Sequence[str]) -> None:
        """Compare with these files from now on."""
        self._roots = (*kept, *code)
        self._trees = (_tree(tuple(kept), 0), _tree(tuple(code), _PAUSE))

    def leads_to(self, path: str, found: os.stat_result | None = None, root: str = "") -> str:
        """Return the own file's name if ``path`` (absolute, links resolved) is another name of that file, else ``path``.

        ``found``: the stat result of the opened file; if None, the path is looked up below the folder ``root``. Never raises.
        """
        if not self._roots:
            return path
        if found is None:
            try:
                found = os.lstat(root + path)
            except (OSError, ValueError):
                return self._of_pattern(path, root)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink < 2 or any(_is_within(path, own) for own in self._roots):
            return path
        return next(filter(None, (tree.name_of(found) for tree in self._trees)), path)

    def _of_pattern(self, path: str, root: str) -> str:
        """Return the kept file that a shell pattern matches under another name. ``FOLDER/**`` may match every such file."""
        if not any(sign in path for sign in "*?["):
            return path
        kept = self._trees[0]
        if path.endswith("/**"):
            return kept.linked() or path
        # Path.glob takes no absolute pattern
        for match in itertools.islice(glob.iglob(root + path, include_hidden=True), MOST_FILES):  # noqa: PTH207 - see above
            with contextlib.suppress(OSError):  # deleted meanwhile
                found = os.lstat(match)
                if stat.S_ISREG(found.st_mode) and found.st_nlink > 1 and (name := kept.name_of(found)):
                    return name
        return path


class _Folder(NamedTuple):
    """A folder as it was read. ``files``: names by device and inode. ``changed``, ``read``: times in Unix nanoseconds."""

    changed: int
    read: int
    files: Mapping[_Inode, str]
    folders: Sequence[str]


class _Tree:
    """The files at and below ``roots``. A folder is read again after it changed. See _PAUSE for ``pause``."""

    def __init__(self, roots: Sequence[str], pause: int) -> None:
        self._roots, self._pause = roots, pause
        self._lock = threading.Lock()
        self._folders: Mapping[str, _Folder] = {}
        self._is_full = False
        self._checked, self._until = 0, 0.0

    def name_of(self, found: os.stat_result) -> str:
        """Return the path of the file with this inode, or "". If there are too many files, return the first root."""
        inode = found.st_dev, found.st_ino
        with self._lock:
            if time.monotonic() >= self._until or found.st_ctime_ns > self._checked - _TICK:
                self._checked, begun = time.time_ns(), time.thread_time()
                self._check()
                self._until = time.monotonic() + min(self._pause * (time.thread_time() - begun), _LONGEST)
            if self._is_full:
                return self._roots[0]
            return next((f"{at}/{one.files[inode]}".rstrip("/") for at, one in self._folders.items() if inode in one.files), "")

    def linked(self) -> str:
        """Return the path of a file that has another name, or "". If there are too many files, return the first root."""
        with self._lock:
            self._check()
            paths = [f"{at}/{name}".rstrip("/") for at, one in self._folders.items() for name in one.files.values()]
            if self._is_full:
                return self._roots[0]
        for path in paths:
            with contextlib.suppress(OSError):  # deleted meanwhile
                if os.lstat(path).st_nlink > 1:
                    return path
        return ""

    def _check(self) -> None:
        folders: dict[str, _Folder] = {}
        waiting, left = list(self._roots), MOST_FILES
        while waiting and left >= 0:
            at = waiting.pop()
            with contextlib.suppress(OSError):  # it is gone, or this account cannot read it
                found = os.lstat(at)
                if at not in folders and stat.S_ISREG(found.st_mode):
                    folders[at] = _Folder(0, 0, {(found.st_dev, found.st_ino): ""}, ())
                elif at not in folders and stat.S_ISDIR(found.st_mode):
                    known = self._folders.get(at)
                    if known is None or known.changed != found.st_mtime_ns or known.read - known.changed < _SETTLED:
                        known = _read(at, found, left, each=not self._pause)
                    folders[at] = known
                    waiting += known.folders
                    left -= len(known.files) + 1
        self._folders, self._is_full = folders, left < 0


def _read(at: str, about: os.stat_result, most: int, *, each: bool) -> _Folder:
    """Read a folder, and at most about ``most`` of its files. Raises OSError.

    ``each``: read the metadata of each file. Otherwise the folder's list is used, which is ten times as fast, but gives other
    inode numbers on overlay file systems.
    """
    read, files, folders = time.time_ns(), dict[_Inode, str](), list[str]()
    with os.scandir(at) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif not entry.is_file(follow_symlinks=False) or len(files) > most:
                continue
            elif not each:
                files[about.st_dev, entry.inode()] = entry.name
            else:
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    found = entry.stat(follow_symlinks=False)
                    files[found.st_dev, found.st_ino] = entry.name
    return _Folder(about.st_mtime_ns, read, files, folders)


@functools.lru_cache(maxsize=16)
def _tree(roots: Sequence[str], pause: int) -> _Tree:
    """Return the tree of these roots, which all environments of the process share."""
    return _Tree(roots, pause)


def _is_within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")


NONE = OwnFiles()
"""No files of toolcrib: every path leads to itself."""
