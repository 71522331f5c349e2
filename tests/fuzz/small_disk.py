"""A small file system that can be filled, and made read-only while no process writes to it. Needs root."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NoDiskError(Exception):
    """No file system can be mounted here."""


class SmallDisk:
    """A small disk, mounted at ``folder``; see ``mounted``."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._filler = folder / "filler"

    def fill(self, left: int) -> None:
        """Fill the disk up to the last ``left`` KiB."""
        found = os.statvfs(self.folder)
        with contextlib.suppress(OSError):  # another process was faster: the disk is full all the same
            self._filler.write_bytes(bytes(max(0, found.f_bavail * found.f_frsize - left * 1024)))

    def make_room(self) -> None:
        """Delete the file that filled it."""
        self._filler.unlink(missing_ok=True)

    def refuse_writes(self, *, refuse: bool) -> None:
        """Make it read-only, or writable again."""
        subprocess.run(["mount", "-o", f"remount,{'ro' if refuse else 'rw'}", str(self.folder)], check=True)


@contextmanager
def mounted(folder: Path, kib: int) -> Iterator[SmallDisk]:
    """Make ``folder``, and yield a disk of that size mounted at it. Raises NoDiskError."""
    folder.mkdir(parents=True)
    if os.geteuid() != 0 or shutil.which("mount") is None:
        raise NoDiskError("needs root to mount a file system")
    command = ["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    if made.returncode:
        raise NoDiskError(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield SmallDisk(folder)
    finally:
        subprocess.run(["umount", str(folder)], check=True)
