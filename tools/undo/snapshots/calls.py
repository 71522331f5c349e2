"""Snapshots around calls: the changes of each call, recorded as steps of the journal, and reverted by an undo.

The journal records the changes in effect; the snapshots have the entries for a restore. The snapshots of a call's step are found
by the call's id and turn, those of an undo or redo by the number of its step.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from itertools import pairwise
from pathlib import PurePosixPath
from typing import ClassVar

from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.undo import ChangeJournal, ChangeStep, FileChange, FileState
from tools.undo.choose import BACKGROUND, UndoTarget, is_background
from tools.undo.contents import digest_of
from tools.undo.differences import PathState, too_large
from tools.undo.restore import UndoItem
from tools.undo.snapshots.entries import (
    FILE,
    FOLDER,
    SKIPPED,
    FileEntry,
    ProjectChange,
    ProjectSnapshot,
    SnapshotFailed,
    same_content,
)
from tools.undo.snapshots.packs import DIGEST
from tools.undo.snapshots.project import Project
from tools.undo.snapshots.writers import BackgroundWriters

_BEFORE, _AFTER, _BETWEEN = "before", "after", "between"


class CallRecorder:
    """Takes snapshots around the calls of one session, and records the calls' changes as steps in the journal.

    ``holder`` returns the holder of a file by its absolute path; see ``FileChange``. ``processes`` returns the commands of the
    session's background processes.
    """

    _running: ClassVar[Counter[tuple[str, str]]] = Counter()
    """Sessions and ids of this process's running calls. A session and its delegates may use the same id at once."""

    def __init__(
        self,
        project: Project,
        journal: ChangeJournal,
        session_id: str,
        holder: Callable[[str], str],
        processes: Callable[[], Sequence[str]] = tuple,
    ) -> None:
        self._project = project
        self._journal = journal
        self._session_id = session_id
        self._holder = holder
        self._processes = processes
        self._begun: set[int] = set()
        """Ids of the snapshots before calls that run."""
        self._writers = BackgroundWriters(project.root)
        self._last: ProjectSnapshot | None = None
        """The last snapshot that this object took."""

    async def before(self, call_id: str, turn: int, command: str) -> ProjectSnapshot:
        """Take a snapshot before a call, and record what changed since the last call. Return the snapshot, for ``after``.

        Raises SnapshotRefused, SnapshotFailed and StoreFailed; after any of them the call must not run.
        """
        last = None if self._last is None or self._begun else await self._last_recorded()
        self._running[self._session_id, call_id] += 1
        try:
            taken = await self._take(_BEFORE, last, turn=turn, call_id=call_id)
        except BaseException:
            self._has_ended(call_id)
            raise
        self._begun.add(taken.id)
        self._writers.begin(taken.id, command)
        return taken

    async def after(self, began: ProjectSnapshot, tool: str, turn: int, *, is_kept: bool) -> None:
        """Take a snapshot after a call, and record the changes since ``began``, the snapshot before it. Raises like ``before``.

        ``is_kept``: the tool recorded its own file changes.
        """
        call_id = began.call_id
        self._writers.end(began.id)
        try:
            taken = await self._project.take(_AFTER, turn=began.turn, call_id=call_id, session_id=self._session_id)
            self._last = taken
            steps = await self._journal.steps(self._session_id) if is_kept else ()
            step = ChangeStep(self._session_id, turn, call_id, tool, time.time(), ())
            await self._record(began, taken, step, _recorded(steps, began))
        finally:
            self._begun.discard(began.id)
            self._has_ended(call_id)

    def writers(self) -> list[str]:
        """Return the commands that left a process running in the project."""
        return self._writers.names()

    def at_work(self) -> list[str]:
        """Return the commands that may write in the project now: see ``writers``, and background processes."""
        return list(dict.fromkeys([*self.writers(), *self._processes()]))

    def _has_ended(self, call_id: str) -> None:
        key = (self._session_id, call_id)
        self._running[key] -= 1
        if not self._running[key]:
            del self._running[key]

    async def recover(self) -> None:
        """Record the changes of calls whose process ended before they were recorded. Raises like ``before``."""
        calls: dict[tuple[str, int], list[ProjectSnapshot]] = {}
        for one in await self._project.snapshots(self._session_id):
            if one.label in (_BEFORE, _AFTER) and not self._running[self._session_id, one.call_id]:
                calls.setdefault((one.call_id, one.turn), []).append(one)
        steps = await self._journal.steps(self._session_id) if calls else ()
        for (call_id, turn), own in calls.items():
            if own[-1].label == _BEFORE:
                own.append(await self._project.take(_AFTER, turn=turn, call_id=call_id, session_id=self._session_id))
            for began, ended in _pairs(own):
                step = ChangeStep(self._session_id, turn, call_id, "terminal", began.at, ())
                await self._record(began, ended, step, _recorded(steps, began))

    async def between(self, names: Sequence[str] = ()) -> None:
        """Record what changed since the session's last snapshot, unless a call is running. Raises like ``before``.

        ``names``: the commands that may have made the changes, as ``at_work`` returned them earlier.
        """
        if any(session_id == self._session_id for session_id, _ in list(self._running)):
            return
        if (last := await self._last_recorded()) is not None:
            await self._take(_BETWEEN, last, names)

    async def _last_recorded(self) -> ProjectSnapshot | None:
        """Return the session's last snapshot that has not been voided, None if there is none."""
        return next((one for one in reversed(await self._project.snapshots(self._session_id)) if one.label), None)

    async def _take(
        self, label: str, last: ProjectSnapshot | None, names: Sequence[str] = (), *, turn: int = 0, call_id: str = ""
    ) -> ProjectSnapshot:
        """Take a snapshot, and record what changed since ``last``. See ``between`` for ``names``."""
        taken = await self._project.take(label, turn=turn, call_id=call_id, session_id=self._session_id)
        try:
            if last is not None:
                number = f"{BACKGROUND}-{last.id}-{taken.id}"
                await self._record(last, taken, ChangeStep(self._session_id, 0, number, BACKGROUND, time.time(), ()), (), names)
        except BaseException:
            await self._project.void(taken)
            raise
        self._last = taken
        return taken

    async def _record(
        self,
        before: ProjectSnapshot,
        after: ProjectSnapshot,
        step: ChangeStep,
        known: Collection[str] = (),
        names: Sequence[str] = (),
    ) -> None:
        found = [self._change(one) for one in await self._project.changed(before, after) if _is_listed(one)]
        changes = tuple(one for one in found if one.path not in known)
        if changes and step.tool == BACKGROUND and (names := names or self.at_work()):
            step = replace(step, tool=f"{BACKGROUND}: {'; '.join(names)}")
        if changes:
            await self._journal.begin(replace(step, changes=changes))

    def _change(self, found: ProjectChange) -> FileChange:
        path = self.path(found.path)
        return FileChange(path, self._holder(path), _state(found.before), _state(found.after))

    def path(self, name: str) -> str:
        """Return the absolute path of a path in the project."""
        return f"{self._project.root.rstrip('/')}/{name}" if name else self._project.root

    async def state(self, entry: FileEntry | None) -> PathState | None:
        """Return an entry as a PathState, for comparisons; None if there is none."""
        if entry is None:
            return None
        mode, why = entry.mode & 0o7777, too_large(entry.size) or entry.why_skipped
        if why and entry.kind in (FILE, SKIPPED):
            return PathState(entry.kind, mode, why=why)
        try:
            return PathState(entry.kind, mode, await self._project.content(entry))
        except SnapshotFailed as error:
            return PathState(entry.kind, mode, why=str(error))

    # -- undo ----------------------------------------------------------------------------------------------------------------

    async def plan(
        self, chosen: Sequence[ChangeStep], targets: Sequence[UndoTarget], *, whole: bool, force: bool
    ) -> SnapshotRestore:
        """Return the part of an undo that snapshots restore, for these steps and targets. Raises like ``before``.

        ``whole``: the undo covers all paths of the steps, so that the times of folders are restored too. The folders above a
        file are restored with the file.
        """
        by_path = {target.path: target for target in targets}
        changes, broken = await self._composed(chosen)
        above = {str(folder) for path in by_path for folder in PurePosixPath(path).parents}
        wanted = [
            one
            for one in changes
            if (path := self.path(one.path)) in by_path
            or (whole and one.is_minor)
            or (path in above and one.before is not None and one.before.kind == FOLDER)
        ]
        if not wanted:
            return SnapshotRestore(self, (), ())
        torn = {one.path for one in wanted if one.path in broken and not force}
        found = await self._project.preview([one for one in wanted if one.path not in torn], force=force)
        why = {**dict(found.conflicts), **dict.fromkeys(torn, "another program changed it between these calls")}
        present = {one.path: one for one in found.changes}
        failed = dict(found.failed)
        items = []
        for change in wanted:
            target = by_path.get(self.path(change.path))
            if target is not None:
                item = _item(target, present.get(change.path))
                reason = why.get(change.path) or failed.get(change.path, "")
                items.append(replace(item, why_not=reason, forceable=change.path in why) if reason else item)
        return SnapshotRestore(self, items, found.changes)

    async def restore(self, changes: Sequence[ProjectChange], step: ChangeStep) -> dict[str, str]:
        """Revert changes for the journal's ``step``. Return the reasons, by path, for unchanged ones. Raises like ``before``."""
        report = await self._project.restore(changes, call_id=_key(step), session_id=self._session_id)
        return {self.path(path): reason for path, reason in (*report.conflicts, *report.failed)}

    async def _composed(self, steps: Sequence[ChangeStep]) -> tuple[list[ProjectChange], set[str]]:
        """Return the total change of each path in these steps, and the paths that something else changed in between."""
        known = await self._project.snapshots(self._session_id)
        found: dict[str, ProjectChange] = {}
        broken: set[str] = set()
        for before, after in _joined([span for step in steps for span in _spans(step, known)]):
            for one in await self._project.changed(before, after):
                first = found.get(one.path, one)
                if first is not one and not same_content(first.after, one.before):
                    broken.add(one.path)
                found[one.path] = ProjectChange(one.path, first.before, one.after)
        return list(found.values()), broken


