"""A paused container: no process runs in it, not even one that would end a command."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import docker
import pytest
from docker.models.containers import Container

from toolcrib import Environment, EnvironmentFailed, ExecOutcome, ExecRequest

pytestmark = pytest.mark.xdist_group("docker")

GENEROUS = 15.0
"""Seconds: much more than the test needs, and less than the wait for an answer."""


@pytest.fixture
def container(engine: Any, env: Environment) -> Iterator[Container]:
    client = docker.DockerClient(engine.host)
    asyncio.run(env.execute(ExecRequest("kept=1; true", timeout=60)))
    yield client.containers.get(env.identity.removeprefix("docker:"))
    client.close()


async def _during(env: Environment, container: Container, end: Callable[[], object], **options: Any) -> tuple[ExecOutcome, float]:
    """Pause the container during a command, and call ``end``. Return the outcome, and the seconds from then on."""
    seen = asyncio.Event()
    call = asyncio.create_task(env.execute(ExecRequest("echo begun; sleep 7021", on_output=lambda *_: seen.set(), **options)))
    await seen.wait()
    await asyncio.to_thread(container.pause)
    end()
    begun = time.monotonic()
    return await call, time.monotonic() - begun


@pytest.mark.parametrize("ended", ["timeout", "interrupted"])
def test_a_paused_container_obeys_time_limit_and_interrupt(env: Environment, container: Container, ended: str) -> None:
    """A notice reports the command that could not be ended; it is ended before the next command."""
    how: dict[str, Any] = {"timeout": 2.0} if ended == "timeout" else {}
    outcome, took = asyncio.run(_during(env, container, env.interrupt if not how else bool, **how))
    assert (outcome.ended, outcome.stdout.head) == (ended, b"begun\n")
    assert outcome.exit_code != 0
    assert f"{container.name} is paused (docker unpause {container.name}): this command could not be stopped" in outcome.notice
    assert took < GENEROUS
    with pytest.raises(EnvironmentFailed, match=r"is paused .*nothing was run"):
        asyncio.run(env.execute(ExecRequest("echo here", timeout=60)))
    container.unpause()
    after = asyncio.run(env.execute(ExecRequest("echo $kept; ps -e -o args= | grep -c '[s]leep 7021'", timeout=60)))
    assert after.stdout.head == b"1\n0\n"
    assert "A new shell continues" in after.notice


def test_a_command_that_a_paused_container_never_began(env: Environment, container: Container, folder: Path) -> None:
    container.pause()
    begun = time.monotonic()
    outcome = asyncio.run(env.execute(ExecRequest("touch ran; sleep 7022", timeout=1)))
    assert outcome.ended == "timeout"
    with pytest.raises(EnvironmentFailed, match="is paused"):
        asyncio.run(env.write_file(f"{folder}/file", b"\0" * 100_000))
    with pytest.raises(EnvironmentFailed, match="is paused"):
        asyncio.run(env.read_file(f"{folder}/file"))
    assert time.monotonic() - begun < 3 * GENEROUS
    container.unpause()
    assert asyncio.run(env.execute(ExecRequest("ps -e -o args= | grep -c '[s]leep 7022'", timeout=60))).stdout.head == b"0\n"


def test_a_command_goes_on_once_its_container_does(env: Environment, container: Container) -> None:
    """Without a time limit the command is not cancelled, because the pause may be intended."""

    async def main() -> ExecOutcome:
        seen = asyncio.Event()
        request = ExecRequest("echo begun; sleep 1; echo end", timeout=100, on_output=lambda *_: seen.set())
        call = asyncio.create_task(env.execute(request))
        await seen.wait()
        await asyncio.to_thread(container.pause)
        await asyncio.sleep(4)
        assert not call.done()
        await asyncio.to_thread(container.unpause)
        return await call

    outcome = asyncio.run(main())
    assert (outcome.stdout.head, outcome.exit_code, outcome.notice) == (b"begun\nend\n", 0, "")


def test_a_paused_container_is_removed_at_the_end(env: Environment, container: Container) -> None:
    container.pause()
    asyncio.run(env.close())
    with pytest.raises(docker.errors.NotFound):
        container.reload()
