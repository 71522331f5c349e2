"""Servers that stop, hang, refuse, or hold data that is not ours."""

from __future__ import annotations

import asyncio
import os
import shutil
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from agent.store.postgres import _database, _schema
from agent.store.postgres.store import PostgresStore
from toolcrib import StoreFailed

Open = Callable[..., PostgresStore]
NEWEST = len(list(_schema.FOLDER.glob("*.sql")))
SAID = {"role": "user", "text": "hi"}


async def test_a_server_that_was_killed_is_used_again_when_it_is_back(own_postgres: Any, open_store: Open) -> None:
    """Every append that has returned is in the store after the restart."""
    store = open_store(own_postgres.url)
    await store.sessions.create("s", platform="cli", user="me")
    for turn, how in enumerate(("kill", "stop", "kill")):
        await store.sessions.append("s", SAID)
        await asyncio.to_thread(own_postgres.control, how)
        with pytest.raises(StoreFailed, match=r"127\.0\.0\.1:\d+/postgres can't be reached; check that it runs, and store\.url"):
            await store.sessions.append("s", SAID)
        with pytest.raises(StoreFailed):
            await store.sessions.list()
        await asyncio.to_thread(own_postgres.control, "start")
        await store.sessions.append("s", SAID)  # at once, though the old connections are dead
        assert len(await store.sessions.messages("s")) == 2 * turn + 2


async def test_a_server_that_is_killed_in_the_midst_loses_nothing_that_was_told(own_postgres: Any, open_store: Open) -> None:
    store = open_store(own_postgres.url)
    await store.sessions.create("s", platform="cli", user="me")
    kept: list[str] = []
    failed: list[str] = []

    async def write(caller: int) -> None:
        for number in range(10_000):
            text = f"{caller} {number}"
            try:
                await store.sessions.append("s", {"role": "assistant", "text": text})
            except StoreFailed as error:
                failed.append(str(error))
                return
            kept.append(text)

    writers = [asyncio.create_task(write(caller)) for caller in range(6)]
    while len(kept) < 100:
        await asyncio.sleep(0.01)
    await asyncio.to_thread(own_postgres.control, "kill")
    await asyncio.gather(*writers)
    assert len(failed) == 6
    await asyncio.to_thread(own_postgres.control, "start")
    found = [message["text"] for message in await store.sessions.messages("s")]
    assert set(kept) <= set(found)
    assert len(found) == len(set(found)) <= len(kept) + 6


async def test_a_server_that_hangs_is_given_up(own_postgres: Any, open_store: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server's own time limits do not apply while it hangs."""
    monkeypatch.setattr(_database, "_SECONDS", 2.0)
    store = open_store(own_postgres.url)
    await store.sessions.create("s", platform="cli", user="me")
    await asyncio.to_thread(own_postgres.control, "hang")
    with pytest.raises(StoreFailed, match="closed the connection; check that it runs"):
        await store.sessions.append("s", SAID)
    await asyncio.to_thread(own_postgres.control, "go on")
    monkeypatch.undo()
    await store.sessions.append("s", SAID)


async def test_more_callers_than_connections_take_turns(url: str, open_store: Open) -> None:
    store = open_store(url, connections=2)
    for number in range(20):
        await store.sessions.create(str(number), platform="cli", user="me")
    await asyncio.gather(*(store.sessions.append(str(number % 20), SAID) for number in range(200)))
    assert [len(await store.sessions.messages(str(number))) for number in range(20)] == [10] * 20
    with psycopg.connect(url) as connection:
        found = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'toolcrib' AND datname = %s", [url.rpartition("/")[2]]
        ).fetchone()
    assert found == (2,)


async def test_a_cancelled_caller_leaves_the_store_in_order(url: str, open_store: Open) -> None:
    """The write still happens, and the connection serves the next caller."""
    store = open_store(url, connections=1)
    await store.sessions.create("s", platform="cli", user="me")
    for _ in range(20):
        task = asyncio.create_task(store.sessions.append("s", SAID))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    await store.sessions.append("s", SAID)
    assert len(await store.sessions.messages("s")) == 21


