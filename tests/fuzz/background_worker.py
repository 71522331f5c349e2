"""The process that tests/fuzz/kill_background.py kills: python -m tests.fuzz.background_worker JSON

Starts five background processes, writes to one and ends another. It prints a line before and after each step. The lines ``record
NAME PID START LOCKS`` stand for the records in a session's state.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Mapping
from typing import Any

from tools.environments import open_environment
from tools.processes.table import ProcessTable

KEPT = 1 << 20
"""Bytes of each log that are kept."""
LINES = 60_000
"""Lines that the flood prints; they are longer than the log may be."""
CODES = {"long": None, "quick": 7, "reader": 5, "flood": 3, "family": 4}
"""The processes in the order of their starts, with their exit codes if nothing ends them."""


def commands(token: str) -> dict[str, str]:
    """Return the command of each process. ``token``: seconds to sleep; the check finds descendants by it."""
    return {
        "long": f"echo begun; sleep {token}",
        "quick": "echo said; exit 7",
        "reader": 'while read -r line; do echo "<${line:0:20} ${#line}>"; done; echo over; exit 5',
        "flood": f'i=0; while [ $((i += 1)) -le {LINES} ]; do echo "$i {"x" * 30}"; done; echo last; exit 3',
        "family": f"setsid sleep {token} & setsid env -i sleep {token} & sleep 0.2; exit 4",
    }


def line(number: int) -> str:
    """Return the text of a write. Every fifth is longer than a pipe takes at once."""
    return f"{number} " + "y" * (9_000 if number % 5 == 0 else 10) + "\n"


def said(text: str) -> str:
    """Return what the reader prints for that line."""
    text = text.strip()
    return f"<{text[:20]} {len(text)}>"


def _tell(*words: object) -> None:
    print(*words, flush=True)


async def main(kind: str, options: Mapping[str, Any], session: str, token: str) -> None:
    environment = open_environment(kind, **options)
    table = ProcessTable(environment, session, log_bytes=KEPT)
    for name, command in commands(token).items():
        _tell("starting", name)
        one = await table.start(name, command, environment.cwd, reads=name == "reader")
        _tell("started", name)
        await asyncio.sleep(0.005)
        _tell("record", name, one.pid, one.start, one.locks)
    for number in range(1, 41):
        _tell("writing", number)
        await table.write("reader", line(number))
        _tell("wrote", number)
        if number == 20:
            _tell("ending", "long")
            await table.end("long")
            _tell("ended", "long")
        if number == 30:
            await table.look()
    _tell("idle", "")
    await asyncio.sleep(600)


if __name__ == "__main__":
    asyncio.run(main(*json.loads(sys.argv[1])))
