"""Files on this machine, opened so that a call touches the same file that was judged.

Callers pass resolved paths. Each folder on the way is opened in turn and must not be a link. A link that was created after the
path was judged is therefore refused.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from toolcrib.contract.environment import FileInfo
from tools.environments.local import attributes
from tools.environments.local.contents import Facts, read_all, write_anew, write_in_place
from tools.environments.own_files import NONE, OwnFiles

_MOST_LINKS = 40
_IN_PLACE = os.O_RDWR | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def resolve(path: str, cwd: str, own: OwnFiles = NONE) -> str:
    """Return the absolute path with links resolved; for a hard link to one of toolcrib's ``own`` files, that file's path."""
    _check_text(path)
    return own.leads_to(os.path.realpath(Path(cwd, os.path.expanduser(path))))  # noqa: PTH111 - Path.expanduser raises for an unknown ~user


def resolve_under(root: str, path: str, cwd: str, *, inside: bool = False) -> str:
    """Resolve ``path`` below another root. Absolute link targets are relative to that root too.

    ``inside``: return the path as this process sees it, with the root in front.
    """
    _check_text(path)
    left = [part for part in str(Path(cwd, os.path.expanduser(path))).split("/") if part][::-1]  # noqa: PTH111 - as above
    found: list[str] = []
    links = 0
    while left:
        part = left.pop()
        if part in (".", ".."):
            del found[len(found) - (part == "..") :]
            continue
        here = "/" + "/".join([*found, part])
        try:
            target = os.readlink(root + here)  # noqa: PTH115 - the result is used as a string
        except OSError:  # not a link, or missing
            found.append(part)
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        if target.startswith("/"):
            found = []
        left += [part for part in target.split("/") if part][::-1]
    answer = "/" + "/".join(found)
    return root + answer if inside else answer


def info(path: str, root: str = "/") -> FileInfo | None:
    """Return a file's metadata, or None if it does not exist. Below another root, a link on the way raises OSError."""
    _check_text(path)
    try:
        if root == "/":
            return _info(path, os.lstat(path))
        with _folder_of(path, root) as (parent, name):
            return _info(path, os.stat(name, dir_fd=parent, follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return None


def list_dir(path: str, root: str = "/") -> list[FileInfo]:
    """List a folder. Raises OSError."""
    with _folder_of(path, root) as (parent, name):
        fd = _open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, parent, path)
    try:
        found: list[FileInfo] = []
        with os.scandir(fd) as entries:
            for entry in sorted(entries, key=lambda each: each.name):
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    found.append(_info(f"{path.rstrip('/')}/{entry.name}", entry.stat(follow_symlinks=False)))
        return found
    finally:
        os.close(fd)


def read(path: str, limit: int | None, root: str = "/", *, own: OwnFiles = NONE) -> bytes:
    """Read a file, at most ``limit`` bytes. Raises OSError, also for a hard link to one of toolcrib's ``own`` files."""
    with _folder_of(path, root) as (parent, name):
        # Non-blocking, because opening a FIFO without a writer would hang.
        fd = _open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC, parent, path)
    with open(fd, "rb", buffering=0) as file:  # noqa: PTH123 - a descriptor, not a path
        _require_regular(os.fstat(fd), path, own)
        return read_all(file.fileno(), limit)


def write(
    path: str, data: bytes, mode: int | None, root: str = "/", *, mtime_ns: int | None = None, own: OwnFiles = NONE
) -> list[str]:
    """Replace or create a file atomically. Return descriptions of the metadata that was lost.

    Raises OSError, also for a hard link to one of toolcrib's ``own`` files. A readable file with other names (hard links) is
    written in place, because a new file would leave the other names with the old content.
    """
    with _folder_of(path, root, create=True) as (parent, name):
        old = _stat_at(parent, name)
        had: dict[str, bytes | None] = {}
        if old is not None:
            _require_regular(old, path)
            if not os.access(name, os.W_OK, dir_fd=parent):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
            had = attributes.read(f"/proc/self/fd/{parent}/{name}")
        try:
            facts, lost = Facts(old, mode, mtime_ns, had), []
            if old is not None and old.st_nlink > 1:
                try:
                    return _in_place(parent, name, path, data, facts, own)
                except PermissionError:  # it is not readable, so its content could not be restored
                    lost = ["its other names (hard links), which keep the old content,"]
            return [*lost, *write_anew(parent, name, data, facts)]
        except OSError as error:
            if error.errno is not None and error.filename != path:
                raise OSError(error.errno, error.strerror, path) from error
            raise


def _in_place(parent: int, name: str, path: str, data: bytes, facts: Facts, own: OwnFiles) -> list[str]:
    fd = _open(name, _IN_PLACE, parent, path)
    try:
        _require_regular(os.fstat(fd), path, own)
        return write_in_place(parent, name, fd, data, facts)
    finally:
        os.close(fd)


def delete(path: str, root: str = "/") -> None:
    """Delete a file. Raises OSError."""
    with _folder_of(path, root) as (parent, name):
        found = os.stat(name, dir_fd=parent, follow_symlinks=False) if name != "." else None
        if found is None or stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
        if stat.S_ISLNK(found.st_mode):
            raise _link(path)
        os.unlink(name, dir_fd=parent)


