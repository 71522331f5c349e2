"""The walk over a script as the modules of lower layers see it: its limits, results, position and services."""

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

WAITED, DETACHED = 1, 2
"""Code that may run after the call: a job of the line's own shell, which ``wait`` waits for; any other."""
SOME_FORKS, MANY_FORKS = 12, 48
"""Numbers of forks after which only 4, and then only 2, states are kept. A fork is a merge that leaves more than one state."""
_LONG = 200
"""Number of steps after which one state is kept: the rest of a long script is judged for all branches together."""
_LONG_LOOP = 100
"""Number of steps of a loop after which its iterations are not followed one by one, if the script is already long."""
_LOOK_EVERY = 256
"""Number of steps between checks of the clock."""


class Stop(Exception):
    """A limit is reached, and nothing more is followed."""

    def __init__(self, kind: str, why: str) -> None:
        super().__init__(why)
        self.kind = kind


@dataclass(slots=True)
class WalkLimits:
    """Counters of one walk, which only grow, and the limits in its budget."""

    budget: Budget
    left: int
    """Number of characters that may still be parsed and expanded."""
    began: float
    """CPU time of this thread at the start."""
    steps: int = 0
    ticks: int = 0
    forks: int = 0
    epochs: int = 0
    """Number of parsed texts."""
    processes: int = 63
    """The descriptor of the next ``<(...)``; it is counted down."""

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
        """Check the CPU time of this thread. This is a second limit, for work that the counted limits miss."""
        if time.thread_time() - self.began > self.budget.cpu_seconds:
            raise Stop("time", f"more than {self.budget.cpu_seconds:g} s of work")

    @property
    def is_long(self) -> bool:
        """True if the script is so long that its rest is judged for all branches together."""
        return self.steps > _LONG

    def is_long_since(self, step: int) -> bool:
        """Return whether a loop that began at ``step`` is so long that its further iterations are not followed one by one."""
        return self.is_long and self.steps - step > _LONG_LOOP

    def alternatives(self) -> int:
        """Return the number of states to follow at once. It falls in a long script, so that the walk still ends."""
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
    """Files and folders that are copied, moved or written: the old path by the new one, "" for a file with new content."""
    links: dict[tuple[str, str], None] = field(default_factory=dict)
    """New links: their paths and targets."""
    awaits: bool = False
    """True if the line's last command is ``wait``."""
    waits: bool = False
    """True if a job in the background loops until something happens."""
    gone: dict[str, None] = field(default_factory=dict)
    """Files and folders that are moved or removed, unless that fails."""
    arrived: dict[str, None] = field(default_factory=dict)
    """Paths that files and folders are copied or moved to, or that may appear in an unknown way."""
    folders: dict[str, None] = field(default_factory=dict)
    """New folders."""
    unsure: dict[str, None] = field(default_factory=dict)
    """Folders whose contents may change in unknown ways."""
    traps: dict[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = field(default_factory=dict)
    """Texts that run between commands, with the state that they depended on when last followed."""
    last: bool = False
    """True if a text uses the last word of the previous command, ``$_``."""
    slow: bool = False
    """True once something that may outlast the call takes time: what it does from then on may come after later calls."""
    fed: dict[str, Value | None] = field(default_factory=dict)
    """Files whose text has the taint FED, each with its entry in the journal when it was read."""
    running: dict[str, Value | None] = field(default_factory=dict)
    """Files that code which may run after the call still executes, each with its entry in the journal at that time."""
    jobs: dict[str, Taint] = field(default_factory=dict)
    """Marks of files that jobs of the line's own shell use."""
    lists: dict[str, None] = field(default_factory=dict)
    """Texts that are read part by part, and not followed to their end."""


@dataclass(slots=True)
class Doubts:
    """Uncertain and failed expansions in the command that is being expanded."""

    choice: int = -1
    """The assumption of this pass about variables that may be unset: 0 for set, 1 for unset, any other number for unknown."""
    substituted: int | None = 0
    """The status of the last ``$(...)``."""
    names: set[object] = field(default_factory=set)
    failed: tuple[State, ...] = ()
    """The states after a failed expansion."""

    def fail(self, state: State) -> None:
        self.failed = (*self.failed, state.copy())


class Called(NamedTuple):
    """A running function: the state at its start, and the counters at that time."""

    name: str
    spawned: int
    conditional: int
    state: State
    body: Command


@dataclass(slots=True)
class Context:
    """Circumstances of a part of the walk. ``Walker.inside`` gives a copy that may be changed, and then restores this one."""

    wrappers: tuple[str, ...] = ()
    place: str = ""
    fed: bool = False
    taint: Taint = Taint.NONE
    language: str = "shell"
    background: int = 0
    """Number of background jobs around this part."""
    outlasts: int = 0
    """WAITED or DETACHED for code that may run after the call, else 0."""
    mounts: tuple[tuple[str, str], ...] = ()
    """Folders of the host that a container may write to, by their names inside."""
    copied: bool = False
    """True if the mounts are copies: data sent from them counts, but a change to them does not."""

    text: str = ""
    """The text being walked."""
    epoch: int = 0
    """Number of this text among all parsed texts."""
    line: int = 0
    """The last line of this text that the shell read before it ran the current part."""
    parsed: tuple[int, int] | None = None
    """The text and line read last when the running function was defined: the aliases of that time are valid in it."""
    span: tuple[int, int] | None = None
    """Position in the outermost text of the part being walked; None while that text itself is walked."""
    doubts: Doubts = field(default_factory=Doubts)
    """Doubts of the command that is being expanded."""

    depth: int = 0
    calls: tuple[Called, ...] = ()
    sourced: bool = False
    spawned: int = 0
    """Number of child processes around this part. ``conditional`` counts the conditions that it depends on."""
    conditional: int = 0
    rounds: int = 0
    """Number of loops whose condition is being walked. In such a condition ``read`` reads one of many lines."""
    loops: int = 0
    """Number of loops whose body is being walked."""
    later: bool = False
    """True for code that runs after the line: a trap, a job for ``at``."""
    shadowing: frozenset[str] = frozenset()
    """Files being examined because they come first in PATH."""
    followed: set[object] | None = None
    """The followed commands among the arguments of the current program; None if no program's arguments are being followed."""

    def copy(self) -> Context:
        new = Context.__new__(Context)
        new.wrappers, new.place, new.fed, new.taint, new.language = self.wrappers, self.place, self.fed, self.taint, self.language
        new.background, new.mounts, new.text, new.epoch, new.line = self.background, self.mounts, self.text, self.epoch, self.line
        new.parsed, new.outlasts = self.parsed, self.outlasts
        new.span, new.doubts, new.depth, new.calls, new.sourced = self.span, self.doubts, self.depth, self.calls, self.sourced
        new.spawned, new.conditional, new.rounds, new.shadowing = self.spawned, self.conditional, self.rounds, self.shadowing
        new.loops, new.later, new.followed, new.copied = self.loops, self.later, self.followed, self.copied
        return new

    def source(self, word: Word) -> str:
        return self.text[word.start : word.end][:200]


class Walker(Protocol):
    """The interpreter as the functions of this package see it. They reach modules of higher layers only through it."""

    now: ShellNow
    snapshot: Snapshot
    programs: Container[str]
    """Names of programs that the rules know."""
    limits: WalkLimits
    found: Found
    context: Context
    span: tuple[int, int]
    """Position in the outermost text of the command begun last there."""
    keyless: Mapping[str, Value]
    """Files of the line in their last state; none of them has a key."""
    readings: Readings

    # bookkeeping

    def inside(self) -> AbstractContextManager[Context]:
        """Give the code within ``with`` its own Context, which it may change."""
        ...

    def too_deep(self, why: str) -> bool:
        """Return whether the nesting is too deep to continue, and record a fault if so."""
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
        """Record an act at this position of the text, and return it. ``compound``: it is the redirects of a compound command."""
        ...

    def constants(self, cmd: Simple) -> list[Value] | None:
        """Return the arguments of a command that sets nothing, if they are the same in any state; otherwise None."""
        ...

    def merge(self, states: Sequence[State], *, loose: bool = False) -> list[State]: ...

    def limited(self, states: Sequence[State], *, loose: bool = False) -> Iterator[State]:
        """Yield the states one by one. If the limit for states falls meanwhile, the remaining states are merged."""
        ...

    # texts

    def parse(self, text: str) -> Script | None:
        """Return the tree of an inner text; record a fault and return None if it can't be read."""
        ...

    def text(self, text: str, state: State) -> list[State]:
        """Interpret a text in the shell of ``state``."""
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
        """Run a script. ``read``: the shell reads it line by line, so that an alias is valid from the next line."""
        ...

    def command(self, command: Command, state: State) -> list[State]: ...

    def nested(self, body: Script, state: State) -> list[State]:
        """Run a script in a shell of its own, with its traps at the end."""
        ...

    def traps(self, ends: list[State], before: tuple[str, ...] = ()) -> list[State]: ...

    def returned(self, state: State, ends: Sequence[State], files: Mapping[str, Value]) -> list[State]:
        """Return the shell after its children: only their files, output and status remain."""
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
        """Run a program that another one starts: not a function or a builtin."""
        ...
