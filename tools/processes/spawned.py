"""Background processes that tools start with ``ctx.spawn``."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

from tools.processes.ending import EndingScope
from tools.processes.records import RecordingScope, record, started
from tools.processes.table import ProcessTable

_LOOK = 0.05


class SpawningScope(EndingScope, RecordingScope, Protocol):
    """The part of a session's scope that a start needs: see tools.dispatch.scope.CallScope."""


async def spawn(scope: SpawningScope, command: str, cwd: str, name: str, *, open_input: bool) -> TableProcess:
    """Start a process under the first free name that begins with ``name``, and record it. Raises ExecutionFailed,
    EnvironmentFailed and StoreFailed.
    """
    table = scope.processes
    free = await table.free_name(name)
    await record(scope, started(await table.start(free, command, cwd, reads=open_input), command, cwd))
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
