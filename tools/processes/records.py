"""Records of background processes in the state of their session."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.state import StateKey, StateUpdate

if TYPE_CHECKING:
    from tools.processes.process import Process
    from tools.processes.table import ProcessTable

PROCESSES = StateKey("processes", dict)
"""The session's processes by name: ``command``, ``cwd``, ``input`` (whether it was left open), ``at`` (Unix seconds), and
``pid``, ``start`` and ``locks`` (see Process).
"""


def table_of(ctx: ToolCallContext) -> ProcessTable:
    """Return the background processes of a call's session. Raises EnvironmentFailed."""
    return cast("ProcessTable", ctx.processes)


def started(process: Process, command: str, cwd: str) -> tuple[StateKey[Any], StateUpdate]:
    """Return the state change that records a process. Its folder does not count as a record: commands may write into it."""
    known_by = {"pid": process.pid, "start": process.start, "locks": process.locks}
    name, record = process.name, {"command": command, "cwd": cwd, "input": process.reads, "at": time.time(), **known_by}
    return PROCESSES, StateUpdate(lambda known: {**(known or {}), name: record})


def removed(names: Sequence[str]) -> tuple[StateKey[Any], StateUpdate]:
    """Return the state change that forgets processes."""
    return PROCESSES, StateUpdate(lambda known: {name: one for name, one in (known or {}).items() if name not in names})


def recorded(state: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return the record of a process, {} if there is none."""
    found = (state.get(PROCESSES.name) or {}).get(name)
    return found if isinstance(found, Mapping) else {}
