"""Schemas that only look as if they reached out: they register, and arguments and answers are checked by them (003-2)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import pytest
from pydantic import BaseModel, Field

from agent.conversation.structured import AnswerCheck
from tests.tools.reaching import D4, D7, D19, D20, REF, URL, Outside, Schema, Shaped, called, deep, reachable
from toolcrib import Answer, SuspendTicket, ToolCallContext, ToolRegistry, ToolResult, tool
from toolcrib.testing import call_tool
from tools.arguments import check_schema

TREE: Schema = {"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}, "additionalProperties": False}
ORDINARY: dict[str, tuple[Schema, Any, Any]] = {
    "$defs": ({"properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "boolean"}}}, {"a": True}, {"a": [1]}),
    "definitions, draft 7": (
        {"$schema": D7, "properties": {"a": {"$ref": "#/definitions/a"}}, "definitions": {"a": {"type": "boolean"}}},
        {"a": True}, {"a": [1]}),
    "draft 2019-09": (
        {"$schema": D19, "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "boolean"}}},
        {"a": True}, {"a": [1]}),
    "draft 2020-12": ({"$schema": D20, "properties": {"a": {"prefixItems": [{"type": "boolean"}]}}}, {"a": [True]}, {"a": [[1]]}),
    "draft 6": ({"$schema": "http://json-schema.org/draft-06/schema#", "properties": {"a": {"const": 1}}}, {"a": 1}, {"a": 2}),
    "draft 4": (
        {"$schema": D4, "properties": {"a": {"maximum": 3, "exclusiveMaximum": True}}},
        {"a": 2}, {"a": 3}),
    "draft 7 without its sign": (
        {"$schema": "http://json-schema.org/draft-07/schema", "properties": {"a": {"type": "boolean"}}}, {"a": True}, {"a": [1]}),
    "recursive": (TREE, {"next": {"next": {"n": 1}}}, {"next": {"next": {"n": []}}}),
    "recursive by $recursiveRef": (
        {"$schema": D19, "$recursiveAnchor": True, "properties": {"next": {"$recursiveRef": "#"}}, "additionalProperties": False},
        {"next": {"next": {}}}, {"next": {"m": 1}}),
    "recursive by $dynamicRef": (
        {"$dynamicAnchor": "node", "properties": {"next": {"$dynamicRef": "#node"}}, "additionalProperties": False},
        {"next": {"next": {}}}, {"next": {"m": 1}}),
    "$anchor": (
        {"properties": {"a": {"$ref": "#yes"}}, "$defs": {"a": {"$anchor": "yes", "type": "boolean"}}}, {"a": True}, {"a": [1]}),
    "pointer with escapes": (
        {"properties": {"a": {"$ref": "#/$defs/a~1b%20c"}}, "$defs": {"a/b c": {"type": "boolean"}}}, {"a": True}, {"a": [1]}),
    "pointer into properties": (
        {"properties": {"a": {"type": "boolean"}, "b": {"$ref": "#/properties/a"}}}, {"b": True}, {"b": [1]}),
    "$id alone": ({"$id": "http://127.0.0.1:PORT/a", "properties": {"a": {"type": "boolean"}}}, {"a": True}, {"a": [1]}),
    "$id and a local reference": (
        {"$id": "http://127.0.0.1:PORT/a", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"type": "boolean"}}},
        {"a": True}, {"a": [1]}),
    "its own $id": (
        {"$id": "http://127.0.0.1:PORT/a", "properties": {"next": {"$ref": "http://127.0.0.1:PORT/a"}},
         "additionalProperties": False}, {"next": {"next": {}}}, {"next": {"m": 1}}),
    "relative, within": (
        {"$id": "http://127.0.0.1:PORT/a/b", "properties": {"a": {"$ref": "c"}}, "$defs": {"x": {"$id": "c", "type": "boolean"}}},
        {"a": True}, {"a": [1]}),
    "relative without an $id, within": (
        {"properties": {"a": {"$ref": "c.json"}}, "$defs": {"x": {"$id": "c.json", "type": "boolean"}}}, {"a": True}, {"a": [1]}),
    "absolute, within": (
        {"properties": {"a": {"$ref": URL}}, "$defs": {"x": {"$id": URL, "type": "boolean"}}}, {"a": True}, {"a": [1]}),
    "urn, within": (
        {"properties": {"a": {"$ref": "urn:example:a"}}, "$defs": {"x": {"$id": "urn:example:a", "type": "boolean"}}},
        {"a": True}, {"a": [1]}),
    "property named $ref": ({"properties": {"$ref": {"type": "boolean"}}}, {"$ref": True}, {"$ref": [1]}),
    "property named $schema": ({"properties": {"$schema": {"type": "string"}}}, {"$schema": URL}, {"$schema": [1]}),
    "property named $id": ({"properties": {"$id": {"type": "string"}, "a": {"type": "boolean"}}}, {"$id": "x"}, {"a": [1]}),
    "property named $dynamicRef": ({"properties": {"$dynamicRef": {"enum": [URL]}}}, {"$dynamicRef": URL}, {"$dynamicRef": "x"}),
    "property of a property named $ref": (
        {"properties": {"properties": {"type": "object", "properties": {"$ref": {"type": "string"}}}}},
        {"properties": {"$ref": URL}}, {"properties": {"$ref": []}}),
    "pattern named $ref": ({"patternProperties": {"$ref": {"type": "boolean"}}, "properties": {"a": False}}, {"b": 1}, {"a": 1}),
    "required $ref": ({"required": ["$ref"], "properties": {"$ref": {"type": "string"}}}, {"$ref": URL}, {}),
    "constant": ({"properties": {"a": {"const": REF}}}, {"a": REF}, {"a": {}}),
    "enumerated": ({"properties": {"a": {"enum": [REF, {"$schema": URL}]}}}, {"a": REF}, {"a": {}}),
    "default": ({"properties": {"a": {"type": "object", "default": REF}}}, {"a": REF}, {"a": 1}),
    "default with a file": ({"properties": {"a": {"type": "object", "default": {"$ref": "file://FILE"}}}}, {"a": {}}, {"a": 1}),
    "examples": (
        {"properties": {"a": {"type": "object", "examples": [REF, {"not": REF}]}}, "examples": [{"a": REF}]}, {}, {"a": 1}),
    "default with a $schema": ({"properties": {"a": {"type": "object", "default": {"$schema": URL}}}}, {"a": {}}, {"a": 1}),
    "description": (
        {"description": f'see {URL}, as in {{"$ref": "{URL}"}}', "properties": {"a": {"type": "boolean", "title": URL}}},
        {"a": True}, {"a": [1]}),
    "$comment": ({"$comment": f"$ref: {URL}", "properties": {"a": {"type": "boolean"}}}, {}, {"a": [1]}),
    "format": ({"properties": {"a": {"type": "string", "format": "uri", "default": URL}}}, {"a": URL}, {"a": [1]}),
    "discriminator": (
        {"properties": {"a": {"discriminator": {"propertyName": "k", "mapping": {"x": "#/$defs/x"}},
                              "oneOf": [{"$ref": "#/$defs/x"}]}},
         "$defs": {"x": {"type": "object", "properties": {"k": {"const": "x"}}, "required": ["k"]}}},
        {"a": {"k": "x"}}, {"a": {"k": "y"}}),
    "$vocabulary": ({"$vocabulary": {URL: False}, "properties": {"a": {"type": "boolean"}}}, {"a": True}, {"a": [1]}),
    "deep": (deep(60, {"type": "boolean"}), {"a": {"a": {}}}, {"a": {"a": 1}}),
}  # fmt: skip
"""Schemas, each with arguments that fit and arguments that do not."""


@pytest.fixture(scope="module")
def reached(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    with reachable(tmp_path_factory.mktemp("outside")) as made:
        yield made


@pytest.fixture
def outside(reached: Outside) -> Outside:
    reached.forget()
    return reached


each_ordinary = pytest.mark.parametrize(
    ("schema", "fits", "misfits"), [pytest.param(*row, id=name) for name, row in ORDINARY.items()]
)


@each_ordinary
def test_a_tool_with_an_ordinary_schema_works(schema: Schema, fits: Any, misfits: Any, outside: Outside) -> None:
    schema, fits, misfits = outside.spelled([schema, fits, misfits])
    done = called(schema, fits)
    assert (done.result.data, done.result.message) == (fits, None)
    assert called(schema, misfits).result.is_error
    assert outside.seen == []


@each_ordinary
def test_an_answer_is_held_to_an_ordinary_schema(schema: Schema, fits: Any, misfits: Any, outside: Outside) -> None:
    schema, fits, misfits = outside.spelled([schema, fits, misfits])
    check = AnswerCheck(schema)
    assert check.read(json.dumps(fits)) == fits
    with pytest.raises(ValueError, match="at "):
        check.read(json.dumps(misfits))
    assert outside.seen == []


class Leaf(BaseModel):
    """See http://example.org/leaf."""

    url: str = Field(description="a URL such as http://example.org/x.json", json_schema_extra={"format": "uri"})


