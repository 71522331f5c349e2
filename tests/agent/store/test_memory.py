"""The store in memory: the protocols of the contract, under real threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from agent.store.memory import MemoryStore
from toolcrib import Answer, InvalidTransition, SuspendTicket, ToolCall, ToolCallStatus, ToolResult
from toolcrib._store import AuditEntry, Grant, Store, TicketRecord

S = ToolCallStatus


class Now:
    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def store() -> Store:
    return MemoryStore()


def together(count: int, work: Callable[[int], Any]) -> list[Any]:
    """What ``work(0..count)`` returned, all started at one moment."""
    gate, found = threading.Barrier(count), []

    def run(number: int) -> None:
        gate.wait()
        found.append(work(number))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


# -- the ledger ------------------------------------------------------------------------------------------------------


def status(store: Store, call_id: str = "c") -> ToolCallStatus:
    record = store.ledger.get("s", call_id)
    assert record is not None
    return record.status


def test_a_call_goes_through_its_life(store: Store) -> None:
    """002-27"""
    store.ledger.open(ToolCall("c", "terminal", {"command": "ls"}), "s")
    assert status(store) is S.NEW
    for move in (S.RUNNING, S.SUSPENDED, S.RESUMING, S.RUNNING):
        store.ledger.move("s", "c", move)
    store.ledger.handler_started("s", "c")
    store.ledger.finish("s", "c", S.SUCCEEDED, ToolResult.success("terminal", 1))
    record = store.ledger.get("s", "c")
    assert record is not None
    assert (record.status, record.handler_started, record.result) == (S.SUCCEEDED, True, ToolResult.success("terminal", 1))
    assert store.ledger.get("other", "c") is None


@pytest.mark.parametrize("end", [S.SUCCEEDED, S.FAILED, S.CANCELLED])
def test_an_ended_call_stays_ended_and_keeps_its_first_result(store: Store, end: ToolCallStatus) -> None:
    """002-28"""
    store.ledger.open(ToolCall("c", "x"), "s")
    store.ledger.move("s", "c", S.RUNNING)
    store.ledger.finish("s", "c", end, ToolResult.success("x", "first"))
    for move in S:
        if move is not end:
            with pytest.raises(InvalidTransition):
                store.ledger.move("s", "c", move)
            with pytest.raises(InvalidTransition):
                store.ledger.finish("s", "c", move, ToolResult.success("x", "second"))
    store.ledger.finish("s", "c", end, ToolResult.success("x", "second"))
    record = store.ledger.get("s", "c")
    assert record is not None
    assert record.result == ToolResult.success("x", "first")
    with pytest.raises(InvalidTransition):
        store.ledger.handler_started("s", "c")


def test_what_was_never_opened_or_is_under_way_is_refused(store: Store) -> None:
    for refused in (
        lambda: store.ledger.move("s", "c", S.RUNNING),
        lambda: store.ledger.handler_started("s", "c"),
        lambda: store.ledger.finish("s", "c", S.FAILED, ToolResult.error("x", "")),
    ):
        with pytest.raises(InvalidTransition, match="never opened"):
            refused()
    store.ledger.open(ToolCall("c", "x"), "s")
    with pytest.raises(InvalidTransition, match="already new"):
        store.ledger.open(ToolCall("c", "x"), "s")
    store.ledger.move("s", "c", S.RUNNING)
    with pytest.raises(InvalidTransition, match="can not finish as running"):
        store.ledger.finish("s", "c", S.RUNNING, ToolResult.success("x", 1))
    store.ledger.finish("s", "c", S.FAILED, ToolResult.error("x", ""))
    store.ledger.open(ToolCall("c", "x"), "s")  # a provider that counts anew each turn
    assert status(store) is S.NEW


def test_of_many_threads_one_ends_a_call(store: Store) -> None:
    store.ledger.open(ToolCall("c", "x"), "s")
    store.ledger.move("s", "c", S.RUNNING)

    def end(number: int) -> bool:
        try:
            store.ledger.finish("s", "c", (S.SUCCEEDED, S.FAILED)[number % 2], ToolResult.success("x", number % 2))
        except InvalidTransition:
            return False
        return True

    assert sum(together(8, end)) == 4  # the same end again does nothing, the other one is refused
    record = store.ledger.get("s", "c")
    assert record is not None
    assert record.result is not None
    assert record.status is (S.SUCCEEDED, S.FAILED)[record.result.data]


# -- tickets ---------------------------------------------------------------------------------------------------------


def put(store: Store, *, call: ToolCall | None = None, expires_at: float | None = None) -> str:
    ticket = SuspendTicket("approve", "may I?", call)
    store.tickets.put(TicketRecord(ticket, "s", at=1.0, expires_at=expires_at))
    return ticket.id


def test_of_many_answers_one_settles_a_ticket(store: Store) -> None:
    ticket = put(store)
    answers = [Answer(ticket, payload={"approved": bool(number % 2)}, by=str(number)) for number in range(16)]
    won = together(16, lambda number: store.tickets.settle(answers[number], "approved" if number % 2 else "denied"))
    assert won.count(True) == 1
    record = store.tickets.get(ticket)
    assert record is not None
    assert record.answer is not None
    assert record.state == ("denied" if record.answer.denied else "approved")
    assert store.tickets.pending("s") == []


def test_a_decision_delivered_again_changes_nothing(store: Store) -> None:
    """002-31"""
    first, second = put(store), put(store)
    answer = Answer(first, payload={"approved": True}, decision_id="d")
    assert store.tickets.settle(answer, "approved")
    assert not store.tickets.settle(answer, "approved")
    assert not store.tickets.settle(Answer(second, payload={"approved": True}, decision_id="d"), "approved")
    assert [record.ticket.id for record in store.tickets.pending("s")] == [second]


def test_unknown_known_and_pending_are_refused(store: Store) -> None:
    ticket = put(store)
    record = store.tickets.get(ticket)
    assert record is not None
    with pytest.raises(ValueError, match="known already"):
        store.tickets.put(record)
    with pytest.raises(ValueError, match="settled as"):
        store.tickets.settle(Answer(ticket), "pending")
    assert not store.tickets.settle(Answer("no-such-ticket"), "approved")
    assert store.tickets.get("no-such-ticket") is None


def test_a_late_answer_finds_the_ticket_expired() -> None:
    now = Now()
    store = MemoryStore(clock=now)
    ticket = put(store, expires_at=200.0)
    assert len(store.tickets.pending("s")) == 1
    now.at = 200.0
    assert store.tickets.pending("s") == []
    assert not store.tickets.settle(Answer(ticket, payload={"approved": True}), "approved")
    record = store.tickets.get(ticket)
    assert record is not None
    assert (record.state, record.answer) == ("expired", None)


def test_tickets_of_a_call_are_found_in_order(store: Store) -> None:
    call = ToolCall("c", "x")
    first, second = put(store, call=call), put(store, call=call)
    put(store, call=ToolCall("other", "x"))
    store.tickets.settle(Answer(first), "approved")
    assert [record.ticket.id for record in store.tickets.of_call("s", "c")] == [first, second]
    assert store.tickets.of_call("elsewhere", "c") == []


# -- the rest --------------------------------------------------------------------------------------------------------


def test_audit_keeps_what_was_true_then(store: Store) -> None:
    detail = {"findings": ["a"]}
    store.audit.record(AuditEntry(1.0, "s", "c", "terminal", "denied", "gate", detail))
    store.audit.record(AuditEntry(2.0, "t", "c", "terminal", "approved", "me"))
    detail["findings"].append("b")
    assert store.audit.entries("s")[0].detail == {"findings": ["a"]}
    assert [entry.decision for entry in store.audit.entries()] == ["denied", "approved"]


def test_sessions_keep_copies_in_order(store: Store) -> None:
    store.sessions.create("s", platform="cli", user="me")
    message = {"role": "user", "content": ["hi"]}
    store.sessions.append("s", message)
    message["content"] = []
    store.sessions.create("s", platform="cli", user="me")
    assert store.sessions.messages("s") == [{"role": "user", "content": ["hi"]}]
    with pytest.raises(KeyError):
        store.sessions.append("never", message)


def test_grants_are_kept_and_may_be_kept_elsewhere(store: Store) -> None:
    grant = Grant("g", "session", "k", "/", session_id="s")
    store.grants.add(grant)
    assert store.grants.all("s") == [grant]
    assert MemoryStore(store.grants).grants is store.grants
    store.close()
