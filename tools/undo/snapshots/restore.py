"""Write entries of a snapshot back into a project folder.

A file is written under a temporary name in its folder and renamed, so a killed restore leaves each file either in its old or in
its new state. A file with a hard link elsewhere is written in place. Folders are opened by descriptors without following links.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

from tools.undo.snapshots.entries import (
    FIFO,
    FILE,
    FOLDER,
    LINK,
    SKIPPED,
    FileEntry,
    ProjectChange,
    SnapshotFailed,
    attributes_of_open,
    is_below,
    same_content,
    same_state,
)
from tools.undo.snapshots.packs import Packs, digests_of
from tools.undo.snapshots.scan import ProjectTree, entry_of, open_folder

TEMPORARY = ".toolcrib-restore.tmp"
"""Name of the file that a restore writes before renaming it. The store records the folders that may hold one."""


class ProjectRestorer:
    """One restore. ``run`` performs it and fills ``restored``, ``conflicts``, ``failed``, and ``written`` with the new
    entries.
    """

    def __init__(self, root: str, tree: ProjectTree, packs: Packs, opened: Collection[str] = ()) -> None:
        """Prepare a restore. ``tree``: the project's current state. ``opened``: folders that the changes made unreadable, and
        that ``open_again`` made readable. Paths in them are assumed not to have changed since.
        """
        self._opened = opened
        self._root = root
        self._tree = tree
        self._packs = packs
        self._touched: set[str] = set()
        self._inodes: dict[tuple[int, int], str] | None = None
        self._poured: dict[tuple[int, int], bytes] = {}
        """The contents that were written in place, by the device and inode of the file."""
        self._made: dict[tuple[int, int], str] = {}
        self._open = ("", -1)
        self.restored: list[str] = []
        self.conflicts: list[tuple[str, str]] = []
        self.failed: list[tuple[str, str]] = []
        self.written: dict[str, FileEntry] = {}

    def choose(self, changes: Sequence[ProjectChange], *, force: bool = False) -> list[ProjectChange]:
        """Return the changes that can be reverted; with ``force`` also those of paths that changed later.

        Paths that are in their state ``before`` already are added to ``restored``, the rest to ``conflicts`` or ``failed``.
        """
        chosen = []
        for change in changes:
            present = self._tree.entries.get(change.path)
            if same_state(present, change.before):
                self.restored.append(change.path)
            elif change.before is not None and change.before.kind == SKIPPED:
                self.failed.append((change.path, f"its content was not kept: {change.before.why_skipped}"))
            elif not (force or is_below(change.path, self._opened) or _is_expected(present, change)):
                self.conflicts.append((change.path, "it was changed later"))
            else:
                chosen.append(ProjectChange(change.path, change.before, present))
        return chosen

    def run(self, chosen: Sequence[ProjectChange]) -> None:
        """Revert these changes: removals first, then folders, files and links, and the folders' times last."""
        deep = sorted(chosen, key=lambda one: (-one.path.count("/"), one.path == "", one.path))
        left = {change.path: change for change in chosen}
        try:
            for change in deep:
                if change.after is not None and (change.before is None or _replaces_folder(change)):
                    self._attempt(left, change, self._remove)
            for change in reversed(deep):
                if (
                    change.before is not None
                    and change.before.kind == FOLDER
                    and change.path in left
                    and not _is_folder(change.after)
                ):
                    self._attempt(left, change, self._make_folder)
            for change in sorted(chosen, key=lambda one: one.path):
                if change.before is not None and change.before.kind != FOLDER and change.path in left:
                    self._attempt(left, change, self._write)
            self._close()
            self._finish_folders(left, deep)
        finally:
            self._close()
        self.restored += [path for path in left if path not in self.restored]

    def _attempt(self, left: dict[str, ProjectChange], change: ProjectChange, work: Callable[[ProjectChange], None]) -> None:
        try:
            work(change)
        except _ConflictError as error:
            self.conflicts.append((change.path, str(error)))
        except SnapshotFailed as error:
            self.failed.append((change.path, str(error)))
        except OSError as error:
            self.failed.append((change.path, error.strerror or str(error)))
        else:
            return
        del left[change.path]

    def _remove(self, change: ProjectChange) -> None:
        folder, name = self._folder_of(change.path)
        self._check(folder, name, change.after)
        if not _is_folder(change.after):
            os.unlink(name, dir_fd=folder)
            return
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError as error:
            raise _ConflictError("it has files that were created later or are not covered") from error

    def _make_folder(self, change: ProjectChange) -> None:
        if not change.path:
            os.mkdir(self._root, 0o700)  # noqa: PTH102 - os, as for the folders below
            return
        folder, name = self._folder_of(change.path)
        if change.after is not None and not _replaces_folder(change):
            self._check(folder, name, change.after)
            os.unlink(name, dir_fd=folder)
        os.mkdir(name, 0o700, dir_fd=folder)

    def _write(self, change: ProjectChange) -> None:
        """Restore a file, link or FIFO, or only its mode, times and attributes."""
        entry, present = change.before, None if _replaces_folder(change) else change.after
        assert entry is not None  # noqa: S101 - run() checked it
        folder, name = self._folder_of(change.path)
        if (
            present is not None
            and (present.kind, present.content) == (entry.kind, entry.content)
            and entry.kind != LINK
            and present.links < 2
        ):
            self._check(folder, name, present)
            with _opened(name, folder, os.O_RDONLY | os.O_NONBLOCK) as file:
                _dress(file, entry)
        else:
            self._replace(folder, name, entry, present)
        if entry.kind == FILE:
            self.written[change.path] = entry_of(folder, name, entry)
            # Keep the last of the file's names: each new hard link changes the ctime, so the earlier names' entries are outdated.
            self._made[entry.dev, entry.ino] = change.path

    def _replace(self, folder: int, name: str, entry: FileEntry, present: FileEntry | None) -> None:
        if present is not None and entry.kind == present.kind == FILE and self._has_name_elsewhere(present):
            inode = (present.dev, present.ino)
            if self._poured.get(inode) == entry.content:
                return  # done under another of its names
            self._check(folder, name, present)
            self._poured[inode] = entry.content
            with _opened(name, folder, os.O_WRONLY) as file:  # also restores the file under its other name
                self._pour(file, entry)
                os.ftruncate(file, os.lseek(file, 0, os.SEEK_CUR))
                _dress(file, entry)
            return
        try:
            if entry.kind == FILE:
                if entry.links < 2 or not self._link(folder, entry):
                    self._fill(folder, entry)
            elif entry.kind == LINK:
                os.symlink(entry.content, os.fsencode(TEMPORARY), dir_fd=folder)
                with contextlib.suppress(PermissionError):
                    os.chown(TEMPORARY, entry.uid, entry.gid, dir_fd=folder, follow_symlinks=False)
                os.utime(TEMPORARY, ns=(entry.mtime_ns, entry.mtime_ns), dir_fd=folder, follow_symlinks=False)
            elif entry.kind == FIFO:
                os.mkfifo(TEMPORARY, 0o600, dir_fd=folder)
                with _opened(TEMPORARY, folder, os.O_RDONLY | os.O_NONBLOCK) as file:
                    _dress(file, entry)
            else:
                raise SnapshotFailed(f"a {entry.kind} can't be created again; start the program that created it")
            self._check(folder, name, present)
            os.rename(TEMPORARY, name, src_dir_fd=folder, dst_dir_fd=folder)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(TEMPORARY, dir_fd=folder)
            raise

    def _fill(self, folder: int, entry: FileEntry) -> None:
        with _opened(TEMPORARY, folder, os.O_WRONLY | os.O_CREAT | os.O_EXCL) as file:
            self._pour(file, entry)
            _dress(file, entry)

    def _pour(self, file: int, entry: FileEntry) -> None:
        for digest in digests_of(entry.content):
            view = memoryview(self._packs.get(digest))
            while view:
                view = view[os.write(file, view) :]

    def _has_name_elsewhere(self, present: FileEntry) -> bool:
        """Return whether a file has a hard link outside the snapshot, such as outside the project."""
        return present.links > 1 and len(self._tree.inodes.get((present.dev, present.ino), ())) < present.links

    def _link(self, folder: int, entry: FileEntry) -> bool:
        """Make the temporary name a hard link to another name of the file, if that one is unchanged. Return whether it
        succeeded.
        """
        inode = (entry.dev, entry.ino)
        if self._inodes is None:
            self._inodes = {(one.dev, one.ino): path for path, one in self._tree.entries.items() if one.kind == FILE}
        other = self._made.get(inode) or self._inodes.get(inode, "")
        found = self.written.get(other) or self._tree.entries.get(other)
        if found is None or not same_state(found, entry):
            return False
        above, _, name = other.rpartition("/")
        try:
            fd = open_folder(self._root, above)
            try:
                self._check(fd, name, found)
                os.link(name, TEMPORARY, src_dir_fd=fd, dst_dir_fd=folder, follow_symlinks=False)
            finally:
                os.close(fd)
        except (OSError, _ConflictError):
            return False
        return True

    def _check(self, folder: int, name: str, present: FileEntry | None) -> None:
        """Raise a conflict if a name is no longer in the state ``present``, from the last snapshot."""
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            if present is None:
                return
            raise _ConflictError("it was just deleted") from None
        if present is None:
            raise _ConflictError("it was just created")
        if present.kind == FOLDER:
            if not stat.S_ISDIR(found.st_mode):
                raise _ConflictError("it was just replaced")
            return
        facts = (found.st_ino, found.st_size, found.st_mtime_ns)
        alone = present.links < 2 and present.ctime_ns  # creating or removing a link changes the ctime of the other names
        if facts != (present.ino, present.size, present.mtime_ns) or (alone and found.st_ctime_ns != present.ctime_ns):
            raise _ConflictError("it was just changed")

    def _folder_of(self, path: str) -> tuple[int, str]:
        """Return the open folder of a path, made writable, and the path's name in it."""
        above, _, name = path.rpartition("/")
        if not path:
            raise SnapshotFailed("the project's folder itself can't be removed or replaced")
        if self._open[1] < 0 or self._open[0] != above:
            self._close()
            self._open = (above, open_folder(self._root, above))
            found = os.fstat(self._open[1])
            if found.st_mode & 0o300 != 0o300 and found.st_uid == os.geteuid():
                os.fchmod(self._open[1], stat.S_IMODE(found.st_mode) | 0o700)
            self._touched.add(above)
        return self._open[1], name

    def _close(self) -> None:
        if self._open[1] >= 0:
            os.close(self._open[1])
        self._open = ("", -1)

    def _finish_folders(self, left: dict[str, ProjectChange], deep: Sequence[ProjectChange]) -> None:
        """Restore modes and times of folders that were changed or used, the deepest first."""
        wanted = {
            path: entry for path in self._touched if (entry := self._tree.entries.get(path)) is not None and entry.kind == FOLDER
        }
        wanted |= {
            one.path: one.before for one in deep if one.path in left and one.before is not None and one.before.kind == FOLDER
        }
        for path in sorted(wanted, key=lambda one: (-one.count("/"), one == "")):
            try:
                fd = open_folder(self._root, path)
            except (FileNotFoundError, NotADirectoryError):
                continue  # the restore removed it
            try:
                _dress(fd, wanted[path])
            except OSError as error:
                self.failed.append((path, error.strerror or str(error)))
                left.pop(path, None)
            finally:
                os.close(fd)


