"""Conformance of every store for state under typed keys."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ToolCall, ToolCallStatus, ToolResult
from toolcrib.contract.state import StateScope, StateValue, StateWrite
from toolcrib.contract.store import Store

ODD = "odd \udc80\0"


def put(name: str, value: Any, was: int | None = None, *, scope: StateScope = "session", owner: str = "s") -> StateWrite:
    return StateWrite(scope, owner, name, value, was)


async def test_values_come_back_with_their_versions(make_store: Callable[..., Store]) -> None:
    store = make_store()
    assert await store.state.of("session", "s") == {}
    assert list(await store.state.write([put("a", {"n": [1, None]}), put(ODD, ODD)])) == [1, 1]
    assert list(await store.state.write([put("a", None)])) == [2]
    assert list(
        await store.state.write([put("a", 1.5, scope="principal"), put("a", "x" * 5000, scope="profile", owner=ODD)])
    ) == [1, 1]
    assert await store.state.of("session", "s") == {"a": StateValue(None, 2), ODD: StateValue(ODD, 1)}
    assert await store.state.of("principal", "s") == {"a": StateValue(1.5, 1)}
    assert await store.state.of("profile", ODD) == {"a": StateValue("x" * 5000, 1)}
    assert await store.state.of("profile", "s") == {}


async def test_a_version_is_compared_and_set_all_or_nothing(store: Store) -> None:
    """002-32"""
    assert await store.state.write([put("a", 1, was=1)]) == ()
    assert list(await store.state.write([put("a", 1, was=0)])) == [1]
    assert await store.state.write([put("a", 2, was=0)]) == ()
    assert await store.state.write([put("b", 2), put("a", 2, was=3)]) == ()
    assert await store.state.of("session", "s") == {"a": StateValue(1, 1)}
    assert list(await store.state.write([put("a", 2, was=1), put("b", 1, was=0)])) == [2, 1]
    with pytest.raises(TypeError):
        await store.state.write([put("a", 3), put("c", object())])
    assert await store.state.of("session", "s") == {"a": StateValue(2, 2), "b": StateValue(1, 1)}


async def test_several_at_once_lose_nothing(store: Store) -> None:
    async def add(number: int) -> None:
        for _ in range(10):
            while True:
                found = (await store.state.of("principal", "p")).get("n", StateValue([], 0))
                if await store.state.write([StateWrite("principal", "p", "n", [*found.value, number], was=found.version)]):
                    break

    await asyncio.gather(*map(add, range(5)))
    (found,) = (await store.state.of("principal", "p")).values()
    assert (sorted(found.value), found.version) == (sorted(list(range(5)) * 10), 50)


async def test_the_state_of_a_call_lasts_while_it_waits(store: Store) -> None:
    await store.sessions.create("s", platform="cli", user="")
    await store.ledger.open(ToolCall("c", "t"), "s", ToolCallStatus.RUNNING)
    waits = ToolResult.suspended("t", "?")
    await store.ledger.finish("s", "c", ToolCallStatus.SUSPENDED, waits, state={"step": 1, ODD: [ODD]})
    known = await store.ledger.get("s", "c")
    assert known is not None
    assert known.state == {"step": 1, ODD: [ODD]}
    await store.ledger.finish("s", "c", ToolCallStatus.SUSPENDED, waits, state={"step": 2})
    await store.ledger.move("s", "c", ToolCallStatus.RESUMING)
    known = await store.ledger.get("s", "c")
    assert known is not None
    assert known.state == {"step": 2}
    await store.ledger.finish("s", "c", ToolCallStatus.SUCCEEDED, ToolResult.success("t", 1))
    known = await store.ledger.get("s", "c")
    assert known is not None
    assert known.state == {}


async def test_a_sessions_state_goes_with_it_and_a_persons_stays(store: Store) -> None:
    for session in ("one", "two"):
        await store.sessions.create(session, platform="cli", user="")
        await store.sessions.append(session, {"role": "user", "text": "hello"})
        await store.state.write([StateWrite("session", session, "a", 1), StateWrite("principal", session, "a", 1)])
    assert await store.delete(["one"]) == ["one"]
    assert await store.state.of("session", "one") == {}
    assert await store.state.of("session", "two") == {"a": StateValue(1, 1)}
    assert await store.state.of("principal", "one") == {"a": StateValue(1, 1)}


_ADDS = """
import asyncio, sys
from agent.store.{module} import {name}
from toolcrib.contract.state import StateValue, StateWrite
from pathlib import Path
store = {name}({kind}(sys.argv[1]))
async def go():
    for _ in range(40):
        while True:
            found = (await store.state.of("principal", "p")).get("n", StateValue(0, 0))
            if await store.state.write([StateWrite("principal", "p", "n", found.value + 1, was=found.version)]):
                break
asyncio.run(go())
store.close()
"""


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_processes_lose_no_write(kind: str, tmp_path: Path, request: pytest.FixtureRequest, root: Path) -> None:
    where = str(tmp_path / "store.db") if kind == "sqlite" else request.getfixturevalue("emptied_url")
    names = {"module": "sqlite", "name": "SqliteStore", "kind": "Path"}
    if kind == "postgres":
        names = {"module": "postgres.store", "name": "PostgresStore", "kind": "str"}
    command = [sys.executable, "-c", _ADDS.format(**names), where]
    running = [subprocess.Popen(command, cwd=root) for _ in range(3)]
    assert [one.wait(60) for one in running] == [0, 0, 0]
    from agent.store.postgres.store import PostgresStore
    from agent.store.sqlite import SqliteStore

    store: Store = SqliteStore(Path(where)) if kind == "sqlite" else PostgresStore(where)
    assert await store.state.of("principal", "p") == {"n": StateValue(120, 120)}
    store.close()
