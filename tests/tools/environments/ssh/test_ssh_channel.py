"""Channels over a real server: bytes, ends, flow control."""

from __future__ import annotations

import contextlib
import hashlib
import select
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.environments.remote.channel import ChannelEnded


def test_the_two_streams_stay_apart(open_link, finish) -> None:
    """003-29"""
    channel = open_link().open(["sh", "-c", "printf out; printf err >&2; exit 3"])
    assert finish(channel) == (b"out", b"err", 3)


def test_words_arrive_as_they_are(open_link, finish) -> None:
    words = ["a b", "", "it's", '"q"', "$HOME", "*", "new\nline", "\\", "é", "-n"]
    out, _, code = finish(open_link().open(["sh", "-c", "printf '<%s>' \"$@\"", "sh", *words]))
    assert (out.decode(), code) == ("".join(f"<{word}>" for word in words), 0)


def test_a_signal_is_told(open_link, finish) -> None:
    assert finish(open_link().open(["sh", "-c", "kill -9 $$"]))[2] == 137
    assert finish(open_link().open(["sh", "-c", "kill -TERM $$"]))[2] == 143


def test_input_comes_whole_and_ends(open_link, finish) -> None:
    data = bytes(range(256)) * 40_000
    out, _, code = finish(open_link().open(["sha256sum"]), data)
    assert (out.split()[0].decode(), code) == (hashlib.sha256(data).hexdigest(), 0)


def test_it_leads_a_session_without_a_terminal(open_link, finish) -> None:
    out, _, _ = finish(open_link().open(["sh", "-c", "cut -d' ' -f1,6,7 /proc/$$/stat; echo $$"]))
    stat, pid = out.decode().split("\n")[:2]
    assert stat.split()[:2] == [pid, pid]
    assert stat.split()[2] == "0"


