"""Arithmetic on known integers, with the assignments and commands that hide in it."""

from __future__ import annotations

import re
from collections.abc import Callable

from toolcrib.contract.regex import Regex
from tools.judge.meaning import filestate, variables
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import HOLE, Taint, Value, unknown
from tools.judge.meaning.walk import Walker

_TOKEN = Regex(
    r"\s*(?:(0[xX][0-9a-fA-F]+|\d+#[\w@]+|\d+)|([A-Za-z_]\w*)|(<<=|>>=|\*\*|&&|\|\||<<|>>|<=|>=|==|!=|\+\+|--|[-+*/%&^|]=|"
    r"[-+*/%<>=!~&^|?:,()\[\]]))",
    re.ASCII,
)
_MAX_CHARS = 2_000
_MAX_DEPTH = 40
_FURTHER, _MOST_NAMES = 2, 64
"""Limits of depth and of names for the operands after an unknown one, so that the work stays bounded."""
_PRECEDENCE = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10, "**": 11,
}  # fmt: skip
_ASSIGN = frozenset({"=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "^=", "|="})


class _Unknown(Exception):
    """The result is unknown, or the text is not arithmetic."""


def evaluate(it: Walker, state: State, text: Value, depth: int = 0) -> int | None:
    """Return the value of the arithmetic expression ``text``, None if unknown. Make its assignments, interpret its commands."""
    filestate.executed(it, text)
    raw = text.text.strip()
    if raw.isdigit() and (raw[0] != "0" or raw == "0"):
        return int(raw) if len(raw) < 19 else None
    if not raw:
        return 0
    if "$(" in raw or "`" in raw:
        it.embedded(state, text)
        it.context.doubts.fail(state)
        return None
    if HOLE in raw and text.taint & Taint.FOUND:
        for lost in it.found.lists:  # it may be any part of them
            it.embedded(state, Value(lost))
    if depth > 8 or len(raw) > _MAX_CHARS:
        _forget(it, state, raw)
        it.context.doubts.fail(state)
        return None
    try:
        reader = _Reader(it, state, raw, depth)
        return _wrap(reader.whole())
    except (_Unknown, RecursionError):
        _look_further(it, state, raw, depth)
        _forget(it, state, raw)
        it.context.doubts.fail(state)
        return None


def _look_further(it: Walker, state: State, raw: str, depth: int) -> None:
    """Interpret the commands in values of all names in ``raw``: bash calculates the operands after an unknown one too."""
    names = dict.fromkeys(re.findall(r"[A-Za-z_]\w*", raw, re.ASCII)) if depth < _FURTHER else {}
    for name in list(names)[:_MOST_NAMES]:
        text, var = variables.scalar(it, state, name), variables.find(state, name)
        for one in (text, *((var.items or {}).values() if var is not None else ())):
            filestate.executed(it, one)
        if "[" in text.text and text.text.strip() != raw:
            evaluate(it, state, text, depth + 1)


def command(it: Walker, state: State, text: Value) -> int | None:
    """Evaluate ``text`` for a command that calculates, such as ``let``. If that fails, only this command fails: return None."""
    doubts = it.context.doubts
    failed = doubts.failed
    number = evaluate(it, state, text)
    if doubts.failed is failed:
        return number
    doubts.failed = failed
    return None


def _forget(it: Walker, state: State, raw: str) -> None:
    """Mark the names that the text may have assigned as unknown from here on."""
    for match in re.finditer(r"([A-Za-z_]\w*)\s*(?:\[[^]]*\])?\s*(?:[-+*/%&^|]?=(?!=)|<<=|>>=|\+\+|--)", raw, re.ASCII):
        it.assign_name(state, match[1], unknown())
    for match in re.finditer(r"(?:\+\+|--)\s*([A-Za-z_]\w*)", raw, re.ASCII):
        it.assign_name(state, match[1], unknown())


def split_slice(text: str) -> tuple[str, str, str]:
    """Split ``offset:length`` at the first colon that belongs to no ``? :``."""
    depth = questions = 0
    for at, char in enumerate(text):
        if char in "([":
            depth += 1
        elif char in ")]":
            depth -= 1
        elif char == "?":
            questions += 1
        elif char == ":" and not depth:
            if not questions:
                return text[:at], ":", text[at + 1 :]
            questions -= 1
    return text, "", ""


def _wrap(number: int) -> int:
    return (number + 2**63) % 2**64 - 2**63


class _Reader:
    def __init__(self, it: Walker, state: State, text: str, depth: int) -> None:
        self.it = it
        self.state = state
        self.text = text
        self.depth = depth
        self.nesting = 0
        self.live = True
        self.tokens: list[tuple[str, str]] = []
        at = 0
        text = text.rstrip()
        while at < len(text):
            match = _TOKEN.match(text, at)
            if match is None:
                raise _Unknown
            kind = "n" if match[1] else "w" if match[2] else "o"
            self.tokens.append((kind, match[match.lastindex or 0]))
            at = match.end()
        self.at = 0

    def whole(self) -> int:
        value = self.comma()
        if self.at < len(self.tokens):
            raise _Unknown
        return value

    def peek(self) -> str:
        return self.tokens[self.at][1] if self.at < len(self.tokens) and self.tokens[self.at][0] == "o" else ""

    def take(self, wanted: str) -> bool:
        if self.peek() == wanted:
            self.at += 1
            return True
        return False

    def comma(self) -> int:
        value = self.ternary()
        while self.take(","):
            value = self.ternary()
        return value

    def ternary(self) -> int:
        self.nesting += 1
        if self.nesting > _MAX_DEPTH:
            raise _Unknown
        value = self.binary(1)
        if self.take("?"):
            live = self.live
            self.live = live and bool(value)
            yes = self.ternary()
            if not self.take(":"):
                raise _Unknown
            self.live = live and not value
            no = self.ternary()
            self.live = live
            value = yes if value else no
        self.nesting -= 1
        return value

    def binary(self, least: int) -> int:
        left = self.unary()
        while (op := self.peek()) in _PRECEDENCE and _PRECEDENCE[op] >= least:
            self.at += 1
            live = self.live
            if op == "&&":
                self.live = live and bool(left)
            elif op == "||":
                self.live = live and not left
            right = self.binary(_PRECEDENCE[op] + (op != "**"))
            self.live = live
            left = _apply(op, left, right)
        return left

    def unary(self) -> int:
        self.nesting += 1
        if self.nesting > _MAX_DEPTH:
            raise _Unknown
        try:
            for op in ("!", "~", "-", "+"):
                if self.take(op):
                    value = self.unary()
                    return {"!": int(not value), "~": ~value, "-": -value, "+": value}[op]
            for op in ("++", "--"):
                if self.take(op):
                    name, key = self.target()
                    value = self.read(name, key) + (1 if op == "++" else -1)
                    return self.write(name, key, value)
            return self.atom()
        finally:
            self.nesting -= 1

    def target(self) -> tuple[str, str | None]:
        if self.at >= len(self.tokens) or self.tokens[self.at][0] != "w":
            raise _Unknown
        name = self.tokens[self.at][1]
        self.at += 1
        key = None
        if self.take("["):
            key = str(self.comma())
            if not self.take("]"):
                raise _Unknown
        return name, key

    def atom(self) -> int:
        if self.take("("):
            value = self.comma()
            if not self.take(")"):
                raise _Unknown
            return value
        if self.at >= len(self.tokens):
            raise _Unknown
        kind, text = self.tokens[self.at]
        if kind == "n":
            self.at += 1
            return _number(text)
        name, key = self.target()
        op = self.peek()
        if op in _ASSIGN:
            self.at += 1
            value = self.ternary()
            if op != "=":
                value = _apply(op[:-1], self.read(name, key), value)
            return self.write(name, key, value)
        value = self.read(name, key)
        if op in ("++", "--"):
            self.at += 1
            self.write(name, key, value + (1 if op == "++" else -1))
        return value

    def read(self, name: str, key: str | None) -> int:
        if key is None:
            text = variables.scalar(self.it, self.state, name)
        else:
            var = variables.find(self.state, name)
            if var is None or var.items is None or var.open:
                raise _Unknown
            text = var.items.get(key, Value("0"))
        number = evaluate(self.it, self.state, text, self.depth + 1)
        if number is None:
            raise _Unknown
        return number

    def write(self, name: str, key: str | None, value: int) -> int:
        value = _wrap(value)
        if self.live:
            self.it.assign_name(self.state, name, Value(str(value)), key)
        return value


def _number(text: str) -> int:
    base, mark, digits = text.partition("#")
    try:
        if mark:
            if int(base) > 36:
                raise _Unknown
            return int(digits, int(base))
        if text[:2] in ("0x", "0X"):
            return int(text, 16)
        return int(text, 8) if text[0] == "0" and len(text) > 1 else int(text)
    except ValueError:
        raise _Unknown from None


_OPERATIONS: dict[str, Callable[[int, int], int]] = {
    "||": lambda a, b: int(bool(a or b)),
    "&&": lambda a, b: int(bool(a and b)),
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
    "&": lambda a, b: a & b,
    "==": lambda a, b: int(a == b),
    "!=": lambda a, b: int(a != b),
    "<": lambda a, b: int(a < b),
    ">": lambda a, b: int(a > b),
    "<=": lambda a, b: int(a <= b),
    ">=": lambda a, b: int(a >= b),
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "<<": lambda a, b: a << (b & 63),
    ">>": lambda a, b: a >> (b & 63),
}


def _apply(op: str, left: int, right: int) -> int:
    if op in ("/", "%"):
        if right == 0:
            raise _Unknown
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if op == "/" else left - right * quotient
    if op == "**":
        if right < 0 or right > 4096:
            raise _Unknown
        return _wrap(pow(left, right, 2**64))
    return _wrap(_OPERATIONS[op](left, right))
