"""Many open sessions in one process with few descriptors: 1,000 commands, one each, evenly over a minute.

Measured in a child process, whose limits can be lowered and whose memory is separate.
"""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from agent.api import assemble
from agent.config import load_config
from agent.conversation.session import Session as ToolcribSession
from agent.store.sqlite import SqliteStore
from benchmarks.core import CannotMeasureError, Figure
from toolcrib import ToolCall
from tools.dispatch.json_results import as_json

_DESCRIPTORS = 1024
_SESSIONS, _SECONDS = 1000, 60.0
_FEW, _SOON = 30, 1.0
_BEAT = 0.005
"""Seconds between two measurements of the event loop's delay."""
_IDLE = 5.0
_DELAY, _MEMORY = 20.0, 100.0
_LIMIT = 600.0


class Session(Protocol):
    """An object that a caller keeps open between two commands; a competitor's can be measured too."""

    async def run(self, command: str) -> str:
        """Return the command's output. Raises if it could not run, or if the session reported lost state."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Measured:
    """Delays in ms (99th percentile); ``memory`` in kB per open, idle session after its command."""

    failures: int
    first_failure: str
    delay: float
    idle_delay: float
    memory: float
    descriptors: int


def measure(*, quick: bool) -> list[Figure]:
    """Return the figures, measured in a child process; see ``_main``."""
    number, seconds = (_FEW, _SOON) if quick else (_SESSIONS, _SECONDS)
    with tempfile.TemporaryDirectory(prefix="toolcrib-many-") as folder:
        argv = [sys.executable, "-m", "benchmarks.many", str(number), str(seconds), folder]
        root = Path(__file__).parents[1]
        done = subprocess.run(argv, cwd=root, capture_output=True, text=True, timeout=_LIMIT, check=False)
    if done.returncode:
        raise CannotMeasureError(done.stderr.strip() or f"the process ended with {done.returncode}")
    found = Measured(**json.loads(done.stdout))
    if found.failures:
        print(f"many.sessions: {found.failures} of {number} failed: {found.first_failure}", file=sys.stderr)
    what = f"{number} commands in {seconds:g} s, {_DESCRIPTORS} descriptors"
    return [
        Figure(
            "many.sessions",
            found.delay,
            "ms",
            found.idle_delay,
            found.idle_delay + _DELAY,
            "value",
            f"an idle event loop; {what}",
        ),
        Figure("many.failures", found.failures, "commands", number, 0, "value", what),
        Figure("many.memory", found.memory, "kB", _MEMORY, _MEMORY, "value", "the bar; measured: an idle session"),
        Figure(
            "many.descriptors",
            found.descriptors,
            "fds",
            _DESCRIPTORS,
            _DESCRIPTORS,
            "value",
            "the limit; measured: open at the end",
        ),
    ]


class _Session:
    """A session of toolcrib with a shell, as a gateway has for each chat."""

    def __init__(self, session: ToolcribSession) -> None:
        self._session = session

    async def run(self, command: str) -> str:
        executed = await self._session.acall(ToolCall(ToolCall.new_id(), "terminal", {"command": command}))
        result = json.loads(as_json(executed))
        if executed.result.is_error or result.get("exit_code") or "notice" in result:
            raise CannotMeasureError(f"{command}: {result}")
        return str(result["output"])

    async def close(self) -> None:
        await self._session.close()


async def many(open_session: Callable[[], Awaitable[Session]], number: int, seconds: float) -> Measured:
    """Open ``number`` sessions, run a command in each over ``seconds``, and close them."""
    first = await open_session()
    await first.run("true")
    idle = await _delays(asyncio.sleep(min(_IDLE, seconds)))
    gc.collect()
    before = _memory()
    sessions = [await open_session() for _ in range(number)]
    failures: list[str] = []

    async def one(index: int, session: Session) -> None:
        await asyncio.sleep(seconds * index / number)
        try:
            said = await session.run(f"export INDEX={index}; echo $INDEX")
        except Exception as error:
            failures.append(f"{type(error).__name__}: {error}")
        else:
            if said != f"{index}\n":
                failures.append(f"session {index} said {said!r}")

    async def all_of_them() -> None:
        await asyncio.gather(*(one(index, session) for index, session in enumerate(sessions)))

    delays = await _delays(all_of_them())
    gc.collect()
    memory, descriptors = (_memory() - before) / number, len(list(Path("/proc/self/fd").iterdir()))
    await asyncio.gather(*(session.close() for session in [first, *sessions]))
    return Measured(len(failures), failures[0] if failures else "", _p99(delays), _p99(idle), memory, descriptors)


async def _delays(work: Awaitable[object]) -> list[float]:
    """Return the delays of the event loop, in ms, while ``work`` runs."""
    loop, late = asyncio.get_running_loop(), []
    working = asyncio.ensure_future(work)
    while not working.done():
        due = loop.time() + _BEAT
        await asyncio.sleep(_BEAT)
        late.append((loop.time() - due) * 1e3)
    await working
    return late


def _p99(values: list[float]) -> float:
    return sorted(values)[int(len(values) * 0.99)]


def _memory() -> float:
    """Return the memory of this process in kB."""
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmRSS:"))
    return float(line.split()[1])


def _main(number: str, seconds: str, folder: str) -> None:
    import resource

    resource.setrlimit(resource.RLIMIT_NOFILE, (_DESCRIPTORS, _DESCRIPTORS))
    os.environ["XDG_STATE_HOME"] = os.environ["XDG_CONFIG_HOME"] = folder
    project = Path(folder, "project")  # without the store, which would be in the snapshot of each command
    project.mkdir()
    with assemble(config=load_config(), project_dir=project, store=SqliteStore(Path(folder, "store.db"))) as crib:

        async def opened() -> Session:
            return _Session(await crib.open(platform="gateway"))

        print(json.dumps(asdict(asyncio.run(many(opened, int(number), float(seconds))))))


if __name__ == "__main__":
    faulthandler.dump_traceback_later(_LIMIT / 2, exit=True)  # a hang shows where every thread is
    _main(*sys.argv[1:])
