"""SessionManager: every message is answered and every outcome delivered, even if the process or its listeners fail."""

from __future__ import annotations

import asyncio
import errno
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from agent.conversation import manager as module
from agent.conversation.answers import topic_of
from agent.conversation.manager import SessionManager
from agent.conversation.session import Session
from agent.conversation.state import RunResult, RunState
from agent.events import Event, TicketOpened
from agent.store._leases import SqliteLeases
from agent.store.sqlite import SqliteStore
from toolcrib import Answer, BadRequest, Denied, Principal, ProviderTurn, ToolCall, ToolcribError
from toolcrib.contract.session import OnEvent
from toolcrib.contract.store import InboxItem, Lease
from toolcrib.testing import ScriptedSession


class Echo(ScriptedSession):
    """A model that answers once ``may`` is set; it answers ``no`` with an error, and a command by running it."""

    def __init__(self, may: asyncio.Event) -> None:
        super().__init__()
        self._may = may
        self._ran = 0
        self.asked = 0

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        self.asked += 1
        await self._may.wait()
        said = self.said[-1] if self.said else "the results"
        if said == "no":
            raise BadRequest("the server refused it")
        if said.startswith("rm ") and self._ran == len(self.results):
            self._ran += 1
            return ProviderTurn("", (ToolCall(ToolCall.new_id(), "terminal", {"command": said}),), "x")
        return ProviderTurn(f"re {said}", assistant_turn="x")


class House:
    """Makes managers over one store; ``came`` are the delivered outcomes, ``models`` the models of their sessions."""

    def __init__(self, crib: Crib) -> None:
        self.crib = crib
        self.came: list[Any] = []
        self.may = asyncio.Event()
        self.models: list[Echo] = []

    def prepare(self, session: Session) -> None:
        self.models.append(Echo(self.may))
        session.link.use(self.models[-1])

    def heard(self, session_id: str, outcome: Any) -> None:
        self.came.append(outcome.text if isinstance(outcome, RunResult) else outcome)

    def manager(self, **more: Any) -> SessionManager:
        more.setdefault("done", self.heard)
        return SessionManager(self.crib, prepare=self.prepare, **more)

    async def until(self, holds: Callable[[], object]) -> None:
        async with asyncio.timeout(60):
            while not holds():
                await asyncio.sleep(0.01)

    async def texts(self, session_id: str) -> list[str]:
        return [record["text"] for record in await self.crib.store.sessions.messages(session_id) if "text" in record]


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    with assemble(project_dir=tmp_path, store=SqliteStore(tmp_path / "store.db")) as crib:
        yield House(crib)


async def test_each_run_is_told_of(house: House) -> None:
    async with house.manager() as manager:
        for text in ("one", "no", "three"):
            await manager.say("chat", text)
        house.may.set()
        await house.until(lambda: len(house.came) == 3)
    assert (house.came[0], house.came[2]) == ("re one", "re three")
    assert isinstance(house.came[1], BadRequest)


async def test_an_interrupt_ends_one_run_and_its_own_message_is_answered(house: House) -> None:
    async with house.manager() as manager:
        session_id = await manager.say("chat", "one")
        await house.until(lambda: house.models and house.models[0].asked)
        await manager.say("chat", "two", mode="interrupt")
        house.may.set()
        await house.until(lambda: len(house.came) == 2)
        await manager.say("chat", "three", mode="interrupt")
        await house.until(lambda: len(house.came) == 3)
        assert session_id is not None
        assert await house.texts(session_id) == ["one", "", "two", "re two", "three", "re three"]  # "": the interrupted reply
    assert house.came == ["", "re two", "re three"]


