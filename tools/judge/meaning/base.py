"""The interpreter's bookkeeping: contexts, the texts that it reads, the acts that it found."""

from __future__ import annotations

import time
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from toolcrib.contract.regex import Regex
from tools.judge.budget import Budget
from tools.judge.meaning import assigning, expand, filestate, mounts, owned
from tools.judge.meaning.act import Act, Code, Fault, RedirectTarget
from tools.judge.meaning.filestate import program_name, undotted
from tools.judge.meaning.replay import Readings
from tools.judge.meaning.shellstate import State, merged
from tools.judge.meaning.state import ShellNow, Snapshot
from tools.judge.meaning.value import Value
from tools.judge.meaning.walk import Context, Found, Walker, WalkLimits
from tools.judge.shell import ShellSyntaxError, ShellTooComplex, parse
from tools.judge.shell.tree import Assignment, Script, Simple, Word

_SPEND_FACTOR = 40
_COMMANDS_IN = Regex(r"\$\(|`|[<>]\(")


_LOGICAL = frozenset({"cd", "pushd", "popd"})
"""Commands that resolve ``..`` in their argument by name: ``link/..`` is the folder that contains the link."""


BOUNDARY = (Value(":"), Value("toolcrib:boundary"))
"""A command without effects. Acts after it are recorded again, even if they are equal to earlier ones."""


def asks_for_last(text: str) -> bool:
    return "$_" in text or "${_" in text or "${!_" in text


class _Inside:
    """A context manager that gives the interpreter a copy of its Context, and restores the original at the end."""

    __slots__ = ("it", "outer")

    def __init__(self, it: Base) -> None:
        self.it = it
        self.outer = it.context

    def __enter__(self) -> Context:
        inner = self.it.context = self.outer.copy()
        return inner

    def __exit__(self, *_: object) -> None:
        self.it.context = self.outer


def _constants(words: Iterable[Word | Assignment]) -> list[Value] | None:
    out: list[Value] = []
    for word in words:
        constant = None if isinstance(word, Assignment) else expand.fixed(word.parts)
        if constant is None:
            return None
        out.append(constant)
    return out


