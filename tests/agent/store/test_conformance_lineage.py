"""Conformance of every store: a session's parent and the reason; and stores of an older toolcrib, which kept both elsewhere."""

from __future__ import annotations

import gzip
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from agent.store._schema import steps
from agent.store.postgres import _schema as postgres_schema
from agent.store.postgres.store import PostgresStore
from agent.store.sqlite import SqliteStore
from toolcrib import ToolCallStatus
from toolcrib.contract.store import SessionInfo, Store

ODD = "\ud800 'odd' \x00 \N{CHERRIES}"
OLD = Path(__file__).with_name("old") / "version12.db.gz"
"""A file of the previous toolcrib: version 12 of its tables."""
OLD_POSTGRES = 9


async def begin(store: Store, name: str, parent: str = "", why: str = "", *, said: bool = True) -> None:
    await store.sessions.create(name, platform="cli", user="", parent=parent, why=why)
    if said:
        await store.sessions.append(name, {"role": "user", "text": name})


async def lineage(store: Store, name: str) -> tuple[str, str]:
    info = await store.sessions.get(name)
    assert info is not None
    return info.parent, info.why


async def children(store: Store, name: str) -> list[str]:
    return [info.id for info in await store.sessions.children(name)]


async def test_a_session_says_where_it_comes_from_and_why(store: Store) -> None:
    await begin(store, "a")
    await begin(store, "b", "a", "fork")
    await begin(store, "c", ODD, "delegate")
    found = [await lineage(store, name) for name in ("a", "b", "c")]
    assert found == [("", ""), ("a", "fork"), (ODD, "delegate")]
    await begin(store, "b", "c", "delegate")
    await store.sessions.update("b", place={"name": "docker"}, via={"model": "m"}, cwd="/work")
    await store.sessions.label("b", title="x")
    assert await lineage(store, "b") == ("a", "fork"), "it stays"


async def test_the_children_of_a_session_are_found_the_first_one_first(store: Store) -> None:
    for name, parent in (("a", ""), ("d", "a"), ("b", "a"), ("c", "b"), ("x", ODD)):
        await begin(store, name, parent, "delegate" if parent else "", said=name != "d")
    await store.sessions.append("d", {"role": "assistant", "text": "used last"})
    assert [await children(store, name) for name in ("a", "b", "c", ODD, "", "none")] == [["d", "b"], ["c"], [], ["x"], [], []]
    await store.delete(["b"])
    assert [await children(store, name) for name in ("a", "b")] == [["d"], ["c"]]


async def test_delegates_are_left_out_of_a_list_where_that_is_asked(store: Store) -> None:
    for name, parent, why in (
        ("a", "", ""),
        ("b", "a", "fork"),
        ("c", "a", "delegate"),
        ("d", "c", "delegate"),
        ("e", "", "import"),
    ):
        await begin(store, name, parent, why)
    assert {info.id for info in await store.sessions.list()} == set("abcde")
    assert {info.id for info in await store.sessions.list(delegates=False)} == set("abe")
    assert len(await store.sessions.list(2, delegates=False)) == 2
    assert await store.sessions.list(delegates=False, cwd="/elsewhere") == []


async def test_a_session_from_elsewhere_keeps_it(store: Store) -> None:
    info = SessionInfo("far", "named", "cli", "me", "m", "/p", 10.0, 40.5, 1, parent=ODD, why="fork")
    assert await store.sessions.add(info, [{"role": "user", "text": "x"}])
    assert await store.sessions.get("far") == info
    assert await children(store, ODD) == ["far"]


async def test_a_file_of_the_toolcrib_before_says_it_too(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    file.write_bytes(gzip.decompress(OLD.read_bytes()))
    with closing(SqliteStore(file)) as store:
        await _check_old(store)
        messages = await store.sessions.messages("begun")
        assert [message["role"] for message in messages] == ["user", "assistant"]
        first, second = await store.ledger.calls("begun")
        assert (first.call.args, first.status) == ({"command": "ls " + "-l " * 100}, ToolCallStatus.SUCCEEDED)
        assert first.result is not None
        assert first.result.data == {"output": "total 0\n" * 100, "exit_code": 0}
        assert (second.call.name, second.result) == ("read_file", None)
    with closing(sqlite3.connect(file)) as connection:
        plan = connection.execute(
            "EXPLAIN QUERY PLAN SELECT 1 FROM sessions WHERE parent_id = 'a' AND parent_id <> ''"
        ).fetchall()
        assert "sessions_by_parent" in str(plan)


async def test_a_file_whose_place_is_damaged_is_upgraded_all_the_same(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    file.write_bytes(gzip.decompress(OLD.read_bytes()))
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("UPDATE sessions SET place = '{\"parent\": \"begun' WHERE id = 'below'")
    with closing(SqliteStore(file)) as store:
        assert await lineage(store, "forked") == ("begun", "fork")


async def test_tables_of_the_toolcrib_before_say_it_too_on_postgresql(postgres: Any) -> None:
    import psycopg

    url = postgres.new_database()
    old: list[tuple[str, dict[str, str]]] = [
        ("begun", {"name": "local", "target": "local"}),
        ("forked", {"name": "local", "cwd": "/w\udc80", "parent": "begun", "why": "fork"}),
        ("below", {"parent": "begun", "why": "delegate", "depth": "1", "order": json.dumps({"parent": "nobody", "why": "x"})}),
        ("brought", {"imported": "codex"}),
        ("brought-fork", {"parent": "begun", "why": "fork", "imported": "toolcrib"}),
        ("bare", {"parent": "begun", "why": "fork"}),
    ]
    with psycopg.connect(url) as connection:
        connection.execute("CREATE SCHEMA toolcrib")
        connection.execute("CREATE TABLE toolcrib.version (number integer NOT NULL)")
        connection.execute("INSERT INTO toolcrib.version VALUES (%s)", [OLD_POSTGRES])
        for number, script in sorted(steps(postgres_schema.FOLDER).items()):
            if number <= OLD_POSTGRES:
                connection.execute(script.read_bytes())
        for name, place in old:
            connection.execute(
                'INSERT INTO toolcrib.sessions (id, platform, "user", model, cwd, place, created_at, updated_at)'
                " VALUES (%s, 'cli', '', '', '', %s, 1, 1)",
                [name, json.dumps(place)],
            )
    with closing(PostgresStore(url)) as store:
        await _check_old(store)
        bare = await store.sessions.get("bare")
        assert bare is not None
        assert (bare.parent, bare.why, bare.place) == ("begun", "fork", {})


async def _check_old(store: Store) -> None:
    wanted = {
        "begun": ("", "", {"name": "local", "target": "local"}),
        "forked": ("begun", "fork", {"name": "local", "cwd": "/w\udc80"}),
        "brought": ("", "import", {"imported": "codex"}),
        "brought-fork": ("begun", "fork", {"imported": "toolcrib"}),
    }
    for name, said in wanted.items():
        info = await store.sessions.get(name)
        assert info is not None
        assert (info.parent, info.why, info.place) == said
    below = await store.sessions.get("below")
    assert below is not None
    assert (below.parent, below.why, below.place["depth"]) == ("begun", "delegate", "1")
    assert json.loads(below.place["order"])["parent"] == "nobody", "a text that only looks alike stays"
    assert {"forked", "below", "brought-fork"} <= set(await children(store, "begun"))
