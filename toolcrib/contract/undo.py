"""Undo of changes to files: the journal of changes, and the log that a handler writes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.environment import FileInfo

if TYPE_CHECKING:
    from toolcrib.contract.context import ToolCallContext

StepKind: TypeAlias = Literal["call", "undo", "redo"]


@dataclass(frozen=True, slots=True)
class FileState:
    """A file's content, mode and owner. ``digest`` is its SHA-256 in hex, "" if it was not read; ``size`` is in bytes. ``mode``
    is the permission bits and ``owner`` UID and GID, None if they are not known. ``mtime_ns`` is the time of its last change,
    in Unix nanoseconds, None if it is not known. ``attributes`` are the extended attributes of a deleted file, including its
    ACL; None if they are not known, or stayed with the file. States that differ only in ``mtime_ns`` or ``attributes`` are equal.
    """

    digest: str
    size: int
    mode: int | None = None
    owner: tuple[int, int] | None = None
    mtime_ns: int | None = field(default=None, compare=False)
    attributes: Mapping[str, bytes] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of one file in a step. ``before`` and ``after`` are None if the file does not exist at that time. ``holder``
    names the place that keeps the file (see HoldsFiles).

    ``lost`` says why the old content is not kept. ``folders`` were made for the file, outermost first. ``undone_by`` is the step
    that undid the change, ``passed_by`` the step that should have undone it but could not; 0 for none. ``id`` is the journal's.
    """

    path: str
    holder: str
    before: FileState | None
    after: FileState | None
    lost: str = ""
    folders: tuple[str, ...] = ()
    id: int = 0
    undone_by: int = 0
    passed_by: int = 0

    @property
    def in_effect(self) -> bool:
        """True until an undo reverts the change."""
        return not self.undone_by


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """The changes of one call, one undo or one redo. ``turn`` is 1 + the position in the session of the message that led to the
    call, or 0 for a call that a person made by hand. ``at`` is in Unix seconds.
    """

    session_id: str
    turn: int
    call_id: str
    tool: str
    at: float
    changes: tuple[FileChange, ...]
    kind: StepKind = "call"
    id: int = 0


class ChangeJournal(Protocol):
    """Every change of a file by a tool, recorded before it is made."""

    async def begin(self, step: ChangeStep) -> ChangeStep:
        """Record a step, all or nothing, and return it with its ids."""
        ...

    async def forget(self, change_ids: Collection[int]) -> None:
        """Delete changes that were not made after all. A call's step is deleted with its last change."""
        ...

    async def steps(self, session_id: str) -> Sequence[ChangeStep]:
        """Return all steps of a session, oldest first."""
        ...

    async def sessions(self, limit: int = 20) -> Sequence[str]:
        """Return the ids of the sessions whose calls changed files, the one with the latest change first."""
        ...

    async def mark_changes(
        self, step_id: int, *, undone: Collection[int] = (), passed: Collection[int] = (), revived: Collection[int] = ()
    ) -> None:
        """Record the effect of a step (an undo or redo) on other changes, by their ids: ``undone`` are undone, ``passed`` should
        have been undone but could not, ``revived`` are in effect again.
        """
        ...

    async def unreported(self, session_id: str) -> Sequence[ChangeStep]:
        """Return the undos and redos that were not reported to the session's model yet, oldest first."""
        ...

    async def mark_reported(self, step_ids: Collection[int]) -> None:
        """Record that these steps were reported to the model."""
        ...

    async def prune(self, before: float) -> None:
        """Delete the steps from before that time (Unix seconds), except undos and redos that were not reported to a model yet."""
        ...


class Keeping(Protocol):
    """The changes of one call: call ``replaces`` for each file, then ``record``, and only then write."""

    async def replaces(self, path: str, info: FileInfo | None, after: bytes | None, data: bytes | None = None) -> None:
        """Register that ``path`` will get the content ``after`` (None: it will be deleted). ``info`` is the current result of
        ``stat``; ``data`` is the current content if it was read already, else this method reads it. Raises EnvironmentFailed.
        """
        ...

    async def record(self) -> None:
        """Record the changes. Raises ExecutionFailed if one of them can't be undone and only undoable changes are allowed."""
        ...

    async def forget(self) -> None:
        """Delete the recorded changes of files that did not change after all."""
        ...

    @property
    def warning(self) -> str:
        """The changes that can't be undone, in words for the model and the user; "" if all can be."""
        ...


class UndoLog(Protocol):
    """The journal as one session writes it; a handler finds it at ``ctx.undo``."""

    turn: int
    """The ``ChangeStep.turn`` of calls that begin from now on."""

    def changing(self, ctx: ToolCallContext, paths: Sequence[str]) -> AbstractAsyncContextManager[Keeping]:
        """Return a context manager: within it no other call changes these files (resolved paths) in any session of the same
        store. Raises ExecutionFailed if another call does not release them in time.
        """
        ...
