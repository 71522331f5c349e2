"""The walk over a script's tree: follows every possible branch, and records everything that may run."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from toolcrib.contract.regex import Regex
from tools.judge.meaning import conditions, descriptors, expand, external, flow, simple, traps
from tools.judge.meaning.act import RedirectTarget
from tools.judge.meaning.base import Base
from tools.judge.meaning.shellstate import State, Var
from tools.judge.meaning.value import EMPTY, HOLE, Value, any_of, either_of_each, unknown
from tools.judge.meaning.walk import DETACHED, WAITED, Doubts
from tools.judge.shell.tree import (
    AndOr,
    ArithmeticCommand,
    ArithmeticFor,
    Case,
    Command,
    Conditional,
    Coproc,
    For,
    Function,
    Group,
    If,
    Loop,
    Pipeline,
    ProcessSub,
    Redirected,
    Script,
    ScriptItem,
    Simple,
    Subshell,
    Word,
)

_MAX_FEEDS = 4


_LAST_LINES = Regex(f"[\n{HOLE}]+$")


def _only_hole(match: re.Match[str]) -> str:
    """Return the replacement for the newlines and HOLEs at the end of an output: nothing for newlines only, else one HOLE,
    because the unknown parts may be empty, and bash then removes the newlines before them too.
    """
    return HOLE if HOLE in match[0] else ""


class Interpreter(Base):
    """The walk over the tree."""

    def single(self, state: State, word: Word) -> Value:
        return expand.single(self, state, word)

    def pattern(self, state: State, word: Word) -> Value:
        return expand.pattern(self, state, word)

    def dispatch(
        self,
        state: State,
        argv: Sequence[Value],
        targets: Sequence[RedirectTarget],
        cmd: Simple | None = None,
        *,
        functions: bool = True,
    ) -> list[State]:
        return simple.dispatch(self, state, argv, targets, cmd, functions=functions)

    def program(self, state: State, argv: Sequence[Value], targets: Sequence[RedirectTarget] = ()) -> list[State]:
        return external.child(self, state, argv, targets)

    # the tree

    def whole(self, script: Script, state: State) -> list[State]:
        """Run the outermost script. After a failed expansion, it continues with the next line."""
        states = [state]
        for index, item in enumerate(script.items):
            if script.lines[index] != self.context.line:
                self.context.line = script.lines[index]
                for one in states:
                    one.flow = "" if one.flow == "abort" else one.flow
            only = len(states) == 1 and not states[0].flow
            states = self.item(item, states[0]) if only else self._item_of_each(item, states)
            states = self.merge(states, loose=True) if len(states) > 1 else states
        return states

    def _item_of_each(self, item: ScriptItem, states: Sequence[State]) -> list[State]:
        after: list[State] = []
        for one in self.limited(states, loose=True):
            after += self.item(item, one) if not one.flow else [one]
        return after

    def script(self, script: Script, state: State, *, read: bool = False) -> list[State]:
        states = [state]
        lines = script.lines if read else ()
        for index, item in enumerate(script.items):
            if index < len(lines):
                self.context.line = lines[index]
            if len(states) == 1:
                if states[0].flow:
                    return states
                states = self.item(item, states[0])
                if len(states) > 1:
                    states = self.merge(states, loose=index + 1 < len(script.items))
                continue
            states = self.merge(self._item_of_each(item, states), loose=index + 1 < len(script.items))
        return states

    def item(self, item: ScriptItem, state: State) -> list[State]:
        if not item.background:
            return self.command(item.command, state)
        child = state.copy()
        child.out, child.capture = None, False
        with self.inside() as inner:
            inner.outlasts = DETACHED if inner.outlasts or inner.spawned or inner.depth else WAITED
            inner.spawned += 1
            inner.background += 1
            results = self.command(item.command, child)
        descriptors.read_elsewhere(state, results, stdin=False)
        state.files = results[0].files
        state.status = 0
        return [state]

    def command(self, command: Command, state: State) -> list[State]:
        return _RUN[type(command)](self, command, state)

    def and_or(self, command: AndOr, state: State) -> list[State]:
        chain: list[AndOr] = []
        left: Command = command
        while isinstance(left, AndOr):
            chain.append(left)
            left = left.left
        states = self.command(left, state)
        for link in reversed(chain):
            after: list[State] = []
            for one in states:
                go, stay = flow.parted(one, link.op)
                if stay is not None:
                    after.append(stay)
                if go is not None and stay is None:
                    after += self.command(link.right, go)
                elif go is not None:
                    with self.inside() as inner:
                        inner.conditional += 1
                        after += self.command(link.right, go)
            states = self.merge(after)
        return states

    def pipeline(self, command: Pipeline, state: State) -> list[State]:
        if len(command.commands) == 1:
            states = self.command(command.commands[0], state)
        else:
            with self.inside() as inner:
                inner.spawned += 1
                states = self.stages(command.commands, state)
        if command.negated:
            for one in states:
                one.status = None if one.status is None else int(one.status == 0)
        return states

    def stages(self, commands: Sequence[Command], state: State) -> list[State]:
        feeds: list[Value | None] = [state.stdin]
        files = state.files
        ends: list[State] = []
        for index, command in enumerate(commands):
            last = index == len(commands) - 1
            ends = []
            for feed in feeds:
                child = state.copy()
                child.files, child.stdin, child.out, child.capture = files, feed, None, not last or state.capture
                ends += self.traps(self.command(command, child), state.traps)
            descriptors.read_elsewhere(state, ends, stdin=not index)
            files = merged_files(ends)
            feeds = distinct([end.printed() for end in ends]) if not last else feeds
        if "lastpipe" in state.options:  # the last command's shell is this one
            for end in ends:
                if end.capture and state.out is not None:
                    end.out = (state.out, end.printed())
                end.files, end.stdin, end.capture = files, state.stdin, state.capture
            return ends
        return self.returned(state, ends, files)

    def returned(self, state: State, ends: Sequence[State], files: Mapping[str, Value]) -> list[State]:
        statuses = {end.status for end in ends}
        status = statuses.pop() if len(statuses) == 1 else None
        outs = distinct([end.printed() for end in ends]) if state.capture else []
        states = [state] if len(outs) < 2 else [state, *(state.copy() for _ in outs[1:])]
        for index, one in enumerate(states):
            one.files, one.status = files, status
            if outs and outs[index] is not None:
                one.emit(outs[index] or EMPTY)
        return states

    def subshell(self, command: Subshell, state: State) -> list[State]:
        return self.child(command.body, state)

    def child(self, body: Script, state: State) -> list[State]:
        child = state.copy()
        child.out = None
        ends = self.nested(body, child)
        descriptors.read_elsewhere(state, ends, stdin=True)
        return self.returned(state, ends, merged_files(ends))

    def nested(self, body: Script, state: State) -> list[State]:
        if self.too_deep("nested too deeply"):
            return [state]
        with self.inside() as inner:
            inner.depth += 1
            before = state.traps
            ends = self.script(body, state)
            return self.traps(ends, before)

    def traps(self, ends: list[State], before: tuple[str, ...] = ()) -> list[State]:
        for end in ends:
            for text in end.traps:
                if text not in before:
                    self.text(text, end.in_trap())
        return ends

    def group(self, command: Group, state: State) -> list[State]:
        return self.script(command.body, state)

    # substitutions

    def substitute(self, body: Script, state: State) -> Value:
        child = state.copy()
        child.out, child.capture = None, True
        with self.inside() as inner:
            inner.doubts = Doubts()
            ends = self.nested(body, child)
        if not ends:
            return unknown()
        descriptors.read_elsewhere(state, ends, stdin=True)
        state.files = merged_files(ends)
        statuses = {end.status for end in ends}
        state.status = self.context.doubts.substituted = statuses.pop() if len(statuses) == 1 else None
        value = any_of(end.printed() for end in ends)
        return value._replace(text=_LAST_LINES.sub(_only_hole, value.text).replace("\0", ""), shown="")

    def process(self, part: ProcessSub, state: State) -> Value:
        """Return the file of ``<(...)``, which holds the output of the commands, or of ``>(...)``, which is their input."""
        child = state.copy()
        child.out, child.capture = None, part.direction == "<"
        if part.direction == ">":
            child.stdin = state.stdin if state.stdin is not None else unknown()
        with self.inside() as inner:
            inner.doubts, inner.outlasts = Doubts(), DETACHED
            ends = self.nested(part.body, child)
        descriptors.read_elsewhere(state, ends, stdin=False)
        path = f"/dev/fd/{self.limits.processes}"
        self.limits.processes -= 1
        state.files = merged_files(ends)
        if part.direction == "<":
            state.write(path, any_of(end.printed() for end in ends))
        return Value(path, shown=f"{part.direction}(...)")

    def arithmetic_command(self, command: ArithmeticCommand, state: State) -> list[State]:
        number, failed = conditions.calculated(self, state, command.text)
        state.status = None if number is None else int(number == 0)
        return [state, *failed]

    def define(self, command: Function, state: State) -> list[State]:
        simple.define(self, command, state)
        if self.found.traps:
            traps.again(self, state)
        if command.name == "command_not_found_handle":  # bash calls it by itself, for any name that it does not find
            flow.call(self, state.copy(), command.name, state.functions[command.name], [unknown()])
        state.status = 0
        return [state]

    def coproc(self, command: Coproc, state: State) -> list[State]:
        child = state.copy()
        child.stdin, child.out, child.capture = unknown(), None, False
        with self.inside() as inner:
            inner.background, inner.outlasts = inner.background + 1, DETACHED
            self.command(command.body, child)
        state.put(command.name or "COPROC", Var(None, {"0": unknown(), "1": unknown()}))
        state.status = 0
        return [state]

    def redirected(self, command: Redirected, state: State) -> list[State]:
        return simple.redirected(self, command, state)


def distinct(values: Sequence[Value]) -> list[Value | None]:
    """Return the distinct values. If there are too many, they are merged into one."""
    found = list(dict.fromkeys(values))
    return list(found) if len(found) <= _MAX_FEEDS else [any_of(found)]


def merged_files(ends: Sequence[State]) -> Mapping[str, Value]:
    return functools.reduce(either_of_each, (end.files for end in ends))


_RUN: dict[type, Callable[[Interpreter, Any, State], list[State]]] = {
    Simple: simple.run,
    Pipeline: Interpreter.pipeline,
    AndOr: Interpreter.and_or,
    Group: Interpreter.group,
    Subshell: Interpreter.subshell,
    If: flow.branches,
    Loop: flow.loop,
    For: flow.each,
    ArithmeticFor: flow.counted,
    Case: flow.case,
    Function: Interpreter.define,
    ArithmeticCommand: Interpreter.arithmetic_command,
    Conditional: conditions.conditional,
    Coproc: Interpreter.coproc,
    Redirected: Interpreter.redirected,
}
