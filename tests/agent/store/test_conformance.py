"""Conformance of every store to the protocols of the contract, under real threads."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Protocol

import pytest

from agent.store.memory import MemoryStore
from toolcrib import Answer, InvalidTransition, SuspendTicket, ToolCall, ToolCallStatus, ToolcribError, ToolResult
from toolcrib.contract.store import AuditEntry, Fence, Grant, SessionInfo, Store, TicketRecord

S = ToolCallStatus


class MakeStore(Protocol):
    def __call__(self, clock: Callable[[], float]) -> Store: ...


class Now:
    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


async def together(count: int, work: Callable[[int], Awaitable[Any]]) -> list[Any]:
    """Return the results of ``work(0..count)``. All start at the same time: half of them here, half in threads with their own
    loops.
    """
    gate, found = threading.Barrier(count // 2 + 1), []

    async def as_coroutine(number: int) -> Any:
        return await work(number)

    def run(number: int) -> None:
        gate.wait()
        found.append(asyncio.run(as_coroutine(number)))

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count // 2)]
    for thread in threads:
        thread.start()
    gate.wait()
    here = await asyncio.gather(*(work(number) for number in range(count // 2, count)))
    await asyncio.to_thread(lambda: [thread.join() for thread in threads])
    return [*found, *here]


# -- the ledger ------------------------------------------------------------------------------------------------------


async def status(store: Store, call_id: str = "c") -> ToolCallStatus:
    record = await store.ledger.get("s", call_id)
    assert record is not None
    return record.status


async def test_a_call_goes_through_its_life(store: Store) -> None:
    """002-27"""
    await store.ledger.open(ToolCall("c", "terminal", {"command": "ls"}), "s")
    assert await status(store) is S.NEW
    for move in (S.RUNNING, S.SUSPENDED, S.RESUMING, S.RUNNING):
        await store.ledger.move("s", "c", move)
    await store.ledger.handler_started("s", "c")
    await store.ledger.finish("s", "c", S.SUCCEEDED, ToolResult.success("terminal", 1))
    record = await store.ledger.get("s", "c")
    assert record is not None
    assert (record.status, record.handler_started, record.result) == (S.SUCCEEDED, True, ToolResult.success("terminal", 1))
    assert await store.ledger.get("other", "c") is None


@pytest.mark.parametrize("end", [S.SUCCEEDED, S.FAILED, S.CANCELLED])
async def test_an_ended_call_stays_ended_and_keeps_its_first_result(store: Store, end: ToolCallStatus) -> None:
    """002-28"""
    await store.ledger.open(ToolCall("c", "x"), "s")
    await store.ledger.move("s", "c", S.RUNNING)
    await store.ledger.finish("s", "c", end, ToolResult.success("x", "first"))
    for move in S:
        if move is not end:
            with pytest.raises(InvalidTransition):
                await store.ledger.move("s", "c", move)
            with pytest.raises(InvalidTransition):
                await store.ledger.finish("s", "c", move, ToolResult.success("x", "second"))
    await store.ledger.finish("s", "c", end, ToolResult.success("x", "second"))
    record = await store.ledger.get("s", "c")
    assert record is not None
    assert record.result == ToolResult.success("x", "first")
    with pytest.raises(InvalidTransition):
        await store.ledger.handler_started("s", "c")


async def test_what_was_never_opened_or_is_under_way_is_refused(store: Store) -> None:
    for refused in (
        lambda: store.ledger.move("s", "c", S.RUNNING),
        lambda: store.ledger.handler_started("s", "c"),
        lambda: store.ledger.finish("s", "c", S.FAILED, ToolResult.error("x", "")),
    ):
        with pytest.raises(InvalidTransition, match="never opened"):
            await refused()
    await store.ledger.open(ToolCall("c", "x"), "s")
    with pytest.raises(InvalidTransition, match="already new"):
        await store.ledger.open(ToolCall("c", "x"), "s")
    await store.ledger.move("s", "c", S.RUNNING)
    with pytest.raises(InvalidTransition, match="can't finish as running"):
        await store.ledger.finish("s", "c", S.RUNNING, ToolResult.success("x", 1))
    await store.ledger.finish("s", "c", S.FAILED, ToolResult.error("x", ""))
    await store.ledger.open(ToolCall("c", "x"), "s")  # a provider that counts from the start in each turn
    assert await status(store) is S.NEW


async def test_an_id_that_is_used_again_means_the_new_call_and_the_earlier_is_kept(store: Store) -> None:
    for number in range(3):
        await store.ledger.open(ToolCall("call_0", "x", {"n": number}), "s")
        await store.ledger.move("s", "call_0", S.RUNNING)
        await store.ledger.finish("s", "call_0", S.SUCCEEDED, ToolResult.success("x", number))
    await store.ledger.open(ToolCall("call_0", "x", {"n": 3}), "s")
    await store.ledger.open(ToolCall("call_0", "x"), "t")
    assert await status(store, "call_0") is S.NEW
    assert [record.call.args for record in await store.ledger.calls("s")] == [{"n": number} for number in range(4)]
    assert [record.result and record.result.data for record in await store.ledger.calls("s")] == [0, 1, 2, None]


async def test_a_call_that_is_run_again_may_have_had_effects_from_the_start(store: Store) -> None:
    """X-1: even if its process ends before the handler starts, an earlier process had started the handler."""
    await store.ledger.open(ToolCall("c", "x"), "s", S.RUNNING, handler_started=True)
    fence = Fence()
    fence.lease = await store.leases.take("s", "next", 60)
    (ended,) = await store.fenced(fence).recover("s")
    assert ended.handler_started
    assert ended.result is not None
    assert "may have run" in str(ended.result.message)


async def test_an_answer_to_an_earlier_call_of_the_same_id_does_not_count(store: Store) -> None:
    call = ToolCall("call_0", "x")
    await store.ledger.open(call, "s")
    first = await put(store, call=call)
    assert await store.tickets.decide_ticket(Answer(first, payload={"approved": True}), "approved")
    assert [record.ticket.id for record in await store.tickets.of_call("s", "call_0")] == [first]
    await store.ledger.move("s", "call_0", S.RUNNING)
    await store.ledger.finish("s", "call_0", S.SUCCEEDED, ToolResult.success("x", 1))
    await store.ledger.open(call, "s")
    assert await store.tickets.of_call("s", "call_0") == []
    second = await put(store, call=call)
    assert [record.ticket.id for record in await store.tickets.of_call("s", "call_0")] == [second]


async def test_a_call_knows_when_it_began_and_ended(make_store: MakeStore) -> None:
    now = Now()
    store = make_store(clock=now)
    await store.ledger.open(ToolCall("c", "x"), "s")
    now.at = 103.5
    await store.ledger.move("s", "c", S.RUNNING)
    (running,) = await store.ledger.calls("s")
    await store.ledger.finish("s", "c", S.CANCELLED, ToolResult.error("x", ""))
    (ended,) = await store.ledger.calls("s")
    assert (running.opened_at, running.ended_at, ended.opened_at, ended.ended_at) == (100.0, None, 100.0, 103.5)


async def test_a_call_knows_its_turn_and_whether_it_ended_the_run(store: Store) -> None:
    """The ledger returns both even after recovery ended the call. It returns neither for a call that was opened without them."""
    await store.ledger.open(ToolCall("c", "x"), "s", S.RUNNING, turn="run/1")
    await store.ledger.finish("s", "c", S.FAILED, ToolResult.error("x", "enough"), end_run=True)
    await store.ledger.open(ToolCall("d", "x"), "s", S.RUNNING)
    await store.ledger.finish("s", "d", S.FAILED, ToolResult.error("x", "no"))
    mine = store.fenced(Fence(await store.leases.take("s", "earlier", 0.0)))
    await mine.ledger.open(ToolCall("e", "x"), "s", S.RUNNING, turn="run/2")
    await store.fenced(Fence(await store.leases.take("s", "later", 9.0))).recover("s")
    found = [(one.turn, one.end_run, one.status) for one in await store.ledger.calls("s")]
    assert found == [("run/1", True, S.FAILED), ("", False, S.FAILED), ("run/2", False, S.FAILED)]
    known = await store.ledger.get("s", "c")
    assert known is not None
    assert known.is_of("run/1", 2.0**40)
    assert not known.is_of("run/2", 0.0)


async def test_of_many_threads_one_ends_a_call(store: Store) -> None:
    await store.ledger.open(ToolCall("c", "x"), "s")
    await store.ledger.move("s", "c", S.RUNNING)

    async def end(number: int) -> bool:
        try:
            await store.ledger.finish("s", "c", (S.SUCCEEDED, S.FAILED)[number % 2], ToolResult.success("x", number % 2))
        except InvalidTransition:
            return False
        return True

    assert sum(await together(8, end)) == 4  # repeating an end does nothing; the other end is refused
    record = await store.ledger.get("s", "c")
    assert record is not None
    assert record.result is not None
    assert record.status is (S.SUCCEEDED, S.FAILED)[record.result.data]


# -- tickets ---------------------------------------------------------------------------------------------------------


async def put(store: Store, *, call: ToolCall | None = None, expires_at: float | None = None) -> str:
    ticket = SuspendTicket("approve", "may I?", call)
    await store.tickets.put(TicketRecord(ticket, "s", at=1.0, expires_at=expires_at))
    return ticket.id


async def test_of_many_answers_one_settles_a_ticket(store: Store) -> None:
    ticket = await put(store)
    answers = [Answer(ticket, payload={"approved": bool(number % 2)}, by=str(number)) for number in range(16)]
    won = await together(16, lambda number: store.tickets.decide_ticket(answers[number], "approved" if number % 2 else "denied"))
    assert sorted(won) == ["refused"] * 15 + ["settled"]
    record = await store.tickets.get(ticket)
    assert record is not None
    assert record.answer is not None
    assert record.state == ("denied" if record.answer.denied else "approved")
    assert await store.tickets.pending("s") == []


async def test_a_decision_delivered_again_changes_nothing(store: Store) -> None:
    """002-31"""
    first, second = await put(store), await put(store)
    answer = Answer(first, payload={"approved": True}, decision_id="d")
    assert await store.tickets.decide_ticket(answer, "approved") == "settled"
    assert await store.tickets.decide_ticket(answer, "approved") == "repeated"
    assert await store.tickets.decide_ticket(Answer(first, payload={"approved": False}, decision_id="e"), "denied") == "refused"
    assert await store.tickets.decide_ticket(Answer(second, payload={"approved": True}, decision_id="d"), "approved") == "refused"
    record = await store.tickets.get(first)
    assert record is not None
    assert (record.state, record.answer) == ("approved", answer)
    assert [record.ticket.id for record in await store.tickets.pending("s")] == [second]


async def test_unknown_known_and_pending_are_refused(store: Store) -> None:
    ticket = await put(store)
    record = await store.tickets.get(ticket)
    assert record is not None
    with pytest.raises(ValueError, match="already exists"):
        await store.tickets.put(record)
    with pytest.raises(ValueError, match="settled as"):
        await store.tickets.decide_ticket(Answer(ticket), "pending")
    assert await store.tickets.decide_ticket(Answer("no-such-ticket"), "approved") == "refused"
    assert await store.tickets.get("no-such-ticket") is None


async def test_a_late_answer_finds_the_ticket_expired(make_store: MakeStore) -> None:
    now = Now()
    store = make_store(clock=now)
    ticket = await put(store, expires_at=200.0)
    assert len(await store.tickets.pending("s")) == 1
    now.at = 200.0
    assert await store.tickets.pending("s") == []
    assert await store.tickets.decide_ticket(Answer(ticket, payload={"approved": True}), "approved") == "refused"
    record = await store.tickets.get(ticket)
    assert record is not None
    assert (record.state, record.answer) == ("expired", None)


async def test_tickets_of_a_call_are_found_in_order(store: Store) -> None:
    call = ToolCall("c", "x")
    first, second = await put(store, call=call), await put(store, call=call)
    await put(store, call=ToolCall("other", "x"))
    await store.tickets.decide_ticket(Answer(first), "approved")
    assert [record.ticket.id for record in await store.tickets.of_call("s", "c")] == [first, second]
    assert await store.tickets.of_call("elsewhere", "c") == []


# -- the rest --------------------------------------------------------------------------------------------------------


async def test_audit_keeps_what_was_true_then(store: Store) -> None:
    detail = {"findings": ["a"]}
    await store.audit.record(AuditEntry(1.0, "s", "c", "terminal", "denied", "gate", detail))
    await store.audit.record(AuditEntry(2.0, "t", "c", "terminal", "approved", "me"))
    detail["findings"].append("b")
    assert (await store.audit.entries("s"))[0].detail == {"findings": ["a"]}
    assert [entry.decision for entry in await store.audit.entries()] == ["denied", "approved"]


async def test_sessions_keep_copies_in_order(store: Store) -> None:
    await store.sessions.create("s", platform="cli", user="me")
    message = {"role": "user", "content": ["hi"]}
    await store.sessions.append("s", message)
    message["content"] = []
    await store.sessions.create("s", platform="cli", user="me")
    assert await store.sessions.messages("s") == [{"role": "user", "content": ["hi"]}]
    with pytest.raises(KeyError):
        await store.sessions.append("never", message)


# -- sessions --------------------------------------------------------------------------------------------------------


async def talk(store: Store, session_id: str, text: str = "hi", **about: str) -> None:
    await store.sessions.create(session_id, **{"platform": "cli", "user": "me", **about})
    await store.sessions.append(session_id, {"role": "user", "text": text})


async def test_a_title_ends_with_the_first_paragraph(make_store: MakeStore) -> None:
    """The text after it is often data, such as piped input or a file."""
    store = make_store(clock=Now())
    await talk(store, "s", "\n\n summarise\nthis \n\nWhat stands between the two lines ...")
    info = await store.sessions.get("s")
    assert info is not None
    assert info.title == "summarise this"


async def test_a_session_is_described(make_store: MakeStore) -> None:
    now = Now()
    store = make_store(clock=now)
    await store.sessions.create("s", platform="cli", user="me", model="m", cwd="/work", place={"name": "docker"})
    await store.sessions.append("s", {"role": "system", "text": "be brief"})
    now.at = 150.0
    said: list[Mapping[str, Any]] = [
        {"role": "user", "text": f"  fix\n the {'x' * 200}"},
        {"role": "assistant", "text": "done"}, {"role": "user", "text": "ok"}
    ]  # fmt: skip
    await store.sessions.append_many("s", said)
    info = await store.sessions.get("s")
    assert info == SessionInfo("s", f"fix the {'x' * 72}", "cli", "me", "m", "/work", 100.0, 150.0, 4, {"name": "docker"})
    await store.sessions.create("s", platform="other", user="other", model="other", cwd="other")
    assert await store.sessions.get("s") == info
    now.at = 160.0
    await store.sessions.update("s", title="mine", model="n", place={"name": "gpu"})
    assert await store.sessions.get("s") == SessionInfo("s", "mine", "cli", "me", "n", "/work", 100.0, 160.0, 4, {"name": "gpu"})
    with pytest.raises(KeyError):
        await store.sessions.update("never", title="x")


async def test_what_a_session_asks_is_kept_from_its_creation_on(store: Store) -> None:
    """An update without ``via`` keeps it, and an update with an empty ``via`` clears it."""
    asked = {"provider": "chat", "model": "m", "base_url": "http://127.0.0.1:1/v1", "key_env": "MINE"}
    await store.sessions.create("s", platform="cli", user="me", via=asked)

    async def via() -> Mapping[str, str]:
        info = await store.sessions.get("s")
        assert info is not None
        return info.via

    assert await via() == asked
    await store.sessions.update("s", title="t")
    assert await via() == asked
    await store.sessions.update("s", via={"provider": "gemini", "model": "\ud800"})
    assert await via() == {"provider": "gemini", "model": "\ud800"}
    await store.sessions.update("s", via={})
    assert await via() == {}


async def test_the_part_of_the_prompt_that_stays_is_kept_with_its_session(store: Store) -> None:
    await store.sessions.create("s", platform="cli", user="me")
    assert await store.sessions.prompt("s") == {}
    told = {"text": "Date: \u00e9\nBranch", "files": [{"path": "AGENTS.md", "size": 3}]}
    await store.sessions.update("s", prompt=told)
    await store.sessions.update("s", title="named")
    assert await store.sessions.prompt("s") == told
    with pytest.raises(KeyError):
        await store.sessions.prompt("other")


async def test_a_session_is_found_by_the_beginning_of_its_id(store: Store) -> None:
    for session_id in ("abc1", "abc2", "abc", "b%_*", "c\u00e9\ud800", "c\u00ea"):
        await talk(store, session_id)
    for whole in ("c\u00e9\ud800", "c\u00ea"):
        assert (info := await store.sessions.get(whole)) is not None
        assert info.id == whole
    found = {prefix: await store.sessions.get(prefix) for prefix in ("abc", "abc1", "b", "b%_", "%", "*", "zz", "\ud800")}
    assert {prefix: info and info.id for prefix, info in found.items()} == {
        "abc": "abc", "abc1": "abc1", "b": "b%_*", "b%_": "b%_*", "%": None, "*": None, "zz": None, "\ud800": None
    }  # fmt: skip
    with pytest.raises(ToolcribError, match=r"'ab'.*abc, abc2, abc1"):
        await store.sessions.get("ab")
    for number in range(10):
        await talk(store, f"many{number}")
    with pytest.raises(ToolcribError, match=r"many9, many8, many7, many6, many5 \.\.\."):
        await store.sessions.get("many")


async def test_the_session_used_last_is_continued(make_store: MakeStore) -> None:
    now = Now()
    store = make_store(clock=now)
    for number, (session_id, platform, cwd) in enumerate([("a", "cli", "/x"), ("b", "cli", "/y"), ("c", "api", "/x")]):
        now.at = float(number)
        await talk(store, session_id, platform=platform, cwd=cwd)
    now.at = 10.0
    await store.sessions.create("silent", platform="cli", user="me")
    await store.sessions.append("silent", {"role": "system", "text": "x"})
    await store.sessions.append("a", {"role": "assistant", "text": "x"})
    assert [info.id for info in await store.sessions.list()] == ["a", "c", "b"]
    assert [info.id for info in await store.sessions.list(2)] == ["a", "c"]
    assert [info.id for info in await store.sessions.list(platform="cli", user="me")] == ["a", "b"]
    latest = store.sessions.latest
    wanted = ({}, {"platform": "api"}, {"cwd": "/y"}, {"user": "you"}, {"platform": "api", "cwd": "/y"})
    found = [await latest(**only) for only in wanted]
    assert [info and info.id for info in found] == ["a", "c", "b", None, None]


async def test_a_part_of_the_messages_is_read(store: Store) -> None:
    await store.sessions.create("s", platform="cli", user="me")
    await store.sessions.append_many("s", [])
    assert await store.sessions.messages("s") == []
    await store.sessions.append_many("s", [{"role": "user", "text": str(number)} for number in range(200)])
    texts = [message["text"] for message in await store.sessions.messages("s")]
    assert texts == [str(number) for number in range(200)]
    for offset, limit in ((0, 0), (0, 1), (63, 2), (64, 64), (150, None), (150, 500), (200, None), (999, 3)):
        part = await store.sessions.messages("s", offset=offset, limit=limit)
        assert [message["text"] for message in part] == texts[offset:][:limit]
    with pytest.raises(KeyError):
        await store.sessions.messages("never")


async def test_of_several_messages_all_are_kept_or_none(store: Store) -> None:
    def broken() -> Iterator[Mapping[str, Any]]:
        yield {"role": "user", "text": "a"}
        raise OSError("the source broke")

    await talk(store, "s")
    with pytest.raises(OSError, match="source"):
        await store.sessions.append_many("s", broken())
    with pytest.raises(KeyError):
        await store.sessions.append_many("never", [{"role": "user", "text": "a"}])
    info = await store.sessions.get("s")
    assert info is not None
    assert (info.messages, len(await store.sessions.messages("s"))) == (1, 1)


async def test_threads_append_side_by_side(store: Store) -> None:
    await talk(store, "s")

    async def append(number: int) -> None:
        for count in range(20):
            await store.sessions.append("s", {"role": "assistant", "text": f"{number} {count}"})

    await together(6, append)
    texts = [str(message["text"]) for message in await store.sessions.messages("s")][1:]
    assert len(texts) == 120
    for number in range(6):
        assert [text for text in texts if text.startswith(f"{number} ")] == [f"{number} {count}" for count in range(20)]


# -- grants ----------------------------------------------------------------------------------------------------------


async def test_grants_are_kept_spent_and_revoked(store: Store) -> None:
    mine = Grant("g", "session", "k", "/", session_id="s", task_id="t", argv=("a", "b"), until=5.0, by="me", at=1.0)
    counted = Grant("u", "uses", "k", "/", session_id="s", uses_left=2)
    permanent = Grant("a", "always", "k", "/", argv=("ls",), links=(("/p/x", "/srv/x"), ("/p/y", "/y")))
    for grant in (mine, counted, permanent, Grant("o", "session", "k", "/", session_id="other")):
        await store.grants.add(grant)
    assert list(await store.grants.all("s")) == [mine, counted, permanent]
    assert list(await store.grants.all("t")) == [permanent]
    assert (await together(5, lambda _: store.grants.spend("u"))).count(True) == 2
    assert not await store.grants.spend("g")
    assert not await store.grants.spend("unknown")
    assert await store.grants.revoke("u")
    assert not await store.grants.revoke("u")
    assert list(await store.grants.all("s")) == [mine, permanent]


async def test_a_grant_that_is_known_changes_nothing(store: Store) -> None:
    """An answer that is received again, after a process was killed, adds no second grant."""
    given = Grant("u", "uses", "k", "/", session_id="s", uses_left=2)
    lease = await store.leases.take("s", "me", 60.0)
    assert lease is not None
    for grants in (store.grants, store.fenced(Fence(lease)).grants):
        await grants.add(given)
        await grants.spend("u")
        await grants.add(replace(given, uses_left=9, key="other"))
    assert [(grant.key, grant.uses_left) for grant in await store.grants.all("s")] == [("k", 0)]
    assert not await store.grants.spend("u")


def test_grants_of_memory_may_be_kept_elsewhere(store: Store) -> None:
    assert MemoryStore(store.grants).grants is store.grants
    store.close()
    store.close()
