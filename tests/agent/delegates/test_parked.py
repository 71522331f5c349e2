"""A delegate's question in runs that park: it waits under its parent's session, and is answered there."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent, RunResult
from agent.conversation import lineage
from agent.conversation.answers import persons_session, record_answer
from agent.conversation.waiting import has_work
from toolcrib import Answer, Denied, ToolcribError
from toolcrib.testing import ChatServer
from tools.approval.prompt import prompt_of

Start = Callable[..., Any]
DONE = ChatServer.text("done")
YES = {"approved": True, "scope": "once"}


def scripts(*commands: str) -> dict[str, Any]:
    calls = [("terminal", {"command": command}) for command in commands]
    order = ("delegate_task", {"task": "tidy up", "name": "tidier"})
    return {"go": [ChatServer.calls(order), DONE], "tidy": [ChatServer.calls(*calls), ChatServer.text("I did.")]}


@pytest.mark.parametrize("again", [False, True], ids=["same process", "another process"])
@pytest.mark.parametrize("agrees", [True, False])
def test_the_answer_reaches_the_delegate(tmp_path: Path, task_server: Any, agrees: bool, again: bool) -> None:
    """A denial is for the delegate's model, which continues; it does not deny the parent's call."""
    (tmp_path / "build").mkdir()
    payload = YES if agrees else {"approved": False, "reason": "not today"}

    async def main() -> None:
        with task_server(scripts("rm -rf build")) as server:
            options = {"model": "m", "base_url": server.base_url, "project_dir": tmp_path, "parks": True}
            agent = Agent(**options)
            result = await agent.aask("go")
            assert (result.stopped, len(result.tickets)) == ("parked", 1)
            record = await agent.crib.store.tickets.get(result.tickets[0])
            assert record is not None
            assert record.session_id == agent.session.id
            shown = str(prompt_of(record.ticket))
            assert shown.startswith("terminal wants to run:\n  │ rm -rf build\n  asked by the delegate tidier, whose task is:\n")
            waiting = await agent.crib.desk.approvals.waiting()
            assert [one.record.ticket.id for one in waiting] == list(result.tickets), "it is listed once"
            if again:
                session_id = agent.session.id
                await agent.aclose()
                agent = Agent(**options, resume=session_id)
            await agent.answer(result.tickets[0], payload)
            resumed = await agent.resume_run()
            assert resumed is not None
            assert (resumed.stopped, resumed.text) == ("done", "done")
            assert json.loads(server.results("go")[0])["answer"] == "I did."
            assert ("not today" in server.results("tidy")[0]) != agrees
            assert len(server.talks["tidy"]) == 2
            assert await agent.crib.store.tickets.pending() == []
            await agent.aclose()
        assert (tmp_path / "build").exists() != agrees

    asyncio.run(main())


def test_several_questions_come_one_after_another(tmp_path: Path, task_server: Any) -> None:
    async def main() -> None:
        for name in ("a", "b"):
            (tmp_path / name).mkdir()
        with task_server(scripts("rm -rf a", "rm -rf b")) as server:
            async with Agent(model="m", base_url=server.base_url, project_dir=tmp_path, parks=True) as agent:
                result: RunResult | None = await agent.aask("go")
                for _ in range(2):
                    assert result is not None
                    assert len(result.tickets) == 1
                    await agent.answer(result.tickets[0], YES)
                    result = await agent.resume_run()
                assert result is not None
                assert result.text == "done"
        assert not (tmp_path / "a").exists()
        assert not (tmp_path / "b").exists()

    asyncio.run(main())


def test_what_is_granted_there_covers_the_delegate_alone_and_ends_with_it(tmp_path: Path, task_server: Any) -> None:
    async def main() -> None:
        (tmp_path / "build").mkdir()
        with task_server(scripts("rm -rf build", "git push --force")) as server:
            async with Agent(model="m", base_url=server.base_url, project_dir=tmp_path, parks=True) as agent:
                result = await agent.aask("go")
                await agent.answer(result.tickets[0], {"approved": True, "scope": "session"})
                again = await agent.resume_run()
                store = agent.crib.store
                (child,) = [one.id for one in await store.sessions.list(9) if lineage.is_delegate(one)]
                assert [grant.session_id for grant in await store.grants.all()] == [child]
                assert again is not None
                assert len(again.tickets) == 1
                await agent.answer(again.tickets[0], {"approved": False, "reason": "not today"})
                await agent.resume_run()
                assert await store.grants.all() == []

    asyncio.run(main())


@pytest.mark.parametrize("how", ["cancelled", "another message"])
def test_a_call_that_is_given_up_ends_its_delegate(tmp_path: Path, task_server: Any, how: str) -> None:
    async def main() -> None:
        (tmp_path / "build").mkdir()
        script = scripts("rm -rf build")
        with task_server(script) as server:
            async with Agent(model="m", base_url=server.base_url, project_dir=tmp_path, parks=True) as agent:
                await agent.aask("go")
                store = agent.crib.store
                (child,) = [one.id for one in await store.sessions.list(9) if lineage.is_delegate(one)]
                if how == "cancelled":
                    await agent.session.end_unfinished()
                else:
                    await agent.session.say("stop", mode="interrupt")
                    server.scripts["go"] = [DONE]
                    await agent.resume_run()
                assert await store.runs.current(child) is None
                assert await store.tickets.pending() == []
        assert (tmp_path / "build").exists()

    asyncio.run(main())


def test_a_delegate_at_work_is_driven_by_its_parent_alone(tmp_path: Path, task_server: Any) -> None:
    """Without its parent the delegate would have another prompt, and tools that its parent did not grant."""
    for name in ("a", "b"):
        (tmp_path / name).mkdir()

    async def main() -> None:
        with task_server(scripts("rm -rf a", "rm -rf b")) as server:
            options = {"model": "m", "base_url": server.base_url, "project_dir": tmp_path, "parks": True}
            async with Agent(**options) as agent:
                await agent.aask("go")
                store, parent = agent.crib.store, agent.session.id
                (child,) = [one.id for one in await store.sessions.list(9) if lineage.is_delegate(one)]
                with pytest.raises(ToolcribError, match=rf"running delegate of {parent[:12]}\. .*--resume {parent[:12]}"):
                    await agent.crib.open(platform="api", resume=child)
                own = [one for one in await store.tickets.pending() if one.session_id == child]
                assert [await persons_session(store, one.session_id) for one in own] == [parent] * 2
                for one in [*(await store.tickets.pending(parent)), *own]:
                    with suppress(Denied):  # the same question was answered under the parent's session
                        await agent.answer(one.ticket.id, YES)
                resumed = await agent.resume_run()
                assert resumed is not None
                assert resumed.text == "done"
                talked = await agent.crib.open(platform="api", resume=child)
                assert talked.id == child, "once it has ended, any caller may resume it"
                await talked.close()
        assert not (tmp_path / "a").exists()
        assert not (tmp_path / "b").exists()

    asyncio.run(main())


@pytest.mark.parametrize("background", [False, True], ids=["in front", "background"])
def test_an_answer_to_its_own_ticket_counts_for_both(tmp_path: Path, task_server: Any, background: bool) -> None:
    """One question has two tickets: after an answer to either the run continues, and a second answer is refused."""
    (tmp_path / "build").mkdir()

    async def main() -> None:
        script = scripts("rm -rf build")
        script["go"] = [
            ChatServer.calls(("delegate_task", {"task": "tidy", "background": background})),
            DONE,
            DONE,
        ]
        with task_server(script) as server:
            async with Agent(model="m", base_url=server.base_url, project_dir=tmp_path, parks=True) as agent:
                await agent.aask("go")
                store, session_id = agent.crib.store, agent.session.id
                while not await store.tickets.pending(session_id):
                    await asyncio.sleep(0.02)
                (standing,) = await store.tickets.pending(session_id)
                own = standing.ticket.relays
                yes = Answer(own, decision_id="d", payload=YES, by="ann", at=1.0)
                assert await record_answer(store, yes) == "settled"
                assert background or await has_work(store, session_id)
                with pytest.raises(Denied, match="already decided"):
                    await agent.answer(standing.ticket.id, {"approved": False})
                assert await record_answer(store, yes) == "repeated"
                await agent.resume_run()
                while agent.session.delegates.at_work:
                    await asyncio.sleep(0.02)
                await agent.resume_run()
                assert "I did." in str(server.talks["go"][-1])
                assert await store.tickets.pending() == []
        assert not (tmp_path / "build").exists()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_an_answer_that_came_before_the_ticket_above_it_is_not_lost(tmp_path: Path, task_server: Any) -> None:
    """The answer arrives while the question is being added to the parent's session."""
    (tmp_path / "build").mkdir()

    async def main() -> None:
        with task_server(scripts("rm -rf build")) as server:
            async with Agent(model="m", base_url=server.base_url, project_dir=tmp_path, parks=True) as agent:
                result = await agent.aask("go")
                store, session_id = agent.crib.store, agent.session.id
                standing = await store.tickets.get(result.tickets[0])
                assert standing is not None
                assert not await has_work(store, session_id)
                await store.tickets.decide_ticket(Answer(standing.ticket.relays, payload=YES, by="ann", at=1.0), "approved")
                assert await has_work(store, session_id)
                with pytest.raises(Denied, match="already decided"):
                    await agent.answer(standing.ticket.id, {"approved": False})
                resumed = await agent.resume_run()
                assert resumed is not None
                assert resumed.text == "done"
                assert json.loads(server.results("go")[0])["answer"] == "I did."
        assert not (tmp_path / "build").exists()

    asyncio.run(main())


