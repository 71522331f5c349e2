"""Measured process of benchmarks/processes.py: python -m benchmarks._process_child start|find BACKEND OPTIONS FOLDER NUMBER

``start`` starts NUMBER background processes, prints ``ready`` and waits to be killed. ``find`` finds them again, prints
``ready`` and the times in ms, and ends them when its input ends.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the measured time includes these imports
    from tools.processes.table import ProcessTable


_LIBRARIES = {"docker": "docker", "ssh": "paramiko"}
"""Libraries of others, whose imports are not measured."""


async def main(what: str, backend: str, options: dict[str, Any], cwd: str, number: int) -> None:
    if backend in _LIBRARIES:
        importlib.import_module(_LIBRARIES[backend])
    begin = time.perf_counter()
    from toolcrib import ExecRequest
    from tools.environments import open_environment
    from tools.processes.table import ProcessTable

    environment = open_environment(backend, cwd=None if backend == "ssh" else cwd, **options)
    table = ProcessTable(environment, "bench-find")
    if what == "start":
        for at in range(number):
            await table.start(f"p{at}", "sleep 1000", environment.cwd)
        print("ready", flush=True)
        sys.stdin.read()
        return
    running = sum(one.runs for one in (await table.look()).values())
    took = (time.perf_counter() - begin) * 1e3
    plain = {name: value for name, value in options.items() if name not in ("keep", "session", "records")}
    again = open_environment(backend, cwd=None if backend == "ssh" else cwd, **plain)
    begin = time.perf_counter()
    await again.execute(ExecRequest("true", timeout=60))
    opened = (time.perf_counter() - begin) * 1e3
    await again.close()
    print("ready", json.dumps({"ms": took, "opened": opened, "running": running}), sep="\n", flush=True)
    sys.stdin.read()
    await end_all(table)
    await environment.close()


async def end_all(table: ProcessTable) -> None:
    """End many processes at once, which the table would do one after another, and close the table."""
    pids = [f"-{one.pid}" for one in (await table.look()).values() if one.runs]
    await table._helper.run(f"kill -KILL -- {' '.join(pids)}" if pids else ":")
    while any(one.writes for one in (await table.look()).values()):
        await asyncio.sleep(0.05)
    for name in await table.look():
        await table.remove(name)
    await table.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], json.loads(sys.argv[3]), sys.argv[4], int(sys.argv[5])))
