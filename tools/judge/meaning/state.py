"""The facts that the judge has before a script: the session's shell, and a view of the files."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, Protocol, TypeGuard, runtime_checkable

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.namedtuple import NamedTuple
from tools.judge.meaning.value import Taint, Value


class Seen(NamedTuple):
    """A path as the snapshot knows it.

    ``text`` is None except for a readable ``file``; ``binary`` is a compiled program. A file that is neither a compiled program
    nor UTF-8 text is ``unreadable``.
    """

    kind: Literal["file", "binary", "dir", "missing", "unreadable"]
    text: str | None = None
    taint: Taint = Taint.NONE
    """The taint that this session gave the file: REMOTE if the session downloaded it, DECODED if it decoded it, and others."""


class Snapshot(Protocol):
    """The only way for the judge to read files. Every answer is stored, because exactly the judged content must run."""

    def inspect_path(self, path: str) -> Seen:
        """Inspect ``path``, which is absolute. Reads a limited number of bytes; a longer file is ``unreadable``. Never raises."""
        ...


@runtime_checkable
class KnowsOrigins(Protocol):
    """A Snapshot that knows the taint that this session gave a file, without reading the file."""

    def taint(self, path: str) -> Taint: ...

    def own_below(self, folder: str) -> Sequence[str]:
        """Return the absolute paths of the files in ``folder`` that this session wrote or downloaded."""
        ...

    def copy_of(self, path: str) -> str:
        """Return the path that the file was copied or moved from; "" if it was not."""
        ...


@runtime_checkable
class KnowsJobs(Protocol):
    """A Snapshot that knows what background processes of the session read."""

    def of_jobs(self) -> Mapping[str, Taint]:
        """Return the marks of the files that a background process may still read or open, by absolute path."""
        ...

    def is_of_another_session(self, pid: str) -> bool:
        """Return whether a process is a background process of another session, or descends from one."""
        ...

    def job_names(self) -> Sequence[str]:
        """Return the names of the background processes that run, with their commands; [] if they are unknown."""
        ...


@runtime_checkable
class KnowsMoves(Protocol):
    """A Snapshot that recognises the session's folders, and files that were moved there from outside."""

    def is_inside(self, path: str) -> bool:
        """Return whether an absolute path is in the workspace or a folder for temporary files; False if that is not known yet."""
        ...

    def was_brought(self, path: str) -> bool:
        """Return whether ``path``, a parent of it, or a file below it was moved there from outside of the session's folders."""
        ...


@runtime_checkable
class KnowsTemporary(Protocol):
    """A Snapshot that knows the folders that the session's shell got from ``mktemp -d``."""

    def temporary(self, variables: Mapping[str, str]) -> frozenset[str]:
        """Return the names of those ``variables`` of the shell that still hold what ``mktemp -d`` printed in an earlier call."""
        ...


@runtime_checkable
class FollowsLinks(Protocol):
    """A Snapshot that follows links."""

    def real(self, path: str) -> str:
        """Return the real path of an absolute path; the path itself if that is not known."""
        ...


@functools.lru_cache(maxsize=64)
def able(kind: type, ability: type) -> bool:
    """Return whether snapshots of a class have an ability. Cached, because ``isinstance`` with a protocol is slow."""
    return issubclass(kind, ability)


def knows_origins(snapshot: Snapshot) -> TypeGuard[KnowsOrigins]:
    return able(type(snapshot), KnowsOrigins)


def knows_jobs(snapshot: Snapshot) -> TypeGuard[KnowsJobs]:
    return able(type(snapshot), KnowsJobs)


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
    """A snapshot without knowledge: everything exists and is unreadable."""

    def inspect_path(self, path: str) -> Seen:
        return Seen("unreadable")


@dataclass(frozen=True, slots=True)
class ShellNow:
    """The session's shell before the command, with the state that earlier commands left.

    ``functions`` and ``aliases`` map their names to source text. ``home`` and ``user`` are those of the shell's account.
    """

    cwd: str = ""
    home: str = ""
    user: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, str] = field(default_factory=dict)
    functions: Mapping[str, str] = field(default_factory=dict)
    positional: tuple[str, ...] = ()
    interactive: bool = False
    """True if aliases are expanded (in an interactive shell, and after ``shopt -s expand_aliases``)."""
    attributes: Mapping[str, str] = field(default_factory=dict)
    arrays: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    traps: Mapping[str, str] = field(default_factory=dict)
    """Commands by signal, as in ``toolcrib.ShellState``."""
    made: frozenset[str] = frozenset()
    """Names of variables that hold what ``mktemp -d`` printed in an earlier call."""
    stdin: Value | None = None
    """The command's standard input, if it has one."""
    background: bool = False
    """True if the command is a background process: it runs in a shell of its own, beside later calls."""
