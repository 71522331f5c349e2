"""Coercion and validation of arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import InvalidArguments
from toolcrib.contract.frozen import freeze
from tools.arguments import ArgumentCheck, check_schema


def check(properties: dict[str, Any], args: Any, **more: Any) -> dict[str, Any]:
    return ArgumentCheck(freeze({"type": "object", "properties": properties, **more}))(args)


@pytest.mark.parametrize(
    ("schema", "given_text", "value"),
    [
        ({"type": "integer"}, "42", 42),
        ({"type": "integer"}, " -7 ", -7),
        ({"type": "number"}, "2.5", 2.5),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "False", False),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, ["1", "2"], [1, 2]),
        ({"type": "object", "properties": {"a": {"type": "integer"}}}, {"a": "1"}, {"a": 1}),
        ({"type": "object"}, '{"a": 1}', {"a": 1}),
        ({"type": ["integer", "null"]}, "null", None),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "5", 5),
        ({"type": "integer"}, 3.0, 3),
    ],
)
def test_what_a_text_spells_out_is_taken(schema: dict[str, Any], given_text: Any, value: Any) -> None:
    got = check({"x": schema}, {"x": given_text})["x"]
    assert got == value
    assert type(got) is type(value)


OLD_AND_NEW = {"old": {"type": "string"}, "new": {"type": "string"}, "count": {"type": "integer"}}


def test_names_that_models_know_from_other_tools_stand_for_the_schemas_own() -> None:
    got = check(OLD_AND_NEW, {"old_string": "a", "new_string": "b", "count": "2"}, additionalProperties=False)
    assert got == {"old": "a", "new": "b", "count": 2}
    assert check(OLD_AND_NEW, {"old": "a", "new_string": "b"}, additionalProperties=False) == {"old": "a", "new": "b"}


def test_such_a_name_stands_for_nothing_where_both_are_given_or_the_schema_knows_it() -> None:
    with pytest.raises(InvalidArguments, match="old_string"):
        check(OLD_AND_NEW, {"old": "a", "old_string": "b"}, additionalProperties=False)
    named = {**OLD_AND_NEW, "old_string": {"type": "string"}}
    assert check(named, {"old_string": "a"}, additionalProperties=False) == {"old_string": "a"}
    assert check(OLD_AND_NEW, {"old_string": "a", "count": "2"}) == {"old_string": "a", "count": 2}
    with pytest.raises(InvalidArguments, match="old_string"):
        check({"path": {"type": "string"}}, {"old_string": "a"}, additionalProperties=False)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"type": "string"}, "42"),
        ({"type": ["string", "integer"]}, "42"),
        ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "42"),
    ],
)
def test_a_text_stays_a_text_where_one_is_allowed(schema: dict[str, Any], text: str) -> None:
    assert check({"x": schema}, {"x": text}) == {"x": text}


@pytest.mark.parametrize(
    ("schema", "bad"),
    [({"type": "integer"}, "4.5"), ({"type": "integer"}, "four"), ({"type": "boolean"}, "yes"), ({"type": "array"}, '{"a": 1}')],
)
def test_what_is_not_spelled_out_is_refused_with_the_schema(schema: dict[str, Any], bad: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        check({"x": schema}, {"x": bad})
    assert caught.value.text.startswith("x: ")
    assert json.dumps(schema) in caught.value.text


def test_no_arguments() -> None:
    """002-35"""
    assert check({}, None) == check({}, "") == check({}, {}) == {}


def test_a_json_text_of_an_object_is_read() -> None:
    assert check({"x": {"type": "integer"}}, '{"x": 1}') == {"x": 1}


@pytest.mark.parametrize("bad", ['{"x": ', "[1]", 5, [1]])
def test_what_is_no_object_is_refused(bad: Any) -> None:
    with pytest.raises(InvalidArguments):
        check({}, bad)


def test_a_missing_and_a_misspelled_name() -> None:
    with pytest.raises(InvalidArguments, match=r"\"path\" is a required property") as caught:
        check({"path": {"type": "string"}}, {"pth": "x"}, required=["path"], additionalProperties=False)
    assert caught.value.text.count("did you mean 'path'?") == 1
    assert caught.value.text.count("; expected {") == 1
    own = {"target": {"type": "string"}, "old_text": {"type": "string"}}
    with pytest.raises(InvalidArguments, match=r"\(text: did you mean 'old_text'\?\)"):
        check(own, {"text": "x"}, required=["target"], additionalProperties=False)
    with pytest.raises(InvalidArguments) as caught:
        check(own, {"text": "x", "old_text": "y"}, required=["target"], additionalProperties=False)
    assert "did you mean 'old_text'" not in caught.value.text


def test_many_faults_are_bounded() -> None:
    with pytest.raises(InvalidArguments, match="and 7 more"):
        check({f"p{n}": {"type": "integer"} for n in range(10)}, {f"p{n}": "x" for n in range(10)})


def test_a_huge_value_is_not_repeated_in_the_error() -> None:
    with pytest.raises(InvalidArguments) as caught:
        check({"x": {"type": "integer"}}, {"x": "y" * 100_000})
    assert len(caught.value.text) < 1_000


def test_the_callers_arguments_are_left_alone() -> None:
    args = {"x": "1", "y": {"z": ["2"]}}
    schema = {
        "x": {"type": "integer"},
        "y": {"type": "object", "properties": {"z": {"type": "array", "items": {"type": "integer"}}}},
    }
    assert check(schema, args) == {"x": 1, "y": {"z": [2]}}
    assert args == {"x": "1", "y": {"z": ["2"]}}


@given(st.integers())
def test_any_integer_in_digits(number: int) -> None:
    assert check({"x": {"type": "integer"}}, {"x": str(number)}) == {"x": number}


@given(
    st.dictionaries(
        st.text(), st.recursive(st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(), st.lists, max_leaves=5)
    )
)
def test_arguments_are_taken_or_refused_never_broken(args: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "array", "items": {"type": "boolean"}}}}
    try:
        checked = ArgumentCheck(schema)(args)
    except InvalidArguments:
        return
    assert set(checked) == {key for key, value in args.items() if value is not None or key not in ("a", "b")}
    assert {key: value for key, value in checked.items() if key not in ("a", "b")} == {
        key: value for key, value in args.items() if key not in ("a", "b")
    }


@pytest.mark.parametrize(
    ("parameters", "path"),
    [
        ({"type": "object", "properties": {"a": {"type": "strng"}}}, "$.parameters.properties.a.type"),
        ({"type": "object", "required": "a"}, "$.parameters.required"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "$.parameters"),
        ({"type": "object", "properties": {"a": {"$ref": "#/nowhere"}}}, "$.parameters"),
    ],
)
def test_a_bad_schema_is_named_by_its_path(parameters: dict[str, Any], path: str) -> None:
    fault = check_schema(parameters)
    assert fault is not None
    assert fault[0].startswith(path)


@pytest.mark.parametrize(
    ("kind", "said"),
    [("strnig", "'strnig' is not a type; did you mean 'string'?"), ("x", "'x' is not a type: use array, boolean, integer, null")],
)
def test_a_mistyped_type_is_named_with_those_that_there_are(kind: str, said: str) -> None:
    fault = check_schema({"type": "object", "properties": {"a": {"type": kind}}})
    assert fault is not None
    assert fault[0] == "$.parameters.properties.a.type"
    assert said in fault[1]


def test_a_good_schema_has_no_fault() -> None:
    assert check_schema(freeze({"type": "object", "properties": {"a": {"enum": [1, "x"]}}, "required": ["a"]})) is None