@dataclass(frozen=True, slots=True)
class SnapshotRestore:
    """The part of an undo that snapshots restore. ``changes``: the changes to revert."""

    recorder: CallRecorder
    items: Sequence[UndoItem]
    changes: Sequence[ProjectChange]

    async def states(self) -> dict[str, tuple[PathState | None, PathState | None]]:
        """Return each path's state after the restore, and now."""
        wanted = {item.path for item in self.items}
        found = {self.recorder.path(change.path): change for change in self.changes}
        return {
            path: (await self.recorder.state(one.before), await self.recorder.state(one.after))
            for path, one in found.items()
            if path in wanted
        }

    @property
    def recorded(self) -> list[FileChange]:
        """Changes that the restore makes, for the journal."""
        acting = [item for item in self.items if not item.why_not and item.action != "nothing"]
        return [FileChange(item.path, item.target.holder, item.found, item.target.to) for item in acting]

    async def run(self, step: ChangeStep) -> list[UndoItem]:
        """Restore, and return the items with their results. Raises SnapshotRefused and SnapshotFailed."""
        why = await self.recorder.restore(self.changes, step)
        return [replace(item, why_not=item.why_not or why.get(item.path, "")) for item in self.items]


def _is_listed(change: ProjectChange) -> bool:
    return not change.is_minor and (change.after is None or change.after.kind != SKIPPED or change.before is not None)


