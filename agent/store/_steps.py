"""Steps of the journal of changes as JSON, and updates of their changes.

A change's id combines the id of its step and its own number.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

from agent.store._codec import Stored, dump, load, plain
from toolcrib.contract.dataclass import replace
from toolcrib.contract.undo import ChangeStep, FileChange, FileState

_MANY = 1_000_000
"""A number that is higher than the number of changes in any step."""

Ways: TypeAlias = Mapping[int, Mapping[int, "Callable[[FileChange], FileChange] | None"]]
"""Functions by step id and change number. Each returns the new change for the old one; None instead removes the change."""


def numbered(changes: Sequence[FileChange]) -> tuple[FileChange, ...]:
    """Return the numbered changes of a step that has no id yet."""
    return tuple(replace(change, id=number) for number, change in enumerate(changes))


def with_ids(step_id: int, changes: Sequence[FileChange]) -> tuple[FileChange, ...]:
    return tuple(replace(change, id=step_id * _MANY + change.id) for change in changes)


def forgotten(change_ids: Collection[int]) -> Ways:
    return _by_step(dict.fromkeys(change_ids))


def settled(step_id: int, undone: Collection[int], passed: Collection[int], revived: Collection[int]) -> Ways:
    """See toolcrib.contract.undo.ChangeJournal.mark_changes."""
    ways: dict[int, Callable[[FileChange], FileChange]] = {}
    ways |= dict.fromkeys(undone, lambda change: replace(change, undone_by=change.undone_by or step_id))
    ways |= dict.fromkeys(passed, lambda change: replace(change, passed_by=step_id))
    ways |= dict.fromkeys(revived, lambda change: replace(change, undone_by=0, passed_by=0))
    return _by_step(ways)


def rewritten(stored: Stored, ways: Mapping[int, Callable[[FileChange], FileChange] | None]) -> Stored:
    """Return the stored changes of a step, each updated by the function in ``ways`` for its number."""
    kept = []
    for change in load_changes(stored):
        way = ways.get(change.id, _same)
        if way is not None:
            kept.append(way(change))
    return dump_changes(kept)


def read_step(
    row: int, session_id: Stored, kind: Any, turn: int, call_id: Stored, tool: Stored, at: float, changes: Stored
) -> ChangeStep:
    return ChangeStep(plain(session_id), turn, plain(call_id), plain(tool), at, with_ids(row, load_changes(changes)), kind, row)


def dump_changes(changes: Sequence[FileChange]) -> Stored:
    return dump(
        [
            [
                change.id,
                change.path,
                change.holder,
                _of_state(change.before),
                _of_state(change.after),
                change.lost,
                list(change.folders),
                change.undone_by,
                change.passed_by,
            ]
            for change in changes
        ]
    )


def load_changes(stored: Stored) -> list[FileChange]:
    return [
        FileChange(path, holder, _state(before), _state(after), lost, tuple(folders), number, undone_by, passed_by)
        for number, path, holder, before, after, lost, folders, undone_by, passed_by in load(stored)
    ]


def _by_step(ways: Mapping[int, Callable[[FileChange], FileChange] | None]) -> Ways:
    by_step: defaultdict[int, dict[int, Any]] = defaultdict(dict)
    for number, way in ways.items():
        by_step[number // _MANY][number % _MANY] = way
    return by_step


def _same(change: FileChange) -> FileChange:
    return change


def _of_state(state: FileState | None) -> Any:
    if state is None:
        return None
    if state.mtime_ns is None and state.attributes is None:
        return [state.digest, state.size, state.mode, *(state.owner or ())]
    facts = [state.digest, state.size, state.mode, *(state.owner or (None, None)), state.mtime_ns]
    if state.attributes is not None:
        facts.append({name: b64encode(value).decode() for name, value in state.attributes.items()})
    return facts


def _state(stored: Any) -> FileState | None:
    if stored is None:
        return None
    digest, size, mode, *more = stored
    uid, gid, mtime_ns, given = (*more, None, None, None, None)[:4]
    attributes = None if given is None else {name: b64decode(value) for name, value in given.items()}
    return FileState(digest, size, mode, None if uid is None else (uid, gid), mtime_ns, attributes)
