"""A process at the other end of a socket counts as outside of all sessions only if that is proven."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.policy.local_peer import LocalPeer
from agent.policy.self_protection import BELOW, Hold
from tools.environments.session_mark import mark

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not name the process")
_CODE = "import socket, sys; input(); s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1]); s.send(b'x'); input()"
Connect = Callable[..., contextlib.AbstractContextManager[tuple[LocalPeer, subprocess.Popen[bytes]]]]


@pytest.fixture
def connect(tmp_path: Path) -> Connect:
    """Make a program connect after ``ready`` was called with its process id. A line ends the program."""
    path = str(tmp_path / "s")

    @contextlib.contextmanager
    def connected(
        *before: str, ready: Callable[[int], None] = lambda pid: None, **env: str
    ) -> Iterator[tuple[LocalPeer, subprocess.Popen[bytes]]]:
        argv = [*before, sys.executable, "-c", _CODE, path]
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(path)
            listening.listen()
            with subprocess.Popen(argv, stdin=subprocess.PIPE, bufsize=0, env={**os.environ, **env}) as process:
                assert process.stdin is not None
                ready(process.pid)
                process.stdin.write(b"\n")
                link, _ = listening.accept()
                with link:
                    link.recv(1)
                    peer = LocalPeer(link)
                    yield peer, process
                    peer.close()
                with contextlib.suppress(OSError):
                    process.stdin.write(b"\n")

    return connected


@pytest.mark.parametrize("before", [(), ("env", "-i"), ("bash", "-lc", '"$0" "$@"'), ("setsid", "-w"), ("nohup",)])
def test_a_program_of_the_person_is_outside(connect: Connect, tmp_path: Path, before: tuple[str, ...]) -> None:
    with connect(*before) as (peer, _):
        assert peer.is_outside([tmp_path])
        assert peer.uid == os.getuid()


def test_this_process_is_outside(tmp_path: Path) -> None:
    one, other = socket.socketpair()
    peer = LocalPeer(one)
    assert peer.is_outside([tmp_path])
    peer.close()
    one.close()
    other.close()


def test_a_marked_process_is_inside(connect: Connect, tmp_path: Path) -> None:
    with connect(ready=mark) as (peer, _):
        assert not peer.is_outside([tmp_path])


def test_the_variable_of_commands_is_evidence(connect: Connect, tmp_path: Path) -> None:
    with connect(**{BELOW: "1:2"}) as (peer, _):
        assert not peer.is_outside([tmp_path])


def test_what_the_host_of_a_session_by_the_same_folder_started_is_inside(connect: Connect, tmp_path: Path) -> None:
    hold, other = Hold(), tmp_path / "other"
    other.mkdir()
    hold.add([other])
    with connect() as (peer, _):
        assert peer.is_outside([tmp_path])
        assert not peer.is_outside([other])
    hold.close()


def test_a_process_that_ended_proves_nothing(connect: Connect, tmp_path: Path) -> None:
    with connect() as (peer, process):
        assert peer.is_outside([tmp_path])
        process.kill()
        process.wait()
        assert not peer.is_outside([tmp_path])


def test_nothing_is_proven_after_the_descriptor_was_closed(connect: Connect, tmp_path: Path) -> None:
    with connect() as (peer, _):
        peer.close()
        assert not peer.is_outside([tmp_path])


def test_an_older_kernel_s_number_will_do(connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.policy.local_peer._SO_PEERPIDFD", 9_999)
    with connect() as (peer, process):
        assert peer.is_outside([tmp_path])
        process.kill()
        process.wait()
        assert not peer.is_outside([tmp_path])


def test_without_a_readable_proc_nothing_is_proven(connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect() as (peer, _):
        monkeypatch.setattr("agent.policy.self_protection._parent", lambda pid: -1)
        assert not peer.is_outside([tmp_path])
        monkeypatch.undo()
        monkeypatch.setattr("tools.environments.session_mark._LINE", b"Max of something else")
        assert not peer.is_outside([tmp_path])
