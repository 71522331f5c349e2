"""Values of variables: set by the script, by the shell itself, or unknown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from toolcrib.contract.namedtuple import NamedTuple
from tools.judge.meaning.shellstate import State, Var
from tools.judge.meaning.state import knows_origins
from tools.judge.meaning.value import EMPTY, HOLE, WHOLE, Elastic, Taint, Value, changed, joined, names, unknown
from tools.judge.meaning.walk import Walker


class ManyWords(NamedTuple):
    """The values of ``$@`` (star False) and ``$*``, and the same for arrays."""

    values: tuple[Value, ...]
    star: bool


MAYBE_UNSET = Value(HOLE, Taint.UNKNOWN)
"""Value of a variable that the script did not set: the variable may hold anything, or be unset."""
_OUTSIDE = Value(HOLE, Taint.UNKNOWN | Taint.OUTSIDE)
"""Value of a variable that may be unset and is not one that the shell itself sets."""
_SHELLS_OWN = names("_ REPLY OPTARG MAPFILE COPROC DIRSTACK PIPESTATUS FUNCNAME GROUPS READLINE_LINE READLINE_MARK")

_GUESSED = {
    "HOME": None,
    "IFS": " \t\n",
    "SHELL": "/bin/bash",
    "BASH": "/bin/bash",
    "PATH": f"/{HOLE}",
    "OPTIND": "1",
    "OSTYPE": "linux-gnu",
}
"""Likely values of variables that nearly every shell has at its start."""


def home(it: Walker, state: State) -> str:
    var = state.vars.get("HOME")
    if var is not None and var.value is not None:
        return var.value.text
    return it.now.home or "~"


def positional(state: State, number: int) -> Value | None:
    if number == 0:
        return state.zero
    for index, value in enumerate(state.positional):
        if not value.known and value.text == HOLE:
            return unknown(value.taint)
        if index == number - 1:
            return value
    return None


def find(state: State, name: str) -> Var | None:
    """Return the variable that ``name`` stands for, with name references followed; None if the script did not set it."""
    for _ in range(8):
        var = state.vars.get(name)
        if var is None or "n" not in var.flags or var.value is None:
            return var
        name = var.value.text
    return None


def _meant(state: State, name: str) -> str:
    """Return the name that a name reference (``declare -n``) refers to; any other name unchanged."""
    var = state.vars.get(name)
    return var.value.text if var is not None and "n" in var.flags and var.value is not None else name


def scalar(it: Walker, state: State, name: str) -> Value:
    """Return the value of ``$name``: "" if it is certainly not set. ``is_maybe_unset`` recognises the value of one that may be
    unset.
    """
    var = find(state, name)
    if var is not None:
        value = var.scalar()
        if value is None:
            return EMPTY
        if value.taint & WHOLE and (state.wild or (value.taint & Taint.OUTSIDE and name in it.now.variables)):
            return changed(value)
        return value
    name = _meant(state, name)
    if state.wild:
        return unknown(state.wild)
    if name in state.vars:
        return unknown()
    return _special(it, state, name)


def _special(it: Walker, state: State, name: str) -> Value:
    if name == "?":
        return Value(str(state.status)) if state.status is not None and state.status >= 0 else unknown()
    if name == "#":
        many = [value for value in state.positional if value.text == HOLE]
        return unknown() if many else Value(str(len(state.positional)))
    if name == "PWD":
        return folder(state.cwds)
    if name == "_":
        return unknown()
    if name == "OLDPWD":
        return folder(state.old_cwds)
    if name == "PPID":  # without this mark, it would be an ordinary number
        return unknown(Taint.OURS)
    if name in it.now.variables and ("child" not in state.options or "x" in it.now.attributes.get(name, "")):
        made = Taint.MADE if name in it.now.made else Taint.NONE
        secret = it.snapshot.taint(f"${name}") & Taint.SECRET if knows_origins(it.snapshot) else Taint.NONE  # see start.py
        return Value(it.now.variables[name], made | secret)
    if name == "HOME":
        return Value(home(it, state))
    if name in ("USER", "LOGNAME"):
        return Value(it.now.user) if it.now.user else unknown()
    guess = _GUESSED.get(name)
    if guess is not None:
        return Value(guess, Taint.UNKNOWN if HOLE in guess else Taint.NONE)
    return _OUTSIDE if name.isidentifier() and name not in _SHELLS_OWN and not name.startswith(("BASH", "COMP_")) else MAYBE_UNSET


def folder(cwds: Sequence[str]) -> Value:
    """Return a working folder as a text, an unknown one if there are several or none."""
    if len(cwds) != 1:
        return unknown()
    return Value(cwds[0], Taint.UNKNOWN | Taint.FOUND) if HOLE in cwds[0] else Value(cwds[0])


def is_maybe_unset(value: object) -> bool:
    """Return whether a value is that of a variable which the script did not set."""
    return value is MAYBE_UNSET or value is _OUTSIDE


def ordered(var: Var, listed: dict[str, Value]) -> tuple[Value, ...]:
    keys = in_order(var, listed)
    if keys is None:
        return (unknown(joined(listed.values()).taint),)
    values = tuple(listed[key] for key in keys)
    return (*values, unknown()) if var.open and not any(map(any_number, values)) else values


def in_order(var: Var, keys: Iterable[str]) -> list[str] | None:
    """Return an array's keys in bash's order; None if that is unknown."""
    if "A" not in var.flags:
        return sorted(keys, key=as_number)
    found = list(keys)
    if var.open or (len(found) > 1 and not all(key.isascii() for key in found)):
        return None
    found.reverse()
    return sorted(found, key=_bucket)


def _bucket(key: str) -> int:
    """Return the key's bucket in bash's table of an associative array (since 5.0). In a bucket, the newest key is first."""
    number = 2_166_136_261
    for byte in key.encode():
        number = (number * 16_777_619 & 0xFFFFFFFF) ^ byte
    return number & 1023


def any_number(value: Value) -> bool:
    """Return whether an element may stand for several words, or for none."""
    return value.text == HOLE or isinstance(value, Elastic)


def as_number(key: str) -> int:
    return int(key) if key.lstrip("-").isdigit() else 0
