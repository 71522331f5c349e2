"""Expansions that fail: the command does not run, and the list around it may end."""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from tools.judge.meaning.shellstate import State
from tools.judge.meaning.walk import Doubts, Walker

_Given = ParamSpec("_Given")
_Expanded = TypeVar("_Expanded")


def after(it: Walker, doubts: Doubts) -> list[State]:
    """Return the states after each failure: the list around it continues (not every failure ends it) or ends; traps may run."""
    states: list[State] = []
    for kept in doubts.failed:
        kept.status = -1
        ended = kept.copy()
        ended.flow = "abort"
        it.traps([ended])
        states += [kept, ended]
    doubts.failed = ()
    return states


def attempted(
    it: Walker, expand: Callable[_Given, _Expanded], *given: _Given.args, **named: _Given.kwargs
) -> tuple[_Expanded, list[State]]:
    """Expand words of a compound command with doubts of their own. Return the result, and the states after failures."""
    context = it.context
    outer, context.doubts = context.doubts, Doubts()
    try:
        got = expand(*given, **named)
        return got, after(it, context.doubts) if context.doubts.failed else []
    finally:
        context.doubts = outer
