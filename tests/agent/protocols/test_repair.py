"""Lenient JSON: what is repaired, and what never is."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.protocols.repair import read_json, repaired

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{command: "ls"}', {"command": "ls"}),
        ('{"a": [1, 2,], "b": {"c": 1,},}', {"a": [1, 2], "b": {"c": 1}}),
        ('{command: "a: b, {c,} ]"}', {"command": "a: b, {c,} ]"}),
        ("{'a': 'say \"hi\"', 'b': 'it\\'s'}", {"a": 'say "hi"', "b": "it's"}),
        ('{"a": True, "b": None, c: False}', {"a": True, "b": None, "c": False}),
        ('{"a": "one\ntwo\tthree"}', {"a": "one\ntwo\tthree"}),
        ('{"a": "None, True, {x: 1,}"}', {"a": "None, True, {x: 1,}"}),
        ("{a.b-c: -1.5e3}", {"a.b-c": -1500.0}),
        ('{"a": "it\\\'s"}', {"a": "it's"}),
    ],
)
def test_000_26_000_27_what_is_repaired(text: str, value: object) -> None:
    assert read_json(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "", "{", '{"a": ', '{"a": "b', '{"a": "b"', "[1, 2", "{'a': 'b", '{"a": [1,', "{a b: 1}", '{"a": NaN}', '{"a": Infinity}',
        '{"a": ls -l}', '{"a" "b"}', "[,]", "{,}", '{"a": 1} x', "{'it's': 1}", '{"a": "\\d"}', "{1: 2}", '{"a": undefined}',
        '{"a": "\\ud800"}', "[" * 100_000, '{"a": 1, "a": 2}', "{a: {b: 1, b: 1}}",
    ],
)  # fmt: skip
def test_x_8_what_is_refused(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - its words are the parser's
        read_json(text)


@given(VALUES)
def test_valid_json_is_what_it_was(value: object) -> None:
    text = json.dumps(value)
    assert read_json(text) == json.loads(text)
    assert json.loads(repaired(text) or "") == json.loads(text)


@given(st.text(), st.text())
def test_000_27_no_string_is_altered(first: str, second: str) -> None:
    """Strings in single quotes, after unquoted keys and before trailing commas keep their text."""
    single = "'" + json.dumps(second)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"
    text = f"{{first: {json.dumps(first, ensure_ascii=False)}, second: [{single},],}}"
    assert read_json(text) == {"first": first, "second": [second]}


@given(VALUES, st.data())
def test_x_8_nothing_cut_off_is_completed(value: object, data: st.DataObject) -> None:
    text = json.dumps({"key": value, "last": "x"})
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    with pytest.raises(ValueError):  # noqa: PT011 - its words are the parser's
        read_json(cut)


@given(st.text(alphabet="{}[],:'\"\\ abTn1\n", max_size=40))
def test_anything_is_read_or_refused(text: str) -> None:
    try:
        value = read_json(text)
    except ValueError:
        return
    assert re.sub(r"\s", "", json.dumps(value)) != ""
