"""Arguments assembled from pieces with a path each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers._gemini_args import BadPiece, PartialArgs


def some(path: str, value: Any = None, *, goes_on: bool = False, kind: str = "stringValue") -> dict[str, Any]:
    return {"jsonPath": path, kind: value, **({"willContinue": True} if goes_on else {})}


def test_x_7_a_server_that_goes_back_is_still_right() -> None:
    """X-7: the preview stops there; the arguments are complete."""
    args = PartialArgs({"given": 1})
    for one in (some("$.a", "x", goes_on=True), some("$.b", "y"), some("$.a", "z")):
        assert args.feed(one) == ""
    assert args.close() == ""
    assert args.value == {"given": 1, "a": "xz", "b": "y"}
    with pytest.raises(BadPiece):
        args.feed({"jsonPath": "$.a.b", "numberValue": 1})


@pytest.mark.parametrize(
    ("path", "key"),
    [
        (r"""$["\\'"]""", "\\'"),
        (r"""$['\\\'']""", "\\'"),
        (r"""$['say "x"']""", 'say "x"'),
        (r"""$["say \"x\""]""", 'say "x"'),
        (r"""$['a\\b']""", "a\\b"),
    ],
)
def test_x_7_keys_in_either_quotes(path: str, key: str) -> None:
    """X-7"""
    args = PartialArgs()
    args.feed(some(path, "v"))
    assert args.value == {key: "v"}


KEYS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-99, 99) | st.text(max_size=6),
    lambda inner: st.lists(inner, min_size=1, max_size=3) | st.dictionaries(KEYS, inner, min_size=1, max_size=3),
    max_leaves=10,
)


def pieces_of(value: Any, path: str, step: int) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        quoted = ((json.dumps(key), inner) for key, inner in value.items())
        return [one for key, inner in quoted for one in pieces_of(inner, f"{path}[{key}]", step)]
    if isinstance(value, list):
        return [one for place, inner in enumerate(value) for one in pieces_of(inner, f"{path}[{place}]", step)]
    if isinstance(value, str):
        parts = [value[at : at + step] for at in range(0, len(value), step)]
        return [*(some(path, part, goes_on=True) for part in parts), some(path, "")]
    return [some(path, value, kind="nullValue" if value is None else "boolValue" if isinstance(value, bool) else "numberValue")]


@given(st.dictionaries(KEYS, JSON, min_size=1, max_size=4), st.integers(1, 3))
def test_x_7_any_value_in_any_pieces(value: dict[str, Any], step: int) -> None:
    """X-7: the pieces do not change the value and its text."""
    args = PartialArgs()
    text = "".join([args.feed(one) for one in pieces_of(value, "$", step)]) + args.close()
    assert args.value == value
    assert json.loads(text) == value
