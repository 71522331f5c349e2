"""NamedTuples that are made at first use behave like those of the standard library."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
import sys
import typing
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import agent
import toolcrib
import tools
from toolcrib.contract.namedtuple import NamedTuple


class Pair(NamedTuple):
    """A tuple with a default and methods."""

    first: int
    second: str = "two"

    @property
    def both(self) -> str:
        return f"{self.first}{self.second}"

    def again(self) -> Pair:
        return __class__(self.first)  # type: ignore[name-defined]  # Python knows it in a method


class Plain(NamedTuple):
    first: int
    second: str = "two"


class Standard(typing.NamedTuple):
    first: int
    second: str = "two"


class Below(Plain):
    """A class derived from a NamedTuple."""

    def __new__(cls, first: int) -> Below:
        return super().__new__(cls, first, "below")


def test_it_is_a_tuple_with_names() -> None:
    pair = Pair(1)
    first, second = pair
    assert (first, second, pair.first, pair[1], pair.both) == (1, "two", 1, "two", "1two")
    assert pair == (1, "two") == pair.again()
    assert hash(pair) == hash((1, "two"))
    assert repr(pair) == "Pair(first=1, second='two')"
    assert (Pair.__name__, Pair.__qualname__, Pair.__module__) == ("Pair", "Pair", __name__)
    assert Pair.__doc__ == "A tuple with a default and methods."
    assert typing.get_type_hints(Pair) == {"first": int, "second": str}
    match pair:
        case Pair(a, second=b):
            assert (a, b) == (1, "two")
    with pytest.raises(AttributeError):
        pair.first = 2  # type: ignore[misc]  # that is what is tested
    with pytest.raises(AttributeError):
        pair.third = 2  # type: ignore[attr-defined]  # as above


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])  # noqa: S301 - our own
def test_it_is_copied_and_pickled(way: Callable[[Any], Any]) -> None:
    one = Pair(1, "b")
    other = way(one)
    assert (type(other), other) == (Pair, one)


def test_one_derives_from_it() -> None:
    assert Below(1) == (1, "below")
    assert Below(1)._replace(first=2).second == "below"
    assert isinstance(Below(1)._replace(first=2), Below)


CALLS: dict[str, Callable[[Any], Any]] = {
    "no argument": lambda kind: kind(),
    "one": lambda kind: kind(1),
    "two": lambda kind: kind(1, "b"),
    "three": lambda kind: kind(1, "b", 3),
    "by name": lambda kind: kind(second="x", first=2),
    "twice": lambda kind: kind(1, first=2),
    "unknown": lambda kind: kind(1, third=2),
    "only the default": lambda kind: kind(second="x"),
    "_make": lambda kind: kind._make(iter([1, "x"])),
    "_make of too few": lambda kind: kind._make([1]),
    "_replace": lambda kind: kind(1)._replace(second="x"),
    "_replace of nothing": lambda kind: kind(1)._replace(),
    "_asdict": lambda kind: kind(1)._asdict(),
    "_fields": lambda kind: (kind._fields, kind._field_defaults, kind.__match_args__),
    "order": lambda kind: kind(1, "a") < kind(1, "b"),
    "sum": lambda kind: kind(1, "a") + kind(2, "b"),
}


@pytest.mark.parametrize("name", CALLS)
def test_it_does_what_the_standard_librarys_does(name: str) -> None:
    """The first instances equal those of a compiled ``__new__``."""

    def outcome(kind: Any) -> object:
        try:
            found = CALLS[name](kind)
        except (TypeError, ValueError) as error:
            return type(error), str(error).replace("Plain", "Standard")
        return found, isinstance(found, kind), repr(found).replace("Plain", "Standard")

    class Plain(NamedTuple):
        first: int
        second: str = "two"

    assert [outcome(Plain) for _ in range(8)] == [outcome(Standard)] * 8


def test_an_unknown_name_is_not_replaced() -> None:
    with pytest.raises(ValueError, match="third"):
        Pair(1)._replace(third=3)  # type: ignore[call-arg]  # that is what is tested


def test_what_it_is_not_for_is_refused() -> None:
    with pytest.raises(TypeError, match="without a default"):
        type(NamedTuple)("Wrong", (NamedTuple,), {"__annotations__": {"a": "int", "b": "int"}, "a": 1})
    with pytest.raises(TypeError, match=r"use typing.NamedTuple"):
        type(NamedTuple)("Wrong", (NamedTuple, int), {})


def _classes() -> Iterator[Any]:
    """Yield every class of the product that is made this way."""
    for package in (toolcrib, tools, agent):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(info.name)
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] in ("toolcrib", "tools", "agent", "toolsets", "model_tools"):
            yield from (one for one in vars(module).values() if isinstance(one, type) and "_field_defaults" in vars(one))


@pytest.mark.filterwarnings("ignore:agent.* is an old name:DeprecationWarning")
def test_every_class_of_the_product_is_as_the_standard_library_makes_it() -> None:
    found = 0
    for made in _classes():
        twin: Any = typing.NamedTuple(made.__name__, [(name, Any) for name in made._fields])  # type: ignore[misc]  # the names are dynamic
        values = range(len(made._fields))
        one, other = made(*values), twin(*values)
        assert [getattr(one, name) for name in made._fields] == [getattr(other, name) for name in twin._fields], made
        assert set(made._field_defaults) <= set(made._fields), made
        assert made._fields == tuple(made.__annotations__), made
        found += 1
    assert found > 50
