"""Expansion of ``$name`` and ``${...}``."""

from __future__ import annotations

import re
from collections.abc import Callable

from toolcrib.contract.regex import Regex
from tools.judge.meaning import arithmetic, filestate, printing, transforms
from tools.judge.meaning.shellstate import State, Var
from tools.judge.meaning.value import EMPTY, HOLE, Elastic, Taint, Value, any_of, changed, joined, unknown
from tools.judge.meaning.variables import (
    ManyWords,
    any_number,
    as_number,
    find,
    in_order,
    is_maybe_unset,
    ordered,
    positional,
    scalar,
)
from tools.judge.meaning.walk import Walker
from tools.judge.shell.tree import Parameter, Word

_NAME = Regex(r"[A-Za-z_]\w*", re.ASCII)


def evaluate(it: Walker, state: State, part: Parameter, *, quoted: bool) -> Value | ManyWords | Word:
    name = part.name
    op = part.op
    if not op and part.index is None and not name.isdigit() and name not in "@*":
        return scalar(it, state, name)
    if op == "names" and part.index is not None:
        return _indirect(it, state, part, quoted=quoted)
    if op == "names":
        return _names(it, state, name)
    if op == "indirect":
        return _indirect(it, state, part, quoted=quoted)
    value = subject(it, state, part)
    if op == "":
        return value if value is not None else EMPTY
    if op == "length":
        return _length(value, counted=part.name in "@*" or _all_of(part) is not None)
    if op in _DEFAULTS:
        return _default(it, state, part, value)
    if value is None:  # a parameter that is not set matches no pattern, and ``@Q`` does not quote it
        if op != ":":
            _change(it, state, part)
            return EMPTY
        value = EMPTY
    return _transformed(it, state, part, value)


def _all_of(part: Parameter) -> bool | None:
    """Return False for ``[@]``, True for ``[*]`` (which is joined), otherwise None."""
    if part.index is None or len(part.index.parts) != 1:
        return None
    text = getattr(part.index.parts[0], "text", "")
    return {"@": False, "*": True}.get(text) if isinstance(text, str) else None


def subject(it: Walker, state: State, part: Parameter) -> Value | ManyWords | None:
    """Return the parameter's plain value; None if it is certainly not set."""
    name = part.name
    if part.index is not None:
        return _element(it, state, part)
    if name in ("@", "*"):
        return ManyWords(state.positional, name == "*")
    if name.isdigit():
        return positional(state, int(name))
    var = find(state, name)
    if var is not None:
        return var.scalar()
    return scalar(it, state, name)


def _element(it: Walker, state: State, part: Parameter) -> Value | ManyWords | None:
    var = find(state, part.name)
    star = _all_of(part)
    if var is None and star is None and part.index is not None:
        index_key(it, state, part.index, None)
    if var is None:
        if part.name in state.vars or not (state.wild or is_maybe_unset(scalar(it, state, part.name))):
            got = scalar(it, state, part.name)
            return ManyWords((got,), star) if star is not None else got
        return ManyWords((unknown(state.wild),), star) if star is not None else unknown(state.wild)
    listed: dict[str, Value] = dict(var.items) if var.items is not None else ({"0": var.value} if var.value is not None else {})
    if star is not None:
        return ManyWords(ordered(var, listed), star)
    assert part.index is not None  # noqa: S101  # the caller checked
    key = index_key(it, state, part.index, var)
    if key is None:
        return any_of([EMPTY, *listed.values()])
    found = listed.get(key)
    if var.open and (found is None or _shifts(var, listed, key)):
        taint = joined(listed.values()).taint
        return any_of(listed.values()) if taint & Taint.FOUND else unknown(taint)
    return found


def _shifts(var: Var, listed: dict[str, Value], key: str) -> bool:
    """Return whether an element at or before ``key`` may stand for several words or for none."""
    before = as_number(key)
    return "A" not in var.flags and any(isinstance(value, Elastic) and as_number(at) <= before for at, value in listed.items())


def index_key(it: Walker, state: State, index: Word, var: Var | None) -> str | None:
    """Return the key given by an index; None if it is unknown."""
    text = it.single(state, index)
    if var is not None and "A" in var.flags:
        return text.text if text.known else None
    number = arithmetic.evaluate(it, state, text)
    if number is None:
        return None
    if number < 0 and var is not None and var.items:
        if var.open:
            return None
        number += max(map(as_number, var.items)) + 1
    return str(number)


