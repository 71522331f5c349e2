"""Snapshots around the calls of a session: which sessions have them, and when one is taken."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.backends import BUBBLEWRAP, LOCAL
from agent.config import SnapshotsConfig, state_dir
from agent.instructions import project_root
from toolcrib import Denied, Effect, StoreFailed, ToolCall, ToolEntry
from toolcrib._dataclass import replace
from toolcrib._undo import ChangeJournal
from tools.approval.policy import Policy
from tools.dispatch.scope import CallScope
from tools.dispatch.threads import in_daemon_thread
from tools.undo.keeper import holder_of
from tools.undo.snapshots.entries import SnapshotFailed, SnapshotRefused
from tools.undo.snapshots.project import Project

if TYPE_CHECKING:
    from agent.backends import Location
    from agent.config import Config
    from tools.undo.snapshots.calls import CallRecorder

_log = logging.getLogger(__name__)
_NONE = "no snapshots are taken, and what commands change can't be undone: %s"


def give_snapshots(scope: CallScope, config: Config, location: Location, journal: ChangeJournal) -> None:
    """Take snapshots around the calls of this scope if the configuration wants it and its project can be covered.

    Raises SnapshotFailed if the store can't be opened.
    """
    if not config.snapshots.enabled or not config.undo.enabled or location.backend.kind not in (LOCAL, BUBBLEWRAP):
        return
    try:
        project = open_project(config.snapshots, location.start)
    except SnapshotRefused as error:
        _log.warning(_NONE, error)
        return
    assert project is not None, "it need not be known"  # noqa: S101 - for the type checker
    project.begin()
    scope.snapshots = SessionSnapshots(project, scope, journal, max(config.undo.days, config.snapshots.keep))
    if isinstance(scope.policy, Policy):
        covers = partial(scope.snapshots.covers, rebuildable=config.snapshots.rebuildable == "allow")
        scope.policy = replace(scope.policy, covers=covers)


def open_project(settings: SnapshotsConfig, start: str, *, only_known: bool = False) -> Project | None:
    """Return the snapshots of the project that a folder is in; the caller closes them. ``only_known``: None if it has none yet.

    Raises SnapshotRefused for a folder that is no project, and SnapshotFailed if the store can't be opened.
    """
    here = Path(os.path.realpath(Path(start).expanduser()))
    root, store = str(project_root(here, here)), str(state_dir() / "snapshots")
    if only_known and not Project.folder(root, store).is_dir():
        return None
    return Project.open(root, store, skip=settings.skip, max_mb=settings.max_mb, keep_days=settings.keep)


class SessionSnapshots:
    """Snapshots around the calls of one scope, in the state folder, which is closed to commands. See CallSnapshots.

    ``users`` counts the scopes that use it: a session's, and those of its delegates. Steps of the journal that are older than
    ``days`` are deleted.
    """

    def __init__(self, project: Project, scope: CallScope, journal: ChangeJournal, days: float) -> None:
        self._project = project
        self._scope = scope
        self._journal = journal
        self._days = days
        self._session_id = scope.identity.session_id
        self._is_refused = False
        self._has_acted = False
        self._recorder: CallRecorder | None = None
        self.users = 1

    def covers(self, path: str, *, rebuildable: bool = True) -> bool:
        """Return whether an undo reverts every change of an absolute path and of all that is below it; see Project.covers."""
        return not self._is_refused and self._project.covers(path, rebuildable=rebuildable)

    async def measured(self) -> None:
        """Wait until ``covers`` can answer, or never will."""
        await in_daemon_thread(self._project.measure)

    def shared(self) -> SessionSnapshots:
        """Return these snapshots for another scope, which closes them too."""
        self.users += 1
        return self

    async def before(self, call: ToolCall, entry: ToolEntry, effects: Sequence[Effect], /) -> bool:
        """Take a snapshot before a call that may write. Return whether ``after`` shall follow.

        Raises Denied if none can be taken. A project that is too large gets none: the log says so, and ``covers`` is False.
        """
        from tools.judge.passive import may_act

        policy = self._scope.policy
        if self._is_refused or (isinstance(policy, Policy) and not may_act(entry, effects, setting=policy.setting)):
            return False
        try:
            if self._recorder is None:
                from tools.undo.snapshots.calls import CallRecorder

                recorder = CallRecorder(self._project, self._journal, self._session_id, self._holder)
                await recorder.recover()
                await self._journal.prune(time.time() - self._days * 86_400)
                self._recorder = self._recorder or recorder
            await self._recorder.before(call.id, self._turn)
            self._has_acted = True
        except SnapshotRefused as error:
            self._is_refused = True
            _log.warning(_NONE, error)
            return False
        except (SnapshotFailed, StoreFailed) as error:
            raise Denied(f"{call.name} was not run: no snapshot could be taken, so it could not be undone: {error}") from error
        return True

    async def after(self, call: ToolCall, entry: ToolEntry, /) -> None:
        """Take a snapshot after a call, and record what the call changed. What can't be recorded now is recorded by an undo."""
        assert self._recorder is not None, "before() returned True"  # noqa: S101 - for the type checker
        try:
            await self._recorder.after(call.id, call.name, self._turn, is_kept=entry.kind == "edit")
        except (SnapshotRefused, SnapshotFailed, StoreFailed) as error:
            _log.warning("the snapshot after %s could not be taken: %s", call.name, error)

    def rest(self) -> None:
        """Walk the project in the background if a call was made since the last time.

        No event reports a write through a memory map while it is mapped.
        """
        if self._has_acted and not self._is_refused:
            self._has_acted = False
            self._project.begin(thorough=True)

    def close(self) -> None:
        """End the use by one scope; the last one closes the project."""
        self.users -= 1
        if not self.users:
            self._project.close()

    @property
    def _turn(self) -> int:
        return 0 if self._scope.undo is None else self._scope.undo.turn

    def _holder(self, path: str) -> str:
        return holder_of(self._scope.environment, path)
