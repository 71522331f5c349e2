"""Try a backend: report what works, how long it takes, and what to fix."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from agent.backends import Backend, Backends, Location
from toolcrib.contract.environment import Environment, ExecOutcome, ExecRequest
from toolcrib.contract.errors import EnvironmentFailed, ToolcribError

_LIMIT = 60.0
_DATA = bytes(range(256)) * 64


@dataclass(frozen=True, slots=True)
class Tried:
    """Result of a trial. ``seconds`` maps each step that ended to its duration. The steps are open, command, file, interrupt.

    ``problem`` is "" if all went well; ``note`` is additional information.
    """

    name: str
    where: str
    problem: str
    seconds: Mapping[str, float]
    note: str = ""


def try_backends(backends: Backends, wanted: Sequence[Backend], start: str, *, briefly: bool = False) -> list[Tried]:
    """Try backends concurrently, each in a thread.

    ``start`` is the folder that sessions start in. With ``briefly`` each backend is only opened and asked for its health.
    """
    from concurrent.futures import ThreadPoolExecutor

    opened: list[Environment] = []
    with ThreadPoolExecutor(max(1, len(wanted))) as pool:
        try:
            return list(pool.map(lambda backend: asyncio.run(_try(backends, backend, start, briefly, opened)), wanted))
        except BaseException:  # usually KeyboardInterrupt: the user does not want to wait
            for environment in opened:
                environment.interrupt()
            raise


async def _try(backends: Backends, backend: Backend, start: str, briefly: bool, opened: list[Environment]) -> Tried:
    seconds: dict[str, float] = {}
    environment: Environment | None = None
    where, problem, note = backend.target, "", ""
    try:
        with _timed(seconds, "open"):
            environment = await asyncio.to_thread(
                backends.open, Location(backend.fleeting, start), f"test-{secrets.token_hex(4)}"
            )
            opened.append(environment)
            health = await environment.health()
            problem, note = health.problem, health.note
        where = environment.identity
        if not problem and not briefly:
            problem = await _work(environment, seconds)
    except (ToolcribError, OSError) as error:
        problem = str(error)
    except Exception as error:  # noqa: BLE001 - a plugin's environment may raise anything
        problem = f"{type(error).__name__}: {error}"
    if environment is not None:
        try:
            await environment.close()
        except Exception as error:  # noqa: BLE001 - as above
            problem = problem or f"it can't be closed: {type(error).__name__}: {error}"
    return Tried(backend.name, where, problem, seconds, note)


async def _work(environment: Environment, seconds: dict[str, float]) -> str:
    with _timed(seconds, "command"):
        outcome = await environment.execute(ExecRequest("echo well", timeout=_LIMIT))
    if outcome.stdout.head != b"well\n":
        return f"a command gave unexpected output: {outcome.stdout.head!r} {outcome.stderr.head!r}"
    with _timed(seconds, "file"):
        path = await environment.resolve(f"/tmp/toolcrib-test-{secrets.token_hex(6)}")  # noqa: S108 - private by its name
        await environment.write_file(path, _DATA)
        found = await environment.read_file(path)
        await environment.delete_file(path)
    if found != _DATA or await environment.stat(path) is not None:
        return "a file did not have the content that was written to it, or could not be deleted"
    outcome = await _interrupted(environment, seconds)
    if outcome.ended != "interrupted":
        return f"an interrupted command did not end: {outcome.ended}"
    return ""


async def _interrupted(environment: Environment, seconds: dict[str, float]) -> ExecOutcome:
    loop, begun = asyncio.get_running_loop(), asyncio.Event()

    def seen(stream: str, data: bytes) -> None:
        loop.call_soon_threadsafe(begun.set)

    running = asyncio.create_task(environment.execute(ExecRequest("echo begun; sleep 60", timeout=_LIMIT, on_output=seen)))
    waiting = asyncio.create_task(begun.wait())
    await asyncio.wait([running, waiting], timeout=_LIMIT, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    with _timed(seconds, "interrupt"):
        environment.interrupt()
        outcome = await running
    after = await environment.execute(ExecRequest("echo well", timeout=_LIMIT))
    if after.stdout.head != b"well\n":
        raise EnvironmentFailed("after an interrupt the next command gave unexpected output")
    return outcome


@contextmanager
def _timed(seconds: dict[str, float], what: str) -> Iterator[None]:
    began = time.perf_counter()
    yield
    seconds[what] = time.perf_counter() - began
