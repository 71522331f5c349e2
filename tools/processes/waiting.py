"""Wait for something that a background process does."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from toolcrib.contract.namedtuple import NamedTuple
from tools.processes.process import Process
from tools.processes.table import ProcessTable

_FIRST, _LONGEST = 0.02, 0.5
"""Seconds between two looks: at first, and at most."""
_DRAIN = 2.0
"""Seconds that the last output of an ended process may take to reach its log. A descendant may write for longer."""


class Until(NamedTuple):
    """Events that end a wait, besides the end of the process: a line that matches ``pattern``, a ``port`` in use, or ``quiet``
    seconds without output.
    """

    pattern: str | None
    port: int | None
    quiet: float | None
    timeout: float


async def wait_until(table: ProcessTable, name: str, until: Until, is_cancelled: Callable[[], bool]) -> tuple[str, Process]:
    """Return what came first, and the process: ``exit``, ``pattern``, ``port``, ``quiet``, ``timeout`` or ``interrupted``.

    A pattern is searched in the output since the last poll or wait. Raises NotFound and InvalidArguments.
    """
    begin, pause = table.read_to.get(name, 0), _FIRST
    give_up = time.monotonic() + until.timeout
    printed, since = -1, time.monotonic()
    while True:
        one = await table.one(name)
        if one.printed != printed:
            printed, since, pause = one.printed, time.monotonic(), _FIRST
            if until.pattern is not None and await table.grep(one, begin, [until.pattern], 1):
                return "pattern", one
        if not one.runs:
            late = time.monotonic() + _DRAIN
            while one.writes and time.monotonic() < late:  # the rest of its output is being written
                await asyncio.sleep(_FIRST)
                one = await table.one(name)
            return "exit", one
        if until.port is not None and until.port in await table.ports(name):
            return "port", one
        now = time.monotonic()
        if until.quiet is not None and now - since >= until.quiet:
            return "quiet", one
        if is_cancelled():
            return "interrupted", one
        if now >= give_up:
            return "timeout", one
        await asyncio.sleep(min(pause, give_up - now))
        pause = min(pause * 1.5, _LONGEST)
