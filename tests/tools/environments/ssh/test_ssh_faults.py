"""What breaks, for real: a server's process killed, a link cut, reset, and healed; we killed."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from toolcrib import EnvironmentFailed
from tools.environments.remote.channel import Channel, ChannelBroken


def _until_broken(channel: Channel) -> str:
    """What is said when it breaks. Fails where it ends in another way, or says nothing."""
    give_up = time.monotonic() + 60
    with pytest.raises(ChannelBroken) as broken:
        _wait(channel, give_up)
    channel.close()
    return str(broken.value)


def _wait(channel: Channel, give_up: float) -> tuple[str, bytes]:
    while time.monotonic() < give_up:
        found = channel.read()
        if found is not None:
            return found
        select.select([channel], [], [], 1)
    raise AssertionError("nothing came")


def _parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_the_servers_process_is_killed(start_sshd: Callable, open_link, finish, eventually) -> None:
    """It looks like a command that succeeded and said nothing, unless one looks twice."""
    server = start_sshd()
    link = open_link(server.wish())
    channel = link.open(["sh", "-c", "read go; exec sleep 5001"])
    eventually(lambda: channel.write(b"\n"))
    eventually(lambda: server.pids("sleep 5001"))
    os.kill(_parent(server.pids("sleep 5001")[0]), signal.SIGKILL)
    assert "closed by the other side" in _until_broken(channel)
    assert link.diagnose().endswith("127.0.0.1 takes connections now")
    eventually(lambda: not server.pids("sleep"))  # nothing is left over there
    assert finish(link.open(["echo", "again"])) == (b"again\n", b"", 0)
    server.tell("stop")
    link.close()
    assert link.diagnose().endswith("127.0.0.1 does not answer now")


def test_a_link_is_cut(start_sshd: Callable, sshd, open_link, finish, eventually, tmp_path: Path) -> None:
    """It is noticed, directly and behind a jump host, and never taken for an end. One that heals soon was never cut."""
    far = start_sshd("--far")
    (far.folder / "home" / ".ssh").mkdir()
    (far.folder / "authorized_keys").write_text((far.folder / "id.pub").read_text() + (sshd.folder / "id.pub").read_text())
    known = tmp_path / "known"
    known.write_text((sshd.folder / "known_hosts").read_text() + (far.folder / "known_hosts").read_text())
    jump = f"{sshd.user}@{sshd.host}:{sshd.port}"
    links = [
        open_link(far.wish()),
        open_link(far.wish(jump=jump, known_hosts=str(known), identity_file=str(sshd.folder / "id"))),
    ]
    channels = [link.open(["sh", "-c", "cat; exec sleep 5002"]) for link in links]
    for channel in channels:
        eventually(lambda: channel.write(b"\n"))  # noqa: B023 - called at once
        assert _wait(channel, time.monotonic() + 60) == ("stdout", b"\n")
    far.tell("drop")
    for channel in channels:
        assert channel.write(b"hello") == 5
    time.sleep(2)
    far.tell("heal")
    for channel in channels:
        assert _wait(channel, time.monotonic() + 60) == ("stdout", b"hello")

    far.tell("cut")
    for channel in channels:
        assert "the connection was lost: nothing was heard" in _until_broken(channel)
    with pytest.raises(EnvironmentFailed, match=r"did not answer within 10 seconds|cannot be reached"):
        links[0].open(["true"])
    assert links[0].diagnose().endswith("does not answer now")
    far.tell("heal")
    for link in links:
        assert finish(_when_it_is_back(link)) == (b"again\n", b"", 0)


def _when_it_is_back(link) -> Channel:
    """The kernel takes a while to see that a neighbour is there again."""
    give_up = time.monotonic() + 60
    while True:
        try:
            return link.open(["echo", "again"])
        except EnvironmentFailed:
            assert time.monotonic() < give_up
            time.sleep(0.1)


def test_a_connection_is_reset(start_sshd: Callable, open_link, finish, eventually) -> None:
    far = start_sshd("--far")
    link = open_link(far.wish())
    channel = link.open(["sleep", "5003"])
    eventually(lambda: channel.write(b"x"))
    far.tell("reset")
    channel.write(b"x")
    assert "the connection was reset" in _until_broken(channel)
    with pytest.raises(EnvironmentFailed, match="refuses connections"):
        link.open(["true"])
    far.tell("heal")
    assert finish(link.open(["true"]))[2] == 0


def test_we_are_killed(start_sshd: Callable, eventually) -> None:
    """What we started does not live on, nor our folder over there."""
    server = start_sshd()
    program = (
        "import asyncio, sys\nfrom toolcrib import ExecRequest\nfrom tools.environments import open_environment\n"
        f"env = open_environment('ssh', **{server.options!r})\n"
        "async def main():\n    await env.execute(ExecRequest('sleep 5004 & echo'))\n"
        "    await env.execute(ExecRequest('echo ready; sleep 5005', on_output=lambda *_: print('ready', flush=True)))\n"
        "asyncio.run(main())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    eventually(lambda: len(server.pids("sleep")) == 2)
    assert _folders(server)
    process.kill()
    process.wait()
    process.stdout.close()
    eventually(lambda: not server.pids())
    assert not _folders(server)


def _folders(server) -> list[Path]:
    """What the account has in memory."""
    uid = (server.folder / "home").stat().st_uid
    return [path for path in Path("/dev/shm").iterdir() if path.stat().st_uid == uid]
