"""The whole environment over ssh: behaviour that depends on the host."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import re
import shutil
import signal
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

import paramiko
import pytest

from toolcrib import Environment, EnvironmentFailed, ExecRequest, TerminalSize
from tools.environments import open_environment
from tools.environments.remote.channel import Channel
from tools.environments.ssh import guard
from tools.environments.ssh.channel import SshChannel
from tools.environments.ssh.link import SshLink


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
    with pytest.raises(
        EnvironmentFailed, match=r"folder /none does not exist \(create it, or set another cwd\), so .* now in /:"
    ):
        _run(opened(sshd, cwd="/none"), "pwd")


def test_login_files_that_print_or_end_the_shell(sshd, opened) -> None:
    """On some systems, a bash that sshd starts reads .bashrc first."""
    rc = sshd.folder / "home" / ".bashrc"
    try:
        rc.write_text("echo WELCOME; printf oops >&2\n")
        env = opened(sshd)
        assert env.cwd == str(sshd.folder / "home")
        asyncio.run(env.write_file(f"{env.cwd}/f", b"\0" * 100_000))
        assert _run(env, "cat; wc -c <f; rm f", stdin=b"x" * 70_000).stdout.head == b"x" * 70_000 + b"100000\n"
        rc.write_text("exit 3\n")
        for options in ({}, {"cwd": "/"}):
            with pytest.raises(
                EnvironmentFailed, match=r"ended \(exit code 3\)\); nothing was run: check that this account may .* \.bashrc"
            ):
                _run(opened(sshd, **options), "true")
    finally:
        rc.unlink()


def test_a_server_that_forbids_terminals(start_sshd: Callable, opened) -> None:
    """003-30"""
    env = opened(start_sshd("--set", "PermitTTY=no"))
    with pytest.raises(EnvironmentFailed, match=r"does not start terminals .* sshd_config forbid that \(PermitTTY no"):
        asyncio.run(env.open_terminal(ExecRequest("echo ran >mark"), TerminalSize(80, 24)))
    assert _run(env, "ls; echo 1").stdout.head == b"1\n"


def test_what_the_guard_ended_is_not_said_to_have_ended_itself(sshd, opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine may have been suspended: the host heard nothing, but the connection lives. Our folder there is deleted too."""
    guards: list[guard.ConnectionGuard] = []

    class Known(guard.ConnectionGuard):
        def __init__(self, channel: paramiko.Channel) -> None:
            super().__init__(channel)
            guards.append(self)

    monkeypatch.setattr(guard, "ConnectionGuard", Known)
    env = opened(sshd, cwd="/")
    _run(env, "x=5")
    asyncio.run(env.shell_state())  # as before each call
    last = guards[-1]
    try:
        outcome = _run(env, "echo begun; sleep 50; echo done", on_output=lambda *_: last._channel.shutdown_write())
        assert (outcome.exit_code, outcome.stdout.head) == (143, b"begun\n")
        said = outcome.notice
    except EnvironmentFailed as error:  # the shell ended with it
        said = str(error)
    assert "eceived nothing from this machine for more than 60 seconds (was it suspended?)" in said
    assert _run(env, "echo $x").stdout.head == b"5\n"
    assert len(guards) == 2, "what runs now is guarded too"


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


def test_one_that_is_dropped_without_being_closed_ends_all_the_same(sshd, eventually) -> None:
    env = open_environment("ssh", **sshd.options)
    _run(env, "sleep 7011 >/dev/null 2>&1 &")
    eventually(lambda: sshd.pids("sleep 7011"))  # at first it is a fork of the shell
    del env
    gc.collect()
    eventually(lambda: not sshd.pids("sleep 7011"))


def test_a_command_whose_connection_is_lost_is_told_of_and_not_repeated(start_sshd: Callable, opened, eventually) -> None:
    """The command neither seems to succeed nor runs twice, and the next command continues with the state."""
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
    # The error is a reset if the dead process had not read all data.
    assert re.search("the connection was (closed by the other side|reset).*may have run.*not retried", said)
    outcome = _run(env, "echo $kept; cat ~/ran")
    assert (outcome.stdout.head, mark.read_text()) == (b"1\nx\n", "x\n")
    assert "new shell" in outcome.notice
    eventually(lambda: not server.pids("sleep 7001"))


def _server_of(pid: int) -> int:
    """Return the id of the sshd process that is an ancestor of a process."""
    while "sshd" not in (Path(f"/proc/{pid}/comm")).read_text():
        pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return pid


def test_the_disk_over_there_is_full(start_sshd: Callable, opened) -> None:
    server = start_sshd()
    server.control("small")
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


def test_many_sessions_on_a_stock_server(start_sshd: Callable, opened) -> None:
    """The server allows few logins at once and few sessions per connection; no output is mixed up. 003-29"""
    server = start_sshd("--set", "MaxStartups=2:50:4", "--set", "MaxSessions=4")
    envs = [opened(server, cwd="/usr") for _ in range(6)]
    text = "for ((i = 0; i < 500; i++)); do echo $me.{0}.$i; echo $i.{0}.$me >&2; done"

    async def session(me: int) -> list[tuple[bytes, bytes]]:
        await envs[me].execute(ExecRequest(f"me={me}", timeout=100))
        calls = [envs[me].execute(ExecRequest(text.format(n), timeout=100)) for n in range(6 if me == 0 else 2)]
        return [(outcome.stdout.head, outcome.stderr.head) for outcome in await asyncio.gather(*calls)]

    async def main() -> list[list[tuple[bytes, bytes]]]:
        return await asyncio.gather(*(session(me) for me in range(len(envs))))

    for me, said in enumerate(asyncio.run(main())):
        for n, (out, err) in enumerate(said):
            assert out == b"".join(b"%d.%d.%d\n" % (me, n, i) for i in range(500))
            assert err == b"".join(b"%d.%d.%d\n" % (i, n, me) for i in range(500))


