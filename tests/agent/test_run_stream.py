"""``Agent.stream``: the events of one request for ``async for``, and its result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent
from toolcrib import (
    AuthFailed,
    Event,
    TextDelta,
    ToolcribError,
    ToolFinished,
    ToolProgressed,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from toolcrib.testing import ChatServer

CALL = ("terminal", {"command": "echo hello"})
Start = Callable[..., Agent]


async def read(agent: Agent, text: str, **options: Any) -> tuple[list[Event], Any]:
    stream = agent.stream(text, **options)
    return [event async for event in stream], stream.result


def test_events_arrive_in_order_and_the_result_after_them(start: Start) -> None:
    agent = start(ChatServer.calls(CALL), ChatServer.text("It says hello."))
    events, result = asyncio.run(read(agent, "go"))
    kinds = [type(event) for event in events if not isinstance(event, ToolProgressed)]
    order = [TurnStarted, TurnFinished, ToolStarted, ToolFinished, TurnStarted, TextDelta, TurnFinished]
    assert [kind for before, kind in zip([None, *kinds], kinds, strict=False) if kind in order and kind is not before] == order
    assert "".join(event.text for event in events if isinstance(event, TextDelta)) == "It says hello."
    assert (result.text, result.turns, result.stopped) == ("It says hello.", 2, "done")


def test_an_event_arrives_before_the_run_has_ended(start: Start) -> None:
    """The reply pauses between its pieces; the first piece is read meanwhile."""
    agent = start(ChatServer.text("one two three four", pieces=120, pause=0.05))

    async def main() -> bool:
        stream = agent.stream("go")
        async for event in stream:
            if isinstance(event, TextDelta):
                with pytest.raises(ToolcribError, match="no result yet"):
                    _ = stream.result
                return True
        return False

    assert asyncio.run(main())


def test_an_error_follows_the_events_before_it(start: Start) -> None:
    refused = ChatServer.body({"error": {"message": "bad key"}}, 401)
    agent = start(refused, ChatServer.text("fine"))
    seen: list[Event] = []

    async def follow() -> None:
        async for event in agent.stream("go"):
            seen.append(event)  # noqa: PERF401 - the events before the error are kept

    async def main() -> str:
        with pytest.raises(AuthFailed):
            await follow()
        return (await agent.aask("again")).text

    assert asyncio.run(main()) == "fine"
    assert [type(event) for event in seen] == [TurnStarted]


def test_leaving_the_loop_cancels_the_run(start: Start, tmp_path: Path) -> None:
    """The shell of the call is ended with the run, and the conversation continues."""
    agent = start(ChatServer.calls(("terminal", {"command": "sleep 60; touch late"})), ChatServer.text("next"))

    async def main() -> str:
        async for event in agent.stream("go"):
            if isinstance(event, ToolStarted):
                break
        async with asyncio.timeout(30):
            return (await agent.aask("and now?")).text

    assert asyncio.run(main()) == "next"
    assert not (tmp_path / "late").exists()


def test_interrupt_ends_the_stream_with_a_result(start: Start) -> None:
    agent = start(ChatServer.calls(("terminal", {"command": "sleep 60"})), ChatServer.text("next"))

    async def main() -> str:
        stream = agent.stream("go")
        async with asyncio.timeout(30):
            async for event in stream:
                if isinstance(event, ToolStarted):
                    agent.interrupt()
        return stream.result.stopped

    assert asyncio.run(main()) == "interrupted"


def test_on_event_gets_the_events_too_and_those_of_later_messages(start: Start) -> None:
    seen: list[Event] = []
    agent = start(ChatServer.text("one"), ChatServer.text("two"), on_event=seen.append)

    async def main() -> list[Event]:
        events, _ = await read(agent, "go")
        assert seen == events
        await agent.aask("again")
        return events

    events = asyncio.run(main())
    assert len(seen) == 2 * len(events)


def test_streams_at_once_are_answered_in_order_each_with_its_own_events(start: Start) -> None:
    agent = start(ChatServer.text("one"), ChatServer.text("two"))

    async def main() -> list[Any]:
        return await asyncio.gather(read(agent, "a"), read(agent, "b"))

    for (events, result), text in zip(asyncio.run(main()), ("one", "two"), strict=True):
        assert result.text == text
        assert "".join(event.text for event in events if isinstance(event, TextDelta)) == text


def test_a_stream_is_read_once(start: Start) -> None:
    agent = start(ChatServer.text("one"))

    async def main() -> None:
        stream = agent.stream("go")
        assert [event async for event in stream]
        with pytest.raises(ToolcribError, match="already read"):
            _ = [event async for event in stream]

    asyncio.run(main())


def test_a_closed_agent_streams_nothing(start: Start) -> None:
    agent = start()

    async def main() -> None:
        await agent.aclose()
        with pytest.raises(ToolcribError, match="this Agent is closed"):
            _ = [event async for event in agent.stream("go")]

    asyncio.run(main())


def test_a_tool_that_streams_from_its_own_agent_fails_at_once(start: Start) -> None:
    agent = start(ChatServer.calls(("nest", {})), ChatServer.text("done"))

    async def nest(args: Any) -> str:
        return (await read(agent, "and this?"))[1].text

    agent.crib.registry.register("nest", "terminal", {"description": "d"}, nest)
    agent.session.names.append("nest")
    agent.session.scope.granted = None
    events, result = asyncio.run(read(agent, "go"))
    (finished,) = [event for event in events if isinstance(event, ToolFinished)]
    assert "queue the message with Session.say" in str(finished.executed.result.message)
    assert result.text == "done"
