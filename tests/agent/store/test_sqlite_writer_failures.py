"""An operation that fails in the writer's thread leaves nothing behind, and does not affect its neighbours."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.store._database import Database


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    made = Database(tmp_path / "store.db", "NORMAL")
    yield made
    made.close()


def adds(number: int, error: Exception | None = None) -> Any:
    def work(connection: sqlite3.Connection) -> int:
        connection.execute("INSERT INTO t VALUES (?)", (number,))
        if error is not None:
            raise error
        return number

    return work


async def numbers(database: Database) -> list[int]:
    return [number for (number,) in await database.read(lambda connection: connection.execute("SELECT x FROM t").fetchall())]


@pytest.mark.parametrize("failing", [0, 1, 2, 3])
async def test_half_of_an_operation_is_never_kept(database: Database, failing: int) -> None:
    """The failing operation is the first, a middle or the last one of the batch."""
    await database.write(lambda connection: connection.execute("CREATE TABLE t (x)"))
    gate = threading.Event()
    held = asyncio.ensure_future(database.alone(lambda connection: gate.wait(30)))
    wanted = [adds(number, ValueError(str(number)) if number == failing else None) for number in range(4)]
    written = [asyncio.ensure_future(database.write(work)) for work in wanted]
    for _ in range(20):
        await asyncio.sleep(0)
    gate.set()
    assert await held
    found = await asyncio.gather(*written, return_exceptions=True)
    assert [str(one) for one in found] == ["0", "1", "2", "3"]
    assert [isinstance(one, ValueError) for one in found] == [number == failing for number in range(4)]
    assert await numbers(database) == [number for number in range(4) if number != failing]


async def test_an_operation_that_fails_alone_leaves_nothing(database: Database) -> None:
    await database.write(lambda connection: connection.execute("CREATE TABLE t (x)"))
    with pytest.raises(ValueError, match="no"):
        await database.write(adds(1, ValueError("no")))
    assert await database.write(adds(2)) == 2
    assert await numbers(database) == [2]
