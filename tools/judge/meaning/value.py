"""Values that a word may have, as far as they can be known without running anything."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.regex import Regex

if TYPE_CHECKING:
    from enum import IntFlag as Flags
else:

    class Flags:
        """Flags that are plain numbers at run time: a union of real enum flags is ten times slower.

        Test with ``&``: there is no ``in``, and no ``value``.
        """

        def __new__(cls, bits):
            return bits


HOLE = "\ufffc"
"""Placeholder in a text for an unknown part: any text, even an empty one. If a script contains this character, it counts as
unknown too.
"""


class Taint(Flags):
    """Origin of a text. Every text made from it has the same origin."""

    NONE = 0
    UNKNOWN = 1
    """Has a part that is only known when the command runs."""
    REMOTE = 2
    """Came over the network."""
    DECODED = 4
    """Was encoded, encrypted or compressed in a way that hides it from a reader."""
    SECRET = 8
    """Holds a key, a password, a token."""
    LOCAL = 16
    """The content of a file on this machine that was not read."""
    MANY = 32
    """Mark of the elements of a list that is only known at run time (``for f in *``, ``while read f``)."""
    MAYBE = 64
    """Known unless it is empty: ``command -v`` prints nothing for a missing program."""
    ENDLESS = 128
    """Never ends by itself, as the output of ``yes``."""
    OURS = 256
    """The id of the process that started the shell, which is toolcrib's own process."""
    PROGRAM = 512
    """Bytes of a compiled program: a file made of them is an unknown program."""
    WRITTEN = 1024
    """Mark of a file that this session wrote; no value has it."""
    OUTSIDE = 2048
    """The whole text of a variable that neither the line nor the session set; the user's environment may have set it."""
    MADE = 4096
    """The whole name of the folder that ``mktemp -d`` made; empty if it made none."""
    FOUND = 8192
    """Names of files in a folder, found by find, ls, grep -l or a pattern."""
    LATER = 16384
    """Mark of a path that a job in the background may replace with a link at any time; no value has it."""

    COMPUTED = 32768
    """Printed by code in the line, or by a program that is not the system's: it may name any file."""
    BROUGHT = 65536
    """Mark of a path for something that the session moved from outside of its folders; no value has it."""
    INPUT = 131072
    """Comes from the standard input of a background process, which later calls write to."""
    RUNNING = 262144
    """Mark of a script that a background process of the session may still read; no value has it."""
    CHANGING = 524288
    """Mark of a file that a background process of the session may still change; no value has it."""
    USED = 1048576
    """Mark of a path that a background process of the session may still open by its name; no value has it."""
    LEFT = 2097152
    """Mark of a file that a process uses which a command left running: its end is never known. No value has it."""
    FED = 4194304
    """Read from a file by a process that may outlast the call: a later call may change what the process reads."""


OF_JOBS = Taint.RUNNING | Taint.CHANGING | Taint.USED | Taint.LEFT
"""Marks of files that background processes use. They count until the session has no running process."""

WHOLE = Taint.OUTSIDE | Taint.MADE
"""Marks of a text in its original form; a text made from it does not have them."""


class Value(NamedTuple):
    """A text with HOLEs for its unknown parts. ``pattern``: unquoted ``* ? [`` in it are active, so it may stand for several
    words.

    ``shown`` is its form in the source (``$DATA_DIR/x``) if that is clearer than ``text``, otherwise "".
    """

    text: str
    taint: Taint = Taint.NONE
    pattern: bool = False
    shown: str = ""

    @property
    def known(self) -> bool:
        return HOLE not in self.text

    def for_people(self) -> str:
        return self.shown or self.text


class Elastic(Value):
    """A word with an unquoted unknown part, which may become several words, or none, at run time."""

    __slots__ = ()


def unglobbed(value: Value) -> Value:
    """Return a value for any file that a pattern matches. Only the beginning and the end of each part of its path are known."""
    text = value.text
    parts = [_without_pattern(part) for part in text.split("/")] if "/" in text else [_without_pattern(text)]
    taint = value.taint | Taint.UNKNOWN | Taint.MANY | Taint.FOUND
    return Value(plain("/".join(parts)), taint, shown=text)


def _without_pattern(part: str) -> str:
    starts = [at for at in (part.find(char) for char in "*?[") if at >= 0]
    if not starts:
        return part
    end = max(part.rfind(char) for char in "*?])")
    return f"{part[: min(starts)]}{HOLE}{part[end + 1 :]}"


