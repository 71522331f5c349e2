"""The rest to read in open descriptors: those with the same Value, one object, read from the same place in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import Value, any_of, unknown


def read_on(state: State, given: Value, rest: Value) -> None:
    """Leave ``rest`` of what was ``given``, to every descriptor that reads it."""
    if state.stdin is given:
        state.stdin = rest
    if any(value is given for value in state.fds.values()):
        state.fds = {fd: rest if value is given else value for fd, value in state.fds.items()}


def read_in_part(state: State, given: Value | None) -> None:
    """Something was read of what was ``given``; how much of it, nobody knows."""
    if given is not None:
        read_on(state, given, unknown(given.taint))


def given_back(value: Value | None, before: Mapping[str, Value], after: Mapping[str, Value]) -> Value | None:
    """Return what is left of ``value``, which was out of reach by its own descriptor from ``before`` to ``after``."""
    if before is not after:
        for fd, old in before.items():
            if old is value and after.get(fd, old) is not old:
                return after[fd]
    return value


def closed(before: Mapping[str, Value], after: Mapping[str, Value], opened: Iterable[str]) -> Mapping[str, Value]:
    """Return the descriptors ``after`` a command for which some were ``opened``."""
    others = {fd: value for fd, value in after.items() if fd not in opened}
    hidden = {fd: value for fd in opened if (value := given_back(before.get(fd), before, others)) is not None}
    return {**others, **hidden}


def read_elsewhere(state: State, ends: Sequence[State], *, stdin: bool) -> None:
    """Processes of their own ended: where they read from a descriptor, nobody knows what they left in it.

    ``stdin``: their standard input is the shell's, and no other process reads it meanwhile.
    """
    given = state.stdin
    if stdin and given is not None and any(end.stdin is not given for end in ends):
        read_on(state, given, any_of(unknown() if end.stdin is None else end.stdin for end in ends))
    for end in ends:
        if end.fds is not state.fds:
            for fd, value in list(state.fds.items()):
                if end.fds.get(fd) is not value:
                    read_in_part(state, value)
