"""Types of snapshots: the entry of a path, a change between two snapshots, and the results of a restore."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Collection, Sequence
from dataclasses import field

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.namedtuple import NamedTuple

FOLDER, FILE, LINK, FIFO, SKIPPED = "folder", "file", "link", "fifo", "skipped"
_KINDS = {stat.S_IFREG: FILE, stat.S_IFDIR: FOLDER, stat.S_IFLNK: LINK, stat.S_IFIFO: FIFO, stat.S_IFSOCK: "socket"}

_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_", "security.capability")


class SnapshotRefused(ToolcribError):
    """No snapshots are taken of this project. The message gives the reason."""


class StoreFull(SnapshotRefused):
    """The store or its disk has no space for a snapshot."""


class SnapshotFailed(ToolcribError):
    """A snapshot, or reading one, failed. Earlier snapshots are unaffected."""


class FileEntry(NamedTuple):
    """State of a path in a snapshot, with the facts that let a later scan detect a change."""

    kind: str
    """folder, file, link, fifo, socket, device, or skipped: it exists, but nothing at or below it is kept."""
    mode: int
    """``st_mode``, with the type."""
    mtime_ns: int
    size: int
    content: bytes
    """Of a file: the digests of its chunks. Of a link: its target. Of a skipped path: the reason."""
    uid: int
    gid: int
    attributes: bytes
    """Extended attributes as JSON, b"" for none."""
    dev: int
    ino: int
    ctime_ns: int
    """0 if the next scan must read the content again."""
    links: int

    @property
    def why_skipped(self) -> str:
        """The reason why a skipped path is not kept; "" for others."""
        return self.content.decode("utf-8", "replace") if self.kind == SKIPPED else ""


def kind_of(mode: int) -> str:
    """Return the kind that a ``st_mode`` stands for."""
    return _KINDS.get(stat.S_IFMT(mode), "device")


def same_state(one: FileEntry | None, other: FileEntry | None) -> bool:
    """Return whether two entries are equal in everything that a restore writes."""
    if one is None or other is None:
        return one is other
    if one.kind == other.kind == SKIPPED:
        return True
    fields = (one.kind, one.mode, one.mtime_ns, one.content, one.uid, one.gid, one.attributes)
    return fields == (other.kind, other.mode, other.mtime_ns, other.content, other.uid, other.gid, other.attributes)


def same_content(one: FileEntry | None, other: FileEntry | None) -> bool:
    """Return whether two entries are equal in kind, content and mode. Times and attributes may differ."""
    if one is None or other is None:
        return one is other
    return (one.kind, one.mode, one.content) == (other.kind, other.mode, other.content)


@dataclass(frozen=True, slots=True)
class ProjectSnapshot:
    """A taken snapshot. ``id`` grows with time. ``at``: Unix seconds. ``changes``: number of paths that differ."""

    id: int
    at: float
    label: str = ""
    turn: int = 0
    call_id: str = ""
    session_id: str = ""
    changes: int = 0


@dataclass(frozen=True, slots=True)
class ProjectChange:
    """Difference of one path, relative to the root, between two snapshots. An entry is None if the path does not exist."""

    path: str
    before: FileEntry | None
    after: FileEntry | None

    @property
    def kind(self) -> str:
        """The kind of change: added, deleted, modified, or attributes (all but the kind and content of the path)."""
        if self.before is None:
            return "added"
        if self.after is None:
            return "deleted"
        one, other = self.before, self.after
        return "attributes" if (one.kind, one.content) == (other.kind, other.content) else "modified"

    @property
    def is_minor(self) -> bool:
        """True for a folder that differs only in its time, because something in it changed."""
        return (
            self.kind == "attributes"
            and self.before is not None
            and self.before.kind == FOLDER
            and same_content(self.before, self.after)
        )


class RestorePreview(NamedTuple):
    """The effect of a restore. ``after`` of each change is the current state; ``unchanged`` are paths already in the old state.

    ``conflicts`` and ``failed`` have paths and reasons. Only conflicts can be forced.
    """

    changes: Sequence[ProjectChange]
    unchanged: Sequence[str]
    conflicts: Sequence[tuple[str, str]]
    failed: Sequence[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class RestoreReport:
    """Outcome of a restore: the restored paths, and the others with reasons.

    ``before`` and ``after`` are the snapshots around it: restoring ``changed(before, after)`` reverts the restore.
    """

    before: ProjectSnapshot
    after: ProjectSnapshot
    restored: Sequence[str] = ()
    conflicts: Sequence[tuple[str, str]] = ()
    failed: Sequence[tuple[str, str]] = field(default=())


def attributes_of_open(fd: int) -> bytes:
    """Return the extended attributes of an open file or folder as JSON; b"" if it has none or they can't be read."""
    if not hasattr(os, "listxattr"):
        return b""
    try:
        names = [name for name in os.listxattr(fd) if name.startswith(_KEPT_ATTRIBUTES)]
        return json.dumps({name: os.getxattr(fd, name).hex() for name in sorted(names)}).encode() if names else b""
    except OSError:
        return b""


def is_kept(entry: FileEntry | None, found: os.stat_result) -> bool:
    """Return whether ``entry`` is this very folder, and not another one of the same name."""
    return entry is not None and entry.kind == FOLDER and entry.ino == found.st_ino


def is_same(old: FileEntry, found: os.stat_result) -> bool:
    """Return whether a path's facts are still as in ``old``, so that its content need not be read again."""
    facts = (found.st_mtime_ns, found.st_size, found.st_mode, found.st_ino, found.st_dev, found.st_nlink)
    return old.kind != SKIPPED and facts == (old.mtime_ns, old.size, old.mode, old.ino, old.dev, old.links)


def is_below(path: str, folders: Collection[str]) -> bool:
    """Return whether a path is inside one of the folders."""
    names = path.split("/")
    return any("/".join(names[:end]) in folders for end in range(1, len(names))) if folders else False


def below(folder: str, name: str) -> str:
    """Return the path of a name in a folder, both relative to the root."""
    return f"{folder}/{name}" if folder else name