def test_it_is_used_from_several_loops_and_from_none(url: str, open_store: Open) -> None:
    store = open_store(url)
    asyncio.run(store.sessions.create("s", platform="cli", user="me"))

    async def append() -> None:
        for _ in range(10):
            await store.sessions.append("s", SAID)

    threads = [threading.Thread(target=lambda: asyncio.run(append())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reading = store.sessions.messages("s")
    with pytest.raises(StopIteration) as done:
        reading.send(None)  # it blocks
    assert len(done.value.value) == 40


async def test_close_waits_for_what_was_begun(url: str, open_store: Open) -> None:
    store = open_store(url)
    await store.sessions.create("s", platform="cli", user="me")
    writing = [asyncio.create_task(store.sessions.append("s", SAID)) for _ in range(50)]
    await asyncio.sleep(0)
    await asyncio.to_thread(store.close)
    await asyncio.gather(*writing)
    store.close()
    with pytest.raises(StoreFailed, match=r"127\.0\.0\.1:\d+/t\d+ is closed"):
        await store.sessions.list()
    with pytest.raises(StoreFailed, match="is closed"):
        store.signals.listen(print)
    await store.signals.send("nobody")
    assert len(await open_store(url).sessions.messages("s")) == 50


async def test_a_decision_that_comes_to_two_tickets_at_once_settles_one(url: str, open_store: Open) -> None:
    """002-31"""
    from toolcrib import Answer, SuspendTicket
    from toolcrib.contract.store import TicketRecord

    stores = [open_store(url), open_store(url)]
    for turn in range(20):
        tickets = [SuspendTicket("run", "?") for _ in stores]
        for ticket in tickets:
            await stores[0].tickets.put(TicketRecord(ticket, "s"))
        answers = [Answer(ticket.id, decision_id=str(turn)) for ticket in tickets]
        found = await asyncio.gather(
            *(store.tickets.decide_ticket(answer, "approved") for store, answer in zip(stores, answers, strict=True))
        )
        assert sorted(found) == ["refused", "settled"]


def test_a_store_from_before_a_fork_is_refused(url: str, open_store: Open) -> None:
    store = open_store(url)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            asyncio.run(store.sessions.list())
        except StoreFailed as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as said:
        assert b"opened before this process was forked" in said.read()
    assert asyncio.run(store.sessions.list()) == []


# -- what the server holds -------------------------------------------------------------------------------------------


def test_several_processes_make_the_tables_at_once(
    url: str, process: Callable[[str, str], AbstractContextManager[Any]], open_store: Open
) -> None:
    code = "print('made', flush=True)\nwait()"
    with process(url, code) as one, process(url, code) as two, process(url, code) as three:
        assert [each.line() for each in (one, two, three)] == ["made"] * 3
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT number FROM toolcrib.version").fetchall() == [(NEWEST,)]
    open_store(url)


def test_newer_tables_and_those_of_others_are_left_as_they_are(url: str, open_store: Open, postgres: Any) -> None:
    open_store(url)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE toolcrib.version SET number = number + 1")
    with pytest.raises(StoreFailed, match=rf"written by a newer toolcrib \(version {NEWEST + 1} .* up to {NEWEST}\).*upgrade"):
        open_store(url)
    theirs = postgres.new_database()
    with psycopg.connect(theirs) as connection:
        connection.execute("CREATE SCHEMA toolcrib")
        connection.execute("CREATE TABLE toolcrib.sessions (x integer)")
    with pytest.raises(StoreFailed, match=r"schema toolcrib .* belongs to another program.*use another database"):
        open_store(theirs)


async def test_tables_are_upgraded_with_what_they_hold(
    url: str, open_store: Open, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A step that fails leaves the previous version."""
    store = open_store(url)
    await store.sessions.create("s", platform="cli", user="me")
    folder = shutil.copytree(_schema.FOLDER, tmp_path / "sql")
    (folder / f"{NEWEST + 1:04d}_more.sql").write_text("ALTER TABLE toolcrib.sessions ADD COLUMN more text;\nSELECT 1/0;")
    monkeypatch.setattr(_schema, "FOLDER", folder)
    with pytest.raises(StoreFailed, match="division by zero"):
        open_store(url)
    (folder / f"{NEWEST + 1:04d}_more.sql").write_text("ALTER TABLE toolcrib.sessions ADD COLUMN more text;\nSELECT 1;")
    upgraded = open_store(url)
    assert await upgraded.sessions.get("s") is not None
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT number, more FROM toolcrib.version, toolcrib.sessions").fetchall() == [
            (NEWEST + 1, None)
        ]


def test_a_user_without_the_right_to_make_tables_uses_those_that_are_there(url: str, open_store: Open) -> None:
    with psycopg.connect(url) as connection:
        role = f"plain_{url.rpartition('/')[2]}"
        connection.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'x'".encode())
    plain = f"postgresql://{role}:x@{url.rpartition('@')[2]}"
    with pytest.raises(StoreFailed, match="denies this user the action; grant it CREATE on the database"):
        open_store(plain)
    open_store(url)
    with psycopg.connect(url) as connection:
        connection.execute(f"GRANT USAGE ON SCHEMA toolcrib TO {role}".encode())
        connection.execute(f"GRANT ALL ON ALL TABLES IN SCHEMA toolcrib TO {role}".encode())
        connection.execute(f"REVOKE CREATE ON SCHEMA public FROM {role}".encode())
    store = open_store(plain)
    asyncio.run(store.sessions.create("s", platform="cli", user="me"))


def test_a_database_of_another_encoding_is_refused(postgres: Any, open_store: Open) -> None:
    latin = postgres.new_database("ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    with pytest.raises(StoreFailed, match="has the encoding LATIN1; create one with encoding UTF8"):
        open_store(latin)


async def test_a_record_that_cannot_be_read_is_named_and_left(url: str, open_store: Open) -> None:
    store = open_store(url)
    await store.sessions.create("s", platform="cli", user="me")
    await store.sessions.append("s", SAID)
    with psycopg.connect(url) as connection:
        connection.execute("UPDATE toolcrib.messages SET body = '{'")
    with pytest.raises(StoreFailed, match=r"t\d+ has an unreadable record \(JSONDecodeError"):
        await store.sessions.messages("s")


async def test_ids_and_paths_may_be_longer_than_an_index_takes(url: str, open_store: Open) -> None:
    """A model chooses the ids of its calls."""
    from toolcrib import InvalidTransition, ToolCall
    from toolcrib.contract.store import InboxItem

    store = open_store(url)
    long = "".join(map(str, range(50_000)))
    await store.ledger.open(ToolCall(long, "x"), "s")
    with pytest.raises(InvalidTransition, match="is already new"):
        await store.ledger.open(ToolCall(long, "x"), "s")
    await store.origins.remember("s", {long: 1, f"{long}/": 2})
    assert await store.origins.of("s") == {long: 1, f"{long}/": 2}
    assert await store.inbox.put(InboxItem("s", "hi", key=long)) is not None
    assert await store.inbox.put(InboxItem("s", "hi", key=long)) is None
    await store.signals.send(long)


async def test_old_sessions_go_with_all_that_was_theirs(url: str, open_store: Open) -> None:
    from toolcrib import Answer, SuspendTicket, ToolCall, ToolCallStatus, ToolResult
    from toolcrib.contract.mail import ChatRecord, Mail, Post
    from toolcrib.contract.state import StateWrite
    from toolcrib.contract.store import AuditEntry, Grant, RunRecord, TicketRecord
    from toolcrib.contract.undo import ChangeStep, FileChange

    now = [100.0]
    store = open_store(url, clock=lambda: now[0])
    for session, at, ends in (("old", 100.0, True), ("busy", 110.0, False), ("parked", 120.0, True), ("new", 300.0, True)):
        now[0] = at
        await store.sessions.create(session, platform="cli", user="")
        await store.sessions.append(session, SAID)
        ticket = SuspendTicket("run", "?", call=ToolCall("c", "terminal", {}))
        await store.ledger.open(ToolCall("c", "terminal", {}), session, ToolCallStatus.RUNNING)
        await store.tickets.put(TicketRecord(ticket, session))
        await store.tickets.decide_ticket(Answer(ticket.id), "approved")
        if ends:
            await store.ledger.finish(session, "c", ToolCallStatus.SUCCEEDED, ToolResult.success("terminal", "done"))
        await store.audit.record(AuditEntry(at, session, "c", "terminal", "allow", "rule"))
        await store.grants.add(Grant(f"g-{session}", "session", "k", "/", session_id=session))
        await store.changes.begin(ChangeStep(session, 1, "c", "patch", at, (FileChange("/a", "local", None, None),)))
        await store.origins.remember(session, {"/a": 1})
        await store.artifacts.put(session, session.encode())
        await store.state.write([StateWrite("session", session, "n", 1), StateWrite("principal", "p", "n", 1)])
        status: Any = "parked" if session == "parked" else "ended"
        answer = {"role": "assistant", "text": "", "usage": {"input": 1}}
        await store.runs.commit(RunRecord(f"r-{session}", session, status, 1, {}), messages=[answer])
        await store.leases.take(session, "me", 1.0)
        await store.mail.enter(ChatRecord("chat", session, session))
        post = await store.mail.post(Post("chat", session, session, {"text": "an answer"}))
        await store.mail.moved(post.id, "shown")
        mail = await store.mail.arrived(Mail("chat", session, "k", {"text": "hi"}))
        assert mail is not None
        await store.mail.done([mail.id])
    await store.grants.add(Grant("always", "always", "", "/", argv=("ls",)))
    before = counts(url)
    assert await store.old(200.0) == 1
    assert await store.prune(200.0) == 1
    after = counts(url)
    gone = {table: before[table] - after[table] for table in before}
    assert gone == dict.fromkeys(before, 1) | {"messages": 2, "leases": 0, "inbox": 0, "mail": 0, "cron_jobs": 0, "cron_runs": 0}
    assert [one.id for one in await store.sessions.list()] == ["new", "parked", "busy"]
    assert {grant.id for grant in await store.grants.all()} == {"g-busy", "g-parked", "g-new", "always"}
    assert await store.prune(200.0) == 0


def counts(url: str) -> dict[str, int]:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'toolcrib' AND tablename <> 'version'")
        tables = [name for (name,) in found]
        return {name: connection.execute(f"SELECT count(*) FROM toolcrib.{name}".encode()).fetchone()[0] for name in tables}  # noqa: S608 - ours
