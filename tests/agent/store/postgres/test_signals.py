"""Processes wake each other through the server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import psycopg

from agent.store.postgres.store import PostgresStore

LISTEN = """
heard = threading.Event()
def hear(topic):
    sys.stdout.write(f"{topic!r}\\n")
    sys.stdout.flush()
    heard.set()
store.signals.listen(hear)
await store.signals.send("mine")
await asyncio.to_thread(heard.wait)
wait()
"""


async def test_another_process_is_woken(
    url: str, open_store: Callable[..., PostgresStore], process: Callable[[str, str], AbstractContextManager[Any]]
) -> None:
    store = open_store(url)
    with process(url, LISTEN) as other:
        assert [other.line(), other.line()] == ["'mine'", "ready"]
        for number in range(20):
            await store.signals.send(f"\0 {number}")
            assert await asyncio.to_thread(other.line) == repr(f"\0 {number}")


async def test_listening_outlives_the_server_s_connection(url: str, open_store: Callable[..., PostgresStore]) -> None:
    """While the connection is down, no error is raised."""
    store = open_store(url)
    heard = threading.Semaphore(0)
    end = store.signals.listen(lambda topic: heard.release())
    await store.signals.send("one")
    assert await asyncio.to_thread(heard.acquire, timeout=60)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
        await store.signals.send("two")
        while not heard.acquire(blocking=False):
            await store.signals.send("three")
            await asyncio.sleep(0.01)
        end()
        end()
        listening = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND query LIKE 'LISTEN%'"
        while connection.execute(listening).fetchone() != (0,):
            await asyncio.sleep(0.01)
