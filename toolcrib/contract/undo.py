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
    """A file's content, mode and owner. ``digest`` is its SHA-256 in hex, "" where it was not read; ``size`` is in bytes.
    ``mode`` is the permission bits and ``owner`` UID and GID, None where they are not known. ``mtime_ns`` is when it was last
    changed, in Unix nanoseconds, None where that is not known. ``attributes`` are the extended attributes, an ACL among them, of
    a file that was deleted; None where they are not known, or stayed with the file. Two states that differ only in these two are
    equal.
    """

    digest: str
    size: int
    mode: int | None = None
    owner: tuple[int, int] | None = None
    mtime_ns: int | None = field(default=None, compare=False)
    attributes: Mapping[str, bytes] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of one file in a step. ``before`` and ``after`` are None where there is no such file. ``holder`` names what holds
    it.

    ``lost`` says why the content before is not kept. ``folders`` were made for the file, outermost first. ``undone_by`` is the
    step that undid it, ``passed_by`` the one that should have and could not; 0 for none. ``id`` is the journal's.
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
        """True until an undo undid the change."""
        return not self.undone_by


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """The changes of one call, one undo or one redo. ``turn`` is 1 + the position in the session of the message that the call
    followed from, 0 for a call that a person made by hand. ``at`` is in Unix seconds.
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
    """Every change of a file by a tool, written down before it is made."""

    async def begin(self, step: ChangeStep) -> ChangeStep:
        """Record it, all or nothing; the step as it is known from then on, with its ids."""
        ...

    async def forget(self, change_ids: Collection[int]) -> None:
        """Forget changes that were not made after all. A call's step is deleted with its last change."""
        ...

    async def steps(self, session_id: str) -> Sequence[ChangeStep]:
        """All of a session, oldest first."""
        ...

    async def sessions(self, limit: int = 20) -> Sequence[str]:
        """The ids of those in which a call changed files, the last one first."""
        ...

    async def mark_changes(
        self, step_id: int, *, undone: Collection[int] = (), passed: Collection[int] = (), revived: Collection[int] = ()
    ) -> None:
        """Record how a step (an undo or redo) left other changes, by their ids: undone, left as they are, or in effect again."""
        ...

    async def unreported(self, session_id: str) -> Sequence[ChangeStep]:
        """Return the undos and redos that were not reported to the session's model yet, oldest first."""
        ...

    async def mark_reported(self, step_ids: Collection[int]) -> None:
        """Record that these steps were reported to the model."""
        ...

    async def prune(self, before: float) -> None:
        """Forget the steps from before that time (Unix seconds), but for undos and redos that a model has still to hear of."""
        ...


class Keeping(Protocol):
    """The changes of one call: ``replaces`` for each file, then ``record``, and only then is anything written."""

    async def replaces(self, path: str, info: FileInfo | None, after: bytes | None, data: bytes | None = None) -> None:
        """``path`` is about to get the content ``after`` (None: to be deleted). ``info`` is what ``stat`` says of it now;
        ``data`` its content where that was read, else it is read here. Raises EnvironmentFailed.
        """
        ...

    async def record(self) -> None:
        """Raises ExecutionFailed where nothing may be changed that can't be undone."""
        ...

    async def forget(self) -> None:
        """Forget the recorded changes that were not made: of files that are as they were."""
        ...

    @property
    def warning(self) -> str:
        """Return what can't be undone, for the model and the person; "" where everything can."""
        ...


class UndoLog(Protocol):
    """A session's side of the journal; a handler finds it at ``ctx.undo``."""

    turn: int
    """See ChangeStep; for the calls that begin from now on."""

    def changing(self, ctx: ToolCallContext, paths: Sequence[str]) -> AbstractAsyncContextManager[Keeping]:
        """Within it no other call changes these files, which are resolved, in any session of the same store. Raises
        ExecutionFailed where another one does not let go of them.
        """
        ...
