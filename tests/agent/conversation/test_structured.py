"""Structured answers, forced and forbidden tools: in each wire's own fields, and checked whatever the server does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field, TypeAdapter, field_validator

from agent.api import Agent
from agent.config import Config, ModelConfig
from agent.conversation.limits import AnswerUnfit, RunLimits
from agent.conversation.structured import AnswerCheck
from agent.model_choice.retry import RetryPolicy
from agent.providers.endpoint import Endpoint
from agent.providers.factory import ModelTarget, ProviderOpening, open_session
from toolcrib import ConfigError, ProviderSession, ProviderTurn
from toolcrib.testing import ChatServer, Response

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
TOOL = {
    "type": "function",
    "function": {"name": "look.up", "description": "x", "parameters": {"type": "object", "properties": {}}},
}
CALL = ("terminal", {"command": "echo hi"})
ANSWERS = {
    "chat": {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]},
    "responses": {
        "status": "completed",
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}],
    },
    "anthropic": {"type": "message", "role": "assistant", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn"},
    "gemini": {"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}]},
    "text": {"choices": [{"message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}]},
}
LIMITS = RunLimits(retry=RetryPolicy(attempts=1))


def asked(wire: str, *responses: Response, **more: Any) -> Any:
    """Return the request bodies of one turn."""
    with ChatServer(*(responses or [ChatServer.body(ANSWERS[wire])])) as server:
        conversation = ProviderOpening(tools=[TOOL], stream=False, **more)
        session = open_session(ModelTarget(wire, Endpoint(server.base_url, "m")), conversation, {})

        async def go(session: ProviderSession) -> ProviderTurn:
            session.say("go")
            try:
                return await session.stream_turn(lambda event: None)
            finally:
                await session.close()

        assert asyncio.run(go(session)).assistant_text == "ok"
        return server.requests


@pytest.mark.parametrize(
    ("wire", "choice", "field", "sent"),
    [
        ("chat", "none", "tool_choice", "none"),
        ("chat", "required", "tool_choice", "required"),
        ("chat", "look.up", "tool_choice", {"type": "function", "function": {"name": "look_up"}}),
        ("responses", "none", "tool_choice", "none"),
        ("responses", "look.up", "tool_choice", {"type": "function", "name": "look_up"}),
        ("anthropic", "none", "tool_choice", {"type": "none"}),
        ("anthropic", "required", "tool_choice", {"type": "any"}),
        ("anthropic", "look.up", "tool_choice", {"type": "tool", "name": "look_up"}),
        ("gemini", "none", "toolConfig", {"functionCallingConfig": {"mode": "NONE"}}),
        ("gemini", "required", "toolConfig", {"functionCallingConfig": {"mode": "ANY"}}),
        ("text", "none", "tool_choice", None),
        ("chat", "auto", "tool_choice", None),
        ("gemini", "auto", "toolConfig", None),
    ],
)
def test_tools_are_forced_and_forbidden_as_the_wire_has_it(wire: str, choice: str, field: str, sent: Any) -> None:
    assert asked(wire, tool_choice=choice)[0].get(field) == sent


@pytest.mark.parametrize(
    ("choice", "told"),
    [("auto", "go"), ("none", "go\n\nAnswer without calling a tool."), ("required", "go\n\nCall a tool now."),
     ("look.up", "go\n\nCall the tool look.up now.")],
)  # fmt: skip
def test_a_text_protocol_is_told_in_words(choice: str, told: str) -> None:
    assert asked("text", tool_choice=choice)[0]["messages"][-1]["content"] == told


def test_one_tool_is_named_as_the_wire_calls_it() -> None:
    sent = asked("gemini", tool_choice="look.up")[0]
    named = sent["toolConfig"]["functionCallingConfig"]["allowedFunctionNames"]
    assert named == [sent["tools"][0]["functionDeclarations"][0]["name"]]


def test_a_forced_call_and_thinking_exclude_each_other_on_anthropic() -> None:
    assert "thinking" not in asked("anthropic", tool_choice="required", options={"thinking": 2048})[0]
    assert "thinking" in asked("anthropic", tool_choice="none", options={"thinking": 2048})[0]


@pytest.mark.parametrize(
    ("wire", "find"),
    [
        ("chat", lambda body: body["response_format"]["json_schema"]["schema"]),
        ("text", lambda body: body["response_format"]["json_schema"]["schema"]),
        ("responses", lambda body: body["text"]["format"]["schema"]),
        ("anthropic", lambda body: body["output_config"]["format"]["schema"]),
        ("gemini", lambda body: body["generationConfig"]["responseJsonSchema"]),
    ],
)
def test_the_schema_goes_where_the_wire_has_it(wire: str, find: Callable[[Any], Any]) -> None:
    assert find(asked(wire, response_schema=SCHEMA)[0]) == SCHEMA


@pytest.mark.parametrize(
    ("wire", "how", "said", "field"),
    [
        ("chat", {"tool_choice": "none"}, "unknown field tool_choice", "tool_choice"),
        ("chat", {"response_schema": SCHEMA}, "This response_format type is unavailable now", "response_format"),
        ("anthropic", {"response_schema": SCHEMA}, "output_config: additionalProperties must be false", "output_config"),
        ("gemini", {"tool_choice": "none"}, "Unknown name toolConfig", "toolConfig"),
    ],
)
def test_what_a_server_refuses_is_left_out(wire: str, how: dict[str, Any], said: str, field: str) -> None:
    refused = ChatServer.body({"error": {"message": said}}, 400)
    first, second = asked(wire, refused, ChatServer.body(ANSWERS[wire]), **how)
    assert field in first
    assert field not in second


# -- Agent.ask ---------------------------------------------------------------------------------------------------------


def agent(server: ChatServer, folder: Path, **more: Any) -> Agent:
    return Agent(model="m", base_url=server.base_url, project_dir=folder, limits=more.pop("limits", LIMITS), **more)


def test_an_answer_is_data(tmp_path: Path) -> None:
    """Turns before the answer may call tools; with tools, no schema restricts the reply, which must be able to hold calls."""
    with ChatServer(ChatServer.calls(CALL), ChatServer.text('```json\n{"n": 4}\n```')) as server, agent(server, tmp_path) as made:
        result = made.ask("how many?", schema=SCHEMA)
        assert (result.data, result.turns, result.stopped) == ({"n": 4}, 2, "done")
    assert json.dumps(SCHEMA) in server.requests[0]["messages"][-1]["content"]
    assert "response_format" not in server.requests[0]


def test_without_tools_the_wire_holds_it_to_the_schema(tmp_path: Path) -> None:
    with ChatServer(ChatServer.text('{"n": 4}'), ChatServer.text("4")) as server, agent(server, tmp_path, toolsets=[]) as made:
        assert made.ask("how many?", schema=SCHEMA).data == {"n": 4}
        assert made.ask("in words?").data is None
    assert ["response_format" in request for request in server.requests] == [True, False]


def test_one_round_mends_it(tmp_path: Path) -> None:
    with ChatServer(ChatServer.text("Four."), ChatServer.text('{"n": 4}')) as server, agent(server, tmp_path) as made:
        result = made.ask("how many?", schema=SCHEMA)
        assert (result.data, result.turns, result.usage["input"]) == ({"n": 4}, 2, 20)
    sent = server.requests[1]
    assert "does not match: it is not JSON" in sent["messages"][-1]["content"]
    assert (sent["tool_choice"], sent["response_format"]["type"]) == ("none", "json_schema")


def test_twice_unfit_is_an_error_and_the_conversation_goes_on(tmp_path: Path) -> None:
    texts = ("Four.", '{"n": "four"}', "Sorry.")
    with ChatServer(*map(ChatServer.text, texts)) as server, agent(server, tmp_path) as made:
        with pytest.raises(AnswerUnfit, match=r"at n: .*integer") as caught:
            made.ask("how many?", schema=SCHEMA)
        assert caught.value.text == '{"n": "four"}'
        assert made.ask("well?").text == "Sorry."
    assert "tool_choice" not in server.requests[2]


@pytest.mark.parametrize("text", ["NaN", '{"n": Infinity}', "[" * 100_000, "", '{"n": 1} and {"n": 2}', "null"])
def test_what_is_no_fitting_json_is_told(text: str) -> None:
    with pytest.raises(ValueError, match=r"not JSON|at the top"):
        AnswerCheck(SCHEMA).read(text)


def test_a_schema_that_is_none_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    with ChatServer() as server, agent(server, tmp_path) as made, pytest.raises(ConfigError, match="not a JSON Schema"):
        made.ask("how many?", schema={"type": "whole number"})
    assert server.requests == []


class Place(BaseModel):
    name: str
    founded: date


class Trip(BaseModel):
    """A trip with at least one place."""

    places: list[Place]
    way: Literal["train", "foot"] = Field(alias="by")

    @field_validator("places")
    @classmethod
    def never_home(cls, places: list[Place]) -> list[Place]:
        if any(place.name == "Home" for place in places):
            raise ValueError("home is no trip")
        return places


TRIP = '{"places": [{"name": "Oslo", "founded": "1048-01-01"}], "by": "train"}'


@pytest.mark.parametrize(
    ("wanted", "answer", "data"),
    [
        (Trip, TRIP, Trip(places=[Place(name="Oslo", founded=date(1048, 1, 1))], by="train")),
        (list[Place], '[{"name": "Oslo", "founded": "1048-01-01"}]', [Place(name="Oslo", founded=date(1048, 1, 1))]),
        (int, "4", 4),
        (Place | None, "null", None),
    ],
)
def test_a_class_is_a_schema_and_the_data_are_its_object(tmp_path: Path, wanted: Any, answer: str, data: Any) -> None:
    with ChatServer(ChatServer.text(answer)) as server, agent(server, tmp_path) as made:
        assert made.ask("where?", schema=wanted).data == data
    assert json.dumps(TypeAdapter(wanted).json_schema()) in server.requests[0]["messages"][-1]["content"]


def test_an_answer_that_does_not_match_a_class_is_asked_for_again(tmp_path: Path) -> None:
    with ChatServer(ChatServer.text('{"places": []}'), ChatServer.text(TRIP)) as server, agent(server, tmp_path) as made:
        assert made.ask("where?", schema=Trip).data.places[0].name == "Oslo"
    assert '"by" is a required property' in server.requests[1]["messages"][-1]["content"]


def test_a_class_may_refuse_what_its_schema_allows(tmp_path: Path) -> None:
    home = TRIP.replace("Oslo", "Home")
    with ChatServer(ChatServer.text(home), ChatServer.text("fine")) as server, agent(server, tmp_path) as made:
        with pytest.raises(AnswerUnfit, match=r"not the class: (.|\n)*home is no trip") as caught:
            made.ask("where?", schema=Trip)
        assert caught.value.text == home
        assert made.ask("well?").text == "fine"


@pytest.mark.parametrize(
    ("wanted", "words"), [("Trip", "or a pydantic class; got 'Trip'"), (AnswerCheck, "makes no JSON Schema"), (7, "got 7")]
)
def test_what_is_no_schema_and_no_class_is_refused(tmp_path: Path, wanted: Any, words: str) -> None:
    with ChatServer() as server, agent(server, tmp_path) as made:
        with pytest.raises(ConfigError, match=words):
            made.ask("where?", schema=wanted)
        with pytest.raises(ConfigError, match=words):
            made.stream("where?", schema=wanted)
    assert server.requests == []


def test_a_parked_run_has_no_object_yet(tmp_path: Path) -> None:
    push = ("terminal", {"command": "git push --force origin main"})
    with ChatServer(ChatServer.calls(push)) as server, agent(server, tmp_path, parks=True) as made:
        result = made.ask("where?", schema=Trip)
        assert (result.stopped, result.data) == ("parked", None)


def test_a_resumed_agent_keeps_its_model(tmp_path: Path) -> None:
    with ChatServer(ChatServer.text("One."), ChatServer.text("Two.")) as server:
        with agent(server, tmp_path, provider="text") as made:
            made.ask("a")
            session = made.session.identity.session_id
        with Agent(project_dir=tmp_path, resume=session) as made:
            assert made.ask("b").text == "Two."
    assert [(request["model"], "tools" in request) for request in server.requests] == [("m", False)] * 2


# -- the last answer ---------------------------------------------------------------------------------------------------


def test_the_last_answer_forbids_tools(tmp_path: Path) -> None:
    """000-41: tools are forbidden if the wire can do that, and for that turn only."""
    replies = (ChatServer.calls(CALL), ChatServer.text("as far as I got"), ChatServer.text("hello"))
    limits = RunLimits(max_turns=1, retry=RetryPolicy(attempts=1))
    with ChatServer(*replies) as server, agent(server, tmp_path, limits=limits) as made:
        assert made.ask("go").stopped == "max_turns"
        assert made.ask("hello").text == "hello"
    assert [request.get("tool_choice") for request in server.requests] == [None, "none", None]


@pytest.mark.parametrize(
    ("content", "text", "data"), [({"n": 1}, '{"n": 1}', {"n": 1}), ([1], "[1]", [1]), (None, "", None), ("five", "five", None)]
)
def test_an_answer_of_the_json_protocol_keeps_its_type(tmp_path: Path, content: Any, text: str, data: Any) -> None:
    """001-8"""
    with ChatServer(ChatServer.text(json.dumps({"final": {"content": content}}))) as server:
        config = Config(model=ModelConfig(protocol="json_object"))
        options: dict[str, Any] = {"base_url": server.base_url, "provider": "text", "config": config, "project_dir": tmp_path}
        with Agent(model="m", **options) as agent:
            result = agent.ask("go")
    assert (result.text, result.data) == (text, data)
