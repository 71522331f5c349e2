"""Choose the changes of an undo, and each file's state after it. Pure: journal steps in, targets out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import NotFound, ToolcribError
from toolcrib.contract.undo import ChangeStep, FileChange, FileState

_SHOWN = 10
BACKGROUND = "background"
"""Name of the tool in a step of changes between two calls, by the user or by background programs.

The commands that started such programs follow after a colon. An undo selects such a step only by the step's call id.
"""


def is_background(step: ChangeStep) -> bool:
    """Return whether no call made the changes of a step."""
    return step.kind == "call" and step.tool.partition(":")[0] == BACKGROUND


@dataclass(frozen=True, slots=True)
class UndoTarget:
    """A file, with the changes to undo, oldest first. ``later``: a later step in effect that also changed it."""

    path: str
    holder: str
    changes: tuple[FileChange, ...]
    later: ChangeStep | None = None

    @property
    def to(self) -> FileState | None:
        """The file's state before the first change."""
        return self.changes[0].before

    @property
    def left(self) -> FileState | None:
        """The file's state after the last change."""
        return self.changes[-1].after

    @property
    def lost(self) -> str:
        """The reason why the content before the first change was not kept; "" if it was."""
        return self.changes[0].lost

    @property
    def broken(self) -> bool:
        """True if something else changed the file between two of the changes."""
        pairs = zip(self.changes, self.changes[1:], strict=False)
        return any(_digest(one.after) != _digest(other.before) for one, other in pairs)

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders that the changes created, outermost first."""
        return tuple(dict.fromkeys(folder for change in self.changes for folder in change.folders))

    @property
    def ids(self) -> list[int]:
        """Ids of the changes."""
        return [change.id for change in self.changes]


def _digest(state: FileState | None) -> str | None:
    return None if state is None else state.digest


def last_turn(steps: Sequence[ChangeStep], *, passed: bool) -> list[ChangeStep]:
    """Return the steps of the last turn with changes in effect; [] if there is none. ``passed``: include changes that an undo
    skipped.
    """
    found = [step for step in calls(steps) if _open(step, passed=passed)]
    return [step for step in found if (step.turn or step.call_id) == (found[-1].turn or found[-1].call_id)]


def turn(steps: Sequence[ChangeStep], number: int) -> list[ChangeStep]:
    """Return the steps of a turn that are in effect.

    Raises NotFound for a turn without changes, and ToolcribError if all its changes are undone.
    """
    found = [step for step in calls(steps) if step.turn == number and number]
    if not found:
        known = ", ".join(str(one) for one in sorted({step.turn for step in calls(steps)} - {0})[-10:])
        raise NotFound(f"no turn {number} changed files{f'; turns that did: {known}' if known else ''}")
    return _counting(found, f"the turn {number}")


def last_call(steps: Sequence[ChangeStep], *, passed: bool) -> list[ChangeStep]:
    """Return the steps of the last call that can be undone. ``passed``: as for ``last_turn``."""
    return _of_last([step for step in calls(steps) if _open(step, passed=passed)])


def call(steps: Sequence[ChangeStep], part: str) -> list[ChangeStep]:
    """Return the steps of the call whose id begins or ends with ``part``; the newest call, if a provider reused the id.

    Raises NotFound if no id matches, and ToolcribError if several match or if the call's changes are undone.
    """
    calls = [step for step in steps if step.kind == "call"]
    found = [step for step in calls if step.call_id.startswith(part) or step.call_id.endswith(part)]
    names = {step.call_id for step in found}
    if not found:
        raise NotFound(f"no call whose id begins or ends with {part!r} changed files. List changes: toolcrib undo --list")
    if len(names) > 1 and part not in names:
        raise ToolcribError(f"several calls have an id that begins or ends with {part!r}: {', '.join(sorted(names)[:5])}")
    exact = part if part in names else found[0].call_id
    found = [step for step in found if step.call_id == exact]
    in_effect = [step for step in found if any(change.in_effect for change in step.changes)]
    return _counting(_of_last(in_effect or found), f"the call {exact}")


def _of_last(steps: Sequence[ChangeStep]) -> list[ChangeStep]:
    """Return all steps of the call that made the last step, including the one from the snapshots around it."""
    return [step for step in steps if (step.turn, step.call_id) == (steps[-1].turn, steps[-1].call_id)]


def last_undo(steps: Sequence[ChangeStep]) -> list[ChangeStep]:
    """Return the last undo that was not redone; [] if there is none."""
    found = [step for step in steps if step.kind == "undo" and any(change.in_effect for change in step.changes)]
    return found[-1:]


def targets(steps: Sequence[ChangeStep], chosen: Sequence[ChangeStep], *, passed: bool) -> list[UndoTarget]:
    """Return a target for each file of the ``chosen`` steps, last changed first. ``passed``: as for ``last_turn``."""
    by_path: dict[tuple[str, str], list[FileChange]] = {}
    for step in chosen:
        for change in step.changes:
            if change.in_effect and (passed or not change.passed_by):
                by_path.setdefault((change.holder, change.path), []).append(change)
    later = _later(steps, chosen)
    found = [UndoTarget(path, holder, tuple(changes), later.get((holder, path))) for (holder, path), changes in by_path.items()]
    return sorted(found, key=lambda target: target.changes[-1].id, reverse=True)


def only(found: Sequence[UndoTarget], paths: Sequence[str]) -> Sequence[UndoTarget]:
    """Return the targets whose path equals or ends with one of ``paths``; without paths, all targets.

    Raises NotFound if one of ``paths`` matches no target.
    """
    for path in paths:
        if not any(_is_at(target, path) for target in found):
            known = ", ".join(target.path for target in found[:_SHOWN])
            raise NotFound(f"{path} is not among the changed files: {known}{' ...' if len(found) > _SHOWN else ''}")
    return [target for target in found if any(_is_at(target, path) for path in paths)] if paths else found


def _is_at(target: UndoTarget, path: str) -> bool:
    return f"/{target.path}".endswith(f"/{path.removeprefix('./').strip('/')}")


def reverted(steps: Sequence[ChangeStep], undo: ChangeStep) -> list[FileChange]:
    """Return the changes that an undo reverted or skipped."""
    return [change for step in steps for change in step.changes if undo.id in (change.undone_by, change.passed_by)]


def _later(steps: Sequence[ChangeStep], chosen: Sequence[ChangeStep]) -> Mapping[tuple[str, str], ChangeStep]:
    ids = {step.id for step in chosen}
    last = max(ids, default=0)
    return {
        (change.holder, change.path): step
        for step in steps
        if step.id > last and step.kind == "call"
        for change in step.changes
        if change.in_effect
    }


def calls(steps: Iterable[ChangeStep]) -> list[ChangeStep]:
    """Return the steps of calls, without those of changes that no call made."""
    return [step for step in steps if step.kind == "call" and not is_background(step)]


def _open(step: ChangeStep, *, passed: bool) -> bool:
    return any(change.in_effect and (passed or not change.passed_by) for change in step.changes)


def _counting(found: Sequence[ChangeStep], what: str) -> list[ChangeStep]:
    left = [step for step in found if any(change.in_effect for change in step.changes)]
    if not left:
        raise ToolcribError(f"{what} is already undone; `toolcrib undo --redo` reverts the last undo")
    return left