async def test_a_run_that_this_machine_is_too_busy_for_is_retried(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_RETRY_SECONDS", 0.02)
    faults = [OSError(errno.EMFILE, "Too many open files"), RuntimeError("can't start new thread"), MemoryError()]
    answers = Echo.stream_turn

    async def answer(model: Echo, on_event: OnEvent) -> ProviderTurn:
        if faults:
            raise faults.pop()
        return await answers(model, on_event)

    monkeypatch.setattr(Echo, "stream_turn", answer)
    house.may.set()
    async with house.manager() as manager:
        await manager.say("chat", "one")
        await house.until(lambda: house.came)
    assert (house.came, faults) == (["re one"], [])


async def test_what_waits_at_the_end_is_answered_by_the_next_process(house: House) -> None:
    async with house.manager() as manager:
        session_id = await manager.say("chat", "one")
        assert session_id is not None
        await house.until(lambda: house.models and house.models[0].asked)
        await manager.say("chat", "two", message_key="k")
    assert [item.text for item in await house.crib.store.inbox.waiting(session_id)] == ["two"]
    with pytest.raises(ToolcribError, match="accepts no more messages"):
        await manager.say("chat", "three")
    house.may.set()
    async with house.manager() as manager:
        assert await manager.say("chat", "two", message_key="k") is None
        await house.until(lambda: len(house.came) == 2)
    assert house.came == ["", "re two"]


async def test_a_run_and_a_message_that_a_dead_host_left_are_taken_up(house: House) -> None:
    """The lease has no holder any more: the unfinished run is continued, and the accepted message is answered."""
    store = house.crib.store
    async with house.manager() as manager:
        session, other = await manager.session("chat"), await manager.session("other")
    for name, text in ((session.id, "one"), (other.id, "two")):
        await store.inbox.put(InboxItem(name, text, principal=Principal("api").to_json()))
    await store.runs.commit(RunState(id=f"{session.id}-x", session_id=session.id, principal=Principal("api")).next().record())
    assert sorted(await store.runs.unfinished()) == sorted([session.id, other.id])
    house.may.set()
    async with house.manager(look_seconds=0.2):
        await house.until(lambda: len(house.came) == 3)
    assert sorted(house.came) == ["re one", "re the results", "re two"]


async def test_a_listener_that_fails_fails_alone(house: House, caplog: pytest.LogCaptureFixture) -> None:
    def broken(session_id: str, what: Any) -> None:
        raise RuntimeError("a listener's own fault")

    house.may.set()
    async with house.manager(watch=broken, done=broken) as manager:
        session_id = await manager.say("chat", "one")
        assert session_id is not None
        async with asyncio.timeout(60):
            while "re one" not in await house.texts(session_id):
                await asyncio.sleep(0.01)
    assert [model.asked for model in house.models] == [1]
    assert "a listener's own fault" in caplog.text


async def test_a_fault_of_ours_or_of_a_provider_is_told_once(house: House, caplog: pytest.LogCaptureFixture) -> None:
    class Broken(ScriptedSession):
        asked = 0

        async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
            Broken.asked += 1
            raise KeyError("a provider's own fault")

    def prepare(session: Session) -> None:
        session.link.use(Broken())

    manager = SessionManager(house.crib, prepare=prepare, done=lambda session_id, outcome: house.came.append(outcome))
    async with manager:
        session_id = await manager.say("chat", "one")
        assert session_id
        await house.until(lambda: house.came)
        await house.crib.store.signals.send(topic_of(session_id))  # a late signal about the earlier message
        await asyncio.sleep(0.2)
        assert [type(one) for one in house.came] == [KeyError]
        assert Broken.asked == 1
        await manager.say("chat", "two")
        await house.until(lambda: len(house.came) > 1)
    assert Broken.asked == 2
    assert "a provider's own fault" in caplog.text


async def test_a_parked_run_is_told_of_once_and_ended_by_an_interrupt_of_whose_it_is(house: House, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    outcomes: list[Any] = []
    house.may.set()
    mine, other = Principal("telegram", "1"), Principal("telegram", "2")
    async with house.manager(done=lambda session_id, outcome: outcomes.append(outcome)) as manager:
        await manager.say("chat", "rm -rf out", principal=mine)
        await house.until(lambda: outcomes)
        await manager.say("chat", "and?", principal=mine)
        await manager.say("chat", "stop", principal=other, mode="interrupt")
        await asyncio.sleep(0.3)
        assert [one.stopped for one in outcomes] == ["parked"]
        await manager.say("chat", "never mind", principal=mine, mode="interrupt")
        await house.until(lambda: len(outcomes) == 5)
    assert [one.stopped for one in outcomes] == ["parked", "interrupted", "interrupted", "done", "done"]
    assert (tmp_path / "out").exists()


async def test_an_answer_that_comes_while_its_run_is_being_parked_is_heeded_though_the_store_is_slow(
    house: House, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Waiting items are read while a task drives the session; after that the manager does not touch the run."""
    (tmp_path / "out").mkdir()
    house.may.set()
    driving: list[object] = []
    answers: list[asyncio.Future[Any]] = []
    looks: list[str] = []
    release, waiting = SqliteLeases.release, house.crib.store.inbox.waiting

    def watch(session_id: str, event: Event) -> None:
        if isinstance(event, TicketOpened) and not answers:
            driving.append(asyncio.current_task())
            yes = Answer(event.ticket, payload={"approved": True, "scope": "once"}, by="me", at=time.time())
            answers.append(asyncio.ensure_future(manager.answer(yes)))

    async def slowly(session_id: str) -> Any:
        found = await waiting(session_id)
        if driving and asyncio.current_task() not in driving and len(looks) < 2:  # the checks for the answer and for its signal
            looks.append(session_id)
            await house.until(lambda: not manager.at_work(session_id))
        return found

    async def late(self: SqliteLeases, lease: Lease) -> None:
        if asyncio.current_task() in driving:
            await house.until(lambda: looks)
        await release(self, lease)

    monkeypatch.setattr(house.crib.store.inbox, "waiting", slowly)
    monkeypatch.setattr(SqliteLeases, "release", late)
    async with house.manager(watch=watch) as manager:
        await manager.say("chat", "rm -rf out")
        await house.until(lambda: not (tmp_path / "out").exists())
        await asyncio.gather(*answers)


async def test_only_whom_a_run_is_for_may_answer_its_ticket(house: House, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    outcomes: list[Any] = []
    house.may.set()
    async with house.manager(done=lambda session_id, outcome: outcomes.append(outcome)) as manager:
        await manager.say("chat", "rm -rf out", principal=Principal("telegram", "1"))
        await house.until(lambda: outcomes)
        yes = Answer(outcomes[0].tickets[0], payload={"approved": True, "scope": "once"}, by="me", at=time.time())
        for stranger in (Principal("telegram", "2"), Principal("telegram"), Principal("matrix", "1")):
            with pytest.raises(Denied, match="another user"):
                await manager.answer(yes, stranger)
        assert await manager.answer(yes, Principal("telegram", "1")) == "settled"
        await house.until(lambda: len(outcomes) == 2)
    assert not (tmp_path / "out").exists()


async def test_a_session_is_its_owners_again_after_somebody_elses_run(house: House) -> None:
    house.may.set()
    session = await house.crib.open()
    house.prepare(session)
    await session.say("one", principal=Principal("telegram", "2"))
    await session.advance()
    assert session.identity.principal.is_local
    item = await session.say("two")
    assert item is not None
    assert Principal.from_json(item.principal).is_local
    await session.close()


async def test_what_was_asked_and_given_up_is_not_answered_later(house: House) -> None:
    session = await house.crib.open()
    house.prepare(session)
    first = asyncio.create_task(session.ask("one"))
    await house.until(lambda: house.models[0].asked)
    given_up = asyncio.create_task(session.ask("delete everything"))
    third = asyncio.create_task(session.ask("three"))
    async with asyncio.timeout(60):
        while len(await house.crib.store.inbox.waiting(session.id)) < 2:
            await asyncio.sleep(0.01)
    given_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await given_up
    house.may.set()
    assert [(await first).text, (await third).text] == ["re one", "re three"]
    assert await house.texts(session.id) == ["one", "re one", "three", "re three"]
    await session.close()
