"""Answers to tickets from outside a session: by the start of an id, and who may give them."""

from __future__ import annotations

import pytest

from agent.conversation.answers import adopt_answers, asked_of, find_ticket, hosted, record_answer, topic_of
from agent.store.memory import MemoryStore
from toolcrib import Answer, Denied, NotFound, Principal, SuspendTicket, ToolCall
from toolcrib.contract.records import RunRecord, TicketRecord

ANN, BOB = Principal("chat", "ann"), Principal("chat", "bob")
YES = {"approved": True}


async def ticket(store: MemoryStore, id_: str, session_id: str = "s") -> TicketRecord:
    record = TicketRecord(SuspendTicket("ask", "may it?", id=id_, call=ToolCall("c1", "t", {})), session_id)
    await store.tickets.put(record)
    return record


async def test_a_ticket_is_found_by_the_beginning_of_its_id() -> None:
    store = MemoryStore()
    for id_ in ("abc111", "abc222", "def333"):
        await ticket(store, id_)
    assert (await find_ticket(store, "de")).ticket.id == "def333"
    with pytest.raises(Denied, match=r"2 tickets begin with 'abc' \(abc111, abc222\); use a longer id"):
        await find_ticket(store, "abc")
    for unknown in ("x", ""):
        with pytest.raises(NotFound, match="approvals pending"):
            await find_ticket(store, unknown)


async def test_a_settled_ticket_is_found_by_its_whole_id() -> None:
    store = MemoryStore()
    await ticket(store, "abc111")
    await record_answer(store, Answer("abc111", payload=YES))
    assert (await find_ticket(store, "abc111")).state == "approved"
    with pytest.raises(NotFound):
        await find_ticket(store, "abc")


async def test_only_whom_a_ticket_was_put_to_may_answer_it() -> None:
    store = MemoryStore()
    await store.sessions.create("s", platform=ANN.platform, user=ANN.user)
    record = await ticket(store, "abc111")
    assert await asked_of(store, record) == ANN
    for other in (BOB, Principal("mail", "ann")):
        with pytest.raises(Denied, match="abc111 belongs to another user"):
            await record_answer(store, Answer("abc111", payload=YES), other)
    assert await record_answer(store, Answer("abc111", payload=YES), ANN) == "settled"


async def test_a_delegates_question_is_put_to_whom_it_works_for() -> None:
    """The question reaches that user even while another user's run is active in the parent session."""
    store = MemoryStore()
    await store.sessions.create("room", platform="chat", user="")
    await store.sessions.create("below", platform=BOB.platform, user=BOB.user, parent="room", why="delegate")
    await store.runs.commit(RunRecord("r", "room", "running", 1, {"principal": ANN.to_json()}))
    own = await ticket(store, "own", "below")
    above = SuspendTicket("ask", "may it?", id="above", call=ToolCall("c2", "t", {}), parameters={"relays": own.ticket.id})
    await store.tickets.put(TicketRecord(above, "room"))
    with pytest.raises(Denied, match="belongs to another user"):
        await record_answer(store, Answer("above", payload=YES), ANN)
    assert await record_answer(store, Answer("above", payload=YES), BOB) == "settled"
    settled = await store.tickets.get("own")
    assert settled is not None
    assert settled.state == "approved"


@pytest.mark.parametrize(
    "lineage",
    [{}, {"parent": "other", "why": "delegate"}, {"parent": "s", "why": "fork"}],
    ids=["nobody's delegate", "another session's delegate", "a fork"],
)
async def test_a_question_does_not_answer_a_ticket_of_a_session_that_is_not_its_own_delegate(lineage: dict[str, str]) -> None:
    store = MemoryStore()
    await store.sessions.create("s", platform=ANN.platform, user=ANN.user)
    await store.sessions.create("victim", platform=BOB.platform, user=BOB.user, **lineage)
    await ticket(store, "own", "victim")
    forged = SuspendTicket("form", "tea?", id="tea", call=ToolCall("c2", "t", {}), parameters={"relays": "own"})
    record = TicketRecord(forged, "s")
    await store.tickets.put(record)
    assert await asked_of(store, record) == ANN
    assert await record_answer(store, Answer("tea", payload=YES), ANN) == "settled"
    victim = await store.tickets.get("own")
    assert victim is not None
    assert victim.state == "pending"


async def test_the_answer_to_a_ticket_does_not_settle_a_question_that_claims_to_relay_it() -> None:
    store = MemoryStore()
    await store.sessions.create("s", platform=ANN.platform, user=ANN.user)
    await store.sessions.create("other", platform=BOB.platform, user=BOB.user)
    await ticket(store, "own", "other")
    forged = SuspendTicket("form", "tea?", id="tea", call=ToolCall("c2", "t", {}), parameters={"relays": "own"})
    await store.tickets.put(TicketRecord(forged, "s"))
    await record_answer(store, Answer("own", payload=YES), BOB)
    await adopt_answers(store, "s")
    tea = await store.tickets.get("tea")
    assert tea is not None
    assert tea.state == "pending"


async def test_the_local_person_may_answer_everything() -> None:
    store = MemoryStore()
    await store.sessions.create("s", platform=ANN.platform, user=ANN.user)
    await ticket(store, "abc111")
    assert await record_answer(store, Answer("abc111", payload=YES), Principal("cli")) == "settled"


async def test_nobody_but_the_local_person_may_answer_for_an_unknown_session() -> None:
    store = MemoryStore()
    record = await ticket(store, "abc111", "nosuch")
    assert await asked_of(store, record) is None
    for unknown in ("abc111", "nosuch"):
        with pytest.raises(Denied, match="belongs to another user"):
            await record_answer(store, Answer(unknown, payload=YES), ANN)


async def test_an_answer_wakes_the_session_s_host() -> None:
    store, heard = MemoryStore(), list[str]()
    stop = store.signals.listen(heard.append)
    await ticket(store, "abc111")
    await record_answer(store, Answer("abc111", payload=YES))
    stop()
    assert heard == [topic_of("s")] == ["session:s"]


async def test_a_session_is_hosted_while_its_host_holds_its_lease() -> None:
    store = MemoryStore()
    await store.sessions.create("s", platform="cli", user="")
    assert not await hosted(store, "s")
    assert not await hosted(store, "nosuch")
    await store.sessions.update("s", host="host-1")
    assert not await hosted(store, "s")
    assert await store.leases.take("host-1", "me", 60) is not None
    assert await hosted(store, "s")