def delete_compiled(folder: int, since: float) -> None:
    """Delete the modules that Python compiled in an open folder since a Unix time. Raises OSError."""
    for name in os.listdir(folder):
        if name.endswith(".pyc") and os.stat(name, dir_fd=folder, follow_symlinks=False).st_ctime > since:
            os.unlink(name, dir_fd=folder)


class _ConflictError(Exception):
    """Something else changed a path."""


def _is_expected(present: FileEntry | None, change: ProjectChange) -> bool:
    """Return whether a path is as the change, or an interrupted restore, left it."""
    if present is None and change.before is not None and change.after is not None:
        return change.before.kind != change.after.kind  # a restore removed the new kind and has not created the old one
    if present is not None and change.before is not None and present.kind == change.before.kind == FOLDER:
        known = [one.mode | 0o700 for one in (change.before, change.after) if one is not None and one.kind == FOLDER]
        return not _is_folder(change.after) or present.mode | 0o700 in known
    return same_content(present, change.after) or same_content(present, change.before)


def _is_folder(entry: FileEntry | None) -> bool:
    return entry is not None and entry.kind == FOLDER


def _replaces_folder(change: ProjectChange) -> bool:
    """Return whether the path is a folder now, and was not one before the change."""
    return _is_folder(change.after) and not _is_folder(change.before)


