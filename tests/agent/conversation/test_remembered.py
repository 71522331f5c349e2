"""A session's state: in the next process, in a fork, and a user's state in all of that user's sessions."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from agent.api import Crib, Session, assemble
from agent.conversation.forking import fork
from toolcrib import StateKey, StateUpdate, SuspendTicket, ToolCallContext, ToolOutput, ToolResult
from toolcrib.testing import ScriptedSession

NOTES = StateKey("notes", list)
CITIES = StateKey("cities", list, scope="principal", exclusive=True)
TOTAL = StateKey("total", int, scope="profile")
ANY = {"description": "d"}


def add_note(args: Any, ctx: ToolCallContext) -> ToolOutput:
    before = ctx.state(NOTES) or []
    return ToolOutput(ToolResult.success("note", before), [(NOTES, [*before, args["text"]])])


def wait(args: Any, ctx: ToolCallContext) -> ToolResult:
    if ctx.resume_input is not None:
        return ToolResult.success("wait", ctx.state(NOTES))
    return ToolResult.suspended_with("wait", "?", SuspendTicket("wait", "?", resume_mode="pass_to_tool"))


def visit(args: Any, ctx: ToolCallContext) -> ToolOutput:
    before = ctx.state(CITIES) or []
    changes = [(CITIES, [*before, args["city"]]), (TOTAL, StateUpdate(lambda n: (n or 0) + 1))]
    return ToolOutput(ToolResult.success("visit", [before, ctx.state(TOTAL)]), changes)


def opened(crib: Crib, **wanted: Any) -> Session:
    crib.registry.register("note", "terminal", ANY, add_note)
    crib.registry.register("wait", "terminal", ANY, wait)
    crib.registry.register("visit", "terminal", ANY, visit, state=[CITIES, TOTAL])
    session = crib.open_session(**wanted)
    session.scope.granted = None
    return session


async def ask(session: Session, *turns: Any) -> None:
    session.link.use(ScriptedSession(*turns))
    await session.ask("do it")


async def results(session: Session) -> list[Any]:
    found = [record["results"] for record in await session.records() if record["role"] == "results"]
    return [[json.loads(one["text"]) for one in record] for record in found]


def test_what_a_call_wrote_is_there_though_the_batch_goes_on_in_another_process(tmp_path: Path) -> None:
    """002-14, 002-32: the call's result is not in the conversation yet."""
    with assemble(project_dir=tmp_path) as crib:
        session = opened(crib, suspends=True)
        asyncio.run(ask(session, [("note", {"text": "one"}), ("wait", {})]))
        assert asyncio.run(results(session)) == []
    with assemble(project_dir=tmp_path) as crib:
        again = opened(crib, resume=session.id, suspends=True)
        assert dict(again.scope.state) == {"notes": ["one"]}

        async def go_on() -> None:
            (ticket,) = await again.store.tickets.pending(again.id)
            from toolcrib import Answer

            await again.answer(Answer(ticket.ticket.id, payload={"go": "on"}))
            again.link.use(ScriptedSession("done"))
            await again.advance()
            assert await results(again) == [[[], ["one"]]]
            await again.close()

        asyncio.run(go_on())


def test_a_fork_takes_over_the_state_and_goes_on_with_its_own(tmp_path: Path) -> None:
    with assemble(project_dir=tmp_path) as crib:
        session = opened(crib)

        async def both() -> None:
            await ask(session, [("note", {"text": "one"})], "ok")
            await ask(session, "nothing more")
            info = await session.info()
            assert info is not None
            forked = await fork(session.store, info, 1)
            await ask(session, [("note", {"text": "two"})], "ok")
            crib.registry.unregister("note")
            other = await crib.open(resume=forked.id)
            assert dict(other.scope.state) == {"notes": ["one"]}
            assert dict(session.scope.state) == {"notes": ["one", "two"]}
            await other.close()
            await session.close()

        asyncio.run(both())


def test_results_carry_the_state_only_where_it_changed(tmp_path: Path) -> None:
    """A long list would be stored in every record."""
    with assemble(project_dir=tmp_path) as crib:
        session = opened(crib)
        asyncio.run(ask(session, [("note", {"text": "one"})], [("visit", {"city": "Oslo"})], [("note", {"text": "two"})], "ok"))
        records = [record for record in asyncio.run(session.records()) if record["role"] == "results"]
        assert [record.get("state") for record in records] == [{"notes": ["one"]}, None, {"notes": ["one", "two"]}]
        session.close_sync()


def test_the_state_of_a_session_from_an_older_toolcrib_is_kept(tmp_path: Path) -> None:
    with assemble(project_dir=tmp_path) as crib:
        session = opened(crib)

        async def before() -> None:
            await session.store.sessions.append(session.id, {"role": "user", "text": "hi"})
            record = {"role": "results", "results": [], "state": {"notes": ["old"], "todos": [{"id": "1", "content": "x"}]}}
            await session.store.sessions.append(session.id, record)
            await session.close()

        asyncio.run(before())
    for number in range(2):
        with assemble(project_dir=tmp_path) as crib:
            again = opened(crib, resume=session.id)
            asyncio.run(ask(again, [("note", {"text": str(number)})], "ok"))
            assert asyncio.run(results(again))[-1] == [["old", *map(str, range(number))]]
            assert again.call("todo", {}).result.data["counts"]["total"] == 1
            again.close_sync()


def test_a_persons_state_is_there_in_their_next_session(tmp_path: Path) -> None:
    for number, user in enumerate(("", "", "ada")):
        with assemble(project_dir=tmp_path) as crib:
            session = opened(crib, **({"user": user, "platform": "telegram"} if user else {}))
            session.scope.granted = None
            asyncio.run(ask(session, [("visit", {"city": str(number)})], "ok"))
            seen = [["0"], 1] if number == 1 else [[], number or None]
            assert asyncio.run(results(session)) == [[seen]]
            session.close_sync()


def test_of_two_sessions_at_work_the_later_one_is_told(tmp_path: Path) -> None:
    """002-32: each session read the state before the other one wrote it."""
    with assemble(project_dir=tmp_path) as crib:
        first, second = opened(crib), opened(crib)

        def slow(args: Any, ctx: ToolCallContext) -> ToolOutput:
            if not args:
                assert first.call("slow", {"inner": True}).result.is_success
            return ToolOutput(ToolResult.success("slow", None), [(CITIES, [*(ctx.state(CITIES) or []), "x"])])

        crib.registry.register("slow", "terminal", ANY, slow, state=[CITIES])
        asyncio.run(ask(second, [("slow", {})], "ok"))
        (told,) = asyncio.run(results(second))[0]
        assert "StateConflict: another call changed the state 'cities' at the same time" in told["error"]
        assert dict(asyncio.run(first.store.state.of("principal", "")))["cities"].value == ["x"]
        first.close_sync()
        second.close_sync()