def give(path: str, uid: int, gid: int, root: str = "/") -> None:
    """Change a regular file's owner. Raises OSError."""
    with _folder_of(path, root) as (parent, name):
        fd = _open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC, parent, path)
        try:
            found = os.fstat(fd)
            _require_regular(found, path)
            os.fchown(fd, uid, gid)
            os.fchmod(fd, stat.S_IMODE(found.st_mode))  # a change of owner clears setuid bits
        finally:
            os.close(fd)


def attributes_of(path: str, root: str = "/") -> dict[str, bytes | None]:
    """Return a regular file's extended attributes, by name. Raises OSError."""
    with _folder_of(path, root) as (parent, name):
        _require_regular(os.stat(name, dir_fd=parent, follow_symlinks=False), path)
        return attributes.read(f"/proc/self/fd/{parent}/{name}")


def give_attributes(path: str, wanted: Mapping[str, bytes], root: str = "/") -> list[str]:
    """Set extended attributes on a regular file. Return descriptions of attributes that could not be set. Raises OSError."""
    with _folder_of(path, root) as (parent, name):
        fd = _open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC, parent, path)
        try:
            found = os.fstat(fd)
            _require_regular(found, path)
            lost = attributes.give(fd, wanted)
            if os.fstat(fd).st_mode != found.st_mode:  # changed by an ACL, or by removing one inherited from the folder
                os.fchmod(fd, stat.S_IMODE(found.st_mode))
            return lost
        finally:
            os.close(fd)


def delete_folder(path: str, root: str = "/") -> None:
    """Delete an empty folder. Raises OSError."""
    with _folder_of(path, root) as (parent, name):
        found = os.stat(name, dir_fd=parent, follow_symlinks=False)
        if stat.S_ISLNK(found.st_mode):
            raise _link(path)
        os.rmdir(name, dir_fd=parent)


# -- opening folders -----------------------------------------------------------------------------------------------


@contextmanager
def _folder_of(path: str, root: str = "/", *, create: bool = False) -> Iterator[tuple[int, str]]:
    """Yield a descriptor of the folder that holds ``path``, and the last name. Raises OSError, ELOOP for a link on the way."""
    _check_text(path)
    parts = path.split("/")
    if not path.startswith("/") or ".." in parts:
        raise OSError(errno.EINVAL, "not a resolved path: ask the environment to resolve it first", path)
    *folders, name = [part for part in parts if part not in ("", ".")] or ["."]
    fd = os.open(root, _FOLDER & ~os.O_NOFOLLOW)  # a sandbox's root is reached through a kernel link
    try:
        for folder in folders:
            try:
                deeper = _open(folder, _FOLDER, fd, path)
            except FileNotFoundError:
                if not create:
                    raise
                with contextlib.suppress(FileExistsError):  # another process created it
                    os.mkdir(folder, dir_fd=fd)
                deeper = _open(folder, _FOLDER, fd, path)
            os.close(fd)
            fd = deeper
        yield fd, name
    except OSError as error:
        if error.filename == path or error.errno is None:
            raise
        raise OSError(error.errno, error.strerror, path) from error  # with the whole path instead of its last part
    finally:
        os.close(fd)


def _open(name: str, flags: int, parent: int, path: str) -> int:
    try:
        return os.open(name, flags, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            found = _stat_at(parent, name)
            if found is not None and stat.S_ISLNK(found.st_mode):
                raise _link(path) from error
        if error.errno == errno.ENXIO:  # a socket, or a missing device
            raise _not_regular(path) from error
        raise


def _stat_at(parent: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _link(path: str) -> OSError:
    return OSError(errno.ELOOP, "a symbolic link is in the way; resolve the path again", path)


def _not_regular(path: str) -> OSError:
    return OSError(errno.EINVAL, "not a regular file (a device, FIFO or socket is not read or replaced)", path)


def _require_regular(found: os.stat_result, path: str, own: OwnFiles = NONE) -> None:
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if stat.S_ISLNK(found.st_mode):
        raise _link(path)
    if not stat.S_ISREG(found.st_mode):
        raise _not_regular(path)
    if (name := own.leads_to(path, found)) != path:
        raise OSError(errno.ELOOP, f"it is another name of toolcrib's own {name}: remove this name and call again", path)


def _check_text(path: str) -> None:
    if "\0" in path:
        raise OSError(errno.EINVAL, "a path cannot contain a NUL character", path.replace("\0", "\\0"))


def _info(path: str, found: os.stat_result) -> FileInfo:
    mode, owner = stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid)
    return FileInfo(path, _kind(found.st_mode), found.st_size, found.st_mtime, mode, owner, found.st_mtime_ns)


def _kind(mode: int) -> Literal["file", "dir", "link", "other"]:
    if stat.S_ISREG(mode):
        return "file"
    if stat.S_ISDIR(mode):
        return "dir"
    return "link" if stat.S_ISLNK(mode) else "other"
