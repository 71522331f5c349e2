"""Background work of a SessionManager: it checks the store, sends reminders, limits open sessions, and closes them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from agent.conversation.manager import SessionManager
from agent.conversation.session import Session
from agent.conversation.state import RunResult
from agent.events import TicketReminder
from agent.store.sqlite import SqliteStore
from toolcrib import Answer, Principal, SuspendTicket, ToolCall
from toolcrib.contract.store import InboxItem, TicketRecord
from toolcrib.testing import FakeEnvironment, ScriptedSession

REMOVES = [("terminal", {"command": "rm -rf out"})]


class House:
    """Sessions whose models reply with ``turns``; ``came`` and ``events`` are what the manager delivered."""

    def __init__(self, crib: Crib) -> None:
        self.crib = crib
        self.turns: list[Any] = []
        self.came: list[Any] = []
        self.events: list[Any] = []
        self.models: dict[str, ScriptedSession] = {}

    def prepare(self, session: Session) -> None:
        self.models[session.id] = ScriptedSession(*self.turns)
        session.link.use(self.models[session.id])

    def manager(self, **more: Any) -> SessionManager:
        return SessionManager(
            self.crib,
            prepare=self.prepare,
            done=lambda session_id, outcome: self.came.append(outcome),
            watch=lambda session_id, event: self.events.append((session_id, event)),
            **more,
        )

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                await asyncio.sleep(0.01)


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    (tmp_path / "out").mkdir()
    with assemble(project_dir=tmp_path, store=SqliteStore(tmp_path / "store.db")) as crib:
        yield House(crib)


async def test_sessions_are_closed_with_their_manager(house: House) -> None:
    async with house.manager() as manager:
        sessions = [await manager.session(name) for name in ("one", "two")]
        assert [house.models[session.id].closed for session in sessions] == [False, False]
    assert [house.models[session.id].closed for session in sessions] == [True, True]
    assert manager.open_sessions == 0


async def test_the_one_used_longest_ago_makes_room(house: House) -> None:
    async with house.manager(most=2) as manager:
        one, two = [await manager.session(name) for name in ("one", "two")]
        assert await manager.session("one") is one
        three = await manager.session("three")
        assert manager.open_sessions == 2
        assert [house.models[session.id].closed for session in (one, two, three)] == [False, True, False]


async def test_a_ticket_that_waits_is_reminded_of_once_at_its_time(house: House) -> None:
    store, now = house.crib.store, time.time()
    async with house.manager() as manager:
        session = await manager.session("chat")
    ticket = SuspendTicket("ask", "may it?", call=ToolCall("c1", "t", {}))
    later = SuspendTicket("ask", "later", call=ToolCall("c2", "t", {}))
    await store.tickets.put(TicketRecord(ticket, session.id, at=now - 200, remind_at=now - 1, expires_at=now + 500))
    await store.tickets.put(TicketRecord(later, session.id, at=now, remind_at=now + 300))
    async with house.manager(look_seconds=0.2):
        await house.until(lambda: house.events)
        await asyncio.sleep(0.5)  # the manager checks the store again
    assert house.events == [(session.id, TicketReminder(ticket.id, session.id, "may it?", now + 500))]
    record = await store.tickets.get(ticket.id)
    assert record is not None
    assert record.remind_at is not None
    assert 198 < record.remind_at - now < 260  # the same interval as before the first reminder


async def test_an_answer_whose_signal_was_lost_is_found(house: House, tmp_path: Path) -> None:
    house.turns = [REMOVES, "done"]
    async with house.manager(look_seconds=0.2) as manager:
        await manager.say("chat", "go")
        await house.until(lambda: house.came)
        assert isinstance(house.came[0], RunResult)
        assert house.came[0].stopped == "parked"
        house.turns = ["done"]  # a parked session is closed and opened again
        answer = Answer(house.came[0].tickets[0], payload={"approved": True, "scope": "once"}, by="me", at=time.time())
        assert await house.crib.store.tickets.decide_ticket(answer, "approved") == "settled"
        await house.until(lambda: len(house.came) == 2)
    assert house.came[1].text == "done"
    assert not (tmp_path / "out").exists()


async def test_a_parked_run_whose_host_ended_is_hosted_by_the_next(house: House, tmp_path: Path) -> None:
    house.turns = [REMOVES]
    async with house.manager() as manager:
        await manager.say("chat", "go")
        await house.until(lambda: house.came)
    ticket = house.came[0].tickets[0]
    house.turns = ["done"]
    async with house.manager(look_seconds=0.2):
        answer = Answer(ticket, payload={"approved": True, "scope": "once"}, by="me", at=time.time())
        assert await house.crib.store.tickets.decide_ticket(answer, "approved") == "settled"
        await house.until(lambda: len(house.came) == 2)
    assert house.came[1].text == "done"
    assert not (tmp_path / "out").exists()


async def test_sessions_of_another_platform_are_left_to_its_hosts(house: House) -> None:
    store = house.crib.store
    house.turns = ["mine"]
    async with house.manager(platform="telegram") as manager:
        other = await manager.session("letter")
    async with house.manager() as manager:
        mine = await manager.session("chat")
    for session in (other, mine):
        await store.inbox.put(InboxItem(session.id, "go", principal=Principal("api").to_json()))
    async with house.manager(look_seconds=0.2):
        await house.until(lambda: house.came)
        await asyncio.sleep(0.3)  # the manager checks the store again
    assert len(house.came) == 1
    assert [item.text for item in await store.inbox.waiting(other.id)] == ["go"]
    assert await store.inbox.waiting(mine.id) == []


async def test_idle_sessions_give_back_what_they_hold_once(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.conversation.manager._HOST_SECONDS", 1.5)
    rested: list[str] = []
    async with house.manager(idle_seconds=0.0) as manager:
        for name in ("one", "two"):
            session = await manager.session(name)
            monkeypatch.setattr(session, "release_idle", noting(rested, name))
        await house.until(lambda: len(rested) == 2)
        await asyncio.sleep(0.2)
        assert sorted(rested) == ["one", "two"]
        await manager.session("two")  # session two is used again
        await house.until(lambda: len(rested) == 3)
        assert rested[2] == "two"


async def test_an_environment_that_has_only_the_old_name_is_called_by_it(house: House) -> None:
    class Old(FakeEnvironment):
        rested = 0

        async def rest(self) -> bool:
            self.rested += 1
            return True

    old = Old()
    async with house.manager() as manager:
        session = await manager.session("one")
        session.scope.open_environment = lambda: old
        assert session.scope.environment is old
        with pytest.warns(DeprecationWarning, match=r"^Old\.rest is an old name: call it release_idle$"):
            await session.release_idle()
        with pytest.warns(DeprecationWarning, match="is an old name") as warned:
            await session.rest()
        assert str(warned[0].message) == "Session.rest is an old name: call release_idle"
    assert old.rested == 2


async def test_wait_until_idle_has_its_old_name_too(house: House) -> None:
    async with house.manager() as manager:
        with pytest.warns(DeprecationWarning, match="SessionManager.rest is an old name: call wait_until_idle"):
            await manager.rest(1.0)


async def test_a_session_that_is_closed_while_another_gives_back_keeps_no_third_one_from_it(
    house: House, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.conversation.manager._HOST_SECONDS", 1.5)
    rested: list[str] = []
    async with house.manager(idle_seconds=0.0) as manager:
        first, second, third = [await manager.session(name) for name in ("one", "two", "three")]

        async def release_idle() -> None:
            rested.append("one")
            await manager._close(second.id)

        monkeypatch.setattr(first, "release_idle", release_idle)
        monkeypatch.setattr(third, "release_idle", noting(rested, "three"))
        await house.until(lambda: rested)
        assert rested == ["one", "three"]


def noting(names: list[str], name: str) -> Callable[[], Awaitable[None]]:
    async def release_idle() -> None:
        names.append(name)

    return release_idle
