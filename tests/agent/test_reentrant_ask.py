"""``ask`` from within a run of the same session: an error at once, with the way out."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from agent.api import Agent
from toolcrib import Answer, SuspendTicket, ToolCallContext
from toolcrib.testing import ChatServer

Start = Callable[..., Agent]


def add(agent: Agent, handler: Any) -> None:
    agent.crib.registry.register("nest", "terminal", {"description": "d"}, handler)
    agent.session.names.append("nest")
    agent.session.scope.granted = None


@pytest.mark.parametrize("is_async", [False, True])
def test_a_tool_that_asks_its_own_agent_fails_at_once(start: Start, is_async: bool) -> None:
    agent = start(ChatServer.calls(("nest", {})), ChatServer.text("done"), ChatServer.text("next"))
    said: list[str] = []

    def ask(args: Any) -> str:
        try:
            return agent.ask("and this?").text
        except Exception as error:
            said.append(str(error))
            raise

    async def aask(args: Any) -> str:
        try:
            return (await agent.aask("and this?")).text
        except Exception as error:
            said.append(str(error))
            raise

    add(agent, aask if is_async else ask)
    assert agent.ask("go").text == "done"
    assert "queue the message with Session.say" in said[0]
    assert agent.ask("again").text == "next", "the refused message is not kept"


def test_an_asker_that_asks_its_own_agent_counts_as_no(start: Start) -> None:
    def asker(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        agent.ask("should I?")
        return Answer(ticket.id, payload={"approved": True, "scope": "once"})

    agent = start(ChatServer.calls(("terminal", {"command": "rm -rf build"})), ChatServer.text("done"), asker=asker)
    assert agent.ask("go").text == "done"


def test_a_task_that_a_tool_began_may_ask_after_the_run(start: Start) -> None:
    agent = start(ChatServer.calls(("nest", {})), ChatServer.text("done"), ChatServer.text("later"))
    tasks: list[asyncio.Task[Any]] = []
    over = asyncio.Event()

    async def later() -> str:
        await over.wait()
        return (await agent.aask("and now?")).text

    async def begin(args: Any) -> str:
        tasks.append(asyncio.ensure_future(later()))
        return "begun"

    async def run() -> None:
        add(agent, begin)
        assert (await agent.aask("go")).text == "done"
        over.set()
        assert await tasks[0] == "later"

    asyncio.run(run())


def test_a_tool_may_ask_another_agent(start: Start) -> None:
    other = start(ChatServer.text("from the other"))
    agent = start(ChatServer.calls(("nest", {})), ChatServer.text("done"))
    answers: list[str] = []
    add(agent, lambda args: answers.append(other.ask("what?").text) or "ok")
    assert agent.ask("go").text == "done"
    assert answers == ["from the other"]
