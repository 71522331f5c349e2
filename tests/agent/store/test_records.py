"""Round trips: everything that a store keeps is read back exactly."""

from __future__ import annotations

import asyncio
import functools
import itertools
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.store.postgres.store import PostgresStore
from agent.store.sqlite import SqliteStore
from toolcrib import Answer, SuspendTicket, ToolCall, ToolCallStatus, ToolResult, ToolStatus
from toolcrib.contract.store import AuditEntry, Grant, InboxItem, RunRecord, Store, TicketRecord
from toolcrib.contract.types import Failure

S = ToolCallStatus
NUMBER = itertools.count()

texts = st.text(st.characters(codec=None), max_size=12) | st.sampled_from(
    ["", "\0", "a\0b", "\ud800", "\udc80x", "\ud83d\ude00", "😀", "漢字", "'; DROP TABLE calls; --", "\u2028", "\x1b[0m"]
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
objects = st.dictionaries(texts, json_values, max_size=3)
calls = st.builds(ToolCall, texts, texts, json_values, st.none() | texts)
tickets = st.builds(
    SuspendTicket,
    action=texts,
    message=texts,
    call=st.none() | calls,
    parameters=objects,
    response_schema=st.none() | objects,
    resume_mode=st.sampled_from(["replay", "use_as_result", "pass_to_tool"]),
    binds=texts,
)
results = st.builds(
    ToolResult,
    texts,
    st.sampled_from(list(ToolStatus)),
    json_values,
    st.none() | texts,
    st.none() | tickets,
    st.dictionaries(texts, texts, max_size=3),
    st.none() | st.builds(Failure, st.booleans(), texts, texts),
)
seconds = st.floats(0, 4e9)


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Return a sync function for hypothesis, which returns when the test is done."""

    @functools.wraps(test)
    def run(**given: Any) -> None:
        asyncio.run(test(**given))

    return run


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store: Store
    if request.param == "sqlite":
        store = SqliteStore(tmp_path_factory.mktemp("records") / "store.db")
    else:
        store = PostgresStore(request.getfixturevalue("postgres").new_database())
    yield store
    store.close()


@given(call=calls, session=texts, result=results)
@in_a_loop
async def test_calls_and_results_come_back(kept: Store, call: ToolCall, session: str, result: ToolResult) -> None:
    session = f"{next(NUMBER)}{session}"
    await kept.ledger.open(call, session)
    await kept.ledger.move(session, call.id, S.RUNNING)
    await kept.ledger.finish(session, call.id, S.outcome_of(result.status), result)
    record = await kept.ledger.get(session, call.id)
    assert record is not None
    assert (record.call, record.session_id, record.result) == (call, session, result)
    assert record.result is not None
    assert record.result.failure == result.failure
    assert await kept.ledger.calls(session) == [record]


@given(
    ticket=tickets,
    session=texts,
    payload=json_values,
    reason=st.none() | texts,
    by=texts,
    at=seconds,
    until=st.none() | seconds,
    remind=st.none() | seconds,
)
@in_a_loop
async def test_tickets_and_answers_come_back(
    kept: Store,
    ticket: SuspendTicket,
    session: str,
    payload: Any,
    reason: str | None,
    by: str,
    at: float,
    until: float | None,
    remind: float | None,
) -> None:
    session = f"{next(NUMBER)}{session}"
    record = TicketRecord(ticket, session, "denied", Answer(ticket.id, "cancel", payload, reason, by, at), at, until, remind)
    await kept.tickets.put(record)
    assert await kept.tickets.get(ticket.id) == record
    if ticket.call is not None:
        assert await kept.tickets.of_call(session, ticket.call.id) == [record]


@given(session=texts, messages=st.lists(objects, max_size=4))
@in_a_loop
async def test_messages_come_back(kept: Store, session: str, messages: list[dict[str, Any]]) -> None:
    session = f"{next(NUMBER)}{session}"
    await kept.sessions.create(session, platform=session, user=session, model=session, cwd=session)
    await kept.sessions.append_many(session, messages)
    await kept.sessions.append(session, {"role": "user", "text": session})
    assert await kept.sessions.messages(session) == [*messages, {"role": "user", "text": session}]
    info = await kept.sessions.latest(platform=session, cwd=session)
    assert info is not None
    assert (info.id, info.user, info.model) == (session, session, session)


@given(session=texts, others=st.tuples(texts, texts, texts, texts), at=seconds, detail=objects)
@in_a_loop
async def test_audit_comes_back(kept: Store, session: str, others: tuple[str, str, str, str], at: float, detail: Any) -> None:
    entry = AuditEntry(at, f"{next(NUMBER)}{session}", *others, detail)
    await kept.audit.record(entry)
    assert await kept.audit.entries(entry.session_id) == [entry]


@given(
    grant=st.builds(
        Grant,
        id=texts,
        scope=st.sampled_from(["once", "task", "session", "uses", "until"]),
        key=texts,
        root=texts,
        task_id=texts,
        argv=st.lists(texts, max_size=3).map(tuple),
        uses_left=st.none() | st.integers(0, 2**40),
        until=st.none() | seconds,
        by=texts,
        at=seconds,
        principal=texts,
    ),
    session=texts,
)
@in_a_loop
async def test_grants_come_back(kept: Store, grant: Grant, session: str) -> None:
    number = next(NUMBER)
    grant = replace(grant, id=f"{number}{grant.id}", session_id=f"{number}{session}")
    await kept.grants.add(grant)
    assert await kept.grants.all(grant.session_id) == [grant]


@given(
    run=st.builds(
        RunRecord,
        id=texts,
        session_id=texts,
        status=st.sampled_from(["running", "parked", "ended"]),
        step=st.integers(1, 2**40),
        state=objects,
    )
)
@in_a_loop
async def test_runs_come_back(kept: Store, run: RunRecord) -> None:
    number = next(NUMBER)
    run = replace(run, id=f"{number}{run.id}", session_id=f"{number}{run.session_id}")
    await kept.sessions.create(run.session_id, platform="cli", user="me")
    assert await kept.runs.commit(run)
    found = await kept.runs.get(run.id)
    assert found is not None
    assert replace(found, updated_at=0.0) == run


@given(
    item=st.builds(
        InboxItem,
        session_id=texts,
        text=texts,
        mode=st.sampled_from(["queue", "steer", "interrupt"]),
        key=texts,
        principal=objects,
        images=st.lists(json_values, max_size=2),
        options=objects,
        at=seconds,
    )
)
@in_a_loop
async def test_what_was_said_comes_back(kept: Store, item: InboxItem) -> None:
    item = replace(item, session_id=f"{next(NUMBER)}:{item.session_id}")
    given = await kept.inbox.put(item)
    assert given is not None
    assert await kept.inbox.waiting(item.session_id) == [given]
    assert given == replace(item, images=tuple(item.images), at=item.at or given.at, id=given.id)
    await kept.inbox.drop([given.id])
    assert await kept.inbox.put(item) is not None


@given(session=texts, origins=st.dictionaries(texts, st.integers(0, 2**31), max_size=4))
@in_a_loop
async def test_origins_come_back(kept: Store, session: str, origins: dict[str, int]) -> None:
    session = f"{next(NUMBER)}{session}"
    await kept.origins.remember(session, origins)
    assert await kept.origins.of(session) == origins


async def test_what_is_not_json_is_refused_and_nothing_is_kept(kept: Store) -> None:
    await kept.sessions.create("s", platform="cli", user="me")
    with pytest.raises(TypeError, match="set is not JSON"):
        await kept.sessions.append_many("s", [{"role": "user", "text": "a"}, {"role": "user", "text": {"b"}}])
    assert await kept.sessions.messages("s") == []
    with pytest.raises(TypeError, match="object is not JSON"):
        await kept.ledger.open(ToolCall("c", "x", object()), "s")
    assert await kept.ledger.get("s", "c") is None