def test_a_command_that_prints_the_frames_marks(sshd, opened) -> None:
    """Markers that a command can find are output like any other text."""
    env = opened(sshd)
    _run(env, """trap 'known+=" $BASH_COMMAND"' DEBUG""")
    _run(env, "true")
    _run(env, "true")
    assert int(_run(env, "trap - DEBUG; grep -oE '[0-9a-f]{32}' <<<$known | sort -u | tee ~/known | wc -l").stdout.head) >= 4
    frames = r"""for m in "$n" "$n 0 $$ /" "$n 0 $PPID /tmp"; do printf '\036%s\036%s\n' "$m" $n; done"""
    printed = f"for n in $(<~/known); do {frames}; done | tee /dev/stderr ~/printed"
    outcome = _run(env, printed + r"; printf '\036'; printf '\036' >&2; (exit 7)")
    expected = (sshd.folder / "home" / "printed").read_bytes() + b"\x1e"
    assert expected.count(b"\x1e") > 24
    assert (outcome.stdout.head, outcome.stderr.head, outcome.exit_code) == (expected, expected, 7)
    assert _run(env, "echo next; (exit 8)").exit_code == 8


def test_our_own_folder_over_there_is_full(start_sshd: Callable, opened) -> None:
    """Results are correct or an error: no command runs with half of its input, and no state is lost without a notice."""
    server = start_sshd("--shm")
    env = opened(server)
    _run(env, "kept=1")
    assert _run(env, "head -c 2000000 /dev/zero >/dev/shm/full").exit_code == 1
    assert _run(env, "later=2; echo out; echo err >&2; (exit 5)").exit_code == 5
    with pytest.raises(EnvironmentFailed, match=r"input can't be written to .* so it was not run: .*No space left"):
        _run(env, "touch ~/ran", stdin=b"x" * 100_000)
    assert not (server.folder / "home" / "ran").exists()
    outcome = _run(env, "echo ${kept-}; rm /dev/shm/full")
    assert (outcome.stdout.head, outcome.exit_code) == (b"1\n", 0)
    outcome = _run(env, "echo $kept; cat", stdin=b"x" * 100_000)
    assert outcome.stdout.head == b"1\n" + b"x" * 100_000
    asyncio.run(env.write_file(str(server.folder / "home" / "new"), b"whole"))
    assert _run(env, "cat ~/new").stdout.head == b"whole"


def test_the_servers_listener_may_stop(start_sshd: Callable, opened) -> None:
    server = start_sshd()
    env = opened(server)
    _run(env, "kept=1")
    server.control("stop")
    assert _run(env, "echo $kept").stdout.head == b"1\n"
    server.control("start")
    assert _run(env, "echo $kept").stdout.head == b"1\n"


def test_an_interrupt_where_bash_is_missing_is_not_lost(start_sshd: Callable, opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """The interrupt arrives while the command's channel is opened."""
    server = start_sshd()
    with (server.folder / "sshd_config").open("a") as file:
        file.write(f"SetEnv PATH={server.folder}/bin\n")
    for word in ("stop", "start"):
        server.control(word)
    (server.folder / "bin").mkdir()
    for name in ("sh", "cat", "mkdir", "rm", "sleep", "touch"):
        (server.folder / "bin" / name).symlink_to(str(shutil.which(name)))
    env = opened(server)
    assert "bash is missing" in _run(env, "true").notice
    open_channel = SshLink.open

    def interrupted(link: SshLink, argv: Sequence[str]) -> Channel:
        channel = open_channel(link, argv)
        if any("touch ran" in word for word in argv):
            env.interrupt()
        return channel

    monkeypatch.setattr(SshLink, "open", interrupted)
    assert _run(env, "touch ran; sleep 300", timeout=5).ended == "interrupted"


def test_a_write_that_is_cancelled_does_not_come_true_later(sshd, opened, eventually, monkeypatch: pytest.MonkeyPatch) -> None:
    env = opened(sshd)
    folder = sshd.folder / "home" / "cancelled"
    _run(env, "mkdir cancelled; echo old >cancelled/file")
    held, goes_on = threading.Event(), threading.Event()
    write = SshChannel.write

    def slowly(channel: SshChannel, data: bytes | memoryview) -> int:
        if len(data) > 10_000 and not goes_on.is_set():
            held.set()
            return 0
        return write(channel, data)

    monkeypatch.setattr(SshChannel, "write", slowly)

    async def main() -> None:
        call = asyncio.create_task(env.write_file(f"{folder}/file", b"\0" * 200_000))
        await asyncio.to_thread(held.wait, 60)
        await asyncio.to_thread(eventually, lambda: len(list(folder.iterdir())) == 2)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        goes_on.set()
        await asyncio.to_thread(eventually, lambda: len(list(folder.iterdir())) == 1)

    asyncio.run(main())
    assert (folder / "file").read_text() == "old\n"
