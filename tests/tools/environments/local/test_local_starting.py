"""Events during a shell's start: an interrupt, the end of the session, a command whose input can't be written."""

from __future__ import annotations

import asyncio
import resource
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from toolcrib import EnvironmentFailed, ExecRequest
from tools.environments.local.environment import LocalEnvironment
from tools.environments.shell.launcher import LocalLauncher, LocalProcess


class _Launcher(LocalLauncher):
    def __init__(self, root: str, started: Callable[[LocalProcess], None]) -> None:
        super().__init__(root)
        self._started = started

    def start(self, inner_folder: str, folder: str) -> LocalProcess:
        process = super().start(inner_folder, folder)
        self._started(process)
        return process


class Slow(LocalEnvironment):
    """An environment that calls ``started`` with each shell before it is used."""

    def __init__(self, cwd: Path) -> None:
        super().__init__(str(cwd))
        self.started: Callable[[LocalProcess], None] = lambda process: None

    def _launcher(self, root: str) -> _Launcher:
        return _Launcher(root, lambda process: self.started(process))


def test_a_command_that_is_interrupted_then_is_not_run(folder: Path) -> None:
    async def main() -> None:
        env = Slow(folder)
        env.started = lambda process: env.interrupt()
        try:
            assert (await env.execute(ExecRequest("touch ran; sleep 300", timeout=60))).ended == "interrupted"
            assert (await env.execute(ExecRequest("ls; pwd", timeout=60))).stdout.head.decode() == f"{folder}\n"
        finally:
            await env.close()

    asyncio.run(main())


def test_a_session_that_is_closed_then_leaves_nothing(folder: Path, alive: Callable[[int], bool]) -> None:
    env = Slow(folder)
    closing = threading.Thread(target=lambda: asyncio.run(env.close()))
    begun: list[int] = []

    def started(process: LocalProcess) -> None:
        begun.append(process.pid)
        closing.start()
        closing.join(0.5)  # close() waits for this function

    env.started = started
    asyncio.run(env.spawn(ExecRequest("sleep 300")))
    closing.join()
    assert [pid for pid in begun if alive(pid)] == []
    assert env._pool is not None
    assert not Path(env._pool._launcher.root).exists()


def test_the_session_stays_where_it_is_where_nothing_could_be_handed_over(folder: Path) -> None:
    """A shell starts in toolcrib's own folder, and changes to the session's folder before it reports anything."""

    async def main() -> None:
        env = LocalEnvironment(str(folder))
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, limits[1]))
        try:
            with pytest.raises(EnvironmentFailed, match="folder cannot be written"):
                await env.execute(ExecRequest("touch ran", stdin=b"x" * 200_000, timeout=60))
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        try:
            assert env.cwd == str(folder)
            assert (await env.execute(ExecRequest("ls; pwd", timeout=60))).stdout.head.decode() == f"{folder}\n"
        finally:
            await env.close()

    asyncio.run(main())


def test_the_event_loop_goes_on_while_a_shell_is_started(folder: Path) -> None:
    """The shell starts only after the event loop has done something else; on the loop itself it would wait forever."""

    async def main() -> list[bool]:
        env, went_on, seen = Slow(folder), threading.Event(), []
        env.started = lambda process: seen.append(went_on.wait(60))
        try:
            running = asyncio.ensure_future(env.execute(ExecRequest("echo here", timeout=60)))
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_later(0.01, went_on.set)
            assert (await running).stdout.head == b"here\n"
        finally:
            await env.close()
        return seen

    assert asyncio.run(main()) == [True]


def test_a_call_that_is_cancelled_then_leaves_no_shell(
    folder: Path, alive: Callable[[int], bool], eventually: Callable[..., None], open_files: Callable[[], int]
) -> None:
    async def main() -> tuple[int, int, int]:
        env, go, begun = Slow(folder), threading.Event(), []
        try:
            await env.execute(ExecRequest(":", timeout=60))
            assert await env.release_idle()
            before = open_files()

            def started(process: LocalProcess) -> None:
                begun.append(process.pid)
                go.wait(60)

            env.started = started
            running = asyncio.ensure_future(env.execute(ExecRequest("touch ran", timeout=60)))
            while not begun:
                await asyncio.sleep(0.005)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            go.set()
            eventually(lambda: not alive(begun[0]) and open_files() <= before)
            assert (await env.execute(ExecRequest("ls; pwd", timeout=60))).stdout.head.decode() == f"{folder}\n"
            assert await env.release_idle()
            return begun[0], before, open_files()
        finally:
            await env.close()

    _, before, after = asyncio.run(main())
    assert after <= before
