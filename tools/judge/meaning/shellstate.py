"""The state of a shell while its commands are followed: variables, functions, folders, files written so far.

A state is copied at each branch. Its contents are shared until they change, so the cost of a copy does not depend on them.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from toolcrib.contract.namedtuple import NamedTuple
from tools.judge.folders import either_folders
from tools.judge.meaning import journal
from tools.judge.meaning.value import (
    EMPTY,
    HOLE,
    Elastic,
    Taint,
    Value,
    changed,
    either,
    either_list,
    either_of_each,
    joined,
    unknown,
)
from tools.judge.shell.tree import Command, Group, Script


class Var(NamedTuple):
    """A variable. ``value`` is None if it is not set. ``items`` are an array's elements by index or key.

    ``flags`` are the letters of ``declare``: x r i n l u a A; ``?`` if r, i, l or u may be among them. ``open``: the array may
    have more elements.
    """

    value: Value | None = None
    items: Mapping[str, Value] | None = None
    flags: str = ""
    open: bool = False

    def scalar(self) -> Value | None:
        if self.items is None:
            return self.value
        found = self.items.get("0")
        return unknown() if found is None and self.open else found


class Body(NamedTuple):
    """A function: its command, and the text that contains it."""

    command: Command
    text: str
    parsed: tuple[int, int] = (-1, -1)
    """The number of the text that defined the function, and of the last line that the shell had read then."""


UNDEFINED = Body(Group(Script([])), "")
"""Body of a function that may be undefined, among its other possible bodies."""


def _is_other(var: Var) -> bool:
    return bool(var.items) or (var.value is not None and bool(var.value.text) and not var.value.taint & Taint.MADE)


Output = tuple[Any, Value]
"""Output so far: (output before it or None, the last piece)."""

Aliases = Mapping[str, tuple[str, int, int]]
"""Texts by name, each with the numbers of the script and the line of its definition."""
NEVER = 1 << 30
"""The number for both the script and the line of an alias that may be unset."""

_CHANGING = frozenset("rilu")
"""Flags that change the value of a variable at an assignment."""
_STEADY = frozenset({"IFS", "PATH", "HOME", "PWD"})
"""Variables that stay known after an unknown text was read; otherwise no later command would be known."""
_parts = operator.attrgetter(
    *"functions aliases positional files fds env options traps hashed wild unsteady disturbed roams".split()
)


class State:
    """The state of a shell at one point of a branch.

    ``status`` is 0 or another known number, -1 for some failure, None if it is unknown. ``flow`` is "" or a request to end the
    surrounding commands (exit, return, break, continue, abort); ``levels`` is the number of loops that break or continue is for.
    """

    __slots__ = (
        "_shared",
        "aliases",
        "capture",
        "cwds",
        "disturbed",
        "env",
        "fds",
        "files",
        "flow",
        "frames",
        "functions",
        "hashed",
        "levels",
        "old_cwds",
        "options",
        "out",
        "positional",
        "roams",
        "stack",
        "status",
        "stdin",
        "traps",
        "unsteady",
        "vars",
        "wild",
        "zero",
    )

    def __init__(self) -> None:
        self.vars: dict[str, Var] = {}
        self._shared = False
        self.frames: tuple[Mapping[str, Var | None], ...] = ()
        self.positional: tuple[Value, ...] = ()
        self.zero: Value = Value("bash")
        self.functions: Mapping[str, tuple[Body, ...]] = {}
        self.aliases: Aliases = {}
        self.hashed: Mapping[str, Value] = {}
        self.cwds: tuple[str, ...] = ()
        self.old_cwds: tuple[str, ...] = ()
        self.stack: tuple[tuple[str, ...], ...] = ()
        self.files: Mapping[str, Value] = {}
        self.fds: Mapping[str, Value] = {}
        self.env: Mapping[str, Value] = {}
        self.options: frozenset[str] = frozenset()
        self.traps: tuple[str, ...] = ()
        self.unsteady: frozenset[str] | None = None
        """Variables that hold, or held since a trap was set, anything but a folder made by ``mktemp -d``."""
        self.disturbed: Mapping[str, Var] = {}
        """Values that traps may assign to variables. A trap may run between any two commands."""
        self.roams: tuple[str, ...] | None = None
        """Folders that traps may change to; None if there is no such trap."""
        self.stdin: Value | None = None
        self.out: Output | None = None
        self.capture = False
        self.status: int | None = 0
        self.flow = ""
        self.levels = 0
        self.wild: Taint = Taint.NONE

    def copy(self) -> State:
        new = State.__new__(State)
        self._shared = True
        new.vars, new._shared = self.vars, True
        new.frames, new.positional, new.zero = self.frames, self.positional, self.zero
        new.functions, new.aliases, new.hashed = self.functions, self.aliases, self.hashed
        new.cwds, new.old_cwds, new.stack = self.cwds, self.old_cwds, self.stack
        new.files, new.fds, new.env = self.files, self.fds, self.env
        new.options, new.traps, new.stdin, new.unsteady = self.options, self.traps, self.stdin, self.unsteady
        new.disturbed, new.roams = self.disturbed, self.roams
        new.out, new.capture = self.out, self.capture
        new.status, new.flow, new.levels, new.wild = self.status, self.flow, self.levels, self.wild
        return new

    # variables

    def put(self, name: str, var: Var | None) -> None:
        """Set a variable or, with None, remove it, and keep the environment consistent."""
        if self._shared:
            self.vars, self._shared = dict(self.vars), False
        if self.disturbed and name in self.disturbed:
            var = _either_var(var, self.disturbed[name])
        if var is None:
            self.vars.pop(name, None)
        else:
            self.vars[name] = var
            if self.unsteady is not None and _is_other(var):
                self.unsteady |= {name}
        if var is not None and "x" in var.flags and var.items is None and var.value is not None:
            self.env = {**self.env, name: var.value}
        elif name in self.env:
            self.env = {key: value for key, value in self.env.items() if key != name}

    def disturb(self, ends: Sequence[State]) -> None:
        """Record that commands may run between others from now on, any number of times; ``ends`` are the states after them."""
        for end in ends:
            names = [name for name in {**self.vars, **end.vars} if self.vars.get(name) != end.vars.get(name)]
            for name in names:
                self.disturbed = {
                    **self.disturbed,
                    name: _either_var(self.disturbed.get(name, end.vars.get(name)), end.vars.get(name)),
                }
                self.put(name, self.vars.get(name))
            if end.cwds != self.cwds:
                self.roams = end.cwds if self.roams is None else either_folders(self.roams, end.cwds)
                self.cwds = either_folders(self.cwds, self.roams)
            self.wild |= end.wild

    def unsettle(self, taint: Taint) -> None:
        """Record that an unknown text was read, which may have set any variable."""
        for name, var in list(self.vars.items()):
            if name not in _STEADY and var.items is None and var.value is not None and var.value.known:
                self.put(name, var._replace(value=unknown(taint | var.value.taint)))

    def go(self, folders: tuple[str, ...]) -> None:
        """Make one of these the working folder; which one is unknown."""
        self.old_cwds = self.cwds
        self.cwds = folders if self.roams is None else either_folders(folders, self.roams)

    def trapped(self, text: str, inherited: Iterable[str] = ()) -> None:
        """Set a trap, once. ``inherited`` are the names of variables that the session's shell has."""
        self.traps = (*(trap for trap in self.traps if trap != text), text)
        held = {name for name, var in self.vars.items() if _is_other(var)}
        self.unsteady = (self.unsteady or frozenset()) | held | {name for name in inherited if name not in self.vars}

    def in_trap(self) -> State:
        """Return the state for the traps, which may run at any time since they were set."""
        last = self.copy()
        last.flow, last.traps, last.unsteady = "", (), None
        for name in self.unsteady or ():
            var = last.vars.get(name)
            if var is not None and var.value is not None and var.value.taint & Taint.MADE:
                last.put(name, var._replace(value=changed(var.value)))
        return last

    def local(self, name: str) -> None:
        """Make ``name`` local to the running function: its old value is restored at the end."""
        if self.frames and name not in self.frames[-1]:
            self.frames = (*self.frames[:-1], {**self.frames[-1], name: self.vars.get(name)})

    def leave(self) -> None:
        """Leave the running function: restore the variables that were local to it."""
        for name, var in self.frames[-1].items():
            self.put(name, var)
        self.frames = self.frames[:-1]

    # files and output

    def write(self, path: str, content: Value) -> None:
        self.files = journal.written(self.files, path, content)

    def emit(self, value: Value) -> None:
        if self.capture:
            self.out = (self.out, value)

    def printed(self) -> Value:
        """Return all output since ``out`` was None."""
        if self.out is None:
            return EMPTY
        if self.out[0] is None:
            return self.out[1]
        pieces: list[Value] = []
        at: Output | None = self.out
        while at is not None:
            pieces.append(at[1])
            at = at[0]
        return joined(reversed(pieces))

    def same(self, other: State) -> bool:
        """Return whether both states continue in the same way, apart from their folders and status."""
        return (
            self.flow == other.flow
            and self.levels == other.levels
            and (self.vars is other.vars or self.vars == other.vars)
            and self.frames == other.frames
            and self.stdin == other.stdin
            and _printed_alike(self.out, other.out)
            and _parts(self) == _parts(other)
        )


