"""The private folder for communication with a shell: FIFOs for its input, its reports and the output of commands."""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import shutil
import stat
import tempfile

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments import leftovers

_PREFIX = "toolcrib-"
_ROOMY = 512 << 20
_PIPE = 1 << 20
"""Requested size of a FIFO in bytes; a smaller one is only slower."""


def make_root() -> str:
    """Create a private folder, in memory if possible, and return its path. Raises EnvironmentFailed."""
    base = _base()
    leftovers.sweep(base)
    try:
        return tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=base)
    except OSError as error:
        raise EnvironmentFailed(
            f"no private folder can be created in {base}: {error.strerror}: set TMPDIR to one that is writable"
        ) from error


def _base() -> str:
    memory = "/dev/shm"  # noqa: S108 - the folder created there is private, with a random name
    with contextlib.suppress(OSError):  # missing: use the usual place
        about = os.statvfs(memory)
        if os.access(memory, os.W_OK | os.X_OK) and about.f_bavail * about.f_frsize >= _ROOMY:
            return memory
    return tempfile.gettempdir()


class Folder:
    """The private folder of one shell. ``inner`` is its path as the shell sees it. Raises EnvironmentFailed.

    Commands in a sandbox can change its contents, so files are opened by descriptor, and links in it are not followed.
    """

    def __init__(self, root: str, inner_root: str) -> None:
        self.path = self.inner = ""
        self.input = self.reports = self._fd = -1
        self.streams: dict[str, int] = {}
        self._own: dict[str, tuple[int, int]] = {}
        self._others: dict[tuple[int, int], int] = {}
        self._has_input = True
        try:
            if not os.path.isdir(root):  # noqa: PTH112 - a Path object would cost more than the call itself
                # A command may have deleted it, for example with all temporary files.
                os.mkdir(root, 0o700)  # noqa: PTH102 - a Path object would cost more than the call itself
            name = _make_folder(root)
            self.path, self.inner = f"{root}/{name}", f"{inner_root}/{name}"
            self._fd = os.open(self.path, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            # Opened read-write, so that opening does not wait for the other side, and its exit does not end the FIFO.
            self.input = self._fifo("bash", os.O_RDWR)
            self.reports = self._fifo("s", os.O_RDWR)
            for stream in _STREAMS:
                self.renew(stream)
            self.no_input()
        except OSError as error:
            self.close()
            raise EnvironmentFailed(f"a shell's folder can't be created in {root}: {error.strerror or error}") from error

    def _fifo(self, name: str, mode: int) -> int:
        os.mkfifo(name, 0o600, dir_fd=self._fd)
        fd = self.open(name, mode)
        self._own[name] = _identity(os.fstat(fd))
        _widen(fd)
        return fd

    def renew(self, stream: str) -> int:
        """Replace the FIFO of a stream, which some process still holds, and return the new read end."""
        self.remove(_STREAMS[stream])
        self.streams[stream] = self._fifo(_STREAMS[stream], os.O_RDONLY)
        return self.streams[stream]

    # -- a command's input: the file or FIFO ``i``, or a link to /dev/null

    def give_input(self, data: bytes) -> None:
        """Write the input to a file. Raises OSError."""
        self._has_input = True
        self.remove("i")
        self.write("i", data)

    def feed_input(self) -> int:
        """Create a FIFO for the input, and return a descriptor to write to. Raises OSError."""
        self._has_input = True
        self.remove("i")
        return self._fifo("i", os.O_RDWR)

    def no_input(self) -> None:
        """Remove the input of the previous command."""
        if self._has_input:
            self._has_input = False
            self.remove("i")
            with contextlib.suppress(OSError):  # the folder was removed: then the shell is replaced
                os.symlink("/dev/null", "i", dir_fd=self._fd)

    # ------------------------------------------------------------------------------------------------------------

    def open(self, name: str, flags: int) -> int:
        """Open a file or FIFO without waiting, and return the descriptor. Raises OSError."""
        return os.open(name, flags | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self._fd)

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the folder. Raises OSError."""
        fd = self.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(fd, view) :]
        finally:
            os.close(fd)

    def remove(self, name: str) -> None:
        """Remove a file of the folder, if it exists."""
        with contextlib.suppress(OSError):  # it did not exist
            os.unlink(name, dir_fd=self._fd)

    def is_whole(self) -> bool:
        """Return True if the folder exists and its FIFOs were not replaced.

        A command may remove it (``rm -rf`` in a temporary folder), or replace one of its FIFOs: the shell would write to the new
        FIFO.
        """
        try:
            return all(_identity(os.stat(name, dir_fd=self._fd, follow_symlinks=False)) == self._own[name] for name in _FIFOS)
        except OSError:
            return False

    def release(self) -> None:
        """Unblock a shell that waits for a reader or for room in a FIFO that replaced one of the folder's FIFOs. The data is
        lost.
        """
        for name in _FIFOS:
            with contextlib.suppress(OSError):  # removed, or not a FIFO: the shell does not wait then
                found = os.stat(name, dir_fd=self._fd, follow_symlinks=False)
                which = _identity(found)
                if which not in (self._own[name], *self._others) and stat.S_ISFIFO(found.st_mode):
                    self._others[which] = self.open(name, os.O_RDONLY)
        for fd in self._others.values():
            with contextlib.suppress(BlockingIOError):  # it is empty
                os.read(fd, _PIPE)

    def room(self, stream: str) -> int:
        """Return the number of bytes that a stream's FIFO can hold."""
        try:
            return fcntl.fcntl(self.streams[stream], fcntl.F_GETPIPE_SZ)
        except AttributeError:
            return _PIPE

    def unread(self) -> int:
        """Return the number of bytes of its input that the shell has not read."""
        left = bytearray(4)
        fcntl.ioctl(self.input, _FIONREAD, left)
        return int.from_bytes(left, "little")

    def close(self) -> None:
        """Close the descriptors and delete the folder."""
        for fd in (self.input, self.reports, self._fd, *self.streams.values(), *self._others.values()):
            if fd >= 0:
                os.close(fd)
        self.input = self.reports = self._fd = -1
        self.streams, self._others = {}, {}
        if self.path:
            shutil.rmtree(self.path, ignore_errors=True)


def _make_folder(root: str) -> str:
    """Create a folder and return its name, which is never reused, and short because bash reads it byte by byte."""
    while True:
        name = f"{next(_numbers):x}"
        with contextlib.suppress(FileExistsError):  # made by a command
            os.mkdir(f"{root}/{name}", 0o700)  # noqa: PTH102 - as above
            return name


_numbers = itertools.count()
_STREAMS = {"stdout": "o", "stderr": "e"}
_FIFOS = ("s", *_STREAMS.values())
_FIONREAD = 0x541B


def _identity(found: os.stat_result) -> tuple[int, int]:
    return found.st_dev, found.st_ino


def _widen(fd: int) -> None:
    with contextlib.suppress(OSError, AttributeError):  # the user's quota is used up: the usual size will do
        fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE)
