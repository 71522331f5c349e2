"""What file tools replace, and how a person gets it back: the journal of changes, and what a handler tells it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from toolcrib._environment import FileInfo

if TYPE_CHECKING:
    from toolcrib._context import ToolCallContext

StepKind: TypeAlias = Literal["call", "undo", "redo"]


@dataclass(frozen=True, slots=True)
class FileState:
    """A file's content, mode and owner. ``digest`` is its SHA-256 in hex, "" where it was not read; ``size`` is in bytes.
    ``mode`` is the permission bits and ``owner`` UID and GID, None where they are not known.
    """

    digest: str
    size: int
    mode: int | None = None
    owner: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file of a step. ``before`` and ``after`` are None where there is no such file. ``place`` names what holds it.

    ``lost`` says why what was before is not kept. ``folders`` are those made on the way, outermost first. ``undone_by`` is the
    step that took it back, ``passed_by`` the one that should have and could not; 0 for none. ``id`` is the journal's.
    """

    path: str
    place: str
    before: FileState | None
    after: FileState | None
    lost: str = ""
    folders: tuple[str, ...] = ()
    id: int = 0
    undone_by: int = 0
    passed_by: int = 0

    @property
    def in_effect(self) -> bool:
        return not self.undone_by


@dataclass(frozen=True, slots=True)
class ChangeStep:
    """What one call, one undo or one redo changed. ``turn`` is 1 + the place of the message in the session that the call
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
        """They were not made after all. A call's step goes with its last change."""
        ...

    async def steps(self, session_id: str) -> Sequence[ChangeStep]:
        """All of a session, oldest first."""
        ...

    async def sessions(self, limit: int = 20) -> Sequence[str]:
        """The ids of those in which a call changed files, the last one first."""
        ...

    async def settle(
        self, step_id: int, *, undone: Collection[int] = (), passed: Collection[int] = (), revived: Collection[int] = ()
    ) -> None:
        """How a step (an undo or redo) left other changes, by their ids: taken back, left as they are, or in effect again."""
        ...

    async def untold(self, session_id: str) -> Sequence[ChangeStep]:
        """Undos and redos that the session's model has not heard of, oldest first."""
        ...

    async def told(self, step_ids: Collection[int]) -> None: ...

    async def prune(self, before: float) -> None:
        """Forget the steps from before that time (Unix seconds), but for undos and redos that a model has still to hear of."""
        ...


class Keeping(Protocol):
    """One call's changes. ``replaces`` for each file, then ``record``, and only then is anything written."""

    async def replaces(self, path: str, info: FileInfo | None, after: bytes | None, data: bytes | None = None) -> None:
        """``path`` is about to get the content ``after`` (None: to be deleted). ``info`` is what ``stat`` says of it now;
        ``data`` its content where that was read, else it is read here. Raises EnvironmentFailed.
        """
        ...

    async def record(self) -> None:
        """Raises ExecutionFailed where nothing may be changed that can't be undone."""
        ...

    async def forget(self) -> None:
        """What was recorded was not done."""
        ...

    @property
    def note(self) -> str:
        """What the model and the person should know: what of it can't be undone, "" where all can."""
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
