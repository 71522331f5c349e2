"""If two processes hold a session one after the other, only the second one writes."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import psycopg
import pytest

from agent.store._owner import new_owner
from agent.store.postgres.store import PostgresStore
from toolcrib import LeaseLost
from toolcrib.contract.store import Fence

Process = Callable[[str, str], AbstractContextManager[Any]]
HOLDER = """
lease = await store.leases.take("s", "somewhere else", 0.2)
view = store.fenced(Fence(lease))
number = 0
try:
    while True:
        await view.sessions.append("s", {"role": "assistant", "text": f"{lease.token} {number}"})
        print(number, flush=True)
        number += 1
except LeaseLost as error:
    print("lost", flush=True)
"""


async def texts(store: PostgresStore) -> list[str]:
    return [str(message["text"]) for message in await store.sessions.messages("s")]


async def test_a_stopped_holder_that_wakes_up_writes_nothing_more(
    open_store: Callable[..., PostgresStore], url: str, process: Process
) -> None:
    """002-27: SIGSTOP in the middle of writing, takeover, SIGCONT."""
    store = open_store(url)
    await store.sessions.create("s", platform="cli", user="me")
    for turn in range(5):
        with process(url, HOLDER) as stale:
            for _ in range(3 + turn):
                stale.line()
            os.kill(stale.running.pid, signal.SIGSTOP)
            while (lease := await store.leases.take("s", new_owner(), 3600.0)) is None:
                await asyncio.sleep(0.01)
            mine = store.fenced(Fence(lease))
            await mine.sessions.append("s", {"role": "assistant", "text": f"mine {turn}"})
            os.kill(stale.running.pid, signal.SIGCONT)
            assert (await asyncio.to_thread(stale.read_to_end)).endswith("lost\n")
            assert stale.running.wait() == 0
            await mine.sessions.append("s", {"role": "assistant", "text": f"mine {turn} still"})
        assert (await texts(store))[-2:] == [f"mine {turn}", f"mine {turn} still"]
        await store.leases.release(lease)


async def test_nobody_takes_a_lease_between_a_write_and_its_commit(open_store: Callable[..., PostgresStore], url: str) -> None:
    """A write that waits for a lock still holds the lease: the takeover waits for the write."""
    store, other = open_store(url), open_store(url)
    await store.sessions.create("s", platform="cli", user="me")
    for turn in range(10):
        lease = await store.leases.take("s", "somewhere else", 0.0)
        assert lease is not None
        view = store.fenced(Fence(lease))
        async with await psycopg.AsyncConnection.connect(url) as blocker:
            await blocker.execute("SELECT FROM toolcrib.sessions FOR UPDATE")
            writing = asyncio.create_task(view.sessions.append("s", {"role": "assistant", "text": f"before {turn}"}))
            await waiting(blocker, 1)
            taking = asyncio.create_task(other.leases.take("s", "the next", 0.0))
            await waiting(blocker, 2)
            assert not taking.done()
            await blocker.commit()
        await writing
        taken = await taking
        assert taken is not None
        assert taken.token == lease.token + 1
        await other.fenced(Fence(taken)).sessions.append("s", {"role": "assistant", "text": f"after {turn}"})
        with pytest.raises(LeaseLost, match="was taken over"):
            await view.sessions.append("s", {"role": "assistant", "text": "late"})
    assert await texts(store) == [text for turn in range(10) for text in (f"before {turn}", f"after {turn}")]


async def waiting(connection: psycopg.AsyncConnection[Any], count: int) -> None:
    """Wait until that many others wait for a lock; only these tests use the server."""
    async with asyncio.timeout(60):
        while await (await connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted")).fetchone() != (count,):
            await asyncio.sleep(0.005)


async def test_of_several_processes_one_takes_a_lease(
    open_store: Callable[..., PostgresStore], url: str, process: Process
) -> None:
    code = """
    wait()
    taken = [await store.leases.take(str(number), new_owner(), 3600) for number in range(50)]
    print(*(int(lease is not None) for lease in taken), flush=True)
    wait()
    """
    open_store(url)
    with process(url, code) as one, process(url, code) as other:
        for each in (one, other):
            each.line()
        for each in (one, other):
            each.send_line()
        rows = [each.line().split() for each in (one, other)]
    assert ["".join(pair) for pair in zip(*rows, strict=True)].count("10") + [*map("".join, zip(*rows, strict=True))].count(
        "01"
    ) == 50


async def test_the_lease_of_a_process_that_was_killed_is_free_at_once(
    open_store: Callable[..., PostgresStore], url: str, process: Process
) -> None:
    store = open_store(url)
    with process(url, "assert await store.leases.take('s', new_owner(), 3600)\nwait()") as holder:
        holder.line()
        assert await store.leases.take("s", new_owner(), 3600.0) is None
        assert await store.leases.holder("s") is not None
        holder.running.kill()
        holder.running.wait()
        assert await store.leases.holder("s") is None
        lease = await store.leases.take("s", new_owner(), 3600.0)
        assert lease is not None
        assert lease.token == 2