def _item(target: UndoTarget, change: ProjectChange | None) -> UndoItem:
    if change is None:
        return UndoItem(target)
    found = _state(change.after)
    if change.before is None:
        return UndoItem(target, "remove", found)
    return UndoItem(target, "recreate" if change.after is None else "restore", found)


def _state(entry: FileEntry | None) -> FileState | None:
    if entry is None:
        return None
    digest = ""
    if entry.kind == FILE and len(entry.content) <= DIGEST:
        digest = entry.content.hex() or digest_of(b"")
    size = entry.size if entry.kind == FILE else 0
    return FileState(digest, size, entry.mode & 0o7777, (entry.uid, entry.gid), entry.mtime_ns)


def _key(step: ChangeStep) -> str:
    return f"{step.kind}-{step.id}"


def _spans(step: ChangeStep, known: Sequence[ProjectSnapshot]) -> list[tuple[ProjectSnapshot, ProjectSnapshot]]:
    """Return the snapshots between which a step made its changes."""
    if is_background(step):
        by_number = {str(one.id): one for one in known}
        ends = [by_number.get(number) for number in step.call_id.split("-")[1:]]
        return [(ends[0], ends[1])] if len(ends) == 2 and ends[0] is not None and ends[1] is not None else []
    if step.kind != "call":
        own = [one for one in known if one.call_id == _key(step)]
    else:
        own = [one for one in known if (one.call_id, one.turn) == (step.call_id, step.turn)]
    return _pairs(own)


def _pairs(own: Sequence[ProjectSnapshot]) -> list[tuple[ProjectSnapshot, ProjectSnapshot]]:
    """Return the snapshots of one call as pairs, each around one execution of it."""
    return [(one, other) for one, other in pairwise(own) if (one.label, other.label) != (_AFTER, _BEFORE)]


def _recorded(steps: Sequence[ChangeStep], began: ProjectSnapshot) -> set[str]:
    """Return the paths whose changes by the snapshot's call are in the journal already."""
    return {one.path for step in steps if (step.call_id, step.turn) == (began.call_id, began.turn) for one in step.changes}


def _joined(spans: Sequence[tuple[ProjectSnapshot, ProjectSnapshot]]) -> list[tuple[ProjectSnapshot, ProjectSnapshot]]:
    """Join overlapping spans, of calls that ran at the same time."""
    found: list[tuple[ProjectSnapshot, ProjectSnapshot]] = []
    for before, after in sorted(spans, key=lambda span: (span[0].id, span[1].id)):
        if found and before.id <= found[-1][1].id:
            last = found.pop()
            found.append((last[0], max(last[1], after, key=lambda one: one.id)))
        else:
            found.append((before, after))
    return found