def _names(it: Walker, state: State, name: str) -> Value | ManyWords:
    """Return the names for ``${!prefix*}``: the known ones, and a HOLE for any others."""
    prefix = name.rstrip("@*")
    known = [key for key in state.vars if key.startswith(prefix)]
    return ManyWords((*map(Value, sorted(known)), unknown()), star=name.endswith("*"))


def _indirect(it: Walker, state: State, part: Parameter, *, quoted: bool) -> Value | ManyWords | Word:
    if _all_of(part) is not None:
        var = find(state, part.name)
        if var is None or var.open:
            return ManyWords((unknown(),), star=bool(_all_of(part)))
        keys = in_order(var, var.items if var.items is not None else ["0"] if var.value is not None else [])
        return ManyWords((unknown(),) if keys is None else tuple(map(Value, keys)), star=bool(_all_of(part)))
    direct = state.vars.get(part.name)
    if direct is not None and "n" in direct.flags and direct.value is not None:
        return direct.value
    value = subject(it, state, Parameter(part.name, index=part.index))
    if not isinstance(value, Value):
        it.context.doubts.fail(state)
        return unknown()
    filestate.executed(it, value)
    name, bracket, index = value.text.partition("[")
    if not value.known or not (_NAME.fullmatch(name) or name.isdigit() or name in ("@", "*")):
        it.embedded(state, value)
        it.context.doubts.fail(state)
        return unknown(value.taint) if value.text else EMPTY
    word = it.word(index.rstrip("]")) if bracket else None
    return evaluate(it, state, Parameter(name, index=word), quoted=quoted)


def _length(value: Value | ManyWords | None, *, counted: bool) -> Value:
    if isinstance(value, ManyWords) and counted:
        return unknown() if any(map(any_number, value.values)) else Value(str(len(value.values)))
    if isinstance(value, ManyWords):
        return unknown()
    got = value if value is not None else EMPTY
    return Value(str(len(got.text))) if got.known else unknown()


_DEFAULTS = frozenset({":-", "-", ":=", "=", ":?", "?", ":+", "+"})


def _default(it: Walker, state: State, part: Parameter, value: Value | ManyWords | None) -> Value | ManyWords | Word:
    op = part.op
    word = part.argument if part.argument is not None else Word([])
    if isinstance(value, ManyWords):
        text = joined(value.values, " ")
        is_set: bool | None = bool(value.values) if text.known else (None if len(value.values) < 2 else True)
        if is_set and op[0] == ":" and text.known and not text.text:
            is_set = False
    elif value is None:
        is_set = False
    elif value.text == HOLE:
        is_set = None
    else:
        is_set = bool(value.text.replace(HOLE, "")) or op[0] != ":"
        if HOLE in value.text and not is_set:
            is_set = None
    kind = op[-1]
    if is_set is None:
        return _unsure(it, state, part, value, word)
    if kind == "+":
        return word if is_set else EMPTY
    if is_set:
        return value if value is not None else EMPTY
    if kind == "=":
        return _assigned(it, state, part, it.single(state, word))
    if kind == "?":
        it.single(state, word)
        return EMPTY
    return word


def _unsure(it: Walker, state: State, part: Parameter, value: Value | ManyWords | None, word: Word) -> Value | ManyWords | Word:
    """Expand a variable that may or may not be set. The command is followed once for each case if that is possible."""
    kind = part.op[-1]
    given = value if value is not None else EMPTY
    if kind == "?":
        it.single(state, word)
        return given
    if kind != "=" and it.context.doubts.choice >= 0 and it.limits.forks < 40:
        it.context.doubts.names.add((part.name, part.op[:-1]) if part.index is None else id(part))
        if it.context.doubts.choice < 2:
            is_set = it.context.doubts.choice == 0
            return word if is_set == (kind == "+") else given if is_set else EMPTY
    default = it.single(state, word)
    taint = default.taint | (given.taint if isinstance(given, Value) else Taint.NONE)
    got = unknown(taint)
    return _assigned(it, state, part, got) if kind == "=" else got


def _assigned(it: Walker, state: State, part: Parameter, value: Value) -> Value:
    """Set the variable of ``${name:=value}``, and return its new value, which may be converted to a number or to another case."""
    if not _NAME.fullmatch(part.name):
        it.context.doubts.fail(state)
        return value
    key = None
    if part.index is not None:
        key = index_key(it, state, part.index, find(state, part.name))
        key = HOLE if key is None else key
    it.assign_name(state, part.name, value, key)
    var = find(state, part.name)
    if var is None or not set("ilu?") & set(var.flags):
        return value
    stored = var.scalar() if key is None else (var.items or {}).get(key)
    return value if stored is None else stored


