"""The configuration chooses the store, and errors name what is missing for it."""

from __future__ import annotations

import builtins
import importlib.util
from typing import Any

import pytest

from agent.api import open_store
from agent.config import load_config
from agent.store.postgres.store import PostgresStore
from agent.store.sqlite import SqliteStore
from toolcrib import ConfigError


async def test_the_server_of_the_environment_is_used(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCRIB_STORE_URL", url)
    store = open_store(load_config())
    assert isinstance(store, PostgresStore)
    await store.sessions.create("s", platform="cli", user="me")
    store.close()
    monkeypatch.delenv("TOOLCRIB_STORE_URL")
    unused = open_store(load_config(), late=True)
    assert isinstance(unused, SqliteStore)
    unused.close()


def test_what_is_not_installed_is_named_with_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is raised before a connection is opened."""
    monkeypatch.setenv("TOOLCRIB_STORE_URL", "postgresql://me:secret@there/crib")
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "psycopg" else find(name, *more))
    with pytest.raises(ConfigError, match=r"there/crib is a PostgreSQL .*pip install 'toolcrib\[postgres\]'") as missing:
        open_store(load_config(), late=True)
    assert "secret" not in str(missing.value)


async def test_a_library_without_libpq_is_named_with_its_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    """psycopg alone can be imported only if the system has libpq."""
    usual = builtins.__import__

    def without(name: str, *more: Any) -> Any:
        if name == "psycopg":
            raise ImportError("no pq wrapper available")
        return usual(name, *more)

    store = PostgresStore("postgresql://there/crib", late=True)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"no pq wrapper available; install it: pip install 'toolcrib\[postgres\]'"):
        await store.sessions.list()
    monkeypatch.undo()
    store.close()
