"""Extended attributes and access control lists of files, which a replacement file would lose."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

_ACL = "system.posix_acl_access"


def read(path: str) -> dict[str, bytes | None]:
    """Return a file's extended attributes by name, its ACL included; None for an unreadable one. Links are not followed."""
    found: dict[str, bytes | None] = {}
    for name in _names(path):
        try:
            found[name] = os.getxattr(path, name, follow_symlinks=False)
        except OSError:
            found[name] = None
    return found


def give(fd: int, wanted: Mapping[str, bytes | None]) -> list[str]:
    """Set attributes on an open file. Return descriptions of the attributes that could not be set."""
    if not wanted and not _names(fd):
        return []
    lost = [name for name, value in wanted.items() if not _has(fd, name, value)]
    if _ACL not in wanted and _ACL in _names(fd):  # inherited from the folder's default ACL
        with contextlib.suppress(OSError):  # only the owner may
            os.removexattr(fd, _ACL)
    return [("its ACL" if name == _ACL else f"its extended attribute {name}") for name in lost]


def _names(file: str | int) -> list[str]:
    if not hasattr(os, "listxattr"):  # not Linux
        return []
    try:
        return os.listxattr(file, follow_symlinks=isinstance(file, int))
    except OSError:  # its file system has no attributes
        return []


def _has(fd: int, name: str, value: bytes | None) -> bool:
    """Set an attribute unless the file has it already, and return True if the file has it afterwards.

    A new file may have it already, because the system sets some attributes itself.
    """
    if value is None:
        return False
    try:
        if name in _names(fd) and os.getxattr(fd, name) == value:
            return True
        os.setxattr(fd, name, value)
    except OSError:
        return False
    return True