class Branch(BaseModel):
    leaves: list[Leaf]
    left: Branch | None = None
    kind: Literal["a", "b"] = "a"


def test_a_schema_that_pydantic_makes_works(outside: Outside) -> None:
    schema = Branch.model_json_schema()
    schema = {"$defs": schema.pop("$defs"), "properties": {"branch": {"$ref": "#/$defs/Branch"}}}
    branch = {"leaves": [{"url": "http://127.0.0.1/"}], "left": {"leaves": []}, "kind": "b"}
    assert called(schema, {"branch": branch}).result.data == {"branch": branch}
    assert called(schema, {"branch": {"leaves": [{}]}}).result.is_error
    own = ToolRegistry()
    own.attach(lambda name, args, **more: "{}", check_schema)

    @tool(toolset="custom", registry=own)
    def grow(branch: Branch) -> int:
        """Grow it."""
        return len(branch.leaves)

    assert call_tool(grow, {"branch": branch}).result.data == 1
    assert call_tool(grow, {"branch": {"leaves": [{}]}}).result.is_error


def test_a_question_is_held_to_an_ordinary_schema() -> None:
    """The schema has a local reference, and a default that looks like another one."""
    schema = {"$ref": "#/$defs/a", "$defs": {"a": {"type": "string", "minLength": 3}}, "default": REF}

    class Asking(Shaped):
        async def execute(self, args: Any, ctx: ToolCallContext) -> ToolResult:
            ticket = SuspendTicket("ask", "When?", response_schema=schema, resume_mode="use_as_result")
            return ToolResult.suspended_with("shaped", "When?", ticket)

    for payload, taken in (("now", True), ("no", False)):

        def asker(ticket: SuspendTicket, ctx: Any, payload: str = payload) -> Answer:
            return Answer(ticket.id, "submit", payload)

        assert (call_tool(Asking({}), {}, asker=asker).result.data == payload) is taken
