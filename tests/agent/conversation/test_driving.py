"""One session and several callers: which of them gets an answer, and which answer."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from agent.conversation.limits import NoProgress, RunError, RunLimits, TokenCapReached
from agent.conversation.session import Session
from agent.conversation.state import RunResult, RunState
from agent.events import TicketOpened, TurnStarted
from toolcrib import (
    Answer,
    BadRequest,
    Principal,
    ProviderTurn,
    SuspendTicket,
    ToolCall,
    ToolCallContext,
    ToolcribError,
    hookimpl,
)
from toolcrib.contract.session import OnEvent
from toolcrib.testing import ScriptedSession

YES = {"approved": True, "scope": "once"}
REMOVES = ("terminal", {"command": "rm -rf out"})
ELSEWHERE = Principal("telegram", "7")


@pytest.fixture
def crib(tmp_path: Path) -> Iterator[Crib]:
    (tmp_path / "out").mkdir()
    with assemble(project_dir=tmp_path) as made:
        yield made


async def opened(crib: Crib, *turns: Any, **options: Any) -> Session:
    session = await crib.open(**options)
    session.scope.granted = None
    session.link.use(ScriptedSession(*turns))
    return session


async def parked(crib: Crib, *after: Any) -> tuple[Session, RunResult]:
    session = await opened(crib, [REMOVES], *after, suspends=True)
    return session, await session.ask("go")


async def said(session: Session) -> list[str]:
    return [record["text"] for record in await session.records() if record["role"] == "user"]


async def test_a_message_that_was_said_before_is_not_asked_again(crib: Crib) -> None:
    session = await opened(crib, "one", "two")
    assert (await session.ask("go", key="k")).text == "one"
    with pytest.raises(ToolcribError, match="already sent"):
        await session.ask("go", key="k")
    await session.close()


async def test_an_interrupt_from_before_does_not_end_what_goes_on(crib: Crib, tmp_path: Path) -> None:
    session, result = await parked(crib, "done")
    session.interrupt()
    await session.answer(Answer(result.tickets[0], payload=YES, by="me"))
    last = await session.advance()
    assert last is not None
    assert (last.stopped, last.text) == ("done", "done")
    assert not (tmp_path / "out").exists()
    await session.close()


async def test_an_interrupt_ends_one_run(crib: Crib) -> None:
    session = await opened(crib, [("stop", {})], "again")
    crib.registry.register("stop", "terminal", {"description": "d"}, lambda args: session.interrupt())
    assert (await session.ask("go")).stopped == "interrupted"
    assert (await session.ask("and now?")).text == "again"
    await session.close()


async def test_calls_only_leaves_messages_to_the_next(crib: Crib) -> None:
    session = await opened(crib, "hello")
    await session.say("go")
    assert await session.advance(calls_only=True) is None
    assert [item.text for item in await session.store.inbox.waiting(session.id)] == ["go"]
    last = await session.advance()
    assert last is not None
    assert last.text == "hello"
    await session.close()


async def test_messages_wait_behind_a_run_that_is_still_parked(crib: Crib) -> None:
    session, result = await parked(crib, "done", "the tests too")
    await session.say("and the tests?")
    again = await session.advance()
    assert again is not None
    assert (again.stopped, again.tickets) == ("parked", result.tickets)
    assert await said(session) == ["go"]
    await session.close()


async def test_who_waits_behind_a_message_that_parks_is_told_of_its_tickets(crib: Crib) -> None:
    session = await opened(crib, [REMOVES], "done", "the tests too", suspends=True)
    await session.say("go")
    behind = await session.ask("and the tests?")
    assert (behind.stopped, len(behind.tickets)) == ("parked", 1)
    assert await said(session) == ["go"]
    await session.close()


async def test_giving_up_in_another_process_is_a_beginning_too(crib: Crib) -> None:
    class Watcher:
        @hookimpl
        def on_session_start(self) -> None:
            began.append("start")

    began: list[str] = []
    first, _ = await parked(crib)
    await first.close()
    crib.dispatcher.hooks.register(Watcher(), "watcher")
    again = await opened(crib, "done", resume=first.id, suspends=True)
    last = await again.end_unfinished()
    assert last is not None
    assert last.stopped == "interrupted"
    assert await again.end_unfinished() is None
    assert began == ["start"]
    await again.close()


async def test_a_run_is_somebody_s_and_the_session_goes_back(crib: Crib) -> None:
    """The session takes the caller's tools, calls and grants for that run only."""
    session = await opened(crib, [("who", {})], "done")
    seen: list[Any] = []

    def who(args: Any, ctx: ToolCallContext) -> None:
        seen.append((ctx.run_identity.platform, ctx.run_identity.user))

    crib.registry.register("who", "terminal", {"description": "d"}, who)
    opened_for = session.identity.principal
    outfitted: list[Principal] = []
    session.outfit = outfitted.append
    await session.say("go", principal=ELSEWHERE)
    await session.advance()
    assert seen == [("telegram", "7")]
    assert session.identity.principal == opened_for
    assert outfitted == [ELSEWHERE, opened_for]
    await session.close()


async def test_what_another_process_made_of_a_message_is_what_its_sender_hears(crib: Crib) -> None:
    class Refuses(ScriptedSession):
        async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
            raise BadRequest("the server refused it")

    mine = await opened(crib, "mine")
    theirs = await crib.open(resume=mine.id)
    theirs.link.use(Refuses())
    waits = asyncio.Event()
    mine.watch = lambda event: waits.set()
    async with theirs.holding.held(lambda: None):
        asked = asyncio.ensure_future(mine.ask("go"))
        await waits.wait()  # the caller learns that the session is busy
        with pytest.raises(BadRequest):
            await theirs.advance()
    with pytest.raises(RunError, match="the server refused it"):
        await asked
    await theirs.close()
    await mine.close()


