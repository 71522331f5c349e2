"""Reading beside the writer: a reader's error goes to its caller, and the reader continues."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from agent.store.sqlite import SqliteStore
from toolcrib import StoreFailed


async def test_a_read_that_fails_says_why_and_the_next_one_works(open_file: Callable[..., SqliteStore], file: Path) -> None:
    store = open_file()
    await store.sessions.create("s", platform="cli", user="")
    with closing(sqlite3.connect(file)) as other:
        other.execute("ALTER TABLE grants RENAME TO hidden")
        other.commit()
    with pytest.raises(StoreFailed, match="grants") as error:
        await store.grants.all()
    assert isinstance(error.value.__cause__, sqlite3.Error)
    found = await store.sessions.get("s")
    assert found is not None
    assert found.id == "s"
