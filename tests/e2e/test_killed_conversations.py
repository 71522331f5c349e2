"""Processes that are killed, or find the disk full, at seeded moments of conversations; see tests/fuzz/kill_conversations.py."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz.kill_conversations import DISK, Conversation
from tests.fuzz.kill_processes import ForkServer
from tests.fuzz.small_disk import NoDiskError, mounted

pytestmark = [pytest.mark.e2e, pytest.mark.xdist_group("kills")]
KILLS = 5


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    server = ForkServer()
    yield server
    server.close()


@pytest.mark.parametrize("seed", range(5))
def test_nothing_is_lost_and_nothing_is_done_twice(tmp_path: Path, forks: ForkServer, seed: int) -> None:
    """X-1: 25 kills in all."""
    conversation = Conversation(tmp_path, seed, KILLS, forks=forks)
    assert conversation.run() == []
    assert len(conversation.kills) == KILLS


@pytest.mark.parametrize("seed", range(2))
def test_nor_on_a_disk_that_is_full_for_a_while(tmp_path: Path, forks: ForkServer, seed: int) -> None:
    try:
        with mounted(tmp_path / "state", DISK) as disk:
            conversation = Conversation(tmp_path, seed, KILLS, forks=forks, disk=disk)
            assert conversation.run() == []
    except NoDiskError as error:
        pytest.skip(str(error))


def test_what_is_wrong_is_found(tmp_path: Path, forks: ForkServer) -> None:
    """The checks find faults; otherwise the tests above would prove nothing."""
    conversation = Conversation(tmp_path, 7, 1, forks=forks)
    assert conversation.run() == []
    log = tmp_path / "project" / "log"
    tag = log.read_text().split()[0]
    log.write_text(f"{log.read_text()}{tag}\n")
    assert f"the effect of {tag} happened 2 times" in asyncio.run(conversation.check())
    with sqlite3.connect(tmp_path / "state" / "toolcrib" / "toolcrib.db") as store:
        store.execute("UPDATE calls SET result = NULL, status = 'running' WHERE row = 1")
        store.execute("DELETE FROM messages WHERE seq = (SELECT max(seq) FROM messages WHERE session = 1) AND session = 1")
    store.close()
    found = asyncio.run(conversation.check())
    assert any("is running" in fault for fault in found)
    assert any("is gone" in fault for fault in found)
