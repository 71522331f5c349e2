"""The start of a script: the shell as it is now, and the files that may be looked at."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, TypeGuard, runtime_checkable

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.namedtuple import NamedTuple
from tools.judge.meaning.value import Taint


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

    def inspect_path(self, path: str) -> Seen:
        """``path`` is absolute. At most a bounded number of bytes is read; a longer file is ``unreadable``. Never raises."""
        ...


@runtime_checkable
class KnowsOrigins(Protocol):
    """The ability of a Snapshot to say, without a look at a file, where it came from in this session."""

    def taint(self, path: str) -> Taint: ...

    def own_below(self, folder: str) -> Sequence[str]:
        """Return the files in ``folder`` that this session wrote or fetched, by absolute path."""
        ...

    def copy_of(self, path: str) -> str:
        """Return the path that the file was copied or moved from; "" where it was not."""
        ...


@runtime_checkable
class KnowsMoves(Protocol):
    """The ability of a Snapshot to tell the folders that the session works in from others, and what came from there."""

    def is_inside(self, path: str) -> bool:
        """Return whether an absolute path is in the workspace or for temporary files; False where that is not known yet."""
        ...

    def was_brought(self, path: str) -> bool:
        """Return whether what is at ``path``, above or below it was moved there from outside of the session's folders."""
        ...


@runtime_checkable
class KnowsTemporary(Protocol):
    """The ability of a Snapshot to say what the session's shell got from ``mktemp -d``."""

    def temporary(self, variables: Mapping[str, str]) -> frozenset[str]:
        """Return the names of those ``variables`` of the shell that still hold what ``mktemp -d`` printed in an earlier call."""
        ...


@runtime_checkable
class FollowsLinks(Protocol):
    """The ability of a Snapshot to follow links."""

    def real(self, path: str) -> str:
        """Return where an absolute path leads by links; the path itself where that is not known."""
        ...


@functools.lru_cache(maxsize=64)
def able(kind: type, ability: type) -> bool:
    """Return whether snapshots of a class have an ability. Asking a protocol takes as long as judging a short command does."""
    return issubclass(kind, ability)


def knows_origins(snapshot: Snapshot) -> TypeGuard[KnowsOrigins]:
    return able(type(snapshot), KnowsOrigins)


def knows_moves(snapshot: Snapshot) -> TypeGuard[KnowsMoves]:
    return able(type(snapshot), KnowsMoves)


def knows_temporary(snapshot: Snapshot) -> TypeGuard[KnowsTemporary]:
    return able(type(snapshot), KnowsTemporary)


def follows_links(snapshot: Snapshot) -> TypeGuard[FollowsLinks]:
    return able(type(snapshot), FollowsLinks)


class NoFiles:
    """A snapshot without files: everything is missing, as for a command that is only explained."""

    def inspect_path(self, path: str) -> Seen:
        return Seen("missing")


class UnknownFiles:
    """A snapshot that knows nothing: everything is there and unreadable."""

    def inspect_path(self, path: str) -> Seen:
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
    made: frozenset[str] = frozenset()
    """Names of variables that hold what ``mktemp -d`` printed in an earlier call."""
