"""A session's link to its model: it keeps one provider session while that session knows the whole conversation."""

from __future__ import annotations

import time
from typing import Any

import pytest

from agent.api import Crib, Session
from agent.conversation.transcript import user_record
from agent.model_choice.models import ModelChoice
from toolcrib import Answer
from toolcrib.testing import ChatServer, ScriptedSession


async def connected(crib: Crib, server: ChatServer) -> Session:
    session = await crib.open()
    await session.connect(ModelChoice(model="test-model", base_url=server.base_url))
    return session


def said(request: Any) -> list[tuple[str, str]]:
    return [(message["role"], message.get("content") or "") for message in request["messages"] if message["role"] != "system"]


async def test_one_provider_session_serves_all_turns(crib: Crib) -> None:
    """The transcript does not send again what the provider session already has."""
    with ChatServer(ChatServer.calls(("todo", {})), ChatServer.text("one"), ChatServer.text("two")) as server:
        session = await connected(crib, server)
        first = session.link.provider
        assert first is not None
        await session.ask("go")
        assert session.link.provider is first
        await session.ask("and now?")
        assert session.link.provider is first
        await session.close()
    roles = [[role for role, _ in said(request)] for request in server.requests]
    assert roles == [["user"], ["user", "assistant", "tool"], ["user", "assistant", "tool", "assistant", "user"]]
    assert said(server.requests[2])[-1] == ("user", "and now?")


async def test_another_is_opened_where_another_process_went_on(crib: Crib) -> None:
    with ChatServer(ChatServer.text("one"), ChatServer.text("two")) as server:
        session = await connected(crib, server)
        await session.ask("go")
        first, closed = session.link.provider, list[str]()
        assert first is not None
        close = first.close

        async def noted() -> None:
            closed.append("closed")
            await close()

        first.close = noted  # type: ignore[method-assign]  # the real one is closed too
        await session.store.sessions.append(session.id, user_record("said elsewhere"))
        await session.ask("and now?")
        assert session.link.provider is not first
        assert closed == ["closed"]
        await session.close()
    assert [text for role, text in said(server.requests[1]) if role == "user"] == ["go", "said elsewhere", "and now?"]


async def test_another_is_opened_once_its_tools_have_changed(crib: Crib) -> None:
    with ChatServer(ChatServer.text("one"), ChatServer.text("two")) as server:
        session = await connected(crib, server)
        await session.ask("go")
        first = session.link.provider
        session.link.renew()
        await session.ask("and now?")
        assert session.link.provider is not first
        await session.close()
    assert said(server.requests[1]) == [("user", "go"), ("assistant", "one"), ("user", "and now?")]


async def test_the_same_one_is_asked_to_mend_its_answer(crib: Crib) -> None:
    with ChatServer(ChatServer.text("three"), ChatServer.text("3")) as server:
        session = await connected(crib, server)
        first = session.link.provider
        result = await session.ask("how many?", schema={"type": "integer"})
        assert result.data == 3
        assert session.link.provider is first
        await session.close()
    assert [role for role, _ in said(server.requests[1])] == ["user", "assistant", "user"]


@pytest.mark.parametrize("anew", [False, True])
async def test_a_given_provider_session_gets_the_results_after_a_park(crib: Crib, anew: bool) -> None:
    """A caller may give it before or after the run is parked. A host that reopens the session gives it afterwards."""
    session = await crib.open(platform="api", suspends=True)
    first = ScriptedSession([("terminal", {"command": "rm -rf build"}), ("todo", {})], "done")
    session.link.use(first)
    parked = await session.ask("go")
    assert parked.stopped == "parked"
    assert first.results == []
    second = ScriptedSession("done") if anew else first
    if anew:
        session.link.use(second)
    await session.answer(Answer(parked.tickets[0], payload={"approved": False}, by="api", at=time.time()))
    result = await session.advance()
    assert result is not None
    assert result.text == "done"
    assert [one.call.name for one in second.results[0]] == ["terminal", "todo"]
    await session.close()