async def test_a_run_whose_process_ended_while_it_asked_waits_for_the_answer(crib: Crib) -> None:
    found: list[bool] = []

    async def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> None:
        another = await crib.open(resume=ctx.run_identity.session_id)
        found.append(await another.waits_for_answers())
        await another.close()

    session = await opened(crib, [REMOVES], "done", asker=asker)
    await session.ask("go")
    found.append(await session.waits_for_answers())
    assert found == [True, False]
    await session.close()


async def test_turns_are_counted_from_one(crib: Crib) -> None:
    session = await opened(crib, [("todo", {})], "done")
    events: list[Any] = []
    result = await session.ask("go", emit=events.append)
    assert [event.number for event in events if isinstance(event, TurnStarted)] == [1, 2]
    assert result.turns == 2
    await session.close()


@pytest.mark.parametrize("elsewhere", [False, True])
async def test_a_ticket_is_told_of_once_and_what_had_run_beside_it_runs_once(crib: Crib, elsewhere: bool) -> None:
    ran: list[Any] = []
    crib.registry.register("count", "terminal", {"description": "d"}, ran.append)
    session = await opened(crib, [("count", {}), REMOVES, ("todo", {})], "done", suspends=True)
    events: list[Any] = []
    result = await session.ask("go", emit=events.append)
    assert await session.advance(events.append) is not None  # still parked
    assert [event.ticket for event in events if isinstance(event, TicketOpened)] == list(result.tickets)
    again = session
    if elsewhere:
        await session.close()
        again = await opened(crib, "done", resume=session.id, suspends=True)
    await again.answer(Answer(result.tickets[0], payload=YES, by="me"))
    last = await again.advance()
    assert last is not None
    assert last.stopped == "done"
    assert len(ran) == 1
    told = next(record for record in await again.records() if record["role"] == "results")["results"]
    assert [one["is_error"] for one in told] == [False, False, False]
    await again.close()


async def test_the_same_call_twice_in_a_turn_is_one_try(crib: Crib) -> None:
    bad = ("read_file", {"path": "none"})
    session = await opened(crib, [bad, bad], [("todo", {}), bad], [bad], "done")
    limits = RunLimits(repeats=2)
    with pytest.raises(NoProgress, match="failed 2 times in a row: read_file"):
        await session.ask("go", limits=limits)
    assert len([record for record in await session.records() if record["role"] == "results"]) == 3
    await session.close()


@pytest.mark.parametrize(
    ("usage", "reached"),
    [
        ({"input": 10}, False),
        ({"output": 10}, False),
        ({"input": 11}, True),
        ({"output": 11}, True),
        ({"input": 10, "output": 1}, True),
    ],
)
async def test_tokens_are_counted_as_far_as_the_server_said(crib: Crib, usage: dict[str, int], reached: bool) -> None:
    session = await opened(crib, ProviderTurn("", (ToolCall("c1", "todo", {}),), usage=usage), "done")
    asked = session.ask("go", limits=RunLimits(max_tokens=11))
    if reached:
        with pytest.raises(TokenCapReached, match="11 tokens used of 11"):
            await asked
    else:
        assert (await asked).text == "done"
    await session.close()


async def test_a_step_that_was_stored_already_stays_as_it_is(crib: Crib) -> None:
    session = await opened(crib, "done")
    await session.ask("go")
    record = await session.store.runs.get(f"{session.id}-1")
    assert record is not None
    stored = RunState.of(record)
    assert stored.text == "done"
    assert (await session.keep(replace(stored, text="else"))).text == "done"
    await session.close()


async def test_plugins_are_started_before_the_first_thing_in_a_session(crib: Crib) -> None:
    class Starts:
        @hookimpl
        def on_start(self) -> None:
            seen.append("plugins")

        @hookimpl
        def on_session_start(self) -> None:
            seen.append("session")

    seen: list[str] = []
    crib.dispatcher.hooks.register(Starts(), "starts")
    for _ in range(2):
        session = await opened(crib, "done")
        await session.ask("go")
        await session.close()
    assert seen == ["plugins", "session", "session"]


async def test_a_session_from_before_backends_goes_on_here(crib: Crib, tmp_path: Path) -> None:
    await crib.store.sessions.create("a" * 32, platform="cli", user="", cwd=str(tmp_path))
    session = await crib.open(resume="a" * 32)
    assert session.scope.environment.identity == "local"
    await session.close()


async def test_an_interrupt_ends_the_message_before_and_not_the_next(crib: Crib) -> None:
    session = await opened(crib, [("stop", {})], "again")
    crib.registry.register("stop", "terminal", {"description": "d"}, lambda args: session.interrupt())
    await session.say("go")
    assert (await session.ask("and now?")).text == "again"
    await session.close()


async def test_calls_only_runs_what_was_answered_and_leaves_the_model_to_the_next(crib: Crib, tmp_path: Path) -> None:
    session, result = await parked(crib, "done")
    await session.answer(Answer(result.tickets[0], payload=YES, by="me"))
    outcomes: list[Any] = []
    ran = await session.advance(calls_only=True, done=outcomes.append)
    assert isinstance(ran, RunResult)
    assert (ran.stopped, ran.tickets, outcomes) == ("parked", [], [ran])
    assert not (tmp_path / "out").exists()
    last = await session.advance()
    assert last is not None
    assert last.text == "done"
    await session.close()
