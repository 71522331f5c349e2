"""Preview and carry out an undo, file by file: only in the file's own environment, and only if the file is still as previewed."""

from __future__ import annotations

import difflib
import errno
import time
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Literal, TypeAlias

from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.environment import Environment, RemovesFolders
from toolcrib.contract.errors import StoreFailed, ToolcribError
from toolcrib.contract.undo import ChangeStep, FileChange, FileState, StepKind
from tools.files.attributes import attributes_of, give_attributes
from tools.files.owners import give_back
from tools.files.rewriting import rewrite
from tools.undo.choose import UndoTarget
from tools.undo.contents import digest_of
from tools.undo.keeper import UndoStore, holder_of, missing_folders, put, size_of
from tools.undo.locks import held
from tools.undo.torn import Torn, find_torn, tidy

if TYPE_CHECKING:
    from tools.undo.snapshots.calls import SnapshotRestore

Action: TypeAlias = Literal["restore", "remove", "recreate", "nothing"]
LOCK_SECONDS = 30.0
_DIFF_LINES = 4000


@dataclass(frozen=True, slots=True)
class UndoItem:
    """A file's part of an undo: ``action``, or ``why_not``, which force overrides if ``forceable``.

    ``by_force``: the reason against the action that force overrode. ``found``: the file's current state. ``added`` and
    ``removed``: numbers of lines, None if unknown. ``torn``: both contents of a half-written file.
    """

    target: UndoTarget
    action: Action = "nothing"
    found: FileState | None = None
    why_not: str = ""
    forceable: bool = False
    by_force: str = ""
    added: int | None = None
    removed: int | None = None
    torn: Torn | None = None

    @property
    def path(self) -> str:
        """The file's path."""
        return self.target.path


class _CantError(Exception):
    """The reason why this file cannot be reverted, even by force."""


async def plan(
    store: UndoStore, environment: Environment, targets: Sequence[UndoTarget], *, force: bool = False
) -> list[UndoItem]:
    """Return the plan of an undo: an item for each target. Raises EnvironmentFailed if the environment is unavailable."""
    return [await _item(store, environment, target, force=force) for target in targets]


async def _item(store: UndoStore, environment: Environment, target: UndoTarget, *, force: bool) -> UndoItem:
    item = UndoItem(target)
    try:
        if await environment.resolve(target.path) != target.path:
            raise _CantError("a symbolic link is now in its path")
        here = holder_of(environment, target.path)
        if here != target.holder:
            raise _CantError(
                f"it was changed on {target.holder}, but this is {here}: undo it there with --backend, if it still exists"
            )
        found, data = await _look(environment, target)
        item = replace(item, found=found)
        if (found is None and target.to is None) or (_same(found, target.to) and not _left_otherwise(found, target)):
            return item
        if _untouched(found, target.to):
            return item
        why = _unexpected(target, found)
        if why and data is not None and (torn := await find_torn(environment, target, data)) is not None:
            item, why = replace(item, torn=torn), ""
        if why and not force:
            return replace(item, why_not=why, forceable=True)
        return replace(await _with_counts(store, item, data), by_force=why)
    except _CantError as error:
        return replace(item, why_not=str(error))
    except OSError as error:
        return replace(item, why_not=error.strerror or str(error))


async def _with_counts(store: UndoStore, item: UndoItem, data: bytes | None) -> UndoItem:
    target = item.target
    if target.to is None:
        return replace(item, action="remove")
    old = None if item.torn is None else item.torn.before
    if old is None and target.lost:
        raise _CantError(f"{target.lost}, so it can't be undone")
    try:
        old = await store.contents.get(target.to.digest) if old is None else old
    except StoreFailed as error:  # other files may not need the store
        raise _CantError(f"its content is no longer kept, or can't be read: {error}") from error
    if old is None:
        raise _CantError("its content is no longer kept (undo.days, undo.max_mb)")
    added, removed = _count(data, old)
    return replace(item, action="recreate" if item.found is None else "restore", added=added, removed=removed)


async def _look(environment: Environment, target: UndoTarget) -> tuple[FileState | None, bytes | None]:
    """Return the file's state and content. Changed content is read too, unless too large, because a forced undo keeps it."""
    info = await environment.stat(target.path)
    if info is None:
        return None, None
    if info.kind != "file":
        kinds = {"dir": "a folder", "link": "a link"}
        raise _CantError(f"{kinds.get(info.kind, 'a special file')} is there now")
    if info.size > max(state.size for state in (target.to, target.left, FileState("", 1 << 24)) if state is not None):
        return FileState("", info.size, info.mode, info.owner, info.mtime_ns), None
    data = await environment.read_file(target.path)
    return FileState(digest_of(data), len(data), info.mode, info.owner, info.mtime_ns), data


