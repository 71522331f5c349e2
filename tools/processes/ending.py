"""The end of a session's background processes."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING, Protocol

from toolcrib.contract.errors import EnvironmentFailed, ToolcribError
from toolcrib.contract.identity import RunIdentity
from toolcrib.contract.state import StateSnapshot, StateStore, StateWrite
from tools.processes.records import PROCESSES

if TYPE_CHECKING:
    from tools.processes.table import ProcessTable

_log = logging.getLogger(__name__)


class EndingScope(Protocol):
    """The part of a session's scope that the end of its processes needs: see tools.dispatch.scope.CallScope."""

    @property
    def identity(self) -> RunIdentity: ...

    @property
    def processes(self) -> ProcessTable: ...

    @property
    def opened_processes(self) -> ProcessTable | None: ...

    @property
    def state(self) -> StateSnapshot: ...

    @property
    def states(self) -> StateStore: ...


async def end_processes(scope: EndingScope) -> None:
    """End the processes of a session that closes, also if a killed toolcrib started them, and delete their records."""
    table, session = scope.opened_processes, scope.identity.session_id
    if table is None and not scope.state.get(PROCESSES.name):
        return
    try:
        if table is None:
            await (table := scope.processes).look()  # a table that has not looked has nothing to end
        await table.close()
    except EnvironmentFailed as error:
        _log.warning("the background processes of session %s could not be ended: %s", session, error)
        return
    with contextlib.suppress(ToolcribError):  # the store has failed, or another process has the session: it lists ended ones
        await scope.states.write([StateWrite("session", session, PROCESSES.name, None)])
