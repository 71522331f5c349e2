"""Bookkeeping of an interpreter's walk: its limits, the texts it reads, the acts it found."""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from toolcrib._regex import Regex
from tools.approval.meaning import assigning, expand, mounts, printing
from tools.approval.meaning.act import Act, Code, Fault, RedirectTarget
from tools.approval.meaning.shellstate import State, merged
from tools.approval.meaning.state import Budget, ShellNow, Snapshot
from tools.approval.meaning.value import HOLE, Taint, Value
from tools.approval.shell import ShellSyntaxError, ShellTooComplex, parse
from tools.approval.shell.tree import Script, Simple, Word

if TYPE_CHECKING:
    from tools.approval.meaning.run import Interpreter

_PROGRAM = Regex(r"(?:^|/)(?:s?bin|\.bin|libexec|Scripts)/([^/]+)$")
_COMMANDS_IN = Regex(r"\$\(|`|[<>]\(")
SOME_FORKS, MANY_FORKS = 40, 200
"""Times that more than one state was left: from then on fewer are kept, so that a long script with many unknowns still ends."""
_SPEND_FACTOR = 40
_LOOK_EVERY = 256
"""Steps between looks at the clock."""


class Stop(Exception):
    """A limit is reached: nothing more is followed."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


class Context(NamedTuple):
    """Circumstances that all acts found from here on share."""

    wrappers: tuple[str, ...] = ()
    place: str = ""
    fed: bool = False
    taint: Taint = Taint.NONE
    language: str = "shell"
    background: bool = False
    span: tuple[int, int] | None = None
    """Position in the outermost text of the part being walked; None while that text itself is walked."""
    text: str = ""
    epoch: int = 0
    """Counts the texts that were parsed."""
    mounts: tuple[tuple[str, str], ...] = ()
    """Folders of the host that a container may write to, by the names that they have inside."""


class Called(NamedTuple):
    """A function that runs: the state it began with, and counts of then."""

    name: str
    spawned: int
    conditional: int
    state: State


class Base:
    """Bookkeeping for one command, on which the other modules of this package lean."""

    def __init__(self, now: ShellNow, files: Snapshot, budget: Budget) -> None:
        self.now = now
        self.snapshot = files
        self.budget = budget
        self.acts: dict[Any, Act] = {}
        self.faults: dict[Fault, None] = {}
        self.read: dict[str, None] = {}
        self.tainted: dict[str, Taint] = {}
        self.steps = 0
        self.ticks = 0
        self.began = time.thread_time()
        self.left = _SPEND_FACTOR * budget.chars
        self.depth = 0
        self.context = Context()
        self.epochs = 0
        self.line = 0
        self.span = (0, 0)
        self.choice = -1
        """Outcome of expansions in doubt in this pass over a command: -1 blurred, 0 as if set, 1 as if not, 2 blurred again."""
        self.doubts: set[object] = set()
        """Expansions in doubt in the command that is being expanded."""
        self.mishap = False
        self.forks = 0
        self.calls: list[Called] = []
        self.spawned = 0
        self.conditional = 0
        self.rounds = 0
        """Loops whose condition is being walked: what ``read`` gets there is one line of many."""
        self.substituted: int | None = 0
        self.parsed: dict[str, Script] = {}
        self.sourced: list[str] = []
        self.shadowing: set[str] = set()
        self.processes = 63

    # limits

    def step(self) -> None:
        self.steps += 1
        if self.steps > self.budget.steps:
            raise Stop("steps", f"more than {self.budget.steps} steps")
        self.guard()

    def guard(self) -> None:
        """Check the CPU time of this thread now and then: a guard behind the counted limits, for whatever they do not count."""
        self.ticks += 1
        if not self.ticks % _LOOK_EVERY and time.thread_time() - self.began > self.budget.cpu_seconds:
            raise Stop("time", f"more than {self.budget.cpu_seconds:g} s of work")

    def spend(self, chars: int) -> None:
        self.guard()
        self.left -= chars
        if self.left < 0 or chars > 4 * self.budget.chars:
            raise Stop("size", "its expansions grow too large")

    def fault(self, kind: str, why: str) -> None:
        self.faults[Fault(kind, why, self.span[0])] = None

    def limit(self) -> int:
        if self.forks > MANY_FORKS:
            return 2
        return self.budget.alternatives if self.forks < SOME_FORKS else max(2, self.budget.alternatives // 4)

    def merge(self, states: Sequence[State], *, loose: bool = False) -> list[State]:
        found = merged(states, self.limit(), loose=loose)
        self.forks += len(found) > 1
        return found

    # texts

    def source(self, word: Word) -> str:
        return self.context.text[word.start : word.end][:200]

    def parse(self, text: str) -> Script | None:
        """The tree of a text found inside; a fault and None where it can't be read."""
        known = self.parsed.get(text)
        if known is not None:
            return known
        self.spend(len(text))
        try:
            script = parse(text, self.budget)
        except ShellSyntaxError as error:
            self.fault("syntax", str(error))
            return None
        except ShellTooComplex as error:
            self.fault(getattr(error, "kind", "depth"), str(error))
            return None
        self.parsed[text] = script
        return script

    def text(self, text: str, state: State, **changes: Any) -> list[State]:
        """Interprets a text in the shell that ``state`` is; ``changes`` are of the Context."""
        if self.depth >= self.budget.depth:
            self.fault("depth", "nested too deeply")
            return [state]
        script = self.parse(text)
        if script is None:
            state.status = None
            return [state]
        self.epochs += 1
        saved, line = self.context, self.line
        span = saved.span if saved.span is not None else self.span
        self.context = saved._replace(text=text, span=span, epoch=self.epochs, **changes)
        self.depth += 1
        try:
            return cast("Interpreter", self).script(script, state)
        finally:
            self.depth -= 1
            self.context, self.line = saved, line

    def within(self, run: Callable[[], list[State]], **changes: Any) -> list[State]:
        """``run`` with another Context."""
        saved = self.context
        self.context = saved._replace(**changes)
        try:
            return run()
        finally:
            self.context = saved

    def word(self, text: str) -> Word | None:
        """A text as one word, as in double quotes."""
        script = self.parse(': "' + text.replace('"', "") + '"')
        if script is None or not script.items or not isinstance(script.items[0].command, Simple):
            return None
        word = script.items[0].command.words[1]
        return word if isinstance(word, Word) else None

    def embedded(self, state: State, value: Value) -> None:
        """Commands in a text that bash expands late: an index ``a[$(x)]``, a prompt."""
        if _COMMANDS_IN.search(value.text) and self.depth < self.budget.depth and (word := self.word(value.text)) is not None:
            self.depth += 1
            try:
                expand.single(cast("Interpreter", self), state.copy(), word)
            finally:
                self.depth -= 1

    def escapes(self, text: str) -> str:
        return printing.unescaped(text)[0]

    def home(self, state: State) -> str:
        var = state.vars.get("HOME")
        if var is not None and var.value is not None:
            return var.value.text
        return self.now.home or "~"

    # what is found

    def act(
        self,
        state: State,
        argv: Sequence[Value],
        redirects: Sequence[RedirectTarget] = (),
        *,
        code: Sequence[Code] = (),
        fed: bool = False,
        environment: Mapping[str, Value] | None = None,
        name: str | None = None,
    ) -> None:
        context = self.context
        start, end = context.span if context.span is not None else self.span
        name = self.bare(state, argv) if name is None else name
        cwds = state.cwds
        if context.mounts:
            outside = mounts.outside(context.mounts, name, argv, redirects, cwds)
            if outside is None:
                return
            argv, redirects, cwds = outside
        act = Act(
            name,
            tuple(argv),
            tuple(redirects),
            cwds,
            state.env if environment is None else environment,
            state.stdin,
            fed or context.fed,
            context.wrappers,
            context.place,
            tuple(code),
            context.language,
            context.background,
            context.taint,
            start,
            end,
        )
        key: tuple[Any, ...] = (
            act.name,
            act.argv,
            act.redirects,
            act.cwds,
            act.stdin,
            act.fed,
            act.wrappers,
            act.place,
            act.code,
            act.taint,
        )
        if act.environment or act.background or act.language != "shell":
            key += (tuple(act.environment.items()), act.background, act.language)
        if key not in self.acts:
            self.acts[key] = act

    def bare(self, state: State, argv: Sequence[Value]) -> str:
        """The program's name without its folder, where that is one of programs."""
        if not argv:
            return ""
        first = argv[0]
        text = first.text
        if first.pattern:
            return HOLE
        if "/" not in text:
            return text
        if (found := _PROGRAM.search(text)) is not None:
            return found[1]
        if len(state.cwds) == 1 and not text.startswith(("/", "~")):
            found = _PROGRAM.search(posixpath.normpath(posixpath.join(state.cwds[0], text)))
        return found[1] if found is not None else text

    # variables

    def assign_name(self, state: State, name: str, value: Value, key: str | None = None) -> None:
        assigning.store(cast("Interpreter", self), state, name, value, key)
