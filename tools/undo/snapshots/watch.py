"""Names of changed paths in a tree of folders, from Linux's inotify."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys
from collections.abc import Iterator

_MODIFY, _ATTRIB, _CLOSE_WRITE, _MOVED, _CREATE, _DELETE = 0x2, 0x4, 0x8, 0xC0, 0x100, 0x200
_UNMOUNT, _OVERFLOW, _IGNORED, _ISDIR = 0x2000, 0x4000, 0x8000, 0x40000000
_ONLYDIR, _EXCL_UNLINK = 0x1000000, 0x4000000
_MASK = _MODIFY | _ATTRIB | _CLOSE_WRITE | _MOVED | _CREATE | _DELETE | _ONLYDIR | _EXCL_UNLINK
_EVENT = struct.Struct("iIII")
_READ = 1 << 18


class FolderWatcher:
    """Watches folders for changes. inotify misses writes through memory maps and through other hard links.

    ``works`` turns False when the kernel allows no more watches; then the tree must be walked.
    """

    def __init__(self) -> None:
        self._paths: dict[int, str] = {}
        self._watches: dict[str, int] = {}
        self._fd = -1
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)

    @property
    def works(self) -> bool:
        """True while all folders that were added are watched."""
        return self._fd >= 0

    def add(self, path: str, fd: int) -> None:
        """Watch the folder that is open as ``fd`` under the name ``path``."""
        if self._fd < 0:
            return
        watch = self._libc.inotify_add_watch(self._fd, b"/proc/self/fd/%d" % fd, _MASK)
        if watch < 0:
            if ctypes.get_errno() != errno.ENOENT:
                self.close()
            return
        self._paths[watch] = path
        self._watches[path] = watch

    def has(self, path: str) -> bool:
        """Return whether the folder is watched."""
        return path in self._watches

    def remove(self, path: str) -> None:
        """Stop watching a folder, which may no longer exist."""
        watch = self._watches.pop(path, None)
        if watch is not None and self._paths.get(watch) == path:  # otherwise the folder moved, and is watched under its new name
            del self._paths[watch]
            if self._fd >= 0:
                self._libc.inotify_rm_watch(self._fd, watch)

    def changed(self) -> dict[str, set[str]] | None:
        """Return the names that changed since the last call, by their folders; None if some may be missing."""
        found: dict[str, set[str]] = {}
        complete = self.works
        for watch, mask, name in self._events():
            if mask & (_OVERFLOW | _UNMOUNT):
                complete = False
            path = self._paths.get(watch)
            if path is None:
                continue
            if mask & _IGNORED:
                self._paths.pop(watch)
                if self._watches.get(path) == watch:
                    del self._watches[path]
                continue
            names = found.setdefault(path, set())
            if name:
                names.add(name)
        return found if complete else None

    def _events(self) -> Iterator[tuple[int, int, str]]:
        while self._fd >= 0:
            try:
                data = os.read(self._fd, _READ)
            except BlockingIOError:
                return
            at = 0
            while at < len(data):
                watch, mask, _, length = _EVENT.unpack_from(data, at)
                at += _EVENT.size
                yield watch, mask, os.fsdecode(data[at : at + length].rstrip(b"\0"))
                at += length

    def close(self) -> None:
        """Stop watching all folders."""
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1
        self._paths.clear()
        self._watches.clear()
