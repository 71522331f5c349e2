"""Schemas that reach out are refused before anything is fetched or opened, for each way to register them (003-2)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from agent.api import Agent, assemble
from agent.conversation.limits import RunLimits
from agent.conversation.structured import AnswerCheck
from agent.model_choice.retry import RetryPolicy
from agent.protocols import find_protocol
from tests.agent.plugin_host.test_plugins import World
from tests.tools.reaching import D4, D7, D19, REF, URL, Outside, Schema, Shaped, called, deep, reachable
from toolcrib import (
    Answer,
    ConfigError,
    RegistrationError,
    SuspendTicket,
    ToolCallContext,
    ToolRegistry,
    ToolResult,
    registry,
    tool,
)
from toolcrib.testing import ChatServer, call_tool
from tools.arguments import check_schema

PLACES: dict[str, Schema] = {
    "root": REF,
    "properties": {"properties": {"a": REF}},
    "patternProperties": {"patternProperties": {"^a": REF}},
    "additionalProperties": {"additionalProperties": REF},
    "propertyNames": {"propertyNames": REF},
    "items": {"properties": {"a": {"type": "array", "items": REF}}},
    "prefixItems": {"properties": {"a": {"prefixItems": [True, REF]}}},
    "contains": {"properties": {"a": {"contains": REF}}},
    "allOf": {"allOf": [True, REF]},
    "anyOf": {"anyOf": [True, REF]},
    "oneOf": {"oneOf": [REF, False]},
    "not": {"not": REF},
    "not not": {"not": {"not": REF}},
    "if": {"if": REF},
    "then": {"if": False, "then": REF},
    "else": {"if": True, "else": REF},
    "then without if": {"then": REF},
    "dependentSchemas": {"dependentSchemas": {"a": REF}},
    "dependencies, draft 7": {"$schema": D7, "dependencies": {"a": REF}},
    "items of draft 7": {"$schema": D7, "properties": {"a": {"items": [True, REF]}}},
    "additionalItems, draft 7": {"$schema": D7, "properties": {"a": {"items": [True], "additionalItems": REF}}},
    "unevaluatedProperties": {"unevaluatedProperties": REF},
    "unevaluatedItems": {"properties": {"a": {"unevaluatedItems": REF}}},
    "contentSchema": {"properties": {"a": {"contentMediaType": "application/json", "contentSchema": REF}}},
    "unused $defs": {"$defs": {"a": REF}},
    "unused $defs of $defs": {"$defs": {"a": {"$defs": {"b": REF}}}},
    "unused definitions": {"definitions": {"a": REF}},
    "unused definitions, draft 7": {"$schema": D7, "definitions": {"a": REF}},
    "used $defs": {"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": REF}},
    "after a local reference": {"properties": {"a": {"$ref": "#/$defs/b", "not": REF}}, "$defs": {"b": True}},
    "deep": deep(60, REF),
    "property named const": {"properties": {"const": REF}},
    "property named enum": {"properties": {"enum": {"items": REF}}},
    "property named default": {"properties": {"default": {"not": REF}}},
    "property named $ref": {"properties": {"$ref": REF}},
    "property named properties": {"properties": {"properties": REF}},
    "pattern named examples": {"patternProperties": {"examples": REF}},
    "$defs named default": {"$defs": {"default": REF}},
    "dependent schema named const": {"dependentSchemas": {"const": REF}},
    "by way of an unknown keyword": {"properties": {"a": {"$ref": "#/x-types/a"}}, "x-types": {"a": REF}},
    "by way of a default": {"properties": {"a": {"$ref": "#/properties/b/default"}, "b": {"default": REF}}},
    "by way of a constant": {"properties": {"a": {"$ref": "#/properties/b/const"}, "b": {"const": REF}}},
}  # fmt: skip
"""Positions of a reference to the server."""

REFERENCES: dict[str, tuple[Schema, str]] = {
    "fragment": ({"$ref": URL + "#/$defs/a"}, URL),
    "upper-case scheme": ({"$ref": "HTTP://127.0.0.1:PORT/x.json"}, "127.0.0.1:PORT/x.json"),
    "https": ({"$ref": "https://127.0.0.1:PORT/x.json"}, "https://127.0.0.1:PORT/x.json"),
    "user and query": ({"$ref": "http://u:p@127.0.0.1:PORT/x?y"}, "127.0.0.1:PORT/x?y"),
    "percent-encoded path": ({"$ref": "http://127.0.0.1:PORT/%2e%2e/x"}, "127.0.0.1:PORT"),
    "percent-encoded scheme": ({"$ref": "%68ttp://127.0.0.1:PORT/x.json"}, "127.0.0.1:PORT/x.json"),
    "no slashes": ({"$ref": "http:127.0.0.1:PORT"}, "127.0.0.1:PORT"),
    "blanks before": ({"$ref": " http://127.0.0.1:PORT/x.json"}, "127.0.0.1:PORT"),
    "protocol-relative": ({"$ref": "//127.0.0.1:PORT/x.json"}, "//127.0.0.1:PORT/x.json"),
    "protocol-relative to $id": ({"$id": "http://a.example/b", "$ref": "//127.0.0.1:PORT/x.json"}, "//127.0.0.1:PORT/x.json"),
    "relative": ({"$ref": "x.json"}, "x.json"),
    "relative to $id": ({"$id": "http://127.0.0.1:PORT/a/", "$ref": "x.json"}, "x.json"),
    "absolute path, relative to $id": ({"$id": "http://127.0.0.1:PORT/a/", "$ref": "/x.json#a"}, "/x.json"),
    "query, relative to $id": ({"$id": "http://127.0.0.1:PORT/a", "properties": {"a": {"$ref": "?b"}}}, "?b"),
    "relative to an inner $id": (
        {"properties": {"a": {"$id": "http://127.0.0.1:PORT/a/", "properties": {"b": {"$ref": "x.json"}}}}}, "x.json"),
    "relative to an unused $id": ({"$defs": {"a": {"$id": "http://127.0.0.1:PORT/", "not": {"$ref": "x.json"}}}}, "x.json"),
    "relative to id, draft 4": (
        {"$schema": D4, "id": "http://127.0.0.1:PORT/", "not": {"$ref": "x.json"}}, "x.json"),
    "$dynamicRef": ({"$dynamicRef": URL}, URL),
    "$dynamicRef to an anchor there": ({"properties": {"a": {"$dynamicRef": URL + "#meta"}}}, URL),
    "$dynamicRef relative to $id": ({"$id": "http://127.0.0.1:PORT/a/", "not": {"$dynamicRef": "x.json"}}, "x.json"),
    "$recursiveRef": ({"$schema": D19, "not": {"$recursiveRef": URL}}, URL),
    "$schema": ({"$schema": "http://127.0.0.1:PORT/meta"}, "http://127.0.0.1:PORT/meta"),
    "$schema of a file": ({"$schema": "file://FILE"}, "FILE"),
    "$schema that nothing knows": ({"$schema": "urn:example:meta"}, "urn:example:meta"),
    "$schema that is a word": ({"$schema": "draft-29"}, "draft-29"),
    "inner $schema": ({"$defs": {"a": {"$id": "http://a.example/", "$schema": "http://127.0.0.1:PORT/meta"}}}, "PORT/meta"),
    "inner $schema in not": ({"not": {"$id": "http://a.example/", "$schema": "file://FILE"}}, "FILE"),
    "file": ({"$ref": "file://FILE"}, "FILE"),
    "file with a host": ({"$ref": "file://localhostFILE"}, "FILE"),
    "file, one slash": ({"$ref": "file:FILE"}, "FILE"),
    "file, upper case": ({"$ref": "FiLe://FILE"}, "FILE"),
    "file with dots": ({"$ref": "file://FOLDER/b/../schema.json"}, "schema.json"),
    "file, percent-encoded": ({"$ref": "file://FOLDER/%73chema.json"}, "FOLDER"),
    "file with a fragment": ({"not": {"$ref": "file://FILE#/$defs/a"}}, "FILE"),
    "file by $dynamicRef": ({"$dynamicRef": "file://FILE"}, "FILE"),
    "file relative to $id": ({"$id": "file://FOLDER/", "properties": {"a": {"$ref": "schema.json"}}}, "schema.json"),
    "file relative to an inner $id": ({"not": {"$id": "file://FOLDER/a/", "items": {"$ref": "../schema.json"}}}, "schema.json"),
    "path": ({"$ref": "FILE"}, "FILE"),
    "path, relative to $id": ({"$id": "file:///", "$ref": "FILE"}, "FILE"),
    "urn": ({"$ref": "urn:example:a"}, "urn:example:a"),
    "jar": ({"$ref": "jar:file://FILE!/x"}, "jar:"),
    "data": ({"$ref": "data:application/json,{}"}, "data:"),
    "ftp": ({"$ref": "ftp://127.0.0.1:PORT/x"}, "ftp:"),
    "anchor that is not there": ({"properties": {"a": {"$ref": "#nowhere"}}}, "nowhere"),
    "anchor that is not there, of its $id": ({"$id": "http://127.0.0.1:PORT/a", "not": {"$ref": "#nowhere"}}, "nowhere"),
    "pointer that is not there": ({"not": {"$ref": "#/$defs/nowhere"}}, "nowhere"),
}  # fmt: skip
"""References of other kinds, each with the text that an error names."""

HOSTILE = [
    *(pytest.param(schema, URL, id=f"in {place}") for place, schema in PLACES.items()),
    *(pytest.param(schema, named, id=kind) for kind, (schema, named) in REFERENCES.items()),
]


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    with reachable(tmp_path_factory.mktemp("outside")) as made:
        yield made


@pytest.fixture
def outside(reached: Outside) -> Outside:
    reached.forget()
    return reached


@pytest.mark.parametrize(("schema", "named"), HOSTILE)
def test_a_tool_whose_schema_reaches_out_is_refused(schema: Schema, named: str, outside: Outside) -> None:
    with pytest.raises(RegistrationError) as caught:
        called(outside.spelled(schema), {})
    assert outside.seen == []
    assert outside.spelled(named) in str(caught.value)


@pytest.mark.parametrize(("schema", "named"), HOSTILE)
def test_a_schema_of_answers_that_reaches_out_is_refused(schema: Schema, named: str, outside: Outside) -> None:
    with pytest.raises(ConfigError) as caught:
        AnswerCheck(outside.spelled(schema))
    assert outside.seen == []
    assert outside.spelled(named) in str(caught.value)


WAYS: dict[str, Schema] = {
    "url": {"not": REF},
    "file": {"$defs": {"a": {"$ref": "file://FILE"}}},
    "$schema": {"$schema": "http://127.0.0.1:PORT/x.json"},
}
each_way = pytest.mark.parametrize("schema", [pytest.param(schema, id=name) for name, schema in WAYS.items()])


def function_schema(outside: Outside, schema: Schema) -> Schema:
    return {"description": "d", "parameters": {"type": "object", **outside.spelled(schema)}}


@each_way
def test_nothing_is_asked_for_such_an_answer(schema: Schema, outside: Outside, tmp_path: Path) -> None:
    limits = RunLimits(retry=RetryPolicy(attempts=1))
    with ChatServer(ChatServer.text("4")) as server:
        with Agent(model="m", base_url=server.base_url, project_dir=tmp_path, limits=limits) as agent, pytest.raises(ConfigError):
            agent.ask("How many?", schema=outside.spelled(schema))
        assert server.requests == []
    assert outside.seen == []


@each_way
def test_a_process_refuses_it(schema: Schema, outside: Outside, tmp_path: Path) -> None:
    with assemble(project_dir=tmp_path) as crib:
        with pytest.raises(RegistrationError):
            crib.registry.register("shaped", "custom", function_schema(outside, schema), lambda args: args)
        assert crib.registry.get("shaped") is None
    assert outside.seen == []


@each_way
def test_a_plugin_with_it_fails_and_is_named(schema: Schema, outside: Outside, tmp_path: Path) -> None:
    world = World(tmp_path)
    world.registry.attach(lambda name, args, **more: "{}", check_schema)
    world.user(
        "mine.py",
        f"""\
        from toolcrib import hookimpl

        @hookimpl
        def register_tools(registry):
            registry.register("shaped", "mine", {function_schema(outside, schema)!r}, lambda args: "x")
        """,
    )
    world.enable("mine")
    reason = world.fails()
    assert outside.seen == []
    assert "x.json" in reason or str(outside.pipe) in reason


@each_way
def test_a_tool_from_before_the_checker_is_taken_out(schema: Schema, outside: Outside) -> None:
    early = ToolRegistry()
    early.register("shaped", "custom", function_schema(outside, schema), lambda args: args)
    early.attach(lambda name, args, **more: "{}", check_schema)
    assert early.names() == []
    assert [problem.subject for problem in early.problems] == ["tool shaped"]
    assert outside.seen == []


@each_way
def test_a_dynamic_schema_that_reaches_out_hides_the_tool(schema: Schema, outside: Outside) -> None:
    late = ToolRegistry()
    late.attach(lambda name, args, **more: "{}", check_schema)
    changed = function_schema(outside, schema)
    late.register(
        "shaped", "custom", {"description": "d"}, lambda args: args, dynamic_schema=lambda own, names: {**own, **changed}
    )
    assert late.get_definitions() == []
    assert outside.seen == []


@each_way
def test_a_question_whose_schema_reaches_out_takes_no_answer(schema: Schema, outside: Outside) -> None:
    """The schema of an answer to a suspended call is checked like others."""

    class Asking(Shaped):
        async def execute(self, args: Any, ctx: ToolCallContext) -> ToolResult:
            ticket = SuspendTicket("ask", "When?", response_schema=outside.spelled(schema), resume_mode="use_as_result")
            return ToolResult.suspended_with("shaped", "When?", ticket)

    done = call_tool(Asking({}), {}, asker=lambda ticket, ctx: Answer(ticket.id, "submit", "now"))
    assert outside.seen == []
    assert done.result.data != "now"


@each_way
def test_definitions_that_nothing_registered_are_not_followed(schema: Schema, outside: Outside) -> None:
    """The JSON protocol checks arguments by the definitions of its caller, such as those of ``toolcrib parse --jsonl``."""
    definition = {"name": "shaped", **function_schema(outside, schema)}
    reader = find_protocol("json_object").reader([definition])
    with contextlib.suppress(ConfigError, RegistrationError):
        reader.feed('{"action": {"tool": "shaped", "args": {}}}')
        assert [call for call in reader.finish().calls if call.fault is None] == []
    assert outside.seen == []


def test_a_function_whose_annotations_reach_out_is_refused(outside: Outside) -> None:
    class Place(BaseModel):
        name: str = Field(json_schema_extra=outside.spelled({"not": REF}))

    def go(place: Any) -> str:
        """Go there."""
        return str(place.name)

    go.__annotations__["place"] = Place  # a local name, which can't be resolved in annotations
    with pytest.raises(RegistrationError, match=r"x\.json"):
        tool(toolset="custom")(go)

    assert registry.get("go") is None
    assert outside.seen == []


@pytest.mark.parametrize("schema", [{"$ref": ""}, {"$id": "http://127.0.0.1:PORT/a", "properties": {"a": {"$ref": ""}}}])
def test_an_empty_reference_is_of_the_schema_itself_or_refused(schema: Schema, outside: Outside) -> None:
    with contextlib.suppress(RegistrationError):
        called(outside.spelled(schema), {})
    assert outside.seen == []