def _printed_alike(one: Output | None, two: Output | None) -> bool:
    """Return whether two outputs are equal. Pieces are compared from the end, down to the part that both outputs share."""
    while one is not two:
        if one is None or two is None or one[1] != two[1]:
            return False
        one, two = one[0], two[0]
    return True


def merged(states: Sequence[State], limit: int, *, loose: bool = False) -> list[State]:
    """Merge equal states. If more than ``limit`` are left, merge the rest and make their differences unknown.

    ``loose``: no ``&&`` or ``||`` follows, so states with different folders and different status may be merged too.
    """
    if len(states) < 2:
        return list(states)
    kept: list[State] = []
    for state in states:
        for other in kept:
            if (loose or state.status == other.status or state.cwds == other.cwds) and state.same(other):
                _unite(other, state)
                break
        else:
            kept.append(state)
    while len(kept) > limit:
        last = kept.pop()
        like = next((state for state in reversed(kept) if state.flow == last.flow and state.levels == last.levels), None)
        if like is None or len(like.frames) != len(last.frames):
            kept.insert(0, last)
            return kept
        _blur(like, last)
    return kept


def _unite(state: State, other: State) -> None:
    if state.cwds != other.cwds:
        state.cwds = either_folders(state.cwds, other.cwds)
    if state.old_cwds != other.old_cwds:
        state.old_cwds = either_folders(state.old_cwds, other.old_cwds)
    if state.status != other.status:
        state.status = -1 if state.status and other.status else None


