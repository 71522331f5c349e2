"""Snapshots of one project: the entry point of the package."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import stat
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, TypeVar

from tools.dispatch.threads import in_daemon_thread
from tools.undo.snapshots.entries import (
    FILE,
    FOLDER,
    LINK,
    FileEntry,
    ProjectChange,
    ProjectSnapshot,
    RestorePreview,
    RestoreReport,
    SnapshotFailed,
    SnapshotRefused,
    StoreFull,
    is_below,
    is_kept,
    kind_of,
)
from tools.undo.snapshots.packs import digests_of
from tools.undo.snapshots.restore import TEMPORARY, ProjectRestorer, delete_compiled, open_again
from tools.undo.snapshots.scan import ProjectTree, TreeScanner, open_folder
from tools.undo.snapshots.skips import CACHE, REBUILDABLE, SkippedFolders
from tools.undo.snapshots.store import SnapshotStore
from tools.undo.snapshots.watch import FolderWatcher

T = TypeVar("T")
MAX_MB = 2_000
KEEP_DAYS = 14.0
_PATIENCE = 3.0  # seconds; a gate, which calls ``measure``, may take 10


class Project:
    """Snapshots of one project folder. Create it with ``open``. Safe for several sessions and threads.

    Snapshots keep contents, modes, times, owners, links, extended attributes and hard links inside the project, also of ``.git``
    and ignored files. They leave out folders that ``SkippedFolders`` chooses, other file systems, and unreadable files, and have
    no contents of sockets and devices. The store may occupy twice ``max_mb``.
    """

    _projects: ClassVar[dict[tuple[str, str], tuple[Project, int]]] = {}
    _opening: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, root: str, folder: Path, skip: Sequence[str], max_mb: int, keep_days: float) -> None:
        """Use ``open`` instead."""
        self.root = root
        self._max_bytes = max_mb << 20
        self._keep_days = keep_days
        self._store = SnapshotStore(folder, 2 * self._max_bytes)
        self._skips = SkippedFolders(skip, [str(folder.parent)], lambda path: open_folder(root, path))
        self._lock = threading.RLock()
        self._watch = FolderWatcher()
        self._tree = ProjectTree({})
        self._last = 0
        self._walked = False
        """True if every folder has been watched since the last walk."""
        self._is_walk_due = False
        self._measured = False
        self._known = threading.Event()
        """Set when ``covers`` can answer, or the first snapshot has failed."""
        self._scan: TreeScanner | None = None
        self._problem = ""
        self._taken = 0
        self._closed = threading.Event()

    @staticmethod
    def folder(root: str, store: str) -> Path:
        """Return the folder of the snapshots of this root, which may not exist."""
        return Path(os.path.realpath(store), hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:32])

    @classmethod
    def open(
        cls, root: str, store: str, *, skip: Sequence[str] = (), max_mb: int = MAX_MB, keep_days: float = KEEP_DAYS
    ) -> Project:
        """Return the process's project of this root, for the caller to ``close``. ``store``: the folder of snapshots.
        Raises SnapshotRefused for a root that is not a project, and SnapshotFailed if the store cannot be opened.
        """
        real, home = os.path.realpath(root), os.path.realpath(os.path.expanduser("~"))  # noqa: PTH111 - as the other paths here
        if not os.path.isdir(real):  # noqa: PTH112 - as the other paths here
            raise SnapshotRefused(f"{root} is not a folder")
        if real == home or f"{home}/".startswith(f"{real.rstrip('/')}/"):
            raise SnapshotRefused(f"{root} is or contains your home folder; work in a project folder below it")
        folder = cls.folder(real, store)
        with cls._opening:
            project, users = cls._projects.get((real, str(folder)), (None, 0))
            if project is None:
                try:
                    project = cls(real, folder, skip, max_mb, keep_days)
                except SnapshotFailed:
                    raise
                except Exception as error:
                    raise SnapshotFailed(f"snapshots can't be kept in {folder}: {error}. Move that folder away.") from error
            cls._projects[real, str(folder)] = (project, users + 1)
        return project

    def close(self) -> None:
        """End this use of the project. The last user stops the watch and closes the store."""
        key = next(key for key, (project, _) in self._projects.items() if project is self)
        with self._opening:
            users = self._projects[key][1] - 1
            if users:
                self._projects[key] = (self, users)
                return
            del self._projects[key]
        self._closed.set()
        self._known.set()
        with self._lock:
            self._watch.close()
            self._store.close()

    def begin(self, *, thorough: bool = False) -> None:
        """Take the first snapshot in the background, and watch the project from then on. If it fails, ``take`` tries again.
        ``thorough``: take a snapshot that walks the tree, even if there is one already. If ``take`` runs first, it walks instead.
        """
        self._is_walk_due = self._is_walk_due or thorough
        threading.Thread(target=self._begin, name="toolcrib-snapshot", daemon=True).start()

    def measure(self) -> None:
        """Call ``begin``, and block for at most a few seconds until ``covers`` can answer or the first snapshot failed."""
        if not self._known.is_set():
            self.begin()
            self._known.wait(_PATIENCE)

    @property
    def progress(self) -> tuple[int, int]:
        """The number of paths that the running snapshot has read, and the number that it has found so far."""
        return (0, 0) if (scan := self._scan) is None else scan.progress

    async def take(
        self, label: str, *, turn: int = 0, call_id: str = "", session_id: str = "", thorough: bool = False
    ) -> ProjectSnapshot:
        """Take a snapshot, after any running one. ``thorough``: walk the tree, which also finds writes through memory maps.
        If the caller is cancelled, the snapshot is kept without its call. Raises SnapshotFailed, and SnapshotRefused if
        the project is too large or the disk too full.
        """
        wanted = ProjectSnapshot(0, time.time(), label, turn, call_id, session_id)
        taken: list[ProjectSnapshot] = []
        given_up = threading.Event()

        def work() -> ProjectSnapshot:
            with self._lock:
                taken.append(self._take(wanted, thorough))
                if given_up.is_set():
                    self._void(taken[0])
                return taken[0]

        try:
            return await in_daemon_thread(work)
        except asyncio.CancelledError:
            given_up.set()  # before the next line: ``work`` checks in the other order
            if taken:
                threading.Thread(target=self._void, args=(taken[0],), name="toolcrib-snapshot", daemon=True).start()
            raise

    async def void(self, taken: ProjectSnapshot) -> None:
        """Record that a snapshot does not count: its call does not run, or the changes before it were not recorded."""
        await in_daemon_thread(self._void, taken)

    async def snapshots(self, session_id: str) -> list[ProjectSnapshot]:
        """Return the kept snapshots of a session, oldest first. Raises SnapshotFailed."""
        since = time.time() - self._keep_days * 86_400
        return await in_daemon_thread(self._alone, lambda: self._store.snapshots(session_id, since))

    async def changed(self, before: ProjectSnapshot, after: ProjectSnapshot | None = None) -> list[ProjectChange]:
        """Return the paths that differ between two snapshots, or without ``after`` between one and now. Raises like ``take``."""
        other = after or await self.take("now")
        found: list[ProjectChange] = await in_daemon_thread(self._alone, lambda: self._store.changed(before.id, other.id))
        skipped = {one.path for one in found if one.before is not None and one.before.why_skipped}
        return [one for one in found if not is_below(one.path, skipped) and not (one.path in skipped and one.after)]

    async def content(self, entry: FileEntry) -> bytes:
        """Return the content of a file, or the target of a link. Raises SnapshotFailed if it is no longer kept."""
        if entry.kind != FILE:
            return entry.content if entry.kind == LINK else b""
        return await in_daemon_thread(self._alone, lambda: b"".join(map(self._store.packs.get, digests_of(entry.content))))

    async def restore(self, changes: Sequence[ProjectChange], *, call_id: str = "", session_id: str = "") -> RestoreReport:
        """Restore paths to their state ``before``. A path that differs from its state ``after`` is left alone, as a conflict.
        An interrupted restore can be repeated. Raises like ``take``.
        """
        return await in_daemon_thread(self._restore, changes, call_id, session_id)

    async def preview(self, changes: Sequence[ProjectChange], *, force: bool = False) -> RestorePreview:
        """Return what ``restore`` would do now. Raises like ``take``.

        ``force``: count paths that differ from their state ``after`` as changes to revert, not as conflicts.
        """
        return await in_daemon_thread(self._preview, changes, force)

    def covers(self, path: str, *, rebuildable: bool = True) -> bool:
        """Return whether a restore would undo a change at this absolute path.

        False until the project was measured, and after a failed snapshot. False for paths that are outside the project or left
        out, folders that contain such paths, special files, and files with a hard link elsewhere. Caches count as covered,
        because their tools delete them too. Large rebuildable folders also count as covered, unless ``rebuildable`` is False.
        """
        but = (CACHE, REBUILDABLE) if rebuildable else (CACHE,)
        if self._problem or not self._measured or "\0" in path or ".." in path.split("/"):
            return False
        real = os.path.realpath(path)
        if real != self.root and not real.startswith(f"{self.root}/"):
            return False
        try:
            return self._covers(real[len(self.root) + 1 :], but)
        except OSError:
            return False

    def _covers(self, path: str, but: Collection[str]) -> bool:
        """Return whether a path is covered. Folders below it may be left out for one of the reasons ``but``."""
        names = path.split("/") if path else []
        fd = open_folder(self.root, "")
        try:
            device = os.fstat(fd).st_dev
            for at, name in enumerate(names):
                here = "/".join(names[: at + 1])
                try:
                    found = os.stat(name, dir_fd=fd, follow_symlinks=False)
                except FileNotFoundError:
                    return not any(self._skips.may_skip("/".join(names[: end + 1])) for end in range(at, len(names)))
                kind = kind_of(found.st_mode)
                if kind != FOLDER or found.st_dev != device:
                    return at == len(names) - 1 and self._keeps(here, kind, found)
                inner = open_folder(self.root, here)
                os.close(fd)
                fd = inner
                entry = self._tree.entries.get(here)
                reason = entry.why_skipped if entry is not None else ""
                if reason or (reason := self._skips.reason(self.root, here, fd, is_kept=is_kept(entry, found))):
                    return reason in but
        finally:
            os.close(fd)
        return all(why in but for one, why in self._left_out().items() if not path or one.startswith(f"{path}/"))

    def _left_out(self) -> dict[str, str]:
        """Return paths that are left out, with the reasons, including paths that the running scan has found."""
        known, scan = self._tree.entries, self._scan
        found = {path: known.get(path) for path in tuple(self._tree.skipped)} | ({} if scan is None else dict(scan.delta))
        return {path: why for path, entry in found.items() if entry is not None and (why := entry.why_skipped)}

    def _keeps(self, path: str, kind: str, found: os.stat_result) -> bool:
        if kind == FILE and found.st_nlink > 1:
            return len(self._tree.inodes.get((found.st_dev, found.st_ino), ())) >= found.st_nlink
        return kind in (FILE, LINK) and path not in self._left_out() and path.rpartition("/")[2] != TEMPORARY

    def drop_compiled(self, since: float) -> None:
        """Delete the modules that Python compiled in the project since a Unix time. Python recreates them.

        Python may run a compiled module although its source differs, and snapshots do not keep compiled modules.
        """
        for path in [path for path in self._tree.skipped if path.rpartition("/")[2] == "__pycache__"]:
            with contextlib.suppress(OSError):  # it no longer exists
                fd = open_folder(self.root, path)
                try:
                    delete_compiled(fd, since)
                finally:
                    os.close(fd)

    # -- in a thread ---------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        with contextlib.suppress(SnapshotRefused, SnapshotFailed, OSError):  # ``covers`` returns False, and ``take`` raises
            if self._is_walk_due or not self._walked:
                self._take(ProjectSnapshot(0, time.time(), "first" if not self._taken else "idle"), False)

    def _void(self, taken: ProjectSnapshot) -> None:
        with contextlib.suppress(SnapshotFailed):  # then an undo of the call also shows later changes
            self._alone(lambda: self._store.void(taken.id))

    def _alone(self, work: Callable[[], T]) -> T:
        with self._lock:
            if self._closed.is_set():
                raise SnapshotFailed("the project was closed")
            with self._store.locked():
                return work()

    def _take(self, wanted: ProjectSnapshot, thorough: bool) -> ProjectSnapshot:
        with self._lock:
            if self._closed.is_set():
                raise SnapshotFailed("the project was closed")
            thorough, self._is_walk_due = thorough or self._is_walk_due, False
            try:
                with self._store.locked():
                    if not self._taken:
                        self._store.prune(self._keep_days)
                    taken = self._added(wanted, thorough)
            except BaseException as error:
                self._walked, self._last, self._problem = False, -1, str(error) or type(error).__name__
                raise
            finally:
                self._scan = None
                self._known.set()
            self._taken += 1
            self._problem = ""
            return taken

    def _added(self, wanted: ProjectSnapshot, thorough: bool) -> ProjectSnapshot:
        """Scan and commit. If the store or its disk is full, delete the older half of the snapshots and retry."""
        while True:
            try:
                return self._add(wanted, thorough=thorough)
            except StoreFull:
                if not self._store.halve():
                    raise
                thorough = True  # ``_add`` has consumed the names of the changes

    def _add(self, wanted: ProjectSnapshot, *, thorough: bool, known: Mapping[str, FileEntry] | None = None) -> ProjectSnapshot:
        """Scan and commit. ``known``: entries of files that a restore has just written."""
        self._load()
        self._clear_up()
        named = self._watch.changed()
        self._scan = scan = self._scanner()
        scan.delta.update(known or {})
        if thorough or named is None or not self._walked or not os.path.isdir(self.root):  # noqa: PTH112 - as elsewhere here
            scan.everything()
        else:
            scan.named(named)
            scan.linked()
        self._measured = True
        self._known.set()
        with self._store.transaction():
            scan.read()
            delta = {path: entry for path, entry in scan.delta.items() if entry is not None or path in self._tree.entries}
            if known:
                delta.update({path: entry._replace(ctime_ns=0) for path, entry in known.items() if delta.get(path) == entry})
            taken = self._store.add(wanted, self._tree.entries, delta)
        self._tree.update(delta)
        self._last, self._walked = taken.id, self._watch.works and "" in self._tree.entries
        return taken

    def _load(self) -> None:
        """Read the entries of the newest snapshot, if another process took it."""
        last = self._store.last()
        if last != self._last:
            self._tree, self._last = ProjectTree(self._store.current()), last

    def _scanner(self) -> TreeScanner:
        return TreeScanner(
            self.root,
            self._tree,
            self._skips,
            self._store.packs,
            watch=self._watch if self._watch.works else None,
            max_bytes=self._max_bytes,
            stopped=self._closed.is_set,
        )

    def _clear_up(self) -> None:
        """Clean up after an interrupted restore: remove its temporary file, and restore the modes and times of its folders."""
        folders = self._store.restoring()
        for folder, mode, mtime_ns in sorted(folders, key=lambda row: -row[0].count("/")):
            with contextlib.suppress(OSError):
                fd = open_folder(self.root, folder)
                try:
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(TEMPORARY, dir_fd=fd)
                    if mode is not None and mtime_ns is not None:
                        os.fchmod(fd, stat.S_IMODE(mode))
                        os.utime(fd, ns=(mtime_ns, mtime_ns))
                finally:
                    os.close(fd)
        if folders:
            self._store.note_restoring({})

    def _preview(self, changes: Sequence[ProjectChange], force: bool) -> RestorePreview:
        with self._lock:
            self._take(ProjectSnapshot(0, time.time(), "now"), False)
            restorer = ProjectRestorer(self.root, self._tree, self._store.packs)
            chosen = restorer.choose(changes, force=force)
            return RestorePreview(chosen, restorer.restored, restorer.conflicts, restorer.failed)

    def _restore(self, changes: Sequence[ProjectChange], call_id: str, session_id: str) -> RestoreReport:
        with self._lock:
            wanted = ProjectSnapshot(0, time.time(), "before undo", call_id=call_id, session_id=session_id)
            before = self._take(wanted, False)
            opened = open_again(self.root, self._tree, changes)
            if opened:
                before = self._take(wanted, True)
            with self._store.locked():
                restorer = ProjectRestorer(self.root, self._tree, self._store.packs, opened)
                chosen = restorer.choose(changes)
                folders = {change.path.rpartition("/")[0] for change in chosen}
                self._store.note_restoring({path: self._tree.entries.get(path) for path in folders})
                restorer.run(chosen)
                self._store.note_restoring({})
                wanted = ProjectSnapshot(0, time.time(), "after undo", call_id=call_id, session_id=session_id)
                after = self._add(wanted, thorough=False, known=restorer.written)
            return RestoreReport(before, after, sorted(restorer.restored), restorer.conflicts, restorer.failed)
