"""The start of a script: the shell as it is now, and the files that may be looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Literal, NamedTuple, Protocol

from toolcrib._dataclass import dataclass
from tools.approval.meaning.value import Taint


class Seen(NamedTuple):
    """A path as the snapshot knows it.

    ``text`` is None but for a readable ``file``; ``binary`` is a compiled program. Anything that is neither a compiled program
    nor UTF-8 text is ``unreadable``.
    """

    kind: Literal["file", "binary", "dir", "missing", "unreadable"]
    text: str | None = None
    taint: Taint = Taint.NONE
    """REMOTE where this session downloaded it, DECODED where it decoded it."""


class Snapshot(Protocol):
    """The only way for the judge to look at files. Every answer is remembered: what was judged is what must run."""

    def look(self, path: str) -> Seen:
        """``path`` is absolute. At most a bounded number of bytes is read; a longer file is ``unreadable``. Never raises."""
        ...


class NoFiles:
    """A snapshot without files: everything is missing, as for a command that is only explained."""

    def look(self, path: str) -> Seen:
        return Seen("missing")


class UnknownFiles:
    """A snapshot that knows nothing: everything is there and unreadable."""

    def look(self, path: str) -> Seen:
        return Seen("unreadable")


@dataclass(frozen=True, slots=True)
class ShellNow:
    """The session's shell before the command: what its earlier commands left in it.

    ``functions`` are their bodies as source text, ``aliases`` their replacement. ``home`` and ``user`` are its account's.
    """

    cwd: str = ""
    home: str = ""
    user: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    positional: tuple[str, ...] = ()
    interactive: bool = False
    """True where aliases are expanded (in an interactive shell, and after ``shopt -s expand_aliases``)."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    traps: Mapping[str, str] = field(default_factory=dict)
    """Commands by signal, as in ``toolcrib.ShellState``."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Counts, not seconds: a verdict must not depend on how busy the machine is. ``cpu_seconds`` is no part of that: far
    behind the counts it ends what they miss, by the thread's own CPU time."""

    chars: int = 100_000
    depth: int = 64
    """Limit of nesting in the text and of calls (functions, sourced files, ``bash -c``) within calls."""
    steps: int = 10_000
    alternatives: int = 16
    """Different states that are followed at once; more are merged into unknown."""
    cpu_seconds: float = 1.0
