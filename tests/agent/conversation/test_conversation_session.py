"""The stored state of a conversation, and how it is resumed."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent, Crib, Session, assemble
from agent.conversation.transcript import turn_record, user_record
from toolcrib import ConfigError, ProviderTurn, StateKey, ToolCall, ToolCallContext, ToolcribError, ToolOutput, ToolResult
from toolcrib.testing import ChatServer, FakeEnvironment, ScriptedSession
from tools.dispatch.bridge import run_async


def run(session: Session, *turns: Any) -> None:
    async def go() -> None:
        session.link.use(ScriptedSession(*turns))
        await session.ask("do it")
        await session.close()

    asyncio.run(go())


def records(session: Session) -> Any:
    return run_async(session.records())


def test_a_conversation_goes_on_in_the_next_process(tmp_path: Path) -> None:
    with assemble(project_dir=tmp_path) as crib:
        first = crib.open_session()
        run(first, [("todo", {"todos": [{"content": "write", "status": "pending"}]})], "planned")
    with assemble(project_dir=tmp_path) as crib:
        again = crib.open_session(latest=True)
        assert again.identity.session_id == first.identity.session_id
        assert [record["role"] for record in records(again)] == ["user", "assistant", "results", "assistant"]
        info = run_async(again.info())
        assert info is not None
        assert info.title == "do it"
        assert again.call("todo", {}).result.data["counts"]["total"] == 1
        again.close_sync()
        by_prefix = crib.open_session(resume=first.identity.session_id[:8])
        assert by_prefix.identity.session_id == first.identity.session_id
        by_prefix.close_sync()


def test_it_goes_on_in_the_folder_where_it_was(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    with assemble(project_dir=tmp_path) as crib:
        session = crib.open_session(cwd=str(tmp_path / "sub"))
        run(session, "hello")
        again = crib.open_session(resume=session.identity.session_id)
        assert again.scope.environment.cwd == str(tmp_path / "sub")
        again.close_sync()


def test_what_is_not_there_is_said(crib: Crib) -> None:
    with pytest.raises(ToolcribError, match="no session starts with 'zzz'"):
        crib.open_session(resume="zzz")
    with pytest.raises(ToolcribError, match="there is no session of this folder"):
        crib.open_session(latest=True)


def test_calls_without_a_result_get_one(tmp_path: Path) -> None:
    """X-1: an earlier version's process died between a turn and its results, and stored no run"""
    ran, lost = ToolCall("c1", "todo", {}), ToolCall("c2", "terminal", {"command": "true"})

    async def die(crib: Crib) -> str:
        session = await crib.open()
        turn = turn_record(ProviderTurn("", (ran, lost)), wire="manual", via={})
        await session.store.sessions.append_many(session.id, [user_record("go"), turn])
        await session.calls([ran])
        await session.close()
        return session.id

    async def go_on(crib: Crib, session_id: str) -> None:
        session = await crib.open(resume=session_id)
        session.link.use(ScriptedSession("well"))
        await session.ask("go on")
        last = (await session.records())[2]
        assert last["role"] == "results"
        assert [(one["call_id"], one["is_error"]) for one in last["results"]] == [("c1", False), ("c2", True)]
        assert "interrupted before it ran" in last["results"][1]["text"]
        assert [record["role"] for record in (await session.records())[3:]] == ["user", "assistant"]
        await session.close()

    with assemble(project_dir=tmp_path) as crib:
        session_id = asyncio.run(die(crib))
    with assemble(project_dir=tmp_path) as crib:
        asyncio.run(go_on(crib, session_id))


def test_state_is_there_again_in_the_next_process(tmp_path: Path) -> None:
    """002-14: a typed value of the session's state outlives the process."""
    prefs = StateKey("prefs", dict)

    def keep(args: Any, ctx: ToolCallContext) -> ToolOutput:
        return ToolOutput(ToolResult.success("keep", "kept"), (("prefs", {"lang": "nb"}),))

    for name, handler in (("keep", keep), ("tell", lambda args, ctx: ctx.state(prefs))):
        with assemble(project_dir=tmp_path) as crib:
            crib.registry.register(name, "terminal", {"description": "d"}, handler)
            session = crib.open_session(latest=name == "tell")
            session.scope.granted = None
            run(session, [(name, {})], "ok")
            told = records(session)[-2]["results"][0]["text"]
    assert json.loads(told) == {"lang": "nb"}


