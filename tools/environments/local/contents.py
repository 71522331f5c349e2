"""Contents of files on this machine, by descriptors: read, write to a new file, or overwrite in place."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from toolcrib.contract.dataclass import dataclass
from tools.environments.local import attributes
from tools.environments.overwriting import OLD, beside

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_CANNOT_SYNC = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)


def read_all(fd: int, limit: int | None = None) -> bytes:
    """Read an open file from its current position, at most ``limit`` bytes. Raises OSError."""
    parts: list[bytes] = []
    left = limit
    while left is None or left > 0:
        part = os.read(fd, 1 << 20 if left is None else min(left, 1 << 20))
        if not part:
            break
        parts.append(part)
        if left is not None:
            left -= len(part)
    return b"".join(parts)


@dataclass(frozen=True, slots=True)
class Facts:
    """Metadata of the written file: that of the ``old`` file, unless the caller sets other values."""

    old: os.stat_result | None
    mode: int | None
    mtime_ns: int | None
    attributes: Mapping[str, bytes | None]

    def give(self, fd: int) -> list[str]:
        """Apply the metadata and return what could not be set.

        The owner is set first, because a change of owner clears setuid bits. An ACL changes the mode, so the mode is set last.
        """
        old, lost = self.old, []
        if old is not None:
            found = os.fstat(fd)
            if (old.st_uid, old.st_gid) != (found.st_uid, found.st_gid):
                with contextlib.suppress(PermissionError):  # only root may do this; otherwise the writer owns the file
                    os.fchown(fd, old.st_uid, old.st_gid)
            lost = attributes.give(fd, self.attributes)
        wanted = self.mode if self.mode is not None else None if old is None else stat.S_IMODE(old.st_mode)
        if wanted is not None and wanted != stat.S_IMODE(os.fstat(fd).st_mode):
            os.fchmod(fd, wanted)
        if self.mtime_ns is not None:
            try:
                os.utime(fd, ns=(time.time_ns(), self.mtime_ns))
            except PermissionError:  # only the owner may
                lost.append("the time of its last change")
        return lost


def write_anew(parent: int, name: str, data: bytes, facts: Facts) -> list[str]:
    """Write a new file and rename it to ``name`` in the folder ``parent``. Return the metadata that was lost. Raises OSError."""
    temporary = beside(name)
    private = facts.old is not None or facts.mode is not None
    fd = os.open(temporary, _NEW, 0o600 if private else 0o666, dir_fd=parent)
    try:
        try:
            _write(fd, data)
            lost = facts.give(fd)
        finally:
            os.close(fd)
        os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
    except BaseException:
        with contextlib.suppress(OSError):  # raise the first error
            os.unlink(temporary, dir_fd=parent)
        raise
    return lost


def write_in_place(parent: int, name: str, fd: int, data: bytes, facts: Facts) -> list[str]:
    """Overwrite the open file ``name`` of the folder ``parent``, and return the metadata that was lost. Raises OSError.

    Space is allocated first. If writing fails, the old content and modification time are restored. Both contents are stored
    beside the file meanwhile, because a killed process may leave it half written.
    """
    found = os.fstat(fd)
    before = read_all(fd)
    with _both_beside(parent, name, before, data) as kept:
        try:
            if len(data) > found.st_size and hasattr(os, "posix_fallocate"):
                os.posix_fallocate(fd, found.st_size, len(data) - found.st_size)
            _overwrite(fd, data)
            lost = facts.give(fd)
            _sync(fd)
        except BaseException:
            try:
                _overwrite(fd, before)
            except OSError as error:
                kept.append(f"{name} is half written, because its old content could not be restored ({error.strerror or error})")
                raise
            with contextlib.suppress(PermissionError):  # only the owner may
                os.utime(fd, ns=(found.st_atime_ns, found.st_mtime_ns))
            raise
    return lost


@contextmanager
def _both_beside(parent: int, name: str, before: bytes, data: bytes) -> Iterator[list[str]]:
    """Keep both contents in files beside ``name`` while it is overwritten.

    If the caller adds a reason to the yielded list, the files stay and the error gives that reason.
    """
    new, why = beside(name), list[str]()
    try:
        for each, content in ((new, data), (f"{new}{OLD}", before)):
            fd = os.open(each, _NEW, 0o600, dir_fd=parent)
            try:
                _write(fd, content)
                _sync(fd)
            finally:
                os.close(fd)
        _sync_folder(parent)
        yield why
    except OSError as error:
        if why:
            raise OSError(error.errno, f"{why[0]}: copy it from {new}{OLD} beside it") from error
        raise
    finally:
        for each in () if why else (new, f"{new}{OLD}"):
            with contextlib.suppress(FileNotFoundError):  # there was no space for it
                os.unlink(each, dir_fd=parent)


def _overwrite(fd: int, data: bytes) -> None:
    os.lseek(fd, 0, os.SEEK_SET)
    _write(fd, data)
    os.ftruncate(fd, len(data))


def _write(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _sync(fd: int) -> None:
    try:
        os.fsync(fd)
    except OSError as error:
        if error.errno not in _CANNOT_SYNC:  # some file systems do not support it
            raise


def _sync_folder(parent: int) -> None:
    """Flush new names in a folder to disk. A folder that is writable but not readable is left to the file system."""
    try:
        fd = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
    except PermissionError:
        return
    try:
        _sync(fd)
    finally:
        os.close(fd)