def test_none_of_our_variables_go_there(open_link, finish, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TOOLCRIB_SECRET", "LC_SECRET", "SSH_SECRET"):
        monkeypatch.setenv(name, "hidden")
    assert b"hidden" not in finish(open_link().open(["env"]))[0]


def test_a_hundred_megabytes_wait_for_their_reader(open_link, finish) -> None:
    """Unread output stays on the other host, so this process collects only a bounded amount."""
    link = open_link()
    channel = link.open(["sh", "-c", "head -c 100000000 /dev/zero; printf done >&2"])
    select.select([channel], [], [], 60)
    time.sleep(0.5)
    before = _memory()
    held = len(channel._channel.in_buffer)
    assert 0 < held <= 4_000_000
    out, err, code = _measured(channel)
    channel.close()
    assert (out, err, code) == (100_000_000, 4, 0)
    assert _memory() - before < 20_000_000


def _measured(channel) -> tuple[int, int, int | None]:
    """Return the number of bytes in the two streams, and the exit code."""
    sizes = {"stdout": 0, "stderr": 0}
    try:
        while True:
            found = channel.read()
            if found is None:
                select.select([channel], [], [], 60)
            else:
                sizes[found[0]] += len(found[1])
    except ChannelEnded as end:
        return sizes["stdout"], sizes["stderr"], end.code


def _memory() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def test_both_streams_at_once_lose_no_event(open_link, finish) -> None:
    """Small pieces arrive on both streams, so that their events coincide."""
    text = "for i in $(seq 4000); do echo $i; echo $i >&2; done"
    out, err, code = finish(open_link().open(["bash", "-c", text]))
    expected = "".join(f"{number}\n" for number in range(1, 4001)).encode()
    assert (out == expected, err == expected, code) == (True, True, 0)


def test_the_descriptor_is_quiet_while_there_is_nothing(open_link, eventually) -> None:
    channel = open_link().open(["cat"])
    fd = channel.fileno()
    assert channel.read() is None
    assert select.select([channel], [], [], 0)[0] == []
    eventually(lambda: channel.write(b"x"))
    assert select.select([channel], [], [], 60)[0] == [channel]
    assert channel.read() == ("stdout", b"x")
    assert channel.read() is None
    assert (select.select([channel], [], [], 0)[0], channel.fileno()) == ([], fd)
    channel.close()


def test_a_program_that_reads_nothing_takes_no_more(open_link, eventually) -> None:
    channel = open_link().open(["sleep", "1000"])
    sent, piece, quiet = 0, b"x" * 65536, 0
    eventually(lambda: channel.write(b"x"))
    give_up = time.monotonic() + 60
    while quiet < 50 and time.monotonic() < give_up:
        taken = channel.write(piece)
        sent += taken
        quiet = 0 if taken else quiet + 1
        time.sleep(0 if taken else 0.01)
    assert 0 < sent < 8_000_000
    assert quiet >= 50
    channel.close()


def test_a_process_that_ended_is_noticed_though_others_hold_its_output(open_link, finish) -> None:
    channel = open_link().open(["sh", "-c", "sleep 1000 & echo started; exit 4"])
    assert finish(channel) == (b"started\n", b"", 4)


def test_channels_that_close_while_keys_are_exchanged(open_link, finish, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are exchanged every 512 MB. The thread that exchanges them must not wait for the end before it answers a close."""
    from paramiko.packet import Packetizer

    monkeypatch.setattr(Packetizer, "REKEY_BYTES", 1_000_000)
    link = open_link()
    ends: list[tuple[int, bytes, int | None]] = []

    def work() -> None:
        for _ in range(12):
            channel = link.open(["sh", "-c", "head -c 300000 /dev/zero; echo done >&2; exit 3"])
            out, err, code = finish(channel)
            ends.append((len(out), err, code))
            channel.close()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ends == [(300_000, b"done\n", 3)] * 48


def test_closing_twice_and_from_another_thread(open_link, open_files) -> None:
    link = open_link()
    link.open(["true"]).close()
    before = open_files()
    channels = [link.open(["cat"]) for _ in range(5)]
    threads = [threading.Thread(target=channel.close) for channel in channels for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert open_files() <= before


def test_more_channels_than_one_connection_has(open_link, start_sshd: Callable, finish) -> None:
    """MaxSessions of a stock server is 10, for each connection."""
    server = start_sshd("--set", "MaxSessions=3")
    link = open_link(server.wish())
    channels = [link.open(["cat"]) for _ in range(8)]
    for number, channel in enumerate(channels):
        assert finish(channel, f"{number}".encode()) == (f"{number}".encode(), b"", 0)
    connections = len(link._connections)
    assert connections >= 3
    for _ in range(10):  # free places are used again
        assert finish(link.open(["true"]))[2] == 0
    assert len(link._connections) == connections


def test_where_only_one_session_is_allowed(open_link, start_sshd: Callable, finish) -> None:
    link = open_link(start_sshd("--set", "MaxSessions=1").wish())
    channels = [link.open(["cat"]) for _ in range(3)]
    for channel in channels:
        assert finish(channel, b"x") == (b"x", b"", 0)


def test_parallel_links_do_not_flood_the_server(open_link, start_sshd: Callable, finish) -> None:
    """The server allows only a few connections that have not logged in yet."""
    wish = start_sshd("--set", "MaxStartups=2:50:3").wish()
    links = [open_link(wish) for _ in range(8)]
    said: list[object] = []

    def use(link) -> None:
        with contextlib.suppress(Exception):
            said.append(finish(link.open(["echo", "here"])))

    threads = [threading.Thread(target=use, args=(link,)) for link in links]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == [(b"here\n", b"", 0)] * 8


def test_what_a_closed_link_left_running_is_ended(open_link, start_sshd: Callable, eventually) -> None:
    """Closing a channel leaves its process alive; the guard of its connection ends the process."""
    server = start_sshd()
    link = open_link(server.wish())
    first = link.open(["bash", "-c", "trap '' TERM HUP; read go; sleep 4000 & sleep 4001"])
    second = link.open(["bash", "-c", "set -m; read go; sleep 4002 & wait"])
    for channel in (first, second):
        eventually(lambda: channel.write(b"\n"))  # noqa: B023 - called at once
    eventually(lambda: len(server.pids("sleep")) == 3)
    first.close()
    link.close()
    eventually(lambda: not server.pids("sleep"))
    eventually(lambda: not server.pids())


def test_a_session_elsewhere_is_spared(open_link, start_sshd: Callable, eventually) -> None:
    server = start_sshd()
    one, other = open_link(server.wish()), open_link(server.wish())
    channels = [one.open(["sh", "-c", "read go; exec sleep 4003"]), other.open(["sh", "-c", "read go; exec sleep 4004"])]
    for channel in channels:
        eventually(lambda: channel.write(b"\n"))  # noqa: B023 - called at once
    eventually(lambda: len(server.pids("sleep")) == 2)
    one.close()
    eventually(lambda: len(server.pids("sleep")) == 1)
    eventually(lambda: len(server.pids("bash")) == 1)  # the guard of the other session
    assert server.pids("sleep 4004")
    assert channels[1].read() is None


def test_a_process_that_ends_while_it_is_written_to_is_no_broken_connection(open_link, finish, eventually) -> None:
    """The exit code is reported, and no lost connection."""
    link = open_link()
    channel = link.open(["sh", "-c", "exit 3"])

    def ended() -> int:
        eventually(lambda: channel._channel.closed)
        return 1

    channel._room = ended
    with pytest.raises(ChannelEnded) as raised:
        channel.write(b"x")
    assert raised.value.code == 3
    assert link.diagnose() == ""
    assert finish(link.open(["true"]))[2] == 0
