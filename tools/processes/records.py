"""Records of background processes in the state of their session."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.identity import RunIdentity
from toolcrib.contract.state import StateKey, StateStore, StateUpdate, StateValue, StateWrite

if TYPE_CHECKING:
    from tools.processes.process import Process
    from tools.processes.table import ProcessTable

PROCESSES = StateKey("processes", dict)
"""The session's processes by name: ``command``, ``cwd``, ``input`` (whether it was left open), ``pty`` (whether it runs in a
terminal), ``at`` (Unix seconds), and ``pid``, ``start`` and ``locks`` (see Process). ``ended_at``: when it was ended without
resuming the session.
"""


class RecordingScope(Protocol):
    """The part of a session's scope that a record needs: see tools.dispatch.scope.CallScope."""

    @property
    def identity(self) -> RunIdentity: ...

    @property
    def states(self) -> StateStore: ...

    def take_state(self, found: Mapping[str, StateValue]) -> None: ...


def table_of(ctx: ToolCallContext) -> ProcessTable:
    """Return the background processes of a call's session. Raises EnvironmentFailed."""
    return cast("ProcessTable", ctx.processes)


def started(process: Process, command: str, cwd: str) -> tuple[StateKey[Any], StateUpdate]:
    """Return the state change that records a process. Its folder does not count as a record: commands may write into it."""
    known_by = {"pid": process.pid, "start": process.start, "locks": process.locks, "pty": process.terminal}
    name, record = process.name, {"command": command, "cwd": cwd, "input": process.reads, "at": time.time(), **known_by}
    return PROCESSES, StateUpdate(lambda known: {**(known or {}), name: record})


def removed(names: Sequence[str]) -> tuple[StateKey[Any], StateUpdate]:
    """Return the state change that forgets processes."""
    return PROCESSES, StateUpdate(lambda known: {name: one for name, one in (known or {}).items() if name not in names})


def ended(names: Sequence[str]) -> tuple[StateKey[Any], StateUpdate]:
    """Return the state change that records the end of processes whose session is not open."""
    over = {"ended_at": time.time()}
    return PROCESSES, StateUpdate(
        lambda known: {name: {**one, **over} if name in names else one for name, one in (known or {}).items()}
    )


async def record(scope: RecordingScope, change: tuple[StateKey[Any], StateUpdate]) -> None:
    """Store a state change of a session outside of a call. Raises StoreFailed."""
    (key, update), session = change, scope.identity.session_id
    while True:  # again if another call wrote at the same moment
        before = (await scope.states.of("session", session)).get(key.name, StateValue(None, 0))
        value = update.change(before.value)
        if versions := await scope.states.write([StateWrite("session", session, key.name, value, before.version)]):
            return scope.take_state({key.name: StateValue(value, versions[0])})


def not_ended(records: Any) -> Sequence[str]:
    """Return the names of the processes that may run, of a session's records."""
    return [name for name, one in records.items() if "ended_at" not in one] if isinstance(records, Mapping) else []


def recorded(state: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the record of a process, {} if there is none."""
    found = (state.get(PROCESSES.name) or {}).get(name)
    return found if isinstance(found, Mapping) else {}
