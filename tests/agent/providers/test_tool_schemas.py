"""Tool schemas within the limits of providers, and arguments under their own names."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest

from agent.providers import Endpoint, HttpClient
from agent.providers._http_session import HttpSession
from agent.providers._tool_schemas import ANTHROPIC, GEMINI, OPENAI, fitted
from agent.providers.anthropic import AnthropicSession
from agent.providers.gemini import GeminiSession
from agent.providers.openai_chat import OpenAIChatSession
from agent.providers.openai_responses import ResponsesSession
from toolcrib import BadRequest
from toolcrib.testing import ChatServer, Response

LONG = "settings__approved__or__denied__countries__or__regions__approved__list"
ODD = {
    "type": "object",
    "properties": {
        "$top": {"type": "integer"},
        "filter[id]": {
            "type": "array",
            "items": {"type": "object", "properties": {"a b": {"type": "string"}}, "required": ["a b"]},
        },
        LONG: {"type": "string"},
        "_top": {"type": "string"},
    },
    "required": ["$top", "_top"],
}
OWN = {"$top": 3, "filter[id]": [{"a b": "x", "$top": 1}], LONG: "y", "_top": "z"}
SESSIONS: Mapping[str, type[Any]] = {
    "anthropic": AnthropicSession,
    "gemini": GeminiSession,
    "chat": OpenAIChatSession,
    "responses": ResponsesSession,
}
LIMITS = {"anthropic": ANTHROPIC, "gemini": GEMINI, "chat": OPENAI}


def tool(parameters: Any, name: str = "odd") -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "description": "d", "parameters": parameters}}


def names_in(schema: Any) -> set[str]:
    found: set[str] = set()
    if isinstance(schema, dict):
        found |= set(schema.get("properties") or ())
        schema = list(schema.values())
    for one in schema if isinstance(schema, list) else ():
        found |= names_in(one)
    return found


@pytest.mark.parametrize("wire", ["anthropic", "gemini"])
def test_names_that_a_provider_refuses_are_mapped_there_and_back(wire: str) -> None:
    [made], keys = fitted([tool(ODD)["function"]], LIMITS[wire])
    accepted = LIMITS[wire].keys
    assert accepted is not None
    assert all(accepted.fullmatch(name) for name in names_in(made["parameters"]))
    assert len(made["parameters"]["properties"]) == 4
    assert set(made["parameters"]["required"]) <= set(made["parameters"]["properties"])
    sent = keys["odd"].sent(OWN)
    assert set(sent) == set(made["parameters"]["properties"])
    assert sent["_top"] == "z"
    assert sent["filter[id]".replace("[", "_").replace("]", "_")][0].keys() == {"a_b", "$top"}, (
        "a name only where the schema has it"
    )
    assert keys["odd"].received(sent) == OWN
    assert keys["odd"].received(OWN) == OWN, "a model may use the name in the tool's description"


def test_a_schema_within_the_limits_is_sent_unchanged() -> None:
    schema = {"type": "object", "properties": {"a-b.c": {"$ref": "#/$defs/x"}}, "$defs": {"x": {"oneOf": [{"type": "null"}]}}}
    for wire in ("anthropic", "chat"):
        [made], keys = fitted([tool(schema)["function"]], LIMITS[wire])
        assert made["parameters"] is schema
        assert not keys


CHOICE = {
    "type": "object",
    "properties": {"to": {"type": "string"}},
    "required": ["to"],
    "anyOf": [
        {"properties": {"yaml": {"type": "string"}, "n": {"type": "integer"}}, "required": ["yaml", "n"]},
        {"properties": {"files": {"type": "array"}, "n": {"type": "string"}}, "required": ["files", "n"]},
    ],
}


@pytest.mark.parametrize("wire", ["anthropic", "chat"])
def test_alternatives_at_the_top_become_properties(wire: str) -> None:
    [made], _ = fitted([tool(CHOICE)["function"]], LIMITS[wire])
    sent = made["parameters"]
    assert not {"anyOf", "oneOf", "allOf"} & sent.keys()
    assert sent["type"] == "object"
    assert list(sent["properties"]) == ["to", "yaml", "n", "files"]
    assert sent["properties"]["n"] == {"anyOf": [{"type": "integer"}, {"type": "string"}]}
    assert sent["required"] == ["to", "n"]
    assert '"required": ["yaml", "n"]' in sent["description"]


@pytest.mark.parametrize(
    ("wire", "schema"),
    [
        ("anthropic", {"type": "object", "allOf": [{"properties": {"a": {"type": "integer"}}}]}),
        (
            "chat",
            {"type": "object", "properties": {"a": {"allOf": [{"$ref": "#/$defs/i"}]}}, "$defs": {"i": {"type": "integer"}}},
        ),
        ("chat", {"type": "object", "$ref": "#/$defs/o", "$defs": {"o": {"properties": {"a": {"type": "integer"}}}}}),
        ("chat", {"type": "object", "properties": {"a": {"type": "integer"}}, "not": {"required": ["a"]}}),
        (
            "anthropic",
            {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": {"type": "integer"}}},
        ),
    ],
)
def test_other_keywords_that_are_refused_are_merged_or_left_out(wire: str, schema: Any) -> None:
    [made], _ = fitted([tool(schema)["function"]], LIMITS[wire])
    assert made["parameters"] == {"type": "object", "properties": {"a": {"type": "integer"}}}


def drive(wire: str, server: ChatServer, *, tools: Any, records: Any = ()) -> Any:
    async def run() -> Any:
        client = HttpClient(Endpoint(server.base_url, "m", None), {}, None)
        session: HttpSession = SESSIONS[wire](client, model="m", tools=tools, records=records, stream=False)
        try:
            session.say("go")  # type: ignore[attr-defined]  # each wire has it
            return await session.stream_turn(lambda event: None)
        finally:
            await session.close()

    return asyncio.run(run())


def test_a_call_comes_with_its_own_names_and_goes_back_with_those_of_the_wire() -> None:
    _, keys = fitted([tool(ODD)["function"]], ANTHROPIC)
    sent = keys["odd"].sent(OWN)
    block = {"type": "tool_use", "id": "c1", "name": "odd", "input": sent}
    body = {"model": "m", "content": [block], "stop_reason": "tool_use", "usage": {}}
    with ChatServer(Response(json.dumps(body).encode())) as server:
        turn = drive("anthropic", server, tools=[tool(ODD)])
    assert turn.tool_calls[0].args == OWN
    assert turn.assistant_turn["content"][0]["input"] == sent
    other = {"role": "assistant", "text": "", "calls": [{"id": "c1", "name": "odd", "args": OWN}], "model": "other"}
    body = {"model": "m", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "usage": {}}
    with ChatServer(Response(json.dumps(body).encode())) as server:
        drive("anthropic", server, tools=[tool(ODD)], records=[{"role": "user", "text": "hi"}, other])
    [use] = [one for message in server.requests[0]["messages"] for one in message["content"] if one["type"] == "tool_use"]
    assert use["input"] == sent


@pytest.mark.parametrize(
    ("wire", "said"),
    [
        ("anthropic", "tools.1.custom.input_schema: it is bad"),
        ("chat", "Invalid 'tools[1].function.description': string is bad"),
        ("responses", "Invalid 'tools[1].parameters'"),
        ("gemini", "* GenerateContentRequest.tools[0].function_declarations[1].name: Invalid function name."),
    ],
)
def test_a_refusal_names_the_tool(wire: str, said: str) -> None:
    body = {"error": {"type": "invalid_request_error", "message": said}}
    tools = [tool({"type": "object"}, "first"), tool({"type": "object"}, "second")]
    refusal = Response(json.dumps(body).encode(), status=400)
    with ChatServer(refusal, refusal) as server, pytest.raises(BadRequest) as caught:
        drive(wire, server, tools=tools)
    assert "'second'" in str(caught.value)
    assert "'first'" not in str(caught.value)


BOUNDED = {
    "type": "object",
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "properties": {
        "n": {"type": "integer", "minimum": 1, "maximum": 9, "multipleOf": 2, "default": 4},
        "url": {"type": ["string", "null"], "format": "uri", "pattern": "^h", "maxLength": 4000},
        "list": {"type": ["array", "object"], "items": {"type": ["object"], "minProperties": 1}},
        "word": {"type": ["string", "null"], "enum": ["a", None]},
        "any": {"type": ["integer", "array"]},
        "bare": {"type": "array", "enum": [0, 1]},
        "mode": {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null", "enum": ["a"]}]},
        "size": {"type": "number", "enum": [1, 1.5, "1"]},
        "maybe": {"anyOf": [{"not": {}}, {"type": "string"}]},
        "never": {"anyOf": [{"not": {}}]},
        "free": {"type": "object", "additionalProperties": {}},
        "open": {"type": "object", "additionalProperties": True},
        "minimum": {"anyOf": [{"const": False}, {"$ref": "#/$defs/x"}, {"required": ["a"]}]},
        "map": {"type": "object", "propertyNames": {"pattern": "^a"}, "additionalProperties": {"type": "string", "minLength": 1}},
        "one": {"oneOf": [{"enum": ["a", "b"]}, {"type": "array", "items": {"type": "string"}, "uniqueItems": True}]},
    },
    "required": ["n"],
    "allOf": [{"if": {"required": ["url"]}, "then": {"not": {"required": ["map"]}}}],
    "$defs": {"x": {"type": "string", "minLength": 1}},
}
SIMPLE = {
    "type": "object",
    "properties": {
        "n": {"type": "integer"},
        "url": {"anyOf": [{"type": "string"}, {"type": "null"}]},
        "list": {
            "anyOf": [
                {"type": "array", "items": {"type": "object", "properties": {}}},
                {"type": "object", "items": {"type": "object", "properties": {}}, "properties": {}},
            ]
        },
        "word": {"enum": ["a", None]},
        "any": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {}}]},
        "bare": {"type": "array", "items": {}},
        "mode": {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]},
        "size": {"type": "number", "enum": [1, 1.5]},
        "maybe": {"anyOf": [{"type": "string"}]},
        "never": {},
        "free": {"type": "object", "properties": {}},
        "open": {"type": "object", "properties": {}},
        "minimum": {
            "anyOf": [
                {"enum": [False], "type": "boolean"},
                {"type": "string"},
                {"type": "object", "required": ["a"], "properties": {}},
            ]
        },
        "map": {"type": "object", "properties": {}, "additionalProperties": {"type": "string"}},
        "one": {"anyOf": [{"enum": ["a", "b"], "type": "string"}, {"type": "array", "items": {"type": "string"}}]},
    },
    "required": ["n"],
}
WHOLE = {
    "anthropic": {"model": "m", "content": [{"type": "text", "text": "ok"}], "stop_reason": "end_turn", "usage": {}},
    "chat": {"model": "m", "choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]},
    "responses": {
        "id": "r",
        "status": "completed",
        "output": [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "ok"}]}],
    },
    "gemini": {"candidates": [{"content": {"parts": [{"text": "ok"}]}, "finishReason": "STOP"}]},
}


@pytest.mark.parametrize("wire", SESSIONS)
@pytest.mark.parametrize(
    "said",
    [
        "[tool_count_limit] unsupported_keyword",
        "Invalid schema for function 'odd': In context=('properties','url'), 'uri' is not a valid format",
        "Invalid schema for function 'odd': In context=(), object schema missing properties.",
        "JSON Schema not supported: could not understand the instance {required: [a]}",
        "Failed to initialize samplers: failed to parse grammar",
        "tool parameters array type must have items",
        "400 invalid parameter value",
        "Request contains an invalid argument.",
        "Unknown name \"type\" at 'tools[0].function_declarations[0].parameters.items': Proto field is not repeating",
        "Unknown name \"multipleOf\" at 'request.tools[0].function_declarations[22].parameters.properties[4].value'",
    ],
)
def test_after_a_refusal_of_a_schema_the_tools_have_simpler_ones(wire: str, said: str) -> None:
    """Arguments are still checked against the tool's own schema. A second refusal is raised."""
    refusal = ChatServer.body({"error": {"type": "invalid_request_error", "message": said}}, 400)
    with ChatServer(refusal, ChatServer.body(WHOLE[wire])) as server:
        assert drive(wire, server, tools=[tool(BOUNDED)]).assistant_text == "ok"
        first, second = (sent_schemas(one) for one in server.requests)
    assert "minimum" in first[0]["properties"]["n"]
    assert second == [SIMPLE]
    with ChatServer(refusal, refusal) as server, pytest.raises(BadRequest):
        drive(wire, server, tools=[tool(BOUNDED)])


def test_another_refusal_changes_no_schema() -> None:
    refusal = ChatServer.body({"error": {"message": "no such model"}}, 400)
    with ChatServer(refusal) as server, pytest.raises(BadRequest):
        drive("chat", server, tools=[tool(BOUNDED)])


def sent_schemas(request: Any) -> list[Any]:
    """Return the schemas of a request's tools on any wire."""
    tools = [one for part in request["tools"] for one in part.get("functionDeclarations", [part.get("function", part)])]
    return [one.get("parameters") or one.get("parametersJsonSchema") or one.get("input_schema") for one in tools]
