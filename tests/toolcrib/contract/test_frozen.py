"""Callers can't change schemas that the registry returns."""

from __future__ import annotations

import copy
import json
import pickle
from types import MappingProxyType
from typing import Any

import pytest

from toolcrib.contract.frozen import FrozenDict, FrozenList, freeze

VALUE = {"a": [1, {"b": "c"}], "d": None}


def test_it_equals_and_encodes_as_the_plain_value() -> None:
    frozen = freeze(VALUE)
    assert frozen == VALUE
    assert json.dumps(frozen) == json.dumps(VALUE)
    assert freeze(MappingProxyType({"a": MappingProxyType({"b": (1, 2)})})) == {"a": {"b": [1, 2]}}


@pytest.mark.parametrize(
    "change",
    [
        lambda v: v.__setitem__("x", 1),
        lambda v: v.__delitem__("a"),
        lambda v: v.update(x=1),
        lambda v: v.pop("a"),
        lambda v: v.popitem(),
        lambda v: v.clear(),
        lambda v: v.setdefault("x", 1),
        lambda v: v.__ior__({"x": 1}),
        lambda v: v["a"].append(1),
        lambda v: v["a"].__setitem__(0, 2),
        lambda v: v["a"].__iadd__([1]),
        lambda v: v["a"].sort(),
        lambda v: v["a"][1].update(b=2),
    ],
)
def test_every_change_is_refused_with_what_to_do(change: Any) -> None:
    frozen = freeze(VALUE)
    with pytest.raises(TypeError, match=r"copy\.deepcopy"):
        change(frozen)
    assert frozen == VALUE


def test_a_deep_copy_is_plain() -> None:
    plain = copy.deepcopy(freeze(VALUE))
    plain["a"][1]["b"] = 2
    assert type(plain) is dict
    assert type(plain["a"]) is list


def test_it_pickles_frozen() -> None:
    again = pickle.loads(pickle.dumps(freeze(VALUE)))  # noqa: S301 - pickled one call earlier
    assert again == VALUE
    assert isinstance(again, FrozenDict)
    assert isinstance(again["a"], FrozenList)
