"""Commands that a shell runs between any two others: traps of signals, of ERR, RETURN and DEBUG."""

from __future__ import annotations

from toolcrib.contract.regex import Regex
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.walk import Walker

_AT_END = frozenset({"EXIT", "0"})
_MENTIONED = Regex(r"[A-Za-z_]\w*")


def is_recurring(signals: frozenset[str]) -> bool:
    """Return whether a trap of these signals may run before the shell ends."""
    return bool(signals - _AT_END)


def begin(it: Walker, state: State, text: str) -> None:
    """Follow ``text``, which may run between any commands from now on."""
    remember_trap(it, state, text)
    _run(it, state, text)


def remember_trap(it: Walker, state: State, text: str) -> None:
    """Store the functions and variables that were valid when ``text`` was followed."""
    bodies = dict.fromkeys(body.text for known in state.functions.values() for body in known)
    names = dict.fromkeys(name for one in (text, *bodies) if "eval" in one for name in _MENTIONED.findall(one))
    it.found.traps[text] = (state.functions, {name: state.vars.get(name) for name in names})


def again(it: Walker, state: State) -> None:
    """Follow traps again if functions have changed, or variables that a trap evaluates as code."""
    for text, (functions, variables) in list(it.found.traps.items()):
        if state.functions is not functions or any(state.vars.get(name) != var for name, var in variables.items()):
            remember_trap(it, state, text)
            _run(it, state, text)


def _run(it: Walker, state: State, text: str) -> None:
    outer, it.found.traps = it.found.traps, {}
    try:
        with it.inside() as inner:
            inner.later = True
            state.disturb(it.text(text, state.copy()))
    finally:
        it.found.traps = {**outer, **it.found.traps}
