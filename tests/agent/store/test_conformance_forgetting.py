"""Conformance of every store for deletion: named sessions, and texts in prompts."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import pytest

from agent.store.sqlite import SqliteStore
from toolcrib import Answer, SuspendTicket, ToolCall, ToolCallStatus, ToolResult
from toolcrib.contract.store import AuditEntry, Grant, InboxItem, RunRecord, Store, TicketRecord
from toolcrib.contract.types import Json
from toolcrib.contract.undo import ChangeStep, FileChange

ODD = "odd \udc80\0"


async def fill(store: Store, session: str, *, call: bool = True, run: bool = True, inbox: bool = True) -> None:
    """Store something of each kind. False: without a call, run or message that has not ended."""
    await store.sessions.create(session, platform="cli", user="")
    await store.sessions.append(session, {"role": "user", "text": f"about quinces, in {session}"})
    await store.ledger.open(ToolCall("c", "terminal", {}), session)
    await store.ledger.move(session, "c", ToolCallStatus.RUNNING)
    ticket = SuspendTicket("run", "?", call=ToolCall("c", "terminal", {}), id=f"t-{session}")
    await store.tickets.put(TicketRecord(ticket, session, "pending"))
    await store.tickets.decide_ticket(Answer(ticket.id), "approved")
    if call:
        await store.ledger.finish(session, "c", ToolCallStatus.SUCCEEDED, ToolResult.success("terminal", "done"))
    await store.audit.record(AuditEntry(1.0, session, "c", "terminal", "allow", "rule"))
    await store.grants.add(Grant(f"g-{session}", "session", "k", "/", session_id=session))
    await store.changes.begin(ChangeStep(session, 1, "c", "patch", 1.0, (FileChange("/a", "local", None, None),)))
    item = await store.inbox.put(InboxItem(session, "a message", key="k"))
    assert item is not None
    answer = {"role": "assistant", "text": "", "usage": {"input": 1}, "model": "m", "at": 1.0}
    state = RunRecord(f"r-{session}", session, "ended" if run else "parked", 1, {})
    await store.runs.commit(state, messages=[answer], taken=[item.id] if inbox else [])
    await store.origins.remember(session, {"/a": 1}, {"/b": "/a"})


async def left(store: Store, session: str) -> dict[str, bool]:
    """Return for each kind whether something is left."""
    return {
        "session": await store.sessions.get(session) is not None,
        "calls": bool(await store.ledger.calls(session)),
        "call": await store.ledger.get(session, "c") is not None,
        "ticket": await store.tickets.get(f"t-{session}") is not None,
        "audit": bool(await store.audit.entries(session)),
        "grants": bool(await store.grants.all(session)),
        "steps": bool(await store.changes.steps(session)),
        "run": await store.runs.get(f"r-{session}") is not None,
        "origins": bool(await store.origins.of(session)),
        "copies": bool(await store.origins.copies(session)),
        "usage": bool(await store.usage.sums(session_id=session)),
        "found": any(hit.session_id == session for hit in await store.search.find("quinces")),
        "changed": session in await store.changes.sessions(),
    }


async def test_sessions_that_are_named_go_with_all_of_theirs(store: Store) -> None:
    for session in ("one", "two", ODD):
        await fill(store, session)
    assert set((await left(store, ODD)).values()) == {True}
    assert sorted(await store.delete(["two", ODD, "two", "unknown"])) == [ODD, "two"]
    for session in ("two", ODD):
        assert set((await left(store, session)).values()) == {False}
    assert set((await left(store, "one")).values()) == {True}
    assert await store.delete(["two"]) == []
    assert await store.delete([]) == []
    await fill(store, "three")
    assert set((await left(store, "three")).values()) == {True}


async def test_what_is_at_work_or_waited_for_stays(store: Store) -> None:
    for session, options in (("calls", {"call": False}), ("runs", {"run": False}), ("told", {"inbox": False})):
        await fill(store, session, **options)
        assert await store.delete([session]) == []
        assert set((await left(store, session)).values()) == {True}


async def test_permanent_grants_stay(store: Store) -> None:
    await fill(store, "one")
    await store.grants.add(Grant("always", "always", "", "/", session_id="one"))
    assert await store.delete(["one"]) == ["one"]
    assert [grant.id for grant in await store.grants.all()] == ["always"]


@pytest.mark.parametrize("said", ["likes apricots", 'a "quoted" \\ line\nand \u6771\u4eac', "100% of _it"])
async def test_prompts_that_say_something_become_others(store: Store, said: str) -> None:
    for session, memory in (("one", f"- {said}\n"), ("two", "- likes pears\n"), (ODD, f"{said}{said}"), ("four", said.upper())):
        await store.sessions.create(session, platform="cli", user="")
        await store.sessions.update(session, prompt={"text": "t", "memory": memory})

    def without(prompt: Mapping[str, Json]) -> Mapping[str, Json]:
        return {**prompt, "memory": str(prompt["memory"]).replace(said, "gone")}

    assert sorted(await store.rewrite_prompts(said, without)) == [
        "odd \udc80\0" if name == ODD else name for name in (ODD, "one")
    ]
    assert await store.sessions.prompt("one") == {"text": "t", "memory": "- gone\n"}
    assert await store.sessions.prompt(ODD) == {"text": "t", "memory": "gonegone"}
    assert await store.sessions.prompt("two") == {"text": "t", "memory": "- likes pears\n"}
    assert await store.rewrite_prompts(said, without) == []
    before = [await store.sessions.get(name) for name in ("one", "two")]
    assert await store.rewrite_prompts("likes", lambda prompt: prompt) == []
    assert [await store.sessions.get(name) for name in ("one", "two")] == before


async def test_sessions_are_found_by_whatever_they_keep(store: Store) -> None:
    """Texts that the search index does not contain count too."""
    say = {
        "message": {"role": "assistant", "text": "Yes.", "native": {"reasoning_content": "likes apricots"}},
        "long": {"role": "user", "text": "x " * 40_000 + "likes apricots" + " y" * 40_000},
        ODD: {"role": "user", "text": "likes apricots"},
        "other": {"role": "user", "text": "likes pears"},
    }
    for session in (*say, "call", "long call", "result", "long result", "ticket", "detail", "waits", "run"):
        await store.sessions.create(session, platform="cli", user="")
    for session, message in say.items():
        await store.sessions.append(session, message)
    await store.ledger.open(ToolCall("c", "memory", {"content": "likes apricots"}), "call")
    await store.ledger.open(ToolCall("c", "memory", {"content": f"{'x ' * 400}likes apricots"}), "long call")
    await store.ledger.open(ToolCall("c", "terminal", {}), "long result", ToolCallStatus.RUNNING)
    text = {"output": f"{'x ' * 400}likes apricots"}
    await store.ledger.finish("long result", "c", ToolCallStatus.SUCCEEDED, ToolResult.success("terminal", text))
    await store.ledger.open(ToolCall("c", "terminal", {}), "result")
    await store.ledger.move("result", "c", ToolCallStatus.RUNNING)
    await store.ledger.finish("result", "c", ToolCallStatus.SUCCEEDED, ToolResult.success("terminal", ["likes apricots"]))
    await store.tickets.put(TicketRecord(SuspendTicket("run", "likes apricots?", id="t"), "ticket", "pending"))
    await store.audit.record(AuditEntry(1.0, "detail", "c", "terminal", "allow", "rule", {"why": "likes apricots"}))
    await store.inbox.put(InboxItem("waits", "likes apricots"))
    await store.runs.commit(RunRecord("r", "run", "parked", 1, {"said": ["likes apricots"]}))
    found = await store.saying(lambda kept: "likes apricots" in kept)
    odd = "odd \udc80\0"
    assert sorted(found) == sorted(
        [odd, "message", "long", "call", "long call", "result", "long result", "ticket", "detail", "waits", "run"]
    )
    assert await store.free()


async def test_a_reader_of_before_keeps_the_file_from_being_freed(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    store = SqliteStore(file)
    await store.sessions.create("one", platform="cli", user="")
    await store.sessions.update("one", prompt={"memory": "likes apricots"})
    with closing(sqlite3.connect(file)) as reader:
        reader.execute("BEGIN")
        reader.execute("SELECT count(*) FROM sessions").fetchall()
        await store.rewrite_prompts("likes apricots", lambda prompt: {})
        assert not await store.free()
        reader.rollback()
        assert await store.free()
        assert b"apricots" not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
    store.close()


async def test_nothing_of_it_is_in_the_file_its_log_or_a_copy(tmp_path: Path) -> None:
    file = tmp_path / "store.db"
    store = SqliteStore(file, backups=True)
    for session in ("one", "two"):
        await store.sessions.create(session, platform="cli", user="")
        await store.sessions.append(session, {"role": "user", "text": f"about quinces of {session}"})
        await store.sessions.update(session, prompt={"memory": f"likes apricots {session}"})
    await store.search.find("quinces")
    with closing(sqlite3.connect(file)) as connection:
        for name in ("store.db-backup", "store.db-backup-before"):
            with closing(sqlite3.connect(tmp_path / name)) as copy:
                connection.backup(copy)
    await store.rewrite_prompts("likes apricots one", lambda prompt: {})
    assert sorted(path.name for path in tmp_path.iterdir() if "backup" in path.name) == []
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"apricots one" not in kept
    assert b"apricots two" in kept
    await store.delete(["two"])
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"apricots two" not in kept
    assert b"quinces of two" not in kept
    assert b"quinces of one" in kept
    store.close()
