"""An Agent and a real Chat Completions server: from the wire's replies to the calls that run and the next request."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent
from agent.config import Config
from agent.conversation.limits import RunLimits
from agent.conversation.steps import FINAL_ANSWER
from agent.events import Event, TextDelta, ToolCallDelta, ToolFinished, ToolStarted
from agent.model_choice.retry import RetryPolicy
from toolcrib import BadRequest, ProviderError, StreamBroken
from toolcrib.testing import ChatServer, Response

WRITE = {"path": "a.txt", "content": "grüße 😀\n"}
Start = Callable[..., tuple[Agent, ChatServer]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Return a function that starts an agent in ``tmp_path`` and its server, which sends these responses."""
    with ExitStack() as stack:

        def begin(*responses: Response, **options: Any) -> tuple[Agent, ChatServer]:
            server = stack.enter_context(ChatServer(*responses))
            limits = {"limits": RunLimits(retry=RetryPolicy(attempts=1)), **options}
            return stack.enter_context(Agent(model="m", base_url=server.base_url, project_dir=tmp_path, **limits)), server

        yield begin


def delta(finish: str | None = None, **fields: Any) -> Any:
    return {"choices": [{"index": 0, "delta": fields, "finish_reason": finish}]}


def call(arguments: str, **fields: Any) -> Any:
    return delta(tool_calls=[{"function": {"name": "write_file", "arguments": arguments}, **fields}])


def answered(server: ChatServer) -> list[tuple[str, str]]:
    """Return (call id, text) of the results in the last request; each is right after the message with its call."""
    messages = server.requests[-1]["messages"]
    at = max(place for place, message in enumerate(messages) if message.get("tool_calls"))
    ids = [one["id"] for one in messages[at]["tool_calls"]]
    results = messages[at + 1 : at + 1 + len(ids)]
    assert [one["role"] for one in results] == ["tool"] * len(ids)
    assert [one["tool_call_id"] for one in results] == ids
    return [(one["tool_call_id"], one["content"]) for one in results]


def test_every_call_gets_one_result_whatever_became_of_it(start: Start, tmp_path: Path) -> None:
    """X-1: denied, blocked, failed, unknown, unreadable, and a successful one."""
    (tmp_path / "build").mkdir()
    calls = [
        ("terminal", {"command": "rm -rf build"}),
        ("terminal", {"command": "rm -rf /"}),
        ("read_file", {"path": "gone"}),
        ("nope", {}),
        ("read_file", '{"path": '),
        ("read_file", {"wrong": 1}),
        ("write_file", WRITE),
    ]
    agent, server = start(ChatServer.calls(*calls), ChatServer.text("done"))
    assert agent.ask("go").text == "done"
    results = answered(server)
    assert len({call_id for call_id, _ in results}) == len(calls)
    words = ("needs a user's answer", "rm -rf /", "gone", "Unknown tool: nope", "the call was not run", "wrong", "created")
    for (_, text), word in zip(results, words, strict=True):
        assert word in text
    assert (tmp_path / "build").is_dir()
    assert (tmp_path / "a.txt").read_text() == WRITE["content"]


def test_handlers_hear_the_session_and_what_the_person_asked_for(start: Start) -> None:
    """003-17: user_task is the text of the message that the run answers, task_id the session's id."""
    heard: list[dict[str, Any]] = []
    agent, _ = start(*[response for _ in range(2) for response in (ChatServer.calls(("listens", {})), ChatServer.text("done"))])
    agent.crib.registry.register("listens", "t", {"description": "d"}, lambda args, **extra: heard.append(extra))
    agent.session.scope.granted = None
    for text in ("Tidy up.", "And now the rest."):
        agent.ask(text)
    session_id = agent.session.identity.session_id
    assert heard == [{"task_id": session_id, "user_task": text} for text in ("Tidy up.", "And now the rest.")]


def test_a_call_without_an_id_gets_one_that_stays(start: Start, tmp_path: Path) -> None:
    """X-2, X-3: no id, a missing or null index, and arguments that arrive in pieces."""
    raw = json.dumps(WRITE)
    chunks = [call(raw[:9], index=None), delta(tool_calls=[{"index": None, "function": {"arguments": raw[9:]}}])]
    events: list[Event] = []
    agent, server = start(ChatServer.stream(*chunks, delta("tool_calls")), ChatServer.text("done"), on_event=events.append)
    agent.ask("go")
    ((call_id, text),) = answered(server)
    assert call_id
    assert "created" in text
    ids = {event.call_id for event in events if isinstance(event, ToolCallDelta)}
    ids |= {event.call.id for event in events if isinstance(event, ToolStarted)}
    ids |= {event.executed.call.id for event in events if isinstance(event, ToolFinished)}
    assert ids == {call_id}, "004-11"


def test_an_error_inside_a_good_answer_is_an_error(start: Start) -> None:
    """X-4: with the text so far, which the conversation keeps as interrupted."""
    broken = ChatServer.stream(delta(content="So far"), {"error": {"message": "out of memory", "code": 500}}, done=False)
    agent, server = start(broken, ChatServer.text("Well."))
    with pytest.raises(ProviderError, match="out of memory") as caught:
        agent.ask("one")
    assert caught.value.text == "So far"
    assert agent.ask("two").text == "Well."
    kept = "So far\n\n[the connection to the model ended here]"
    assert [message["content"] for message in server.requests[1]["messages"][1:]] == ["one", kept, "two"]


