"""Values of a script's expressions, as far as the reader knows them, and operations on them without effects."""

from __future__ import annotations

import ast
import textwrap
import warnings
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex
from tools.judge.languages._tell import join
from tools.judge.meaning.value import HOLE, Taint, Value, either

Thing: TypeAlias = Any
"""A Value for texts, bytes and paths; numbers, None, lists and dicts as in Python; otherwise one of the classes below."""


HOLE_NAME = "_unknown_hole_"
"""Identifier that replaces a HOLE in the source."""


class Name(NamedTuple):
    """The name of a builtin or of something in a library, such as ``os.system``.

    With an ``owner`` it is the name of an attribute of that thing, such as ``.unlink``.
    """

    path: str
    owner: Thing = None


class OwnFunction(NamedTuple):
    """A function or class of the program, with its result."""

    result: Thing


class Written(NamedTuple):
    """A file that was opened for writing. ``packs``: it is an archive, and its methods take names of files."""

    path: Value
    number: int
    packs: bool = False


class Many(list[Thing]):
    """Any number of things, each like one of the elements."""


def unknown(taint: Taint = Taint.NONE) -> Value:
    return Value(HOLE, taint | Taint.UNKNOWN)


def taint_of(*things: Thing) -> Taint:
    taint = Taint.NONE
    for thing in things:
        if isinstance(thing, Value):
            taint |= thing.taint
        elif isinstance(thing, Name):
            taint |= Taint.SECRET if thing.path == "os.environ" else taint_of(thing.owner)
        elif isinstance(thing, list | dict):
            taint |= taint_of(*thing, *(thing.values() if isinstance(thing, dict) else ()))
    return taint


def plain(thing: Thing) -> Thing:
    """Return the value that Python would have, if it is known; else NotImplemented."""
    if isinstance(thing, Value):
        return thing.text if thing.known and not thing.pattern else NotImplemented
    if type(thing) in (list, dict):
        return thing if is_known(*(thing.values() if isinstance(thing, dict) else thing)) else NotImplemented
    return thing if isinstance(thing, int | float | None) else NotImplemented


def is_known(*things: Thing) -> bool:
    return all(plain(one) is not NotImplemented for one in things)


def computed(*things: Thing) -> Value:
    """Return an unknown text made of ``things``, marked COMPUTED if all are known: the source may compute a text to hide it."""
    given = [one for one in things if one is not None]
    return unknown(taint_of(*given) | (Taint.COMPUTED if given and is_known(*given) else Taint.NONE))


def is_hidden(path: Value) -> bool:
    """Return whether a path was computed in a way that the judge did not follow, so that it may lead anywhere."""
    return bool(path.taint & (Taint.COMPUTED | Taint.DECODED)) and path.text[:1] in f"{HOLE}/~."


def text(thing: Thing) -> Value:
    """Return the text that ``str`` makes of a thing."""
    if isinstance(thing, Value | Written):
        return thing if isinstance(thing, Value) else thing.path
    return Value(str(thing)) if isinstance(thing, int | float | None) else computed(thing)


def one_of(things: Sequence[Thing]) -> Thing:
    """Return one thing that stands for any of several things; an unknown text if there are none."""
    found = things[0] if things else unknown()
    for one in things[1:]:
        if isinstance(found, list) and isinstance(one, list):
            found = Many([*found, *one])
        elif type(found) is not type(one) or found != one:
            named = isinstance(found, Name | OwnFunction) or isinstance(one, Name | OwnFunction)
            merged = either(text(found), text(one))
            found = Name("?") if named else merged._replace(taint=merged.taint | Taint.COMPUTED)
    return found


def elements(thing: Thing) -> list[Thing]:
    """Return the things that a loop iterates over; a Many if their number is unknown."""
    if isinstance(thing, list | dict):
        return thing if isinstance(thing, list) else [Value(one) if isinstance(one, str) else one for one in thing]
    return Many([thing if isinstance(thing, Value) and thing.pattern else unknown(taint_of(thing))])


# -- texts and paths --------------------------------------------------------------------------------------------------

_FIELD = Regex(r"%[-+ #\d.(\w)]*[sdrixXcuf]|\{[^{}]*\}")
_SAME = frozenset("decode encode absolute resolve expanduser as_posix __str__ __enter__ read fileno".split())
_OF_TEXT = frozenset("lower upper strip lstrip rstrip title replace removeprefix removesuffix split splitlines partition".split())


def formatted(template: Value, given: Thing) -> Value:
    """Return the text of ``template % given`` or ``template.format(...)``, with a HOLE for each field."""
    return Value(_FIELD.sub(HOLE, template.text), computed(template, given).taint)


def path_join(*given: Value) -> Value:
    start = max((at for at, one in enumerate(given) if one.text.startswith(("/", "~"))), default=0)
    kept = [one._replace(text=one.text.rstrip("/")) for one in given[start:] if one.text not in ("", ".")]
    return join(kept, "/") if kept != [Value("")] else Value("/") if kept else Value(".")


def of_path(path: Value, name: str, *args: str) -> Value:
    """Return the value of a path's attribute, or the result of its method."""
    if name == "parent" and path.text in (".", "..", "../.."):
        return path._replace(text=f"../{path.text}".removesuffix("/."))
    found = getattr(PurePosixPath(path.text), name)
    return path._replace(text=str(found(*args) if callable(found) else found))


def text_method(owner: Value, name: str, args: list[Thing]) -> Thing:
    """Return the result of a text's or path's method that has no effects."""
    if name in _SAME:
        return owner
    if name == "format":
        return formatted(owner, args)
    if name in ("glob", "rglob", "iterdir"):
        found = path_join(owner, Value("**" if name == "rglob" else "."), text(args[0]) if args else Value("*"))
        return Many([found._replace(pattern=True)])
    if name == "join" and args and type(args[0]) is list:
        return join([text(one) for one in args[0]], owner.text)
    try:
        if name in ("with_name", "with_suffix", "with_stem") and is_known(*args):
            return of_path(owner, name, *map(plain, args))
        if name in _OF_TEXT and is_known(owner, *args):
            found = getattr(owner.text, name)(*map(plain, args))
            return owner._replace(text=found) if isinstance(found, str) else [owner._replace(text=one) for one in found]
    except (TypeError, ValueError):
        return computed(owner)
    return Many([computed(owner, *args)]) if name in ("split", "splitlines", "readlines", "items") else computed(owner, *args)


def operate(how: ast.operator, left: Thing, right: Thing) -> Thing:
    """Return the result of an operator on two things."""
    if isinstance(left, list) and isinstance(right, list):
        return (list if type(left) is type(right) is list else Many)([*left, *right])
    if isinstance(how, ast.Add) and not isinstance(left, list | int) and not isinstance(right, list | int):
        return join([text(left), text(right)])
    if isinstance(how, ast.Div) and isinstance(left, Value):
        return path_join(left, text(right))
    return formatted(left, right) if isinstance(how, ast.Mod) and isinstance(left, Value) else computed(left, right)


def parse(source: str) -> ast.Module | None:
    """Return the tree of a module; None if it can't be parsed. HOLEs outside of strings are unknown names."""
    for attempt in (source, source.replace(HOLE, HOLE_NAME), textwrap.dedent(source)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return ast.parse(attempt)
            except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
                continue
    return None
