"""The whole environment over ssh, where the place itself matters."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from toolcrib import Environment, EnvironmentFailed, ExecRequest
from tools.environments import open_environment


@pytest.fixture
def opened() -> Iterator[Callable[..., Environment]]:
    made: list[Environment] = []

    def opened(server, **options: object) -> Environment:
        made.append(open_environment("ssh", **{**server.options, **options}))
        return made[-1]

    yield opened
    for environment in made:
        asyncio.run(environment.close())


def _run(env: Environment, command: str, **options: object):
    return asyncio.run(env.execute(ExecRequest(command, **{"timeout": 60.0, **options})))


def test_it_starts_at_home_or_where_it_is_told(sshd, opened) -> None:
    """003-30"""
    env = opened(sshd)
    outcome = _run(env, "pwd; whoami")
    assert outcome.stdout.head.decode().split() == [str(sshd.folder / "home"), sshd.user]
    assert outcome.where == env.identity == f"ssh:{sshd.user}@127.0.0.1:{sshd.port}"
    assert _run(opened(sshd, cwd="/usr"), "pwd").stdout.head == b"/usr\n"
    assert opened(sshd, cwd="~/..").cwd == str(sshd.folder)
    with pytest.raises(EnvironmentFailed, match="the working folder ~/none does not exist on ssh:"):
        opened(sshd, cwd="~/none")
    with pytest.raises(EnvironmentFailed, match=r"the folder /none does not exist|the working folder /none no longer exists"):
        _run(opened(sshd, cwd="/none"), "pwd")


def test_wrong_options_are_named(sshd) -> None:
    with pytest.raises(EnvironmentFailed, match="cannot be opened with host, speed"):
        open_environment("ssh", host="far", speed=3)


def test_variables_that_were_named_go_there_and_no_others(sshd, opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNNAMED", "hidden")
    env = opened(sshd, env={"NAMED": "it's"})
    assert _run(env, "sh -c 'echo \"$NAMED|$UNNAMED\"'").stdout.head == b"it's|\n"


def test_two_sessions_see_nothing_of_each_other(sshd, opened) -> None:
    one, other = opened(sshd), opened(sshd)
    _run(one, "mine=secret; cd /usr")
    assert _run(other, 'echo "$mine|$PWD"').stdout.head.decode() == f"|{sshd.folder}/home\n"


def test_a_command_whose_connection_is_lost_is_told_of_and_not_repeated(start_sshd: Callable, opened, eventually) -> None:
    """Never an empty success, never run twice; the next command goes on with the state."""
    server = start_sshd()
    env = opened(server)
    mark = server.folder / "home" / "ran"
    _run(env, "kept=1")
    _run(env, "true")

    async def main() -> str:
        call = asyncio.create_task(env.execute(ExecRequest("echo x >>~/ran; sleep 7001", timeout=60)))
        await asyncio.to_thread(eventually, lambda: server.pids("sleep 7001"))
        os.kill(_server_of(server.pids("sleep 7001")[0]), signal.SIGKILL)
        with pytest.raises(EnvironmentFailed) as failed:
            await call
        return str(failed.value)

    said = asyncio.run(main())
    for part in ("closed by the other side", "may have run", "not tried again"):
        assert part in said
    outcome = _run(env, "echo $kept; cat ~/ran")
    assert (outcome.stdout.head, mark.read_text()) == (b"1\nx\n", "x\n")
    assert "new shell" in outcome.notice
    eventually(lambda: not server.pids("sleep 7001"))


def _server_of(pid: int) -> int:
    """The process of sshd that a process over there comes from."""
    while "sshd" not in (Path(f"/proc/{pid}/comm")).read_text():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def test_the_disk_over_there_is_full(start_sshd: Callable, opened) -> None:
    server = start_sshd()
    server.tell("small")
    full = server.folder / "small"
    env = opened(server, cwd=str(full))
    _run(env, "kept=1; printf before >old")
    assert _run(env, "head -c 2000000 /dev/zero >big").exit_code == 1
    with pytest.raises(OSError, match="No space left") as refused:
        asyncio.run(env.write_file(f"{full}/old", b"x" * 200_000))
    assert refused.value.errno == errno.ENOSPC
    outcome = _run(env, "echo $kept; cat old; ls")
    assert outcome.stdout.head == b"1\nbeforebig\nold\n"


def test_close_leaves_nothing_over_there(start_sshd: Callable, opened, eventually) -> None:
    server = start_sshd()
    env = opened(server)
    _run(env, "sleep 7002 & (trap '' TERM HUP; sleep 7003) >/dev/null 2>&1 & nohup sleep 7004 >/dev/null 2>&1 & echo")
    eventually(lambda: len(server.pids("sleep 700")) == 3)
    asyncio.run(env.close())
    eventually(lambda: not server.pids())
    assert list((server.folder / "home").iterdir()) == []


def test_a_sandbox_of_sshd_with_few_sessions(start_sshd: Callable, opened) -> None:
    env = opened(start_sshd("--set", "MaxSessions=2"))

    async def main() -> list[bytes]:
        calls = [env.execute(ExecRequest(f"sleep 0.1; echo {n}", timeout=60)) for n in range(6)]
        return [outcome.stdout.head for outcome in await asyncio.gather(*calls)]

    assert asyncio.run(main()) == [b"%d\n" % n for n in range(6)]


def test_the_servers_listener_may_stop(start_sshd: Callable, opened) -> None:
    server = start_sshd()
    env = opened(server)
    _run(env, "kept=1")
    server.tell("stop")
    assert _run(env, "echo $kept").stdout.head == b"1\n"
    server.tell("start")
    assert _run(env, "echo $kept").stdout.head == b"1\n"
