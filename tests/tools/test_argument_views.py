"""Conversion of arguments by resolved schemas, and the texts of errors."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib import InvalidArguments
from toolcrib.contract.frozen import freeze
from tools.arguments import ArgumentCheck

DEFS = {
    "I": {"type": "integer"},
    "One": {"type": "string", "enum": ["1", "1.10"]},
    "Node": {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "kids": {"type": "array", "items": {"$ref": "#/$defs/Node"}}},
    },
    "Cat": {"type": "object", "properties": {"kind": {"const": "cat"}, "lives": {"type": "integer"}}, "required": ["kind"]},
    "Dog": {"type": "object", "properties": {"kind": {"const": "dog"}, "name": {"type": "string"}}, "required": ["kind"]},
}
CAT = {"kind": "cat", "lives": 9}


def check(schema: Any, value: Any, **more: Any) -> Any:
    whole = {"type": "object", "properties": {"v": schema}, "$defs": DEFS, **more}
    return ArgumentCheck(freeze(whole))({"v": value})


@pytest.mark.parametrize(
    ("schema", "given", "value"),
    [
        ({"$ref": "#/$defs/I"}, "5", 5),
        ({"$ref": "#/$defs/I"}, 5.0, 5),
        ({"allOf": [{"$ref": "#/$defs/I"}]}, "5", 5),
        ({"allOf": [{"$ref": "#/$defs/I"}], "description": "d"}, 5.0, 5),
        ({"anyOf": [{"$ref": "#/$defs/I"}, {"type": "null"}]}, "5", 5),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": "1"}, {"a": 1}),
        ({"type": "object", "patternProperties": {"^n": {"$ref": "#/$defs/I"}}}, {"n1": "1", "x": "1"}, {"n1": 1, "x": "1"}),
        ({"type": "array", "prefixItems": [{"type": "integer"}, {"type": "boolean"}]}, ["1", "true", "x"], [1, True, "x"]),
        ({"type": "array", "items": {"$ref": "#/$defs/I"}}, '["1"]', [1]),
        ({"$ref": "#/$defs/Node"}, {"n": "1", "kids": [{"n": "2", "kids": [{"n": "3"}]}]}, None),
        (
            {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}]},
            {"kind": "cat", "lives": "9"},
            {"kind": "cat", "lives": 9},
        ),
        ({"enum": [1, 2]}, "1", 1),
        ({"enum": [1, "auto"]}, "1", 1),
        ({"enum": [1, "1"]}, "1", "1"),
        ({"oneOf": [{"const": 1, "title": "low"}, {"const": 2, "title": "high"}]}, "2", 2),
        ({"const": True}, "true", True),
        ({"$ref": "#/$defs/One"}, "1", "1"),
        ({"$ref": "#/$defs/One"}, "1.10", "1.10"),
    ],
)
def test_a_text_is_converted_by_the_resolved_schema(schema: Any, given: Any, value: Any) -> None:
    got = check(schema, given)["v"]
    if value is None:
        assert got == {"n": 1, "kids": [{"n": 2, "kids": [{"n": 3}]}]}
    else:
        assert got == value
        assert type(got) is type(value)


@pytest.mark.parametrize(
    "schema", [{"type": "string"}, {"$ref": "#/$defs/I"}, {"enum": [1, 2]}, {"anyOf": [{"type": "integer"}, {"type": "string"}]}]
)
def test_null_for_an_optional_argument_means_no_value(schema: Any) -> None:
    assert check(schema, None) == {}
    assert check(schema, None, additionalProperties=False) == {}
    with pytest.raises(InvalidArguments, match="v: "):
        check(schema, None, required=["v"])
    nested = {"type": "object", "properties": {"in": schema}}
    assert check(nested, {"in": None}) == {"v": {}}


def test_null_stays_where_the_schema_accepts_it_or_does_not_name_it() -> None:
    assert check({"type": ["string", "null"]}, None) == {"v": None}
    assert check({}, None) == {"v": None}
    with pytest.raises(InvalidArguments, match="other"):
        ArgumentCheck({"type": "object", "properties": {}, "additionalProperties": False})({"other": None})
    with pytest.raises(InvalidArguments, match="a: "):
        check({"type": "object", "additionalProperties": {"type": "integer"}}, {"a": None})


def test_an_error_shows_what_a_reference_leads_to() -> None:
    with pytest.raises(InvalidArguments, match=r'v: .*; expected \{"type": "integer"\}$'):
        check({"$ref": "#/$defs/I"}, "many")
    with pytest.raises(InvalidArguments, match=r'v\.kids\[0\]\.n: .*; expected \{"type": "integer"\}$'):
        check({"$ref": "#/$defs/Node"}, {"kids": [{"n": "x"}]})
    with pytest.raises(InvalidArguments) as caught:
        check({"$ref": "#/$defs/Node"}, 3)
    assert "$ref" not in str(caught.value)


def test_a_schema_that_is_a_reference_at_the_top_is_resolved() -> None:
    top = {"$ref": "#/$defs/Args", "$defs": {"Args": {"type": "object", "properties": {"n": {"type": "integer"}}}}}
    assert ArgumentCheck(top)({"n": "3"}) == {"n": 3}
    assert ArgumentCheck(top)({"n": 3.0}) == {"n": 3}
