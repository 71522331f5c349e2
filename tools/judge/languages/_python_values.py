"""Values that a Python expression may have, as far as they are known: the domain of the abstract evaluator.

Texts are ``Value``; numbers, None, lists, tuples and dicts stand for themselves; the rest are the classes below.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Any, TypeAlias

from toolcrib.contract.namedtuple import NamedTuple
from tools.judge.meaning.value import HOLE, Taint, Value

Thing: TypeAlias = Any
"""A value of the domain. A union would be checked at every step, and would say no more than the classes' names."""

MAX_OPTIONS = 6

PACKAGES = Value(f"{HOLE}/site-packages", Taint.UNKNOWN)
"""The folder that Python loads modules from, wherever it is."""


class Data(NamedTuple):
    """Known bytes."""

    raw: bytes
    taint: Taint = Taint.NONE


class PathThing(NamedTuple):
    """A pathlib path."""

    value: Value


class Name(NamedTuple):
    """A name that was imported, or a builtin: ``os.system``."""

    path: str


class Unknown(NamedTuple):
    """Anything. ``kind`` says more where more is known: ``dunder`` came out of Python's inner tables."""

    taint: Taint = Taint.UNKNOWN
    kind: str = ""


class Either(NamedTuple):
    options: tuple[Thing, ...]


class ManyThings(NamedTuple):
    """An iterable of an unknown number of things, each of which may be ``each``."""

    each: Thing


class Scope:
    """Names and what they may be. ``module`` is where ``global`` leads to."""

    __slots__ = ("globals", "module", "names", "parent")

    def __init__(self, parent: Scope | None = None) -> None:
        self.names: dict[str, Thing] = {}
        self.parent = parent
        self.module: Scope = parent.module if parent is not None else self
        self.globals: set[str] = set()

    def find(self, name: str) -> Thing:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None

    def has(self, name: str) -> bool:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return True
            scope = scope.parent
        return False

    def set(self, name: str, thing: Thing) -> None:
        if name in self.globals:
            self.module.names[name] = thing
        else:
            self.names[name] = thing


class Func:
    __slots__ = ("first", "node", "scope")

    def __init__(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, scope: Scope, first: Thing = None) -> None:
        self.node = node
        self.scope = scope
        self.first = first
        """First argument that the function is bound to (``self``)."""


class Class:
    __slots__ = ("bases", "scope")

    def __init__(self, scope: Scope, bases: list[Thing]) -> None:
        self.scope = scope
        self.bases = bases

    def find(self, name: str, depth: int = 8) -> Thing:
        if name in self.scope.names:
            return self.scope.names[name]
        for base in self.bases:
            if isinstance(base, Class) and depth and (found := base.find(name, depth - 1)) is not None:
                return found
        return None


class Obj:
    """A stateful object: ``kind`` is file, popen, socket, response, instance, module, environ, hasher ..."""

    __slots__ = ("cls", "fields", "kind")

    def __init__(self, kind: str, cls: Class | None = None, **fields: Thing) -> None:
        self.kind = kind
        self.cls = cls
        self.fields: dict[str, Thing] = fields


class Method(NamedTuple):
    """``owner.name``, still to be called."""

    owner: Thing
    name: str


def either(things: Iterable[Thing]) -> Thing:
    """Join several things into one: equal ones once, too many as an unknown."""
    kept: list[Thing] = []
    for thing in things:
        for option in thing.options if isinstance(thing, Either) else (thing,):
            if not any(option is one or _same(option, one) for one in kept):
                kept.append(option)
    if len(kept) == 1:
        return kept[0]
    if len(kept) > MAX_OPTIONS:
        kept = [*kept[: MAX_OPTIONS - 1], Unknown(taint_of(kept[MAX_OPTIONS - 1 :]) | Taint.UNKNOWN)]
    return Either(tuple(kept)) if kept else None


def _same(one: Thing, other: Thing) -> bool:
    return type(one) is type(other) and isinstance(one, tuple | str | int | float | bytes | type(None)) and bool(one == other)


def options(thing: Thing) -> tuple[Thing, ...]:
    return thing.options if isinstance(thing, Either) else (thing,)


def taint_of(thing: Thing, depth: int = 4) -> Taint:
    if isinstance(thing, Value | Data | Unknown):
        return thing.taint
    if isinstance(thing, PathThing):
        return thing.value.taint
    if depth == 0:
        return Taint.NONE
    taint = Taint.NONE
    if isinstance(thing, Either):
        thing = list(thing.options)
    elif isinstance(thing, dict):
        thing = [*thing, *thing.values()]
    elif isinstance(thing, Obj):
        taint |= thing.fields.get("taint", Taint.NONE)
        thing = []
    elif isinstance(thing, Method):
        return taint_of(thing.owner, depth - 1)
    elif isinstance(thing, ManyThings):
        return taint_of(thing.each, depth - 1)
    if type(thing) in (list, tuple):
        for one in thing[:200]:
            taint |= taint_of(one, depth - 1)
    return taint


def text(thing: Thing) -> Value:
    """Convert as ``str()`` does; a thing without a known text is a HOLE."""
    if isinstance(thing, Value):
        return thing
    if isinstance(thing, PathThing):
        return thing.value
    if isinstance(thing, Data):
        return Value(thing.raw.decode("utf-8", "replace"), thing.taint)
    if thing is None or isinstance(thing, bool | int | float):
        return Value(number(thing))
    if isinstance(thing, str):
        return Value(thing)
    if isinstance(thing, Obj) and thing.kind == "file":
        return text(thing.fields.get("path"))
    return Value(HOLE, taint_of(thing) | Taint.UNKNOWN)


def number(thing: float | bool | None) -> str:
    """``str`` of a number; one of too many digits is unknown."""
    try:
        return str(thing)
    except ValueError:
        return HOLE


def dump(thing: Thing, depth: int = 6) -> Value:
    """Convert as ``json.dumps`` or ``repr`` would, roughly: for data that is sent or stored."""
    if isinstance(thing, str):
        return Value(thing)
    if isinstance(thing, Either):
        return Value(HOLE, taint_of(thing) | Taint.UNKNOWN)
    if depth and isinstance(thing, dict):
        parts = [(dump(key, depth - 1), dump(value, depth - 1)) for key, value in list(thing.items())[:200]]
        taint = Taint.NONE
        for key, value in parts:
            taint |= key.taint | value.taint
        return Value("{" + ", ".join(f"{key.text}: {value.text}" for key, value in parts) + "}", taint)
    if depth and type(thing) in (list, tuple):
        items = [dump(one, depth - 1) for one in thing[:200]]
        taint = Taint.NONE
        for item in items:
            taint |= item.taint
        return Value("[" + ", ".join(item.text for item in items) + "]", taint)
    if isinstance(thing, Obj) and thing.kind == "file" and "content" in thing.fields:
        return text(thing.fields["content"])
    return text(thing)
