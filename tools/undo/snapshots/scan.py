"""Scan of a project folder: compare it with the entries of the last snapshot, and read what changed.

Every name is opened relative to its folder's descriptor and no link is followed, so nothing outside the root is read, whatever
the session's commands do meanwhile.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Mapping

from tools.undo.snapshots.entries import (
    FILE,
    FOLDER,
    LINK,
    SKIPPED,
    FileEntry,
    SnapshotFailed,
    SnapshotRefused,
    attributes_of_open,
    below,
    is_kept,
    is_same,
    kind_of,
)
from tools.undo.snapshots.packs import CHUNK, Packs
from tools.undo.snapshots.skips import SkippedFolders
from tools.undo.snapshots.watch import FolderWatcher

MOST_DEEP = 200
MOST_PATHS = 500_000
_RACY_NS = 2_000_000_000
"""Nanoseconds after a change during which a file may change again with the same timestamp, so the next scan reads it again."""
_TRIES = 5
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC


def open_folder(root: str, path: str) -> int:
    """Open a folder by its path below the root, following no link on the way. Raises OSError."""
    fd = os.open(root, _FOLDER)
    for name in path.split("/") if path else ():
        try:
            inner = os.open(name, _FOLDER, dir_fd=fd)
        finally:
            os.close(fd)
        fd = inner
    return fd


class ProjectTree:
    """Entries of the last snapshot, by path and by folder."""

    def __init__(self, entries: Mapping[str, FileEntry]) -> None:
        self.entries = dict(entries)
        self.names: dict[str, set[str]] = {}
        self.inodes: dict[tuple[int, int], set[str]] = {}
        """Paths of files with several hard links."""
        self.skipped: set[str] = set()
        self.size = 0
        for path, entry in self.entries.items():
            self._enter(path, entry)

    def update(self, delta: Mapping[str, FileEntry | None]) -> None:
        """Apply the results of a scan."""
        for path, entry in delta.items():
            old = self.entries.pop(path, None)
            if old is not None:
                self.size -= old.size if old.kind == FILE else 0
                self.skipped.discard(path)
                self.inodes.get((old.dev, old.ino), set()).discard(path)
                self.names.get(path.rpartition("/")[0], set()).discard(path.rpartition("/")[2])
            if entry is not None:
                self.entries[path] = entry
                self._enter(path, entry)

    def _enter(self, path: str, entry: FileEntry) -> None:
        if path:
            folder, _, name = path.rpartition("/")
            self.names.setdefault(folder, set()).add(name)
        if entry.kind == SKIPPED:
            self.skipped.add(path)
        if entry.kind == FILE:
            self.size += entry.size
            if entry.links > 1:
                self.inodes.setdefault((entry.dev, entry.ino), set()).add(path)


class TreeScanner:
    """One scan. ``delta`` has its results: new entries, None for paths that are gone. The tree itself is not changed.

    ``everything`` or ``named`` finds the changes and refuses a project that is too large, then ``read`` reads the files. A scan
    calls ``stopped`` for each folder, and fails if that is True.
    """

    def __init__(
        self,
        root: str,
        tree: ProjectTree,
        skips: SkippedFolders,
        packs: Packs,
        *,
        watch: FolderWatcher | None = None,
        max_bytes: int,
        stopped: Callable[[], bool],
    ) -> None:
        self._root = root
        self._tree = tree
        self._skips = skips
        self._packs = packs
        self._watch = watch
        self._max_bytes = max_bytes
        self._stopped = stopped
        self._size = tree.size
        self._count = len(tree.entries)
        self._dev = -1
        self._unread: dict[str, os.stat_result] = {}
        self._linked: set[tuple[int, int]] = set()
        """Files with several names: inotify reports only the name that was written to."""
        self.delta: dict[str, FileEntry | None] = {}
        skips.forget()

    def everything(self) -> None:
        """Check every path.

        If the root no longer exists, all paths are gone. Raises OSError, SnapshotRefused and SnapshotFailed.
        """
        try:
            fd = open_folder(self._root, "")
        except FileNotFoundError:
            self._gone("")
            return
        try:
            self._folder(fd, "", 0)
        finally:
            os.close(fd)

    def named(self, changed: Mapping[str, set[str]]) -> None:
        """Check the names ``changed``, by their folders. Raises like ``everything``."""
        self._dev = self._tree.entries[""].dev
        for path in sorted(changed, key=lambda one: one.count("/") + bool(one)):
            entry = self.seen(path)
            if entry is None or entry.kind != FOLDER:
                continue  # the scan of its parent has found that it is gone or replaced
            try:
                fd = open_folder(self._root, path)
            except OSError:
                if not path:
                    raise
                continue
            try:
                self._note_folder(path, fd)
                for name in sorted(changed[path]):
                    self._look(fd, path, name, path.count("/") + 1, deep=False)
            finally:
                os.close(fd)
        if self._linked:  # an event reports only one of a file's names
            for path in [path for path, one in self._tree.entries.items() if (one.dev, one.ino) in self._linked]:
                if self.seen(path) is not None:
                    self._look_at(path)

    def linked(self) -> None:
        """Check files that have another name outside the watch, because no event reports a write through that name."""
        for paths in self._tree.inodes.values():
            if paths and self._tree.entries[min(paths)].links > len(paths):
                for path in sorted(paths):
                    self._look_at(path)

    def seen(self, path: str) -> FileEntry | None:
        """Return a path's entry as this scan knows it."""
        return self.delta[path] if path in self.delta else self._tree.entries.get(path)

    @property
    def progress(self) -> tuple[int, int]:
        """The number of finished paths, and of all found paths."""
        return len(self.delta), len(self.delta) + len(self._unread)

    def _folder(self, fd: int, path: str, depth: int) -> None:
        """Scan an open folder with all its contents."""
        if self._stopped():
            raise SnapshotFailed("the project was closed")
        if self._watch is not None:
            self._watch.add(path, fd)
        if not path:
            self._dev = os.fstat(fd).st_dev
        self._note_folder(path, fd)
        with os.scandir(fd) as listed:
            names = [item.name for item in listed]
        for name in names:
            self._look(fd, path, name, depth + 1, deep=True)
        for name in self._tree.names.get(path, set()).difference(names):
            self._gone(below(path, name))

    def _note_folder(self, path: str, fd: int) -> None:
        found = os.fstat(fd)
        self._note(path, found, lambda: _entry(FOLDER, found, b"", attributes_of_open(fd)))

    def _look(self, fd: int, folder: str, name: str, depth: int, *, deep: bool) -> None:
        """Scan one name of an open folder. ``deep``: also the contents of an unchanged folder."""
        path = below(folder, name)
        try:
            found = os.stat(name, dir_fd=fd, follow_symlinks=False)
        except FileNotFoundError:
            self._gone(path)
            return
        self._may_be_linked(self._tree.entries.get(path))
        old = self.seen(path)
        kind = kind_of(found.st_mode)
        if kind == FOLDER:
            deep = deep or found.st_mode & 0o500 != 0o500  # it is unreadable, and changes in it were not reported
            if deep or not is_kept(old, found) or self._watch is None or not self._watch.has(path):
                self._enter(fd, path, name, found, depth)
            return
        self._empty(path)
        if kind == FILE and found.st_mode & 0o444 != 0o444 and not os.access(name, os.R_OK, dir_fd=fd, effective_ids=True):
            self._skip(path, found, "it can't be read: its mode forbids it")
        elif kind == FILE:
            self._note(path, found, None)
            if found.st_nlink > 1:
                self._linked.add((found.st_dev, found.st_ino))
        elif kind == LINK:
            self._note(path, found, lambda: _entry(LINK, found, _target(fd, name), b""))
        else:
            self._note(path, found, lambda: _entry(kind, found, b"%d" % found.st_rdev, b""))

    def _enter(self, fd: int, path: str, name: str, found: os.stat_result, depth: int) -> None:
        """Scan a folder by its name, or record why it is left out."""
        try:
            inner = os.open(name, _FOLDER, dir_fd=fd)
        except OSError as error:
            self._skip(path, found, f"it can't be read: {error.strerror}")
            return
        try:
            found = os.fstat(inner)
            if not os.access(".", os.X_OK, dir_fd=inner, effective_ids=True):
                reason = "it can't be read: its mode forbids it"
            elif found.st_dev != self._dev:
                reason = "it is on another file system"
            elif depth > MOST_DEEP:
                reason = f"it is more than {MOST_DEEP} folders deep"
            else:
                reason = self._skips.reason(self._root, path, inner, is_kept=is_kept(self.seen(path), found))
            if reason:
                self._skip(path, found, reason)
            else:
                self._folder(inner, path, depth)
        finally:
            os.close(inner)

    def _skip(self, path: str, found: os.stat_result, reason: str) -> None:
        self._empty(path)
        self.delta[path] = _entry(SKIPPED, found, reason.encode("utf-8", "replace"), b"")

    def _look_at(self, path: str) -> None:
        """Scan a path that is not a folder."""
        folder, _, name = path.rpartition("/")
        try:
            fd = open_folder(self._root, folder)
        except OSError:
            return  # it is gone, and its folder's change is known
        try:
            self._look(fd, folder, name, folder.count("/") + 1, deep=True)
        finally:
            os.close(fd)

    def _may_be_linked(self, old: FileEntry | None) -> None:
        if old is not None and old.kind == FILE and old.links > 1:
            self._linked.add((old.dev, old.ino))

    def _note(self, path: str, found: os.stat_result, made: Callable[[], FileEntry] | None) -> None:
        """Record a path's entry, or that the file must be read, if its metadata differs from the known entry."""
        old = self.seen(path)
        if old is not None and old.ctime_ns == found.st_ctime_ns and is_same(old, found):
            return
        added = found.st_size - (old.size if old is not None and old.kind == FILE else 0) if made is None else 0
        is_over = self._size + added > self._max_bytes
        limits = f"{self._root} has more than {self._max_bytes >> 20} MiB; raise snapshots.max_mb" if is_over else ""
        if is_over and self._tree.entries and self._tree.size <= self._max_bytes:  # one large file must not make snapshots fail
            self._skip(path, found, limits)
            return
        self._size += added
        self._count += old is None
        if is_over:
            raise SnapshotRefused(f"{limits}, or name folders in snapshots.skip")
        if self._count > MOST_PATHS:
            raise SnapshotRefused(f"{self._root} has more than {MOST_PATHS} files; name folders in snapshots.skip")
        if made is None:
            self._unread[path] = found
        else:
            self.delta[path] = made()

    def _empty(self, path: str) -> None:
        """Record that nothing is below a path, which may have been a folder."""
        if self._watch is not None:
            self._watch.remove(path)
        for name in self._tree.names.get(path, ()):
            self._gone(below(path, name))

    def _gone(self, path: str) -> None:
        """Record that a path, with all below it, does not exist."""
        self._empty(path)
        self._unread.pop(path, None)
        self._may_be_linked(self._tree.entries.get(path))
        old = self.seen(path)
        if old is not None:
            self._count -= 1
            self._size -= old.size if old.kind == FILE else 0
        if path in self._tree.entries:
            self.delta[path] = None
        else:
            self.delta.pop(path, None)

    def read(self) -> None:
        """Read the changed files. Raises OSError and SnapshotFailed."""
        opened, fd = "", -1
        try:
            for path, found in self._unread.items():
                folder, _, name = path.rpartition("/")
                if fd < 0 or folder != opened:
                    if self._stopped():
                        raise SnapshotFailed("the project was closed")
                    if fd >= 0:
                        os.close(fd)
                        fd = -1
                    try:
                        opened, fd = folder, open_folder(self._root, folder)
                    except OSError:
                        continue  # it no longer exists, which the next scan will see
                self.delta[path] = self._read(fd, name, found)
        finally:
            if fd >= 0:
                os.close(fd)

    def _read(self, fd: int, name: str, found: os.stat_result) -> FileEntry | None:
        """Read a file, again if it changes meanwhile. Return None if it is gone, or not a regular file any more."""
        for _ in range(_TRIES):
            try:
                file = os.open(name, _FILE, dir_fd=fd)
            except FileNotFoundError:
                return None
            except OSError as error:
                return _entry(SKIPPED, found, f"it can't be read: {error.strerror}".encode(), b"")
            try:
                began = time.time_ns()
                before = os.fstat(file)
                if not stat.S_ISREG(before.st_mode):
                    return None
                content = self._stored(file, before.st_size)
                after = os.fstat(file)
                entry = _entry(FILE, after, content, attributes_of_open(file))
            finally:
                os.close(file)
            if (before.st_mtime_ns, before.st_ctime_ns, before.st_size) == (after.st_mtime_ns, after.st_ctime_ns, after.st_size):
                return entry._replace(ctime_ns=0) if after.st_ctime_ns > began - _RACY_NS else entry
        return entry._replace(ctime_ns=0)

    def _stored(self, file: int, size: int) -> bytes:
        if size <= CHUNK:
            data = os.read(file, size)
            return self._packs.put(data) if data else b""
        digests, left = b"", size
        while left > 0 and (data := os.read(file, min(CHUNK, left))):
            digests += self._packs.put(data)
            left -= len(data)
        return digests


def entry_of(fd: int, name: str, known: FileEntry) -> FileEntry:
    """Return the entry of a name that was just restored as ``known``. Raises OSError."""
    found = os.stat(name, dir_fd=fd, follow_symlinks=False)
    return _entry(known.kind, found, known.content, known.attributes)


def _entry(kind: str, found: os.stat_result, content: bytes, attributes: bytes) -> FileEntry:
    return FileEntry(
        kind,
        found.st_mode,
        found.st_mtime_ns,
        found.st_size,
        content,
        found.st_uid,
        found.st_gid,
        attributes,
        found.st_dev,
        found.st_ino,
        found.st_ctime_ns,
        found.st_nlink,
    )


def _target(fd: int, name: str) -> bytes:
    try:
        return os.fsencode(os.readlink(name, dir_fd=fd))
    except OSError:
        return b""
