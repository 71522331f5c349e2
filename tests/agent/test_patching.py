"""JSON Patch on bounded values: RFC 6902's own examples, and patches that do not fit or grow without limit."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from agent.patching import MOST_NODES, MOST_OPERATIONS, PatchUnfit, patched, plain_copy


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


@pytest.mark.parametrize(
    ("value", "operation", "expected"),
    [
        ({"foo": "bar"}, add("/baz", "qux"), {"foo": "bar", "baz": "qux"}),
        ({"foo": ["bar", "baz"]}, add("/foo/1", "qux"), {"foo": ["bar", "qux", "baz"]}),
        ({"foo": ["bar"]}, add("/foo/-", ["abc"]), {"foo": ["bar", ["abc"]]}),
        ({"foo": "bar"}, add("/child", {"grandchild": {}}), {"foo": "bar", "child": {"grandchild": {}}}),
        ({"foo": 1}, add("", [1]), [1]),
        ({"foo": None}, add("/foo", 1), {"foo": 1}),
        ({}, add("/", 1), {"": 1}),
        ({"baz": 1, "foo": 2}, {"op": "remove", "path": "/baz"}, {"foo": 2}),
        ({"foo": [1, 2, 3]}, {"op": "remove", "path": "/foo/1"}, {"foo": [1, 3]}),
        ({"a": 1}, {"op": "remove", "path": ""}, None),
        ({"baz": "qux"}, {"op": "replace", "path": "/baz", "value": "boo"}, {"baz": "boo"}),
        ({"a": [1]}, {"op": "replace", "path": "/a/0", "value": 2}, {"a": [2]}),
        ({"a": 1}, {"op": "replace", "path": "", "value": 2}, 2),
        ({"a": {"x": 1}, "b": {}}, {"op": "move", "from": "/a/x", "path": "/b/y"}, {"a": {}, "b": {"y": 1}}),
        ({"foo": [1, 2, 3, 4]}, {"op": "move", "from": "/foo/1", "path": "/foo/3"}, {"foo": [1, 3, 4, 2]}),
        ({"a": [1]}, {"op": "copy", "from": "/a", "path": "/b"}, {"a": [1], "b": [1]}),
        ({"baz": "qux", "foo": ["a", 2]}, {"op": "test", "path": "/foo/1", "value": 2}, {"baz": "qux", "foo": ["a", 2]}),
        ({"/": 9, "~1": 10}, {"op": "test", "path": "/~01", "value": 10}, {"/": 9, "~1": 10}),
        ({"a/b": 1}, {"op": "replace", "path": "/a~1b", "value": 2}, {"a/b": 2}),
        ({"foo": "bar"}, {**add("/baz", 1), "xyz": 123}, {"foo": "bar", "baz": 1}),
    ],
)
def test_operations(value: Any, operation: Any, expected: Any) -> None:
    """002-16: as in RFC 6902; the patched value itself is unchanged."""
    before = json.dumps(value)
    assert patched(value, [operation]) == expected
    assert json.dumps(value) == before


@pytest.mark.parametrize(
    "operation",
    [
        add("/baz/bat", 1),
        add("/foo/9", 1),
        add("/foo/01", 1),
        add("/foo/x", 1),
        add("/word/x", 1),
        add("no/slash", 1),
        add("/" + "a/" * 1000, 1),
        {"op": "remove", "path": "/nothing"},
        {"op": "remove", "path": "/foo/-"},
        {"op": "replace", "path": "/nothing", "value": 1},
        {"op": "move", "from": "/obj", "path": "/obj/inner"},
        {"op": "copy", "from": "/nothing", "path": "/x"},
        {"op": "test", "path": "/word", "value": "other"},
        {"op": "explode", "path": "/word"},
        {"op": ["add"], "path": "/word"},
        {"op": "add", "path": 7},
        {"op": "add"},
        {},
        "add",
        None,
        add("/big", list(range(MOST_NODES))),
    ],
)
def test_what_does_not_fit_changes_nothing(operation: Any) -> None:
    """002-16"""
    value = {"foo": [1], "obj": {"inner": 1}, "word": "x"}
    with pytest.raises(PatchUnfit):
        patched(value, [add("/first", 1), operation])
    assert value == {"foo": [1], "obj": {"inner": 1}, "word": "x"}


def test_a_value_stays_small_whatever_is_copied_into_it() -> None:
    value: Any = {"a": [1]}
    with pytest.raises(PatchUnfit, match="more than 2,000 parts"):
        patched(value, [{"op": "copy", "from": "", "path": f"/{number}"} for number in range(MOST_OPERATIONS)])
    with pytest.raises(PatchUnfit, match="1,001 operations"):
        patched(value, [add("/a/-", 1)] * (MOST_OPERATIONS + 1))
    for _ in range(5):  # the number of changes is not limited if each replaces the one before
        value = patched(value, [add("/a", list(range(100))), {"op": "remove", "path": "/a/0"}] * 400)
    assert len(value["a"]) == 99


def test_moves_do_not_nest_a_value_without_end() -> None:
    deep = "/x" * 20
    value: Any = {}
    for number in range(60):
        nested: Any = {}
        for _ in range(19):
            nested = {"x": nested}
        value = patched(value, [add(f"/{number}", {"x": nested})])
        if number:
            value = patched(value, [{"op": "move", "from": f"/{number - 1}", "path": f"/{number}{deep}"}])
    assert json.dumps(value).count("{") < 40


def test_copies_are_as_json_has_them() -> None:
    class Odd:
        def __str__(self) -> str:
            return "odd"

    endless: list[Any] = []
    endless.append(endless)
    given = {"nan": math.nan, "inf": -math.inf, "big": 10**30, 7: (1, True, None, 0.5), "odd": Odd()}
    assert plain_copy(given) == {"nan": None, "inf": None, "big": "a number of 100 bits", "7": [1, True, None, 0.5], "odd": "odd"}
    assert json.dumps(plain_copy(endless)).count("[") == 32
    assert len(plain_copy(list(range(1_000_000)))) < MOST_NODES  # type: ignore[arg-type]  # a list
