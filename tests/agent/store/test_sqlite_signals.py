"""Signals between processes that share a file: sockets in a folder beside it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import socket
import warnings
from pathlib import Path

import pytest

from agent.store._signals import SocketSignals


@pytest.fixture(params=["short", "x" * 120], ids=["short", "too long for a socket"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / str(request.param) / "signals"


def test_what_is_sent_is_heard_until_listening_ends(folder: Path) -> None:
    one, two = SocketSignals(folder), SocketSignals(folder)
    heard: queue.Queue[str] = queue.Queue()
    end = one.listen(heard.put)
    asyncio.run(two.send("session:ä"))
    assert heard.get(timeout=30) == "session:ä"
    end()
    asyncio.run(two.send("later"))
    assert heard.empty()
    assert list(folder.iterdir()) == []
    two.close()


def test_no_file_stays_open(folder: Path) -> None:
    signals = SocketSignals(folder)
    before = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - the numbers are wanted, which are no files of ours
    for _ in range(3):
        end = signals.listen(lambda topic: None)
        asyncio.run(signals.send("x"))
        end()
    assert len(os.listdir("/proc/self/fd")) == before  # noqa: PTH208 - as above


def test_a_fork_that_closes_leaves_its_parent_listening(folder: Path) -> None:
    signals = SocketSignals(folder)
    heard: queue.Queue[str] = queue.Queue()
    end = signals.listen(heard.put)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12+ warns of a fork with threads, the point here
        child = os.fork()
    if not child:
        signals.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    asyncio.run(signals.send("still here"))
    assert heard.get(timeout=30) == "still here"
    end()


def test_one_whose_socket_was_removed_closes_all_the_same(folder: Path) -> None:
    signals = SocketSignals(folder)
    end = signals.listen(lambda topic: None)
    for file in folder.iterdir():
        file.unlink()
    end()
    signals.close()


def test_the_socket_of_a_process_that_ended_is_removed(folder: Path) -> None:
    folder.mkdir(mode=0o700, parents=True)
    left = folder / "1-gone"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ended, contextlib.chdir(folder):
        ended.bind(left.name)
    assert left.exists()
    asyncio.run(SocketSignals(folder).send("x"))
    assert not left.exists()


def test_a_folder_that_others_may_write_is_not_used(folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    signals = SocketSignals(folder)
    end = signals.listen(lambda topic: None)
    assert "can't receive signals" in caplog.text
    assert list(folder.iterdir()) == []
    asyncio.run(signals.send("x"))
    end()
