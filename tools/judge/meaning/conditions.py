"""``test``, ``[``, ``[[ ]]`` and ``(( ))`` in three-valued logic: true, false, unknown."""

from __future__ import annotations

from collections.abc import Sequence

from tools.judge.meaning import arithmetic, expand, failed_expansions, patterns
from tools.judge.meaning.shellstate import State, Var
from tools.judge.meaning.value import Taint, Value, unknown
from tools.judge.meaning.walk import Walker
from tools.judge.shell.tree import Conditional, Plain, Word

_NUMBERS = {"-eq", "-ne", "-lt", "-le", "-gt", "-ge"}
_UNARY = frozenset("abcdefghknoprstuvwxzGLNORS")


def calculated(it: Walker, state: State, word: Word) -> tuple[int | None, list[State]]:
    """Return the value of ``(( ))``, and the states of failed expansions in it."""
    return failed_expansions.attempted(it, lambda: arithmetic.command(it, state, expand.single(it, state, word)))


def truth(it: Walker, state: State, values: Sequence[Value]) -> bool | None:
    """Return the result of ``test`` for its arguments, None if unknown."""
    count = len(values)
    if count == 0:
        return False
    if count == 1:
        return _filled(values[0])
    first = values[0].text
    if first == "!":
        inner = truth(it, state, values[1:])
        return None if inner is None else not inner
    if count == 2:
        return _unary(it, state, first, values[1])
    if count == 3:
        return _binary(it, state, values[0], values[1].text, values[2], matching=False)
    for op, joiner in (("-o", any), ("-a", all)):
        for at in range(1, count - 1):
            if values[at].text == op:
                sides = [truth(it, state, values[:at]), truth(it, state, values[at + 1 :])]
                return None if None in sides else joiner(bool(side) for side in sides)
    return None


def _filled(value: Value) -> bool | None:
    if value.taint & Taint.MAYBE:
        return None
    return bool(value.text) if value.known else (True if value.text.strip("\ufffc") else None)


def _unary(it: Walker, state: State, op: str, value: Value) -> bool | None:
    if op in ("-z", "-n"):
        filled = _filled(value)
        return None if filled is None else filled == (op == "-n")
    if op == "-v" and value.known:
        it.embedded(state, value)
        var = state.vars.get(value.text)
        return True if var is not None and (var.value is not None or var.items) else None
    return None


def _binary(it: Walker, state: State, left: Value, op: str, right: Value, *, matching: bool) -> bool | None:
    if op in ("=", "==", "!="):
        same = _equal(left, right, matching=matching)
        if same is False and matching and "nocasematch" in state.options:
            same = None
        return None if same is None else same == (op != "!=")
    if op in _NUMBERS:
        one, two = (
            arithmetic.command(it, state, side if matching else Value(side.text))  # ``test`` calculates nothing
            if matching or side.text.strip().lstrip("-").isdigit()
            else None
            for side in (left, right)
        )
        if one is None or two is None:
            return None
        return {"-eq": one == two, "-ne": one != two, "-lt": one < two, "-le": one <= two, "-gt": one > two, "-ge": one >= two}[
            op
        ]
    return None


def _equal(left: Value, right: Value, *, matching: bool) -> bool | None:
    if not left.known or not right.known or (left.taint | right.taint) & Taint.MAYBE:
        return None
    if not matching:
        return left.text == right.text
    if right.text == "*":
        return True
    compiled = patterns.for_text(right.text, left.text)
    return None if compiled is None or len(left.text) > 2_000 else compiled.fullmatch(left.text) is not None


def conditional(it: Walker, command: Conditional, state: State) -> list[State]:
    answer, failed = failed_expansions.attempted(it, _Reader(it, state, command.words).whole)
    state.status = None if answer is None else int(not answer)
    return [state, *failed]


class _Reader:
    """A parser of the words of ``[[ ]]``. It expands every word, because any may hold commands."""

    def __init__(self, it: Walker, state: State, words: Sequence[Word]) -> None:
        self.it = it
        self.state = state
        self.words = words
        self.at = 0

    def plain(self, ahead: int = 0) -> str:
        if self.at + ahead >= len(self.words):
            return ""
        parts = self.words[self.at + ahead].parts
        return parts[0].text if len(parts) == 1 and isinstance(parts[0], Plain) else ""

    def whole(self) -> bool | None:
        answer = self.any()
        while self.at < len(self.words):
            self.value()
            answer = None
        return answer

    def any(self) -> bool | None:
        answer = self.all()
        while self.plain() == "||":
            self.at += 1
            right = self.all()
            answer = True if answer or right else (None if None in (answer, right) else False)
        return answer

    def all(self) -> bool | None:
        answer = self.one()
        while self.plain() == "&&":
            self.at += 1
            right = self.one()
            answer = False if answer is False or right is False else (None if None in (answer, right) else True)
        return answer

    def one(self) -> bool | None:
        if self.plain() == "!":
            self.at += 1
            inner = self.one()
            return None if inner is None else not inner
        if self.plain() == "(":
            self.at += 1
            inner = self.any()
            if self.plain() == ")":
                self.at += 1
            return inner
        text = self.plain()
        if (
            len(text) == 2
            and text[0] == "-"
            and text[1] in _UNARY
            and self.plain(1) not in ("=", "==", "!=", "=~", "&&", "||", ")")
        ):
            self.at += 1
            return _unary(self.it, self.state, text, self.value()) if self.at < len(self.words) else None
        left = self.value()
        op = self.plain()
        if op in ("", "&&", "||", ")"):
            return _filled(left)
        self.at += 1
        return self.compared(left, op)

    def compared(self, left: Value, op: str) -> bool | None:
        if self.at >= len(self.words):
            return None
        if op in ("=", "==", "!="):
            right = expand.pattern(self.it, self.state, self.words[self.at])
            self.at += 1
        else:
            right = self.value()
        if op == "=~":
            self.state.put("BASH_REMATCH", Var(None, {"0": unknown(left.taint), "1": unknown(left.taint)}, "", open=True))
            return None
        return _binary(self.it, self.state, left, op, right, matching=True)

    def value(self) -> Value:
        word = self.words[self.at]
        self.at += 1
        return expand.compared(self.it, self.state, word)
