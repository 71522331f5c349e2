"""The unread rest of open descriptors. Descriptors with the same Value object share their position in it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import Value, any_of, unknown


def read_on(state: State, given: Value, rest: Value) -> None:
    """Replace the input ``given`` by its unread ``rest`` in every descriptor that reads it."""
    if state.stdin is given:
        state.stdin = rest
    if any(value is given for value in state.fds.values()):
        state.fds = {fd: rest if value is given else value for fd, value in state.fds.items()}


def read_in_part(state: State, given: Value | None) -> None:
    """Record that an unknown part of the input ``given`` was read."""
    if given is not None:
        read_on(state, given, unknown(given.taint))


def given_back(value: Value | None, before: Mapping[str, Value], after: Mapping[str, Value]) -> Value | None:
    """Return the unread rest of ``value``: the value in ``after`` of the descriptor that had it in ``before``."""
    if before is not after:
        for fd, old in before.items():
            if old is value and after.get(fd, old) is not old:
                return after[fd]
    return value


def closed(before: Mapping[str, Value], after: Mapping[str, Value], opened: Iterable[str]) -> Mapping[str, Value]:
    """Return the descriptors after a command: the ones it ``opened`` are closed, and the ones that these hid are restored."""
    others = {fd: value for fd, value in after.items() if fd not in opened}
    hidden = {fd: value for fd in opened if (value := given_back(before.get(fd), before, others)) is not None}
    return {**others, **hidden}


def read_elsewhere(state: State, ends: Sequence[State], *, stdin: bool) -> None:
    """Record the end of separate processes: the rest of any descriptor that they read is unknown.

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
