"""A host that does not answer: each call fails in time, waits for no other call, and can be interrupted."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from toolcrib import Environment, EnvironmentFailed, ExecOutcome, ExecRequest

IN_TIME = 12.0
"""Ten seconds, and a second or two for a machine under load."""
ONE_DIAL = 15.0
"""Seconds: more than one attempt to connect takes, and fewer than two attempts."""


def _dials() -> int:
    return [each.name for each in threading.enumerate()].count("ssh-dial")


def test_who_waits_for_a_host_that_is_away_waits_for_one_attempt_at_most(start_sshd: Callable, opened, eventually) -> None:
    """003-29: all calls share one attempt, and fail with it. Time limits and interrupts do not wait for the attempt."""
    far = start_sshd("--far")
    env = opened(far, cwd="/usr")

    async def main() -> tuple[list[ExecOutcome], list[object]]:
        await asyncio.to_thread(far.control, "drop")
        since = time.monotonic()
        patient = [asyncio.create_task(env.list_dir("/usr")) for _ in range(4)]
        limited = asyncio.create_task(env.execute(ExecRequest("echo ran", timeout=2)))
        other = asyncio.create_task(env.execute(ExecRequest("echo ran")))
        await asyncio.to_thread(eventually, _dials)
        await asyncio.sleep(0.2)  # so that all calls wait
        assert _dials() == 1
        env.interrupt()
        interrupted = [await limited, await other]
        late = await env.execute(ExecRequest("echo ran", timeout=2))
        assert not any(each.done() for each in patient)
        said = await asyncio.gather(*patient, return_exceptions=True)
        assert time.monotonic() - since < ONE_DIAL
        return [*interrupted, late], list(said)

    given_up, failed = asyncio.run(main())
    assert [each.ended for each in given_up] == ["interrupted", "interrupted", "timeout"]
    assert "was not run" in given_up[2].notice
    assert not any(each.stdout.total for each in given_up)
    for each in failed:
        assert isinstance(each, EnvironmentFailed)
        assert "did not answer within" in str(each)
        assert "the file was not reached" in str(each)
    far.control("heal")
    _until_it_is_back(env)


def _until_it_is_back(env: Environment) -> None:
    """The kernel takes a while to notice that a neighbour is reachable again."""
    give_up = time.monotonic() + 60
    while True:
        try:
            assert asyncio.run(env.execute(ExecRequest("echo back"))).stdout.head == b"back\n"
            return
        except EnvironmentFailed:
            assert time.monotonic() < give_up


def test_a_file_operation_that_is_cut_off_is_told_in_time(start_sshd: Callable, opened, eventually) -> None:
    """003-29: the error reports whether the operation may have reached the file, or did not reach the host."""
    far = start_sshd("--far")
    env = opened(far, cwd="/usr")
    home = far.folder / "home"

    async def main() -> list[object]:
        await env.execute(ExecRequest("true", timeout=100))
        large = asyncio.create_task(env.write_file(f"{home}/large", os.urandom(1 << 20) * 300))
        await asyncio.to_thread(eventually, lambda: list(home.glob(".large.*.tmp")))
        await asyncio.to_thread(far.control, "drop")
        since = time.monotonic()
        small = [asyncio.create_task(env.write_file(f"{home}/small{number}", b"x")) for number in range(3)]
        said = await asyncio.gather(large, *small, return_exceptions=True)
        assert time.monotonic() - since < IN_TIME
        return list(said)

    large, *small = asyncio.run(main())
    for each in (large, *small):
        assert isinstance(each, EnvironmentFailed)
        assert "no data for some seconds" in str(each)
        assert ("may have run: it is unknown whether the file was reached" in str(each)) != ("was not reached" in str(each))
    assert "may have run" in str(large)
    assert any("the file was not reached" in str(each) for each in small)  # the calls without a channel
    far.control("heal")


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_command_whose_connection_ends_while_it_is_started_may_have_run(start_sshd: Callable, opened, eventually) -> None:
    """The folder of a command beside the others exists, so no error may report that it is missing."""
    server = start_sshd()
    env = opened(server, cwd="/usr")
    home = server.folder / "home"
    asyncio.run(env.execute(ExecRequest("true", timeout=60)))
    asyncio.run(env.list_dir("/"))
    (home / ".bashrc").write_text("if [ -e ~/hold ]; then exec sleep 5011; fi\n")
    (home / "hold").touch()

    async def main() -> None:
        call = asyncio.create_task(env.spawn(ExecRequest("touch ~/ran")))
        await asyncio.to_thread(eventually, lambda: server.pids("sleep 5011"))
        os.kill(_parent(server.pids("sleep 5011")[0]), signal.SIGKILL)
        with pytest.raises(EnvironmentFailed, match=r"the connection was .* may have run; it was not retried"):
            await call

    asyncio.run(main())
    (home / "hold").unlink()
    with pytest.raises(EnvironmentFailed, match="the folder /nowhere does not exist"):
        asyncio.run(env.spawn(ExecRequest("true", cwd="/nowhere")))
