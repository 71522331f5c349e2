"""Options and commands that a program gets from variables: TAR_OPTIONS, TF_CLI_ARGS_destroy, RSYNC_RSH."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tools.judge.meaning.shellstate import State
from tools.judge.meaning.value import Value
from tools.judge.meaning.walk import Walker
from tools.judge.meaning.wrappers import words_of
from tools.judge.options import path_of, read
from tools.judge.programs import COMMAND_VARIABLES, VARIABLES

Values = Sequence[Value]


def extended(it: Walker, state: State, name: str, argv: Values) -> Values:
    """Return ``argv`` with the options that variables add. Follow the commands in variables, each with a copy of ``state``."""
    if name in COMMAND_VARIABLES:
        for command in given(it, state, COMMAND_VARIABLES[name]):
            _run(it, state, name, command)
    if name not in VARIABLES:
        return argv
    words = [value.text for value in argv]
    reading = read(words, path_of(name))
    sub = words[reading.operands[0]] if reading.operands else ""
    added = [
        Value(word, value.taint)
        for value in given(it, state, [one.replace("{}", sub) for one in VARIABLES[name]])
        for word in words_of(value.text)
    ]
    return [*argv[: reading.end], *added, *argv[reading.end :]] if added else argv


def given(it: Walker, state: State, names: Sequence[str]) -> Iterator[Value]:
    """Yield the values of those variables that the program sees."""
    for name in names:
        var = state.vars.get(name)
        if name in state.env:
            yield state.env[name]
        elif var is not None:
            value = var.scalar()
            if "x" in var.flags and value is not None:
                yield value
        elif text := it.now.variables.get(name):
            yield Value(text)


def _run(it: Walker, state: State, name: str, command: Value) -> None:
    if it.too_deep("wrapped too deeply"):
        return
    child = state.copy()
    child.capture, child.out = False, None
    child.env = {}
    with it.inside() as inner:
        inner.wrappers = (*inner.wrappers, name)
        inner.depth += 1
        it.text(command.text, child)