def _same(one: FileState | None, other: FileState | None) -> bool:
    return one is not None and other is not None and bool(one.digest) and one.digest == other.digest


def _untouched(found: FileState | None, to: FileState | None) -> bool:
    """Return whether a file that was too big to keep has its old size and timestamp, so that it did not change."""
    if found is None or to is None or to.digest or to.mtime_ns is None:
        return False
    return (found.size, found.mtime_ns) == (to.size, to.mtime_ns)


def _left_otherwise(found: FileState | None, target: UndoTarget) -> bool:
    """Return True if the file has the mode and owner that the changes left, and not the earlier mode and owner.

    The content may be the earlier one, if the file was deleted and written anew.
    """
    left, to = target.left, target.to
    if found is None or left is None or to is None:
        return False
    as_left = left.mode in (None, found.mode) and left.owner in (None, found.owner)  # None: unknown, for a new file
    return as_left and not (to.mode in (None, found.mode) and to.owner in (None, found.owner))


def _unexpected(target: UndoTarget, found: FileState | None) -> str:
    """Return the reason against the undo if the file is not as the changes left it, else ""."""
    if target.left is None and found is not None:
        why = "there is a new file of that name"
    elif found is None and target.left is not None:
        why = "it has been deleted since"
    elif found is not None and not _same(found, target.left):
        why = "it has changed since"
    elif target.broken:
        return "another program changed it between two of these changes"
    else:
        return ""
    later = target.later
    if later is None:
        return why
    return f"{why}, by {later.tool}{f' in turn {later.turn}' if later.turn else ''}: undo that first"


def _count(new: bytes | None, old: bytes) -> tuple[int | None, int | None]:
    """Return the numbers of lines added and removed when ``new`` becomes ``old``; None if unknown."""
    now = (new or b"").split(b"\n")
    then = old.split(b"\n")
    if b"\0" in old[:8192] or b"\0" in (new or b"")[:8192] or len(now) + len(then) > _DIFF_LINES:
        return None, None
    blocks = difflib.SequenceMatcher(None, now, then, autojunk=False).get_matching_blocks()
    same = sum(block.size for block in blocks)
    return len(then) - same, len(now) - same


@dataclass(frozen=True, slots=True)
class Done:
    """Outcome of an undo. ``step`` is its own step in the journal."""

    step: ChangeStep
    items: Sequence[UndoItem]
    notes: Sequence[str] = ()

    @property
    def changed(self) -> list[UndoItem]:
        """Files that the undo changed."""
        return [item for item in self.items if not item.why_not and item.action != "nothing"]

    @property
    def refused(self) -> list[UndoItem]:
        """Files that the undo left unchanged, with reasons."""
        return [item for item in self.items if item.why_not]


async def carry_out(
    store: UndoStore,
    environment: Environment,
    items: Sequence[UndoItem],
    *,
    session_id: str,
    kind: StepKind,
    turn: int,
    revives: Sequence[FileChange] = (),
    force: bool = False,
    beside: SnapshotRestore | None = None,
) -> Done:
    """Carry out a plan for each file that is still as it was when the plan was made. Keep replaced contents for a redo.

    ``revives``: the changes that a redo puts in effect again. ``beside`` runs in the same step. Raises EnvironmentFailed,
    StoreFailed, and ToolcribError if another session keeps a file locked; finished parts are recorded.
    """
    try:
        async with held(store.slots, [item.path for item in items], LOCK_SECONDS):
            again = [_unless_moved(item, await _item(store, environment, item.target, force=force)) for item in items]
            step = ChangeStep(session_id, turn, "", kind, time.time(), (), kind)
            return await _carry_out(store, environment, again, step, revives, beside)
    except TimeoutError:
        raise ToolcribError("another session is changing one of these files and does not finish; nothing was done") from None
    except OSError as error:
        raise ToolcribError(f"the folder of kept contents can't be used: {error.strerror or error}") from error


def _unless_moved(shown: UndoItem, now: UndoItem) -> UndoItem:
    if shown.why_not or (shown.action, shown.found) == (now.action, now.found):
        return shown if shown.why_not else now
    return replace(now, why_not=now.why_not or "it changed while this was shown; check again")


