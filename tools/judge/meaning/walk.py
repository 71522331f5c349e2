"""The walk over a script, as the modules below it know it: its limits, what it found, where it is, and what it can be asked."""

from __future__ import annotations

import time
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import field
from typing import Any, Protocol

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.namedtuple import NamedTuple
from tools.judge.budget import Budget
from tools.judge.meaning.act import Act, Code, Fault, RedirectTarget
from tools.judge.meaning.replay import Readings
from tools.judge.meaning.shellstate import State
from tools.judge.meaning.state import ShellNow, Snapshot
from tools.judge.meaning.value import Taint, Value
from tools.judge.shell.tree import Command, ProcessSub, Script, Simple, Word

SOME_FORKS, MANY_FORKS = 12, 48
"""Times that more than one state was left: from then on 4 and 2 are kept."""
_LONG = 200
"""Steps from which on one state is kept: the rest of a long script is judged for all ways through it at once."""
_LONG_LOOP = 100
"""Steps of one loop from which on its rounds are few, however many there are, in a script that is long already."""
_LOOK_EVERY = 256
"""Steps between looks at the clock."""


class Stop(Exception):
    """A limit is reached: nothing more is followed."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


@dataclass(slots=True)
class WalkLimits:
    """Counts of one walk, which only grow, and the limits that its budget sets them."""

    budget: Budget
    left: int
    """Characters that may still be parsed and expanded."""
    began: float
    """CPU time of this thread at the start."""
    steps: int = 0
    ticks: int = 0
    forks: int = 0
    epochs: int = 0
    """Texts that were parsed."""
    processes: int = 63
    """The descriptor that the next ``<(...)`` gets; these are counted down."""

    def step(self) -> None:
        self.steps += 1
        if self.steps > self.budget.steps:
            raise Stop("steps", f"more than {self.budget.steps} steps")
        self.ticks += 1
        if not self.ticks % _LOOK_EVERY:
            self._guard()

    def spend(self, chars: int) -> None:
        self.ticks += 1
        if not self.ticks % _LOOK_EVERY:
            self._guard()
        self.left -= chars
        if self.left < 0 or chars > 4 * self.budget.chars:
            raise Stop("size", "its expansions grow too large")

    def _guard(self) -> None:
        """Check the CPU time of this thread, now and then: a guard behind the counted limits, for whatever they do not count."""
        if time.thread_time() - self.began > self.budget.cpu_seconds:
            raise Stop("time", f"more than {self.budget.cpu_seconds:g} s of work")

    @property
    def is_long(self) -> bool:
        """True where so much of it was followed that the rest is judged for all ways through it at once."""
        return self.steps > _LONG

    def is_long_since(self, step: int) -> bool:
        """Return whether a loop that began at ``step`` has taken so long that no more of it is followed round by round."""
        return self.is_long and self.steps - step > _LONG_LOOP

    def alternatives(self) -> int:
        """Return how many states are followed at once: fewer, the longer it takes, so that a long script still ends."""
        if self.is_long:
            return 1
        if self.forks > MANY_FORKS or self.steps > _LONG // 2:
            return 2
        return 4 if self.forks >= SOME_FORKS or self.steps > _LONG // 4 else self.budget.alternatives


@dataclass(slots=True)
class Found:
    """Results of one walk, which only grow."""

    acts: dict[Any, Act] = field(default_factory=dict)
    faults: dict[Fault, None] = field(default_factory=dict)
    read: dict[str, None] = field(default_factory=dict)
    tainted: dict[str, Taint] = field(default_factory=dict)
    copies: dict[str, str] = field(default_factory=dict)
    """Files and folders that are copies of others, or moved ones: the new path, and the old one."""
    links: dict[tuple[str, str], None] = field(default_factory=dict)
    """Links that are made: where they are, and where they lead."""
    waits: bool = False
    """True where a job in the background loops until something happens."""
    gone: dict[str, None] = field(default_factory=dict)
    """Files and folders that are moved or removed, unless that fails."""
    arrived: dict[str, None] = field(default_factory=dict)
    """Paths that files and folders are copied or moved to, or at which some may turn up in a way that nobody follows."""
    folders: dict[str, None] = field(default_factory=dict)
    """Folders that are made."""
    unsure: dict[str, None] = field(default_factory=dict)
    """Folders whose contents may be changed in ways that nobody follows."""
    traps: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=dict)
    """Texts that run between commands, with what they depended on when they were followed last."""
    last: bool = False
    """True where a text asks for the last word of the command before, ``$_``."""
    lists: dict[str, None] = field(default_factory=dict)
    """Texts that are read part by part, and not followed to their end."""


@dataclass(slots=True)
class Doubts:
    """Expansions in doubt in the command that is being expanded, and outcomes of the others."""

    choice: int = -1
    """Outcome of those in doubt in this pass over the command: -1 blurred, 0 as if set, 1 as if not, 2 blurred again."""
    substituted: int | None = 0
    """The status of the last ``$(...)``."""
    names: set[object] = field(default_factory=set)
    failed: tuple[State, ...] = ()
    """The states in which an expansion failed."""

    def fail(self, state: State) -> None:
        self.failed = (*self.failed, state.copy())


class Called(NamedTuple):
    """A function that runs: the state it began with, and counts of then."""

    name: str
    spawned: int
    conditional: int
    state: State
    body: Command


@dataclass(slots=True)
class Context:
    """Circumstances that hold from here inwards: ``Walker.inside`` gives a copy to be changed, and brings this one back."""

    wrappers: tuple[str, ...] = ()
    place: str = ""
    fed: bool = False
    taint: Taint = Taint.NONE
    language: str = "shell"
    background: bool = False
    mounts: tuple[tuple[str, str], ...] = ()
    """Folders of the host that a container may write to, by the names that they have inside."""
    copied: bool = False
    """True where these are copies: what is sent away of them counts, and no change."""

    text: str = ""
    """The text being walked."""
    epoch: int = 0
    """Number of this text, of all that were parsed."""
    line: int = 0
    """Line of this text that the shell has read before it ran what is being walked."""
    parsed: tuple[int, int] | None = None
    """Text and line that were read last when the function that runs was defined: what aliases were set then counts in it."""
    span: tuple[int, int] | None = None
    """Position in the outermost text of the part being walked; None while that text itself is walked."""
    doubts: Doubts = field(default_factory=Doubts)
    """Doubts of the command that is being expanded."""

    depth: int = 0
    calls: tuple[Called, ...] = ()
    sourced: bool = False
    spawned: int = 0
    """Processes of its own that this runs in, and below: conditions that it depends on."""
    conditional: int = 0
    rounds: int = 0
    """Loops whose condition is being walked: what ``read`` gets there is one line of many."""
    loops: int = 0
    """Loops whose body is being walked."""
    later: bool = False
    """True for what runs after the line: a trap, a job for ``at``."""
    shadowing: frozenset[str] = frozenset()
    """Files that are being looked into because PATH has them first."""
    followed: set[object] | None = None
    """Commands that were followed among the arguments of the program whose arguments are being followed; None: of none."""

    def copy(self) -> Context:
        new = Context.__new__(Context)
        new.wrappers, new.place, new.fed, new.taint, new.language = self.wrappers, self.place, self.fed, self.taint, self.language
        new.background, new.mounts, new.text, new.epoch, new.line = self.background, self.mounts, self.text, self.epoch, self.line
        new.parsed = self.parsed
        new.span, new.doubts, new.depth, new.calls, new.sourced = self.span, self.doubts, self.depth, self.calls, self.sourced
        new.spawned, new.conditional, new.rounds, new.shadowing = self.spawned, self.conditional, self.rounds, self.shadowing
        new.loops, new.later, new.followed, new.copied = self.loops, self.later, self.followed, self.copied
        return new

    def source(self, word: Word) -> str:
        return self.text[word.start : word.end][:200]


class Walker(Protocol):
    """The interpreter, as the functions of this package know it: modules that stand above theirs they reach through it alone."""

    now: ShellNow
    snapshot: Snapshot
    programs: Container[str]
    """Names of programs that the rules know."""
    limits: WalkLimits
    found: Found
    context: Context
    span: tuple[int, int]
    """Position in the outermost text of the command that was begun last there."""
    keyless: Mapping[str, Value]
    """Files of the line as they were last, none of which holds a key."""
    readings: Readings

    # bookkeeping

    def inside(self) -> AbstractContextManager[Context]:
        """Everything within ``with`` has a Context of its own, to be changed there."""
        ...

    def too_deep(self, why: str) -> bool:
        """Return whether nothing may be entered any more, which is then a fault."""
        ...

    def fault(self, kind: str, why: str) -> None: ...

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
        """Note an act, here, and return it. ``compound``: it is the redirects of a compound command."""
        ...

    def constants(self, cmd: Simple) -> list[Value] | None:
        """Return the arguments of a command that sets nothing, where they are the same in any state; else None."""
        ...

    def merge(self, states: Sequence[State], *, loose: bool = False) -> list[State]: ...

    def limited(self, states: Sequence[State], *, loose: bool = False) -> Iterator[State]:
        """Yield states in which the same is to be done; what is done with one may leave room for fewer, and merges the others."""
        ...

    # texts

    def parse(self, text: str) -> Script | None:
        """Return the tree of a text found inside; a fault and None where it can't be read."""
        ...

    def text(self, text: str, state: State) -> list[State]:
        """Interpret a text in the shell that ``state`` is."""
        ...

    def word(self, text: str) -> Word | None:
        """Return a text as one word, as in double quotes."""
        ...

    def embedded(self, state: State, value: Value) -> None:
        """Run the commands in a text that bash expands late: an index ``a[$(x)]``, a prompt."""
        ...

    # words and variables

    def single(self, state: State, word: Word) -> Value: ...

    def pattern(self, state: State, word: Word) -> Value: ...

    def substitute(self, body: Script, state: State) -> Value: ...

    def process(self, part: ProcessSub, state: State) -> Value: ...

    def assign_name(self, state: State, name: str, value: Value, key: str | None = None) -> None: ...

    # commands

    def script(self, script: Script, state: State, *, read: bool = False) -> list[State]:
        """``read``: the shell reads it line by line as it runs, so that aliases set by one line count in the next."""
        ...

    def command(self, command: Command, state: State) -> list[State]: ...

    def nested(self, body: Script, state: State) -> list[State]:
        """Run a script in a shell of its own, with its traps at the end."""
        ...

    def traps(self, ends: list[State], before: tuple[str, ...] = ()) -> list[State]: ...

    def returned(self, state: State, ends: Sequence[State], files: Mapping[str, Value]) -> list[State]:
        """Return the shell after children: of them only files, output and status remain."""
        ...

    def dispatch(
        self,
        state: State,
        argv: Sequence[Value],
        targets: Sequence[RedirectTarget],
        cmd: Simple | None = None,
        *,
        functions: bool = True,
    ) -> list[State]:
        """Run the command that a name stands for."""
        ...

    def program(self, state: State, argv: Sequence[Value], targets: Sequence[RedirectTarget] = ()) -> list[State]:
        """Run a program that another one starts: no function, no builtin."""
        ...