@contextlib.contextmanager
def _opened(name: str, folder: int, flags: int) -> Iterator[int]:
    fd = os.open(name, flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def _dress(fd: int, entry: FileEntry) -> None:
    """Give an open file or folder the owner, attributes, mode and times of an entry. Raises OSError."""
    found = os.fstat(fd)
    mode = stat.S_IMODE(entry.mode)
    if (found.st_uid, found.st_gid) != (entry.uid, entry.gid):
        try:
            os.fchown(fd, entry.uid, entry.gid)
        except PermissionError:
            mode &= ~0o6000  # the file would run with the rights of another owner
    _give_attributes(fd, entry.attributes)
    if stat.S_IMODE(os.fstat(fd).st_mode) != mode:
        os.fchmod(fd, mode)
    os.utime(fd, ns=(found.st_atime_ns, entry.mtime_ns))


def _give_attributes(fd: int, attributes: bytes) -> None:
    if not hasattr(os, "setxattr"):
        return
    wanted: Mapping[str, str] = json.loads(attributes) if attributes else {}
    present = json.loads(attributes_of_open(fd) or b"{}")
    for name in present:
        if name not in wanted:
            os.removexattr(fd, name)
    for name, value in wanted.items():
        if present.get(name) != value:
            os.setxattr(fd, name, bytes.fromhex(value))


def open_again(root: str, tree: ProjectTree, changes: Sequence[ProjectChange]) -> set[str]:
    """Make folders readable that the changes made unreadable, so that a scan sees inside. Return their paths."""
    found = set()
    for change in changes:
        old, now = change.before, tree.entries.get(change.path)
        if old is None or now is None or now.kind != SKIPPED or old.kind != FOLDER or old.ino != now.ino:
            continue
        with contextlib.suppress(OSError):  # the restore reports it
            above, _, name = change.path.rpartition("/")
            parent = open_folder(root, above)
            try:
                fd = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=parent)
            finally:
                os.close(parent)
            try:
                Path(f"/proc/self/fd/{fd}").chmod(stat.S_IMODE(old.mode) | 0o700)
                found.add(change.path)
            finally:
                os.close(fd)
    return found