@pytest.mark.parametrize("finish", ["stop", "", None, "tool_calls", "function_call"])
def test_calls_run_after_every_good_end(start: Start, tmp_path: Path, finish: str | None) -> None:
    """X-5"""
    agent, _ = start(ChatServer.stream(call(json.dumps(WRITE), index=0, id="c"), delta(finish)), ChatServer.text("done", piece=2))
    assert agent.ask("go").turns == 2
    assert (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("whole", [True, False])
def test_a_call_that_the_token_limit_cut_never_runs(start: Start, tmp_path: Path, whole: bool) -> None:
    """X-8: the call does not run even if its arguments can be parsed. The model reads why, and the run continues."""
    raw = json.dumps(WRITE)
    cut = ChatServer.stream(call(raw if whole else raw[:-4], index=0, id="c"), delta("length"))
    agent, server = start(cut, ChatServer.text("In parts, then."))
    assert agent.ask("go").text == "In parts, then."
    ((_, text),) = answered(server)
    assert "token limit" in text
    assert not (tmp_path / "a.txt").exists()


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 64, 0])
def test_the_framing_changes_nothing(start: Start, tmp_path: Path, pieces: int) -> None:
    """X-10: characters and events cut anywhere."""
    events: list[Event] = []
    first = ChatServer.calls(("write_file", WRITE), text="Grüße 😀 <tool", ids=["c"], pieces=pieces)
    agent, _ = start(first, ChatServer.text("fertig 😀", piece=1, pieces=pieces), on_event=events.append)
    assert agent.ask("go").text == "fertig 😀"
    assert (tmp_path / "a.txt").read_text() == WRITE["content"]
    deltas = [event.text for event in events if isinstance(event, TextDelta)]
    assert deltas == ["Grüße 😀 <tool", *"fertig 😀"]


def test_the_last_answer_is_asked_for_once(start: Start, tmp_path: Path) -> None:
    """000-41, 000-43: the program's limits override the configuration; a call in that answer does not run, and gets a result
    before the conversation continues.
    """
    turns = [
        ChatServer.calls(("terminal", {"command": "true"})),
        ChatServer.calls(("write_file", WRITE), text="As far as I got."),
    ]
    agent, server = start(*turns, ChatServer.text("more"), config=Config(max_turns=7), limits=RunLimits(max_turns=1))
    result = agent.ask("go")
    assert (result.text, result.stopped, len(server.requests)) == ("As far as I got.", "max_turns", 2)
    assert server.requests[1]["messages"][-1] == {"role": "user", "content": FINAL_ANSWER}
    assert agent.ask("go on").text == "more"
    assert not (tmp_path / "a.txt").exists()
    answered(server)


def test_the_configured_number_of_turns_stands_before_ten(start: Start) -> None:
    """000-43"""
    calls = [ChatServer.calls(("terminal", {"command": f"echo {number}"})) for number in range(2)]
    agent, server = start(*calls, ChatServer.text("x"), config=Config(max_turns=2), limits=None)
    assert agent.ask("go").stopped == "max_turns"
    assert len(server.requests) == 3


def test_an_http_error_is_raised_at_once(start: Start) -> None:
    """000-42: its status and body; no further turn, and the conversation can continue."""
    agent, server = start(ChatServer.body({"error": {"message": "no such model"}}, 404), ChatServer.text("Here."))
    with pytest.raises(BadRequest, match="no such model") as caught:
        agent.ask("one")
    assert (caught.value.status, len(server.requests)) == (404, 1)
    assert "no such model" in caught.value.body
    assert agent.ask("two").text == "Here."


def test_a_cut_stream_runs_none_of_its_calls(start: Start, tmp_path: Path) -> None:
    """X-8: the connection ends before the reply does."""
    whole = ChatServer.calls(("write_file", WRITE), done=False)
    agent, _ = start(Response(whole.body[:-200], cut=len(whole.body) - 210), ChatServer.text("Here."))
    with pytest.raises(StreamBroken):
        agent.ask("one")
    assert not (tmp_path / "a.txt").exists()
    assert agent.ask("two").text == "Here."


def test_reasoning_goes_back_in_later_questions_and_other_processes(start: Start, tmp_path: Path) -> None:
    """DeepSeek V4 refuses a message with a call, in any later request, without its reasoning."""
    thought = delta(role="assistant", content=None, reasoning_content=""), delta(reasoning_content="I must write.")
    first = ChatServer.stream(*thought, call(json.dumps(WRITE), index=0, id="c1"), delta("tool_calls"))
    agent, server = start(first, ChatServer.text("Done."), ChatServer.text("Twice."))
    agent.ask("write")
    agent.ask("again")
    session = agent.session.identity.session_id
    agent.close()
    with ChatServer(ChatServer.text("Thrice.")) as other:
        with Agent(model="m", base_url=other.base_url, project_dir=tmp_path, resume=session) as resumed:
            resumed.ask("again")
        for sent in (*server.requests[1:], *other.requests):
            [called] = [one for one in sent["messages"] if one.get("tool_calls")]
            assert called["reasoning_content"] == "I must write."