def _blur(state: State, other: State) -> None:
    """Make everything unknown that is different in the two states."""
    for name in {*state.vars, *other.vars}:
        one, two = state.vars.get(name), other.vars.get(name)
        if one != two:
            state.put(name, _either_var(one, two))
    if state.positional != other.positional:
        state.positional = either_list(state.positional, other.positional)
    state.files = either_of_each(state.files, other.files)
    state.fds = either_of_each(state.fds, other.fds)
    state.env = either_of_each(state.env, other.env)
    if state.hashed or other.hashed:
        state.hashed = either_of_each(
            {**{name: Value(name) for name in other.hashed}, **state.hashed},
            {**{name: Value(name) for name in state.hashed}, **other.hashed},
        )
    state.options |= other.options
    if state.functions != other.functions:
        left, right = state.functions, other.functions
        state.functions = {name: _bodies(left.get(name, ()), right.get(name, ())) for name in {**left, **right}}
    if state.aliases != other.aliases:
        state.aliases = _either_aliases(state.aliases, other.aliases)
    state.traps = tuple(dict.fromkeys(state.traps + other.traps))
    state.wild |= other.wild
    if other.unsteady is not None:
        state.unsteady = other.unsteady | (state.unsteady or frozenset())
    if state.stdin != other.stdin:
        state.stdin = either(state.stdin or EMPTY, other.stdin or EMPTY)
    if state.out is not other.out:
        state.out = (None, either(state.printed(), other.printed()))
    state.disturbed = {**state.disturbed, **other.disturbed}
    if other.roams is not None:
        state.roams = other.roams if state.roams is None else either_folders(state.roams, other.roams)
    _unite(state, other)


def _either_aliases(one: Aliases, two: Aliases) -> Aliases:
    """Merge two tables of aliases. An alias that only one of them has, or that differs, may not be in force."""
    out = dict(one)
    for name in {*one, *two}:
        left, right = one.get(name), two.get(name)
        if left is None or right is None:
            text = (left or right or ("",))[0]
            out[name] = (text, NEVER, NEVER)
        elif left != right:
            out[name] = (left[0] if left[0] == right[0] else HOLE, NEVER, NEVER)
    return out


def _bodies(left: tuple[Body, ...], right: tuple[Body, ...]) -> tuple[Body, ...]:
    left, right = left or (UNDEFINED,), right or (UNDEFINED,)
    return left + tuple(body for body in right if not any(body.command is known.command for known in left))


def _either_var(old: Var | None, new: Var | None) -> Var:
    left, right = old or Var(), new or Var()
    doubtful = (set(left.flags) ^ set(right.flags)) & _CHANGING
    flags = "".join(sorted(({*left.flags, *right.flags} - doubtful) | ({"?"} if doubtful else set())))
    if left.items is None and right.items is None:
        if left.value is None or right.value is None:
            value = left.value or right.value or EMPTY
            # If a state does not set the variable, it is empty or has the environment's value: see assigning.store.
            if not value.text and not value.taint:
                value = Value(HOLE, Taint.UNKNOWN | Taint.OUTSIDE)
            return Var(value if value.taint & Taint.OUTSIDE else unknown(value.taint), None, flags)
        return Var(either(left.value, right.value), None, flags)
    lefts, rights = _elements(left), _elements(right)
    items: dict[str, Value] = {}
    for key in {**lefts, **rights}:
        one, two = lefts.get(key), rights.get(key)
        if one is None or two is None:
            items[key] = Elastic(HOLE, (one or two or EMPTY).taint | Taint.UNKNOWN)
        else:
            items[key] = either(one, two)
    return Var(None, items, flags, open=True)


def _elements(var: Var) -> Mapping[str, Value]:
    return var.items if var.items is not None else {"0": var.value} if var.value is not None else {}
