"""Old sessions are deleted when a user requests it, completely, and nothing else is."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from hashlib import shake_128
from pathlib import Path

from agent.store.sqlite import SqliteStore
from toolcrib import Answer, SuspendTicket, ToolCall, ToolCallStatus, ToolResult
from toolcrib.contract.mail import ChatRecord, Mail, Post
from toolcrib.contract.state import StateWrite
from toolcrib.contract.store import AuditEntry, Grant, InboxItem, RunRecord, TicketRecord
from toolcrib.contract.undo import ChangeStep, FileChange

TABLES = (
    "sessions",
    "messages",
    "calls",
    "tickets",
    "audit",
    "grants",
    "steps",
    "runs",
    "inbox",
    "origins",
    "usage",
    "state",
    "artifacts",
    "posts",
    "chats",
    "chat_sessions",
)


def counts(file: Path) -> dict[str, int]:
    database = sqlite3.connect(file)
    try:
        return {table: database.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in TABLES}  # noqa: S608 - ours
    finally:
        database.close()


def bodies(file: Path, session: str) -> list[bytes]:
    """Return the last bytes of the session's stored messages, because packed messages all begin alike."""
    with closing(sqlite3.connect(file)) as database:
        sql = "SELECT body FROM messages WHERE session = (SELECT row FROM sessions WHERE id = ?) AND typeof(body) = 'blob'"
        return [body[-20:] for (body,) in database.execute(sql, (session,))]


async def fill(store: SqliteStore, session: str, at: float, *, ends: bool = True) -> None:
    await store.sessions.create(session, platform="cli", user="")
    await store.sessions.append(
        session, {"role": "user", "text": f"a secret of {session} " + shake_128(session.encode()).hexdigest(300)}
    )
    ticket = SuspendTicket("run", "?", call=ToolCall("c", "terminal", {}))
    await store.ledger.open(ToolCall("c", "terminal", {}), session)
    await store.ledger.move(session, "c", ToolCallStatus.RUNNING)
    await store.tickets.put(TicketRecord(ticket, session, "pending"))
    await store.tickets.decide_ticket(Answer(ticket.id), "approved")
    if ends:
        await store.ledger.finish(session, "c", ToolCallStatus.SUCCEEDED, ToolResult.success("terminal", "done"))
    await store.audit.record(AuditEntry(at, session, "c", "terminal", "allow", "rule"))
    await store.grants.add(Grant(f"g-{session}", "session", "k", "/", session_id=session))
    await store.changes.begin(ChangeStep(session, 1, "c", "patch", at, (FileChange("/a", "local", None, None),)))
    item = await store.inbox.put(InboxItem(session, f"a secret of {session}", key="k"))
    assert item is not None
    run = RunRecord(f"r-{session}", session, "ended", 1, {"text": f"a secret of {session}"})
    answer = {"role": "assistant", "text": "", "usage": {"input": 1}, "model": f"a secret of {session}"}
    await store.runs.commit(run, messages=[answer], taken=[item.id])
    await store.origins.remember(session, {f"/a secret of {session}": 1})
    await store.artifacts.put(session, f"a secret of {session}".encode())
    await store.state.write([StateWrite("session", session, "n", f"a secret of {session}")])
    await store.mail.enter(ChatRecord("chat", session, session, {"title": f"a secret of {session}"}))
    post = await store.mail.post(Post("chat", session, session, {"text": f"a secret of {session}"}))
    await store.mail.moved(post.id, "shown", shown_as=f"a secret of {session}")
    mail = await store.mail.arrived(Mail("chat", session, "k", {"text": f"a secret of {session}"}))
    assert mail is not None
    await store.mail.done([mail.id])


async def test_old_sessions_go_with_all_that_was_theirs(tmp_path: Path) -> None:
    now = [100.0]
    file = tmp_path / "store.db"
    store = SqliteStore(file, clock=lambda: now[0])
    for session, at, ends in (("old", 100.0, True), ("busy", 110.0, False), ("new", 300.0, True)):
        now[0] = at
        await fill(store, session, at, ends=ends)
    await store.grants.add(replace(Grant("always", "always", "", "/"), argv=("ls",)))
    before, (said_old, said_new) = counts(file), (bodies(file, session) for session in ("old", "new"))
    assert await store.old(200.0) == 1
    assert await store.prune(200.0) == 1
    after = counts(file)
    assert {table: before[table] - after[table] for table in TABLES} == dict.fromkeys(TABLES, 1) | {"messages": 2}
    assert await store.sessions.get("old") is None
    assert [one.id for one in await store.sessions.list()] == ["new", "busy"]
    assert {grant.id for grant in await store.grants.all()} == {"g-busy", "g-new", "always"}
    assert await store.prune(200.0) == 0
    store.close()
    assert b"a secret of old" not in file.read_bytes()
    assert b"a secret of new" in file.read_bytes()
    assert [any(body in file.read_bytes() for body in of) for of in (said_old, said_new)] == [False, True]


async def test_a_session_that_has_something_to_do_stays(tmp_path: Path) -> None:
    now = [100.0]
    store = SqliteStore(tmp_path / "store.db", clock=lambda: now[0])
    for session in ("parked", "asked", "done"):
        await fill(store, session, 100.0)
    await store.runs.commit(RunRecord("r", "parked", "parked", 1, {}))
    item = await store.inbox.put(InboxItem("asked", "are you there?"))
    unknown = await store.inbox.put(InboxItem("not yet opened", "hello"))
    assert item is not None
    lease = await store.leases.take("done", "me", 0.0)
    now[0] = 300.0
    assert await store.old(200.0) == await store.prune(200.0) == 1
    assert {one.id for one in await store.sessions.list()} == {"parked", "asked"}
    await store.inbox.drop([item.id])
    assert await store.prune(200.0) == 1
    assert list(await store.inbox.waiting("not yet opened")) == [unknown]
    again = await store.leases.take("done", "me", 0.0)
    assert lease is not None
    assert again is not None
    assert again.token == lease.token + 1, "a token never comes again"
    store.close()


async def test_a_ticket_that_ran_out_goes_with_its_session(tmp_path: Path) -> None:
    """Only an answer, or this deletion, writes the ticket's state."""
    now = [100.0]
    store = SqliteStore(tmp_path / "store.db", clock=lambda: now[0])
    await store.sessions.create("s", platform="cli", user="")
    await store.tickets.put(TicketRecord(SuspendTicket("run", "?"), "s", at=100.0, expires_at=110.0))
    now[0] = 300.0
    assert await store.prune(200.0) == 1
    assert counts(tmp_path / "store.db")["tickets"] == 0
    store.close()