class Base(Walker):
    """Bookkeeping for one command."""

    def __init__(self, now: ShellNow, files: Snapshot, budget: Budget, programs: Container[str] = frozenset()) -> None:
        self.now = now
        self.programs = programs
        self.snapshot = files
        self.limits = WalkLimits(budget, _SPEND_FACTOR * budget.chars, time.thread_time())
        self.found = Found()
        self.context = Context()
        self.span = (0, 0)
        self.keyless: Mapping[str, Value] = {}
        self.readings: Readings = {}
        self._variables: tuple[Mapping[str, Value], tuple[tuple[str, Value], ...]] = ({}, ())
        self._parsed: dict[str, Script] = {}
        self._constants: dict[int, tuple[Simple, list[Value] | None]] = {}

    def inside(self) -> _Inside:
        return _Inside(self)

    def too_deep(self, why: str) -> bool:
        deep = self.context.depth >= self.limits.budget.depth
        if deep:
            self.fault("depth", why)
        return deep

    def fault(self, kind: str, why: str) -> None:
        self.found.faults[Fault(kind, why, self.span[0])] = None

    def constants(self, cmd: Simple) -> list[Value] | None:
        known = self._constants.get(id(cmd))
        if known is None:
            known = self._constants[id(cmd)] = (cmd, None if cmd.assignments else _constants(cmd.words))
        return known[1]

    def merge(self, states: Sequence[State], *, loose: bool = False) -> list[State]:
        if len(states) < 2:
            return list(states)
        found = merged(states, self.limits.alternatives(), loose=loose)
        self.limits.forks += len(found) > 1
        return found

    def limited(self, states: Sequence[State], *, loose: bool = False) -> Iterator[State]:
        waiting = list(states)
        while waiting:
            if len(waiting) > 1 and len(waiting) > self.limits.alternatives():
                waiting = self.merge(waiting, loose=loose)
            yield waiting.pop(0)

    # texts

    def parse(self, text: str) -> Script | None:
        known = self._parsed.get(text)
        if known is not None:
            return known
        self.limits.spend(len(text))
        self.found.last = self.found.last or asks_for_last(text)
        try:
            script = parse(text, self.limits.budget)
        except ShellSyntaxError as error:
            self.fault("syntax", str(error))
            return None
        except ShellTooComplex as error:
            self.fault(getattr(error, "kind", "depth"), str(error))
            return None
        self._parsed[text] = script
        return script

    def text(self, text: str, state: State) -> list[State]:
        if self.too_deep("nested too deeply"):
            return [state]
        script = self.parse(text)
        if script is None:
            state.status = None
            return [state]
        self.limits.epochs += 1
        with self.inside() as inner:
            inner.text, inner.epoch = text, self.limits.epochs
            inner.span = inner.span if inner.span is not None else self.span
            inner.depth += 1
            inner.parsed = None
            return self.script(script, state, read=True)

    def word(self, text: str) -> Word | None:
        script = self.parse(': "' + text.replace('"', "") + '"')
        if script is None or not script.items or not isinstance(script.items[0].command, Simple):
            return None
        word = script.items[0].command.words[1]
        return word if isinstance(word, Word) else None

    def embedded(self, state: State, value: Value) -> None:
        filestate.executed(self, value)
        deep = self.context.depth >= self.limits.budget.depth
        if _COMMANDS_IN.search(value.text) and not deep and (word := self.word(value.text)) is not None:
            with self.inside() as inner:
                inner.depth += 1
                expand.single(self, state.copy(), word)

    # results

    def act(
        self,
        state: State,
        argv: Sequence[Value],
        redirects: Sequence[RedirectTarget] = (),
        *,
        code: Sequence[Code] = (),
        environment: Mapping[str, Value] | None = None,
        name: str | None = None,
        compound: bool = False,
    ) -> Act | None:
        context = self.context
        name = program_name(state, argv) if name is None else name
        cwds = state.cwds
        for value in argv:
            if ".." in value.text:
                argv = argv if name in _LOGICAL else [undotted(self, state, one) for one in argv]
                break
        if redirects and any(".." in target.path.text for target in redirects):
            redirects = [target._replace(path=undotted(self, state, target.path)) for target in redirects]
        if context.mounts:
            if context.copied and name not in mounts.SENDS:
                return None
            outside = mounts.outside(context.mounts, name, argv, () if context.copied else redirects, cwds)
            if outside is None:
                return None
            argv, redirects, cwds = outside
        variables = state.env if environment is None else environment
        words, files, codes = tuple(argv), tuple(redirects), tuple(code)
        # An act is identified by everything except its place in the text.
        key: tuple[object, ...]
        key = (name, words, files, cwds, state.stdin, context.fed, context.wrappers, context.place, codes, context.taint)
        if variables or context.background or context.language != "shell":
            if variables is not self._variables[0]:
                self._variables = (variables, tuple(variables.items()))
            key = (*key, self._variables[1], context.background, context.language)
        if name == ":" and words == BOUNDARY:
            self.found.acts = dict(enumerate(self.found.acts.values()))
        noted = self.found.acts.get(key)
        if noted is None:
            start, end = context.span if context.span is not None else self.span
            given = (name, words, files, cwds, variables, state.stdin, context.fed, context.wrappers, context.place)
            noted = Act(*given, codes, context.language, context.background, context.taint, start, end)
            self.found.acts[key] = noted
        owned.opened(self, state, noted)
        if noted.prints and not compound:
            noted.prints = False
        return noted

    def assign_name(self, state: State, name: str, value: Value, key: str | None = None) -> None:
        assigning.store(self, state, name, value, key)