def _transformed(it: Walker, state: State, part: Parameter, value: Value | ManyWords) -> Value | ManyWords:
    value = ManyWords(tuple(map(changed, value.values)), value.star) if isinstance(value, ManyWords) else changed(value)
    if part.op == ":":
        return _slice(it, state, part, value)
    change = _change(it, state, part)
    if isinstance(value, ManyWords):
        return ManyWords(tuple(map(change, value.values)), value.star)
    return change(_whole_home(part, value))


def _whole_home(part: Parameter, value: Value) -> Value:
    """Return the value, but for an unknown home folder (``~``) an unknown path that begins with a slash."""
    if part.name == "HOME" and value.text == "~":
        return Value(f"/{HOLE}", Taint.UNKNOWN)
    return value


def _slice(it: Walker, state: State, part: Parameter, value: Value | ManyWords) -> Value | ManyWords:
    start, length = _bounds(it, state, part.argument)
    if isinstance(value, ManyWords):
        return _slice_of_many(state, part, value, start, length)
    value = _whole_home(part, value)
    text = value.text
    if start is None or length is False:
        return unknown(value.taint)
    if length is not None and length < 0 and (not value.known or len(text) + length < start):
        it.context.doubts.fail(state)
    if value.known:
        return value._replace(text=text[_span(len(text), start, length)], shown="")
    before = text.partition(HOLE)[0]
    if start >= 0 and length is not None and 0 <= start + length <= len(before) and length >= 0:
        return Value(text[start : start + length], value.taint & ~Taint.UNKNOWN)
    last = len(before) + min(0, length or 0)
    return Value((before[start:last] if start >= 0 else "") + HOLE, value.taint | Taint.UNKNOWN)


def _slice_of_many(state: State, part: Parameter, value: ManyWords, start: int | None, length: int | bool | None) -> ManyWords:
    values = value.values
    if start is None or length is False or any(map(any_number, values)):
        return ManyWords((unknown(joined(values).taint),), value.star) if values else value
    if part.name in ("@", "*") and part.index is None:
        values = (state.zero, *values) if start == 0 else values
        start -= start > 0
    elif start and (var := find(state, part.name)) is not None and var.items and "A" not in var.flags:
        keys = sorted(map(as_number, var.items))
        first = start if start > 0 else keys[-1] + 1 + start
        start = sum(1 for key in keys if key < first)
    return ManyWords(values[_span(len(values), start, length)], value.star)


def _span(size: int, start: int, length: int | bool | None) -> slice:
    """Return the slice for an offset and a length as bash counts them: negative ones from the end."""
    first = start if start >= 0 else size + start
    if first < 0 or first > size:
        return slice(0, 0)
    last = size if length is None else (first + length if length >= 0 else size + length)
    return slice(first, max(first, last))


def _bounds(it: Walker, state: State, word: Word | None) -> tuple[int | None, int | bool | None]:
    """Return the offset, None if unknown, and the length: None for everything up to the end, False if unknown."""
    text = it.single(state, word) if word is not None else EMPTY
    if not text.known:
        return None, None
    offset, colon, length = arithmetic.split_slice(text.text)
    start = arithmetic.evaluate(it, state, Value(offset)) if offset.strip() else 0
    if not colon:
        return start, None
    count = arithmetic.evaluate(it, state, Value(length)) if length.strip() else 0
    return start, False if count is None else count


def _change(it: Walker, state: State, part: Parameter) -> Callable[[Value], Value]:
    op = part.op
    argument = it.pattern(state, part.argument) if part.argument is not None else EMPTY
    if op[0] in "#%":
        return lambda value: transforms.removed(value, op, argument)
    if op[0] == "/":
        by = it.single(state, part.replacement) if part.replacement is not None else EMPTY
        return lambda value: transforms.replaced(value, op, argument, by)
    if op[0] in "^,":
        return lambda value: transforms.cased(value, op, argument)
    if op[0] == "@":
        return lambda value: _operated(it, state, value, op[1:] or argument.text)
    return lambda value: unknown(value.taint | argument.taint)


def _operated(it: Walker, state: State, value: Value, letter: str) -> Value:
    if not value.known:
        return unknown(value.taint)
    if letter == "Q":
        return transforms.quoted(value)
    if letter in ("U", "L", "u"):
        text = value.text
        text = {"U": text.upper(), "L": text.lower(), "u": text[:1].upper() + text[1:]}[letter]
        return value._replace(text=text, shown="")
    if letter == "E":
        return value._replace(text=printing.unescaped(value.text)[0], shown="")
    if letter == "P":
        it.embedded(state, value)
    return unknown(value.taint)