def test_the_store_can_be_switched_off(tmp_path: Path) -> None:
    from agent.config import config_path, state_dir

    config_path().parent.mkdir(parents=True)
    config_path().write_text("store: {enabled: false}\n")
    with assemble(project_dir=tmp_path) as crib:
        run(crib.open_session(), "hello")
    assert not (state_dir() / "toolcrib.db").exists()


def test_an_agent_in_a_few_lines(tmp_path: Path) -> None:
    """A model edits a file and runs it, through the typed API."""
    calls = ChatServer.calls
    server = ChatServer(
        calls(("write_file", {"path": "a.py", "content": "print(6 * 7)\n"})),
        calls(("terminal", {"command": "python3 a.py"})),
        ChatServer.text("It prints 42."),
        ChatServer.text("You are welcome."),
    )
    with server, Agent(model="m", base_url=server.base_url, project_dir=tmp_path) as agent:
        reply = agent.ask("Write a program.")
        assert (reply.text, reply.stopped, reply.turns) == ("It prints 42.", "done", 3)
        assert agent.ask("Thanks.").text == "You are welcome."
    assert (tmp_path / "a.py").read_text() == "print(6 * 7)\n"
    sent = server.requests[2]["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "tool", "assistant", "tool"]
    assert "42" in sent[-1]["content"]
    assert [message["role"] for message in server.requests[3]["messages"]][-2:] == ["assistant", "user"]


def test_an_agent_in_async_code(tmp_path: Path) -> None:
    async def go(base_url: str) -> str:
        async with Agent(model="m", base_url=base_url, project_dir=tmp_path) as agent:
            return (await agent.aask("Hello.")).text

    with ChatServer(ChatServer.text("Hi.")) as server:
        assert asyncio.run(go(server.base_url)) == "Hi."


def test_two_that_go_on_with_one_session_do_not_mix(tmp_path: Path) -> None:
    """X-1: runs of two processes alternate, and each model reads the results of the other's runs."""
    with assemble(project_dir=tmp_path) as crib:
        first = crib.open_session()
        run(first, [("todo", {})], "one")
        second, third = (crib.open_session(resume=first.id) for _ in range(2))

        async def both() -> None:
            for session, answer in ((second, "two"), (third, "three")):
                session.link.use(ScriptedSession([("todo", {})], answer))
            await asyncio.gather(second.ask("second"), third.ask("third"))
            await second.close()
            await third.close()

        asyncio.run(both())
        roles = [record["role"] for record in records(first)]
        assert roles == ["user", "assistant", "results", "assistant"] * 3
        said = [record["text"] for record in records(first) if record["role"] == "assistant" and record["text"]]
    assert sorted(said) == ["one", "three", "two"]


def test_without_a_model_nothing_pretends_to_answer(tmp_path: Path) -> None:
    """The first question raises ConfigError, and no part of it is recorded."""
    with Agent(project_dir=tmp_path) as agent:
        with pytest.raises(ConfigError, match="no model is connected: choose one"):
            agent.ask("Which test fails?")
        assert records(agent.session) == []


def test_an_end_that_cannot_be_recorded_is_one_line_for_people(crib: Crib, caplog: pytest.LogCaptureFixture) -> None:
    """A full disk is no bug: the call's result is kept, and no traceback hides what to do."""
    session = crib.open_session()

    def last(request: Any) -> tuple[int, bytes]:
        crib.store.close()
        return 0, b"done\n"

    session.scope.open_environment = lambda: FakeEnvironment(commands=last)
    assert session.call("terminal", {"command": "true"}).result.is_success
    session.close_sync()
    (said,) = [record.getMessage() for record in caplog.records if "could not be recorded" in record.getMessage()]
    assert said.startswith("the end of terminal could not be recorded: the store ")
    assert "Traceback" not in said