async def _carry_out(
    store: UndoStore,
    environment: Environment,
    items: list[UndoItem],
    step: ChangeStep,
    revives: Sequence[FileChange],
    beside: SnapshotRestore | None,
) -> Done:
    notes: list[str] = []
    failed: dict[str, str] = {}
    acting: list[UndoItem] = []
    changes: list[FileChange] = []
    # removals last: a renamed file always has one of its names
    for item in sorted(items, key=lambda one: one.action == "remove"):
        if item.why_not or item.action == "nothing":
            continue
        try:
            change, why = await _change(store, environment, item)
        except OSError as error:
            failed[item.path] = error.strerror or str(error)
            continue
        acting.append(item)
        changes.append(change)
        if why:
            notes.append(f"{item.path}: {why}; a redo can't restore it")
    step = await store.journal.begin(replace(step, changes=(*changes, *(() if beside is None else beside.recorded))))
    for item, change in zip(acting, step.changes[: len(acting)], strict=True):
        if failed:
            failed[item.path] = "not done, because another file failed"
            await store.journal.forget([change.id])
            continue
        try:
            await _apply(store, environment, item, notes)
        except OSError as error:
            failed[item.path] = error.strerror or str(error)
            await store.journal.forget([change.id])
    for item in items:
        if item.action == "nothing" and not item.why_not and item.target.to is None:
            await _remove_folders(environment, item.target, notes)
    items = [replace(item, why_not=failed.get(item.path, item.why_not)) for item in items]
    if beside is not None:
        ids = {change.path: change.id for change in step.changes[len(acting) :]}
        try:
            restored = await beside.run(step)
        except ToolcribError:
            await store.journal.forget(ids.values())
            raise
        await store.journal.forget([ids[item.path] for item in restored if item.why_not and item.path in ids])
        items += restored
    await _settle(store, step, items, revives, failed)
    return Done(step, items, notes)


async def _change(store: UndoStore, environment: Environment, item: UndoItem) -> tuple[FileChange, str]:
    """Return the journal's record of the change, and why the current content is not kept."""
    target, before, after, why = item.target, item.found, item.target.to, ""
    if after is not None and item.torn is not None and item.torn.before is not None:
        after = replace(after, digest=digest_of(item.torn.before))  # the content of a file too big to keep was not read before
    if before is not None and before.digest:
        data = await environment.read_file(target.path)
        if digest_of(data) != before.digest:
            raise OSError(errno.EAGAIN, "it just changed; check again", target.path)
        # A redo completes the interrupted edit.
        kept = data if item.torn is None else item.torn.after
        attributes = (await attributes_of(environment, target.path))[0] if after is None else None
        before, why = await put(store, kept, before, attributes)
    elif before is not None:
        why = f"it was {size_of(before.size)}"
    folders = () if before is not None else await missing_folders(environment, target.path)
    return FileChange(target.path, target.holder, before, after, why, folders), why


async def _apply(store: UndoStore, environment: Environment, item: UndoItem, notes: list[str]) -> None:
    target = item.target
    if target.to is None:
        await environment.delete_file(target.path)
        if item.torn is not None:
            await tidy(environment, target)
        await _remove_folders(environment, target, notes)
        return
    data = None if item.torn is None else item.torn.before
    data = await store.contents.get(target.to.digest) if data is None else data
    if data is None:
        raise FileNotFoundError(2, "its content is no longer kept")
    if why := await rewrite(environment, target.path, data, mode=target.to.mode, mtime_ns=target.to.mtime_ns):
        notes.append(f"{target.path}: {why}")
    if why := await give_back(environment, target.path, target.to.owner):
        notes.append(f"{target.path}: {why}")
    if why := await give_attributes(environment, target.path, target.to.attributes):
        notes.append(f"{target.path}: {why}")
    if item.found is not None:
        await tidy(environment, target)


async def _remove_folders(environment: Environment, target: UndoTarget, notes: list[str]) -> None:
    """Remove the folders that were created for the file, up to the first that is not empty."""
    for folder in reversed(target.folders):
        if not isinstance(environment, RemovesFolders):
            notes.append(f"{folder}: made for {target.path}; this environment can't remove folders, so it is kept")
            return
        try:
            await environment.delete_folder(folder)
        except OSError:  # not empty: something else is in it
            return


async def _settle(
    store: UndoStore, step: ChangeStep, items: Sequence[UndoItem], revives: Sequence[FileChange], failed: Collection[str]
) -> None:
    """Record the result. The next undo ignores changes that this one skipped, and retries those in ``failed``."""
    undone = [number for item in items if not item.why_not for number in item.target.ids]
    passed = [number for item in items if item.why_not and item.path not in failed for number in item.target.ids]
    if step.kind == "redo":
        back = {item.path for item in items if not item.why_not}
        await store.journal.mark_changes(step.id, undone=undone, revived=[change.id for change in revives if change.path in back])
    else:
        await store.journal.mark_changes(step.id, undone=undone, passed=passed)
