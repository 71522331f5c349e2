"""toolcrib is killed (SIGKILL) during a command: its container's processes end, at once or at the next start (003-29)."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from toolcrib import Environment, ExecRequest
from tools.environments import open_environment

pytestmark = pytest.mark.xdist_group("docker")

Eventually = Callable[[Callable[[], object]], None]
CODE = """
import asyncio, sys
from toolcrib import ExecRequest
from tools.environments import open_environment
env = open_environment("docker", cwd=sys.argv[1], **eval(sys.argv[2]))
async def main():
    await env.execute(ExecRequest(f"sleep {sys.argv[3]} & echo kept >/tmp/kept"))
    await env.spawn(ExecRequest(f"sleep {sys.argv[3]}; touch x"))
    await env.execute(ExecRequest(f"echo; sleep {sys.argv[3]}; touch x", on_output=lambda *_: print(env.identity, flush=True)))
asyncio.run(main())
"""


class Killed:
    """Another toolcrib process, whose container has three sleeping processes; ``kill`` kills it."""

    def __init__(self, folder: Path, options: dict[str, Any]) -> None:
        self._seconds = f"300.{secrets.randbelow(10**12):012}"
        argv = [sys.executable, "-c", CODE, str(folder), repr(options), self._seconds]
        self.process = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.container = self.process.stdout.readline().strip().removeprefix("docker:")

    def kill(self, *, watchdog: bool) -> None:
        """Kill it. ``watchdog``: also kill the small process that cleans up after it."""
        found = [each for each in map(_parent, Path("/proc").glob("[0-9]*")) if each[1] == self.process.pid]
        assert len(found) == 1
        for pid in [*([found[0][0]] if watchdog else []), self.process.pid]:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()

    def sleepers(self) -> int:
        found = 0
        for each in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                found += each.read_bytes() == f"sleep\0{self._seconds}\0".encode()
        return found


def _parent(folder: Path) -> tuple[int, int]:
    with contextlib.suppress(OSError):
        return int(folder.name), int((folder / "stat").read_text().rpartition(")")[2].split()[1])
    return 0, 0


@pytest.fixture
def start(engine: Any, folder: Path, eventually: Eventually) -> Iterator[Callable[..., Killed]]:
    with contextlib.ExitStack() as stack:

        def start(**options: Any) -> Killed:
            other = Killed(folder, {**engine.options, **options})
            stack.callback(other.close)
            eventually(lambda: other.sleepers() == 3)
            return other

        yield start


def run(env: Environment, command: str) -> tuple[str, str]:
    outcome = asyncio.run(env.execute(ExecRequest(command, timeout=120)))
    return (outcome.stdout.head + outcome.stderr.head).decode(), outcome.notice


def names(client: docker.DockerClient) -> list[str]:
    return [each["Names"][0].lstrip("/") for each in client.api.containers(all=True)]


def test_its_container_is_removed_at_once(
    start: Callable[..., Killed], client: docker.DockerClient, folder: Path, eventually: Eventually
) -> None:
    """003-29"""
    other = start()
    assert other.container in names(client)
    other.kill(watchdog=False)
    eventually(lambda: other.container not in names(client))
    assert other.sleepers() == 0
    assert not (folder / "x").exists()


def test_its_container_is_removed_at_the_next_start(
    start: Callable[..., Killed], engine: Any, client: docker.DockerClient, folder: Path
) -> None:
    other = start()
    other.kill(watchdog=True)
    assert other.container in names(client)
    env = open_environment("docker", cwd=str(folder), **engine.options)
    try:
        assert run(env, "echo well") == ("well\n", "")
        assert env.identity.removeprefix("docker:") in names(client)
        assert other.container not in names(client)
        assert other.sleepers() == 0
        assert not (folder / "x").exists()
    finally:
        asyncio.run(env.close())


@pytest.mark.parametrize("watchdog", [False, True])
def test_what_runs_in_a_container_that_is_kept_is_ended(
    start: Callable[..., Killed], engine: Any, client: docker.DockerClient, folder: Path, eventually: Eventually, watchdog: bool
) -> None:
    """The processes end at once, or at the next start, which reports that. Files and a live toolcrib's processes stay."""
    options = {"keep": "reuse", "session": secrets.token_hex(4)}
    other = start(**options)
    env = open_environment("docker", cwd=str(folder), **{**engine.options, **options})
    try:
        if not watchdog:
            assert run(env, "mine() { echo mine; }; sleep 300 & echo $!")[1] == ""
        other.kill(watchdog=watchdog)
        if watchdog:
            assert other.sleepers() == 3
            said, notice = run(env, "cat /tmp/kept")
            assert (said, notice.count("(sleep)"), notice.startswith("Stopped here")) == ("kept\n", 3, True)
        else:
            eventually(lambda: other.sleepers() == 0)
            assert run(env, "mine; kill -0 $!; cat /tmp/kept") == ("mine\nkept\n", "")
        assert env.identity.removeprefix("docker:") == other.container
        assert other.sleepers() == 0
        assert not (folder / "x").exists()
        eventually(lambda: run(env, "ls -d /dev/shm/.toolcrib-* | wc -l") == ("1\n", ""))
    finally:
        asyncio.run(env.close())
        client.containers.get(other.container).remove(force=True)


LEAVES = """
import asyncio, sys
from toolcrib import ExecRequest
from tools.environments import open_environment
env = open_environment("docker", cwd=sys.argv[1], **eval(sys.argv[2]))
asyncio.run(env.execute(ExecRequest("true")))
print(env.identity, flush=True)
input()
asyncio.run(env.close())
"""


def test_a_container_whose_engine_was_away_at_the_end_is_removed_once_it_is_back(
    engine: Any, client: docker.DockerClient, folder: Path, eventually: Eventually
) -> None:
    """003-29: the processes end without another start of toolcrib."""
    argv = [sys.executable, "-c", LEAVES, str(folder), repr(engine.options)]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        container = process.stdout.readline().strip().removeprefix("docker:")
        assert container in names(client)
        engine.control("kill")
        try:
            process.communicate("\n")
        finally:
            engine.control("start")
    assert process.returncode == 0
    eventually(lambda: container not in names(client))
