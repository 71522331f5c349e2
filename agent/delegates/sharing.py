"""A delegate's session uses its parent's file origins, undo log and folder: each knows the files that the other writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING

from agent.context.instructions import project_root
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.dataclass import replace
from toolcrib.contract.environment import Environment
from toolcrib.contract.paths import real_path, with_home
from toolcrib.contract.records import NO_ENTRIES
from toolcrib.contract.undo import Keeping, UndoLog
from tools.approval.origins import ELSEWHERE, Origins, SessionFiles

if TYPE_CHECKING:
    from agent.backends import Location
    from tools.judge.meaning.value import Taint


def folder_of(location: Location, opened: Environment | None, project_dir: Path) -> Location:
    """Return the location of a delegate's commands: the parent's current folder if it is in the project.

    Otherwise it is the folder that the parent began in, because another project has its own instructions and notes.
    """
    if opened is None:
        return location
    if location.backend.is_remote:
        return replace(location, cwd=opened.cwd)
    root, now = project_root(real_path(with_home(location.start)), project_dir), Path(opened.cwd)
    return replace(location, start=opened.cwd) if root in (now, *now.parents) else location


class SharedFiles(SessionFiles):
    """Origins of files that a delegate shares with the session ``shared_id``: both read from ``shared``, and add to it.

    The origins of shell variables are the delegate's own, kept in ``own``, because it has its own shell.
    """

    def __init__(self, shared: SessionFiles, shared_id: str, own: SessionFiles) -> None:
        super().__init__()
        self._shared = shared
        self._shared_id = shared_id
        self._own = own

    def known(self, session_id: str) -> Origins | None:
        """Return the origins that are known without asking the store; None if it must be asked."""
        shared, own = self._shared.known(self._shared_id), self._own.known(session_id)
        return None if shared is None or own is None else replace(shared, made=own.made, are_shared=True)

    async def of(self, session_id: str) -> Origins:
        """Return the known origins. Never raises."""
        own = await self._own.of(session_id)
        return replace(await self._shared.of(self._shared_id), made=own.made, are_shared=True)

    async def remember(
        self,
        session_id: str,
        taints: Mapping[str, Taint],
        copies: Mapping[str, str] = NO_ENTRIES,
        made: Mapping[str, tuple[str, str]] | None = None,
        *,
        owner: str = "",
    ) -> None:
        """Add origins of files for both sessions, and those of variables, ``made``, for the delegate only.

        Raises StoreFailed: then the command must not run. The parent does not see when a delegate's processes end.
        """
        await self._shared.remember(self._shared_id, taints, copies, owner=ELSEWHERE)
        if made is not None:
            await self._own.remember(session_id, {}, {}, made)

    def forget(self, session_id: str) -> None:
        """Drop the cached origins; the store keeps them."""
        self._shared.forget(self._shared_id)
        self._own.forget(session_id)


class SharedUndo:
    """Keeps old contents in the parent's log, at the parent's turn: undoing that turn reverts the delegate's changes too."""

    def __init__(self, log: UndoLog) -> None:
        self._log = log

    @property
    def turn(self) -> int:
        """The parent's turn, regardless of the delegate's own turn."""
        return self._log.turn

    @turn.setter
    def turn(self, number: int) -> None:
        """Do nothing: the parent sets its turn."""

    def changing(self, ctx: ToolCallContext, paths: Sequence[str]) -> AbstractAsyncContextManager[Keeping]:
        """Keep these files as UndoLog.changing does."""
        return self._log.changing(ctx, paths)


if TYPE_CHECKING:

    def _conforms(log: SharedUndo) -> UndoLog:
        return log
