"""The end of a session's background processes."""

from __future__ import annotations

import contextlib
import logging
from typing import TYPE_CHECKING

from toolcrib.contract.errors import EnvironmentFailed, ToolcribError
from toolcrib.contract.state import StateWrite
from tools.processes.records import PROCESSES

if TYPE_CHECKING:
    from tools.dispatch.scope import CallScope

_log = logging.getLogger(__name__)


async def end_processes(scope: CallScope) -> None:
    """End the processes of a session that closes, including those that it had before toolcrib was killed, and their records."""
    table, session = scope.opened_processes, scope.identity.session_id
    if table is None and not scope.state.get(PROCESSES.name):
        return
    try:
        await (table or scope.processes).close()
    except EnvironmentFailed as error:
        _log.warning("the background processes of session %s could not be ended: %s", session, error)
        return
    with contextlib.suppress(ToolcribError):  # the store has failed, or another process has the session: it lists ended ones
        await scope.states.write([StateWrite("session", session, PROCESSES.name, None)])