def settled(values: Sequence[Value]) -> tuple[Value, ...]:
    """Return a list of words up to the first Elastic word; a HOLE then stands for any number of words."""
    values = [unglobbed(value) if value.pattern else value for value in values]
    for index, value in enumerate(values):
        if isinstance(value, Elastic):
            taint = Taint.UNKNOWN
            for one in values[index:]:
                taint |= one.taint
            return (*values[:index], Value(HOLE, taint & ~WHOLE))
    return tuple(values)


def changed(value: Value) -> Value:
    """Return ``value`` without the marks that only the whole text has."""
    return value._replace(taint=value.taint & ~WHOLE) if value.taint & WHOLE else value


EMPTY = Value("")
ANYTHING = Value(HOLE, Taint.UNKNOWN)


def names(text: str) -> frozenset[str]:
    """Return the words of ``text``; this makes tables easier to read."""
    return frozenset(text.split())


def unknown(taint: Taint = Taint.NONE, shown: str = "") -> Value:
    """Return a value that may be any text, with a taint besides UNKNOWN."""
    return Value(HOLE, taint & ~WHOLE | Taint.UNKNOWN, shown=shown) if taint or shown else ANYTHING


def tainted(value: Value, taint: Taint) -> Value:
    """Return ``value`` with more taint."""
    if value.taint & taint == taint:
        return value
    return type(value)(value.text, value.taint | taint, value.pattern, value.shown)


def joined(values: Iterable[Value], between: str = "") -> Value:
    """Return the values as one, with ``between`` between them."""
    texts: list[str] = []
    taint = last = Taint.NONE
    for value in values:
        texts.append(value.text)
        if value.taint is not last:  # merging taints is slow, and most values have the same one
            last = value.taint
            taint |= last
    return Value(plain(between.join(texts)), taint & ~WHOLE if taint & WHOLE and len(texts) > 1 else taint)


def listed(values: Iterable[Value], between: str) -> Value:
    """Join as ``joined`` does. A word that is only a HOLE may be missing, together with its separator."""
    words = list(values)
    found = joined(words, between)
    if not between or not any(word.text == HOLE or isinstance(word, Elastic) for word in words):
        return found
    text = between.join(
        word.text.replace(HOLE, "\0") if word.text == HOLE or isinstance(word, Elastic) else word.text for word in words
    )
    around = re.escape(between)
    text = re.sub(f"(?:{around})?[{HOLE}\0]*\0(?:[{HOLE}\0]|{around}\0)*(?:{around})?", HOLE, text)
    return Value(text, found.taint | Taint.UNKNOWN)


def plain(text: str) -> str:
    """Replace each run of HOLEs with one."""
    return _HOLES.sub(HOLE, text) if _TWO in text else text


def either(left: Value, right: Value) -> Value:
    """Merge two values: the beginning and end that both share, and a HOLE between."""
    if (left.taint ^ right.taint) & WHOLE and left.text and right.text:
        left, right = changed(left), changed(right)
    if left.text == right.text:
        return tainted(right if isinstance(right, Elastic) else left, left.taint | right.taint)
    one, two = left.text, right.text
    least = min(len(one), len(two))
    start = 0
    while start < least and one[start] == two[start]:
        start += 1
    end = 0
    while end < least - start and one[-1 - end] == two[-1 - end]:
        end += 1
    text = f"{one[:start]}{HOLE}{one[len(one) - end :]}" if end else one[:start] + HOLE
    kind = Elastic if isinstance(left, Elastic) or isinstance(right, Elastic) else Value
    return kind(_HOLES.sub(HOLE, text), left.taint | right.taint | Taint.UNKNOWN)


def any_of(values: Iterable[Value]) -> Value:
    """Return a value that covers each of these values. There must be at least one."""
    return functools.reduce(either, values)


def either_list(one: tuple[Value, ...], two: tuple[Value, ...]) -> tuple[Value, ...]:
    if len(one) == len(two):
        return tuple(either(left, right) for left, right in zip(one, two, strict=True))
    taint = Taint.NONE
    for value in one + two:
        taint |= value.taint
    return (unknown(taint),)


def either_of_each(one: Mapping[str, Value], two: Mapping[str, Value]) -> Mapping[str, Value]:
    if one is two or one == two:
        return one
    out = dict(one)
    for key, value in two.items():
        before = one.get(key)
        if before is not value:
            out[key] = value if before is None else either(before, value)
    return out


_TWO = HOLE + HOLE
_HOLES = Regex(f"{HOLE}{HOLE}+")