def test_a_no_to_its_own_ticket_keeps_the_call_from_running(tmp_path: Path, task_server: Any) -> None:
    (tmp_path / "build").mkdir()

    async def main() -> None:
        with task_server(scripts("rm -rf build")) as server:
            async with Agent(model="m", base_url=server.base_url, project_dir=tmp_path, parks=True) as agent:
                result = await agent.aask("go")
                store = agent.crib.store
                standing = await store.tickets.get(result.tickets[0])
                assert standing is not None
                no = Answer(standing.ticket.relays, payload={"approved": False, "reason": "not today"}, by="ann", at=1.0)
                await record_answer(store, no)
                with pytest.raises(Denied, match="already decided"):
                    await agent.answer(standing.ticket.id, YES)
                await agent.resume_run()
                assert "not today" in server.results("tidy")[0]
        assert (tmp_path / "build").exists()

    asyncio.run(main())


def test_one_in_the_background_stays_parked_as_its_parent_closes(tmp_path: Path, task_server: Any) -> None:
    """The delegate has not ended: after the answer it continues in the next process."""
    (tmp_path / "build").mkdir()

    async def main() -> None:
        script = scripts("rm -rf build")
        script["go"] = [ChatServer.calls(("delegate_task", {"task": "tidy", "background": True})), DONE, DONE]
        with task_server(script) as server:
            options = {"model": "m", "base_url": server.base_url, "project_dir": tmp_path, "parks": True}
            async with Agent(**options) as agent:
                await agent.aask("go")
                store, session_id = agent.crib.store, agent.session.id
                while not (standing := await store.tickets.pending(session_id)):
                    await asyncio.sleep(0.02)
            async with Agent(**options, resume=session_id) as agent:
                store = agent.crib.store
                assert await store.inbox.waiting(session_id) == [], "its end is not reported"
                await agent.answer(standing[0].ticket.id, YES)
                await agent.resume_run()
                while agent.session.delegates.at_work:
                    await asyncio.sleep(0.02)
                await agent.resume_run()
                assert "has ended (done)" in str(server.said("go"))
                assert "I did." in str(server.said("go"))
                (child,) = [one.id for one in await store.sessions.list(9) if lineage.is_delegate(one)]
                assert await store.runs.current(child) is None
        assert not (tmp_path / "build").exists()

    asyncio.run(asyncio.wait_for(main(), 60))
