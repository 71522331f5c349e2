"""Background processes that tools start with ``ctx.spawn``."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Protocol

from toolcrib.contract.state import StateValue, StateWrite
from tools.processes.ending import EndingScope
from tools.processes.records import PROCESSES, started
from tools.processes.table import ProcessTable

_LOOK = 0.05


class SpawningScope(EndingScope, Protocol):
    """The part of a session's scope that a start needs: see tools.dispatch.scope.CallScope."""

    def take_state(self, found: Mapping[str, StateValue]) -> None: ...


async def spawn(scope: SpawningScope, command: str, cwd: str, name: str, *, open_input: bool) -> TableProcess:
    """Start a process under the first free name that begins with ``name``, and record it. Raises ExecutionFailed,
    EnvironmentFailed and StoreFailed.
    """
    table = scope.processes
    free = await table.free_name(name)
    _, update = started(await table.start(free, command, cwd, reads=open_input), command, cwd)
    session, written = scope.identity.session_id, False
    while not written:  # again if another call wrote at the same moment
        before = (await scope.states.of("session", session)).get(PROCESSES.name, StateValue(None, 0))
        value = update.change(before.value)
        versions = await scope.states.write([StateWrite("session", session, PROCESSES.name, value, before.version)])
        if written := bool(versions):
            scope.take_state({PROCESSES.name: StateValue(value, versions[0])})
    return TableProcess(table, free)


class TableProcess:
    """A process in a table, as a SpawnedProcess."""

    def __init__(self, table: ProcessTable, name: str) -> None:
        self._table = table
        self.name = name

    async def log(self, begin: int = 0) -> bytes:
        one = await self._table.one(self.name)
        return await self._table.read(one, begin, one.printed)

    async def wait(self, *, within: float | None = None) -> int | None:
        give_up = None if within is None else time.monotonic() + within
        while (one := await self._table.one(self.name)).runs:
            if give_up is not None and time.monotonic() >= give_up:
                return None
            await asyncio.sleep(_LOOK)
        return one.exit_code

    async def write(self, text: str) -> None:
        await self._table.write(self.name, text)

    async def close(self) -> None:
        await self._table.end(self.name)
        await self._table.remove(self.name)
