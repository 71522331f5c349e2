"""What is remembered of a conversation, and going on with it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.loop import Loop
from agent.run import Agent, Crib, Session, assemble
from toolcrib import ProviderTurn, ToolCall, ToolcribError
from toolcrib.testing import ChatServer, FakeEnvironment, ScriptedSession


@pytest.fixture
def crib(tmp_path: Path) -> Iterator[Crib]:
    with assemble(project_dir=tmp_path) as made:
        yield made


def run(session: Session, *turns: Any) -> None:
    async def go() -> None:
        session.say("do it")
        await Loop(ScriptedSession(*turns), session, lambda event: None).run()
        await session.close()

    asyncio.run(go())


def test_a_conversation_goes_on_in_the_next_process(tmp_path: Path) -> None:
    with assemble(project_dir=tmp_path) as crib:
        first = crib.open_session()
        run(first, [("todo", {"todos": [{"content": "write", "status": "pending"}]})], "planned")
    with assemble(project_dir=tmp_path) as crib:
        again = crib.open_session(latest=True)
        assert again.identity.session_id == first.identity.session_id
        assert [record["role"] for record in again.records()] == ["user", "assistant", "results", "assistant"]
        assert again.info is not None
        assert again.info.title == "do it"
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
    with pytest.raises(ToolcribError, match="no session begins with 'zzz'"):
        crib.open_session(resume="zzz")
    with pytest.raises(ToolcribError, match="there is no session of this folder"):
        crib.open_session(latest=True)


def test_calls_without_a_result_get_one(tmp_path: Path) -> None:
    """X-1: a process that died between a turn and its results"""
    with assemble(project_dir=tmp_path) as crib:
        session = crib.open_session()
        session.say("go")
        ran, lost = ToolCall("c1", "todo", {}), ToolCall("c2", "terminal", {"command": "true"})
        session.record_turn(ProviderTurn("", (ran, lost)))
        asyncio.run(session.turn([ran]))
        session.close_sync()
        again = crib.open_session(resume=session.identity.session_id)
        last = again.records()[-1]
        assert last["role"] == "results"
        assert [(one["call_id"], one["is_error"]) for one in last["results"]] == [("c1", False), ("c2", True)]
        assert "interrupted before it ran" in last["results"][1]["text"]
        again.close_sync()
        assert len(crib.open_session(resume=session.identity.session_id).records()) == 3


def test_the_store_can_be_switched_off(tmp_path: Path) -> None:
    from agent.config import config_path, state_dir

    config_path().parent.mkdir(parents=True)
    config_path().write_text("store: {enabled: false}\n")
    with assemble(project_dir=tmp_path) as crib:
        run(crib.open_session(), "hello")
    assert not (state_dir() / "toolcrib.db").exists()


def test_an_agent_in_a_few_lines(tmp_path: Path) -> None:
    """The typed API: a model that edits a file and runs it."""
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
    """X-1: else one's question stands between the other's calls and their results."""
    with assemble(project_dir=tmp_path) as crib:
        first = crib.open_session()
        run(first, [("todo", {})], "one")
        second, third = (crib.open_session(resume=first.identity.session_id) for _ in range(2))
        run(second, "two")
        with pytest.raises(ToolcribError, match="another process went on with this session; resume"):
            run(third, "three")
        fourth = crib.open_session(resume=first.identity.session_id)
        run(fourth, "four")
        third.close_sync()
        said = [record["text"] for record in fourth.records() if record["role"] == "assistant"]
    assert said == ["", "one", "two", "four"]


def test_an_end_that_cannot_be_recorded_is_one_line_for_people(crib: Crib, caplog: pytest.LogCaptureFixture) -> None:
    """A full disk is no fault of the code: what was done was done, and no trace hides what to do."""
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
