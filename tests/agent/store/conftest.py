"""Every store that there is. A further one: its name in STORES, and how it is opened in ``make_store``."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.store.memory import MemoryStore
from agent.store.sqlite import SqliteStore
from toolcrib._store import Store

STORES = ("memory", "sqlite")


def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine function in an event loop of its own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


@pytest.fixture(params=STORES)
def make_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Store]]:
    """Open a store. Each but memory's holds what the one before held."""
    made: list[Store] = []

    def make(clock: Callable[[], float] = time.time) -> Store:
        made.append(MemoryStore(clock=clock) if request.param == "memory" else SqliteStore(tmp_path / "store.db", clock=clock))
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(make_store: Callable[..., Store]) -> Store:
    return make_store()


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "store.db"


@pytest.fixture
def open_file(file: Path) -> Iterator[Callable[..., SqliteStore]]:
    """Open the store of ``file``, as often as wanted; all are closed at the end."""
    made: list[SqliteStore] = []

    def make(**options: Any) -> SqliteStore:
        made.append(SqliteStore(file, **options))
        return made[-1]

    yield make
    for store in made:
        store.close()
