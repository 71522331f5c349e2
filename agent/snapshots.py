"""Snapshots around the calls of a session: which sessions have them, and when one is taken."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.config import SnapshotsConfig, state_dir
from agent.context.instructions import project_root
from toolcrib.contract.context import ProgressStatus, ToolCallContext
from toolcrib.contract.dataclass import replace
from toolcrib.contract.effects import RunsCommand
from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.errors import Denied, EnvironmentFailed, StoreFailed
from toolcrib.contract.paths import real_path, with_home
from toolcrib.contract.types import ToolCall
from toolcrib.contract.undo import ChangeJournal
from tools.approval.policy import Policy
from tools.dispatch.scope import CallScope
from tools.dispatch.threads import in_daemon_thread
from tools.processes.records import PROCESSES
from tools.undo.snapshots.entries import ProjectSnapshot, SnapshotFailed, SnapshotRefused

if TYPE_CHECKING:
    from agent.backends import Location
    from agent.config import Config
    from tools.undo.snapshots.calls import CallRecorder
    from tools.undo.snapshots.project import Project

_log = logging.getLogger(__name__)
_UNRECORDED = "the changes after the session's last call could not be recorded: %s"
_SHOWN_AFTER = 1.0
"""Seconds after which the user sees that a call waits for its snapshot."""


def give_snapshots(scope: CallScope, config: Config, location: Location, journal: ChangeJournal) -> None:
    """Take snapshots around the calls of this scope, if they are configured. The first call opens the project."""
    if not (config.snapshots.enabled and config.undo.enabled):
        return
    why_not = (
        ""
        if location.backend.row.runs_here
        else f"snapshots cover only this machine, but commands run in the backend {location.backend.name}"
    )
    days, opened = max(config.undo.days, config.snapshots.keep), partial(open_project, config.snapshots, location.start)
    scope.snapshots = taken = SessionSnapshots(opened, scope, journal, days, why_not)
    if isinstance(scope.policy, Policy):
        covers = partial(taken.covers, rebuildable=config.snapshots.rebuildable == "allow")
        scope.policy = replace(scope.policy, covers=covers, covers_all_but_ignored=taken.covers, measured=taken.measured)


@functools.cache
def _warn(why_not: str) -> None:
    """Log once in this process why no snapshots are taken."""
    _log.warning("changes by commands can't be undone, so you are asked about dangerous ones: %s", why_not)


def open_project(settings: SnapshotsConfig, start: str, *, only_known: bool = False) -> Project | None:
    """Return the snapshots of a folder's project; the caller closes them. ``only_known``: return None if there are none yet.

    Raises SnapshotRefused for a folder that is not a project, and SnapshotFailed if the store can't be opened.
    """
    from tools.undo.snapshots.project import Project

    here = real_path(with_home(start))
    root, store = str(project_root(here, here)), str(state_dir() / "snapshots")
    if only_known and not Project.folder(root, store).is_dir():
        return None
    return Project.open(root, store, skip=settings.skip, max_mb=settings.max_mb, keep_days=settings.keep)


class SessionSnapshots:
    """Snapshots around the calls of one scope, in the state folder, which is closed to commands. See CallSnapshots.

    ``opened`` opens the project; ``why_not`` is the reason for taking none. ``users`` counts the scopes that use these snapshots:
    a session's, and its delegates'. Steps of the journal that are older than ``days`` are deleted.
    """

    def __init__(
        self, opened: Callable[[], Project | None], scope: CallScope, journal: ChangeJournal, days: float, why_not: str = ""
    ) -> None:
        self._opened = opened
        self._scope = scope
        self._journal = journal
        self._days = days
        self._why_not = why_not
        self._session_id = scope.identity.session_id
        self._opening = threading.Lock()
        self._project: Project | None = None
        self._is_relied_on = False
        """True once a verdict depended on ``covers``."""
        self._has_acted = False
        self._since = time.time()
        self._recorder: CallRecorder | None = None
        self._begun: dict[int, ProjectSnapshot] = {}
        """The snapshots before running calls, by ``id()`` of the call: call ids may repeat in delegates."""
        self.users = 1

    def covers(self, path: str, *, rebuildable: bool = True) -> bool:
        """Return whether an undo reverts every change of an absolute path and of everything below it; see Project.covers."""
        if self._why_not or self._project is None:
            return False
        found = self._project.covers(path, rebuildable=rebuildable)
        self._is_relied_on = self._is_relied_on or found
        return found

    async def measured(self) -> None:
        """Wait a few seconds until ``covers`` can answer. If it takes longer, nothing is covered yet."""
        if not self._why_not:
            await in_daemon_thread(self._begin, True)

    def begin(self) -> None:
        """Take the first snapshot in the background."""
        if not self._why_not and self._project is None:
            threading.Thread(target=self._begin, args=(False,), name="toolcrib-snapshot", daemon=True).start()

    def _begin(self, waits: bool) -> None:
        try:
            project = self._open()
        except SnapshotRefused as error:
            self._why_not = str(error)
        except (SnapshotFailed, OSError):  # such as too few file descriptors to import a module
            return  # ``before`` tries again, and raises the error
        else:
            project.measure() if waits else project.begin()

    def _open(self) -> Project:
        with self._opening:
            if not self.users:
                raise SnapshotFailed("the session was closed")
            self._project = self._project or self._opened()
            assert self._project is not None, "it is not needed"  # noqa: S101 - for the type checker
            return self._project

    def shared(self) -> SessionSnapshots:
        """Return these snapshots for another scope, which must also call ``close``."""
        self.users += 1
        return self

    async def before(self, call: ToolCall, entry: ToolEntry, ctx: ToolCallContext, /) -> bool:
        """Take a snapshot before a call that may write. Return whether ``after`` must follow.

        Raises Denied if a snapshot fails, unless only a background process may write. A project that can't be covered gets no
        snapshots: from then on ``covers`` returns False, and the first call that runs a command logs a warning. If a verdict has
        depended on ``covers``, the call that finds this out raises Denied.
        """
        from tools.judge.passive import may_act

        policy = self._scope.policy
        acts = not isinstance(policy, Policy) or may_act(entry, ctx.effects, setting=policy.setting)
        if not acts and not await self._has_writers(ctx):
            return False
        try:
            if not self._why_not:
                await _shown(self._before(call), ctx, lambda: (0, 0) if self._project is None else self._project.progress)
                return True
        except SnapshotRefused as error:
            self._why_not = str(error)
            if acts and self._is_relied_on:
                raise Denied(f"{call.name} was not run, because it could no longer be undone: {error}. Call it again") from error
        except (SnapshotFailed, StoreFailed) as error:
            if not acts:
                return False
            raise Denied(f"{call.name} was not run, because no snapshot could be taken to undo it: {error}") from error
        if any(isinstance(effect, RunsCommand) for effect in ctx.effects):
            _warn(self._why_not)
        return False

    async def _has_writers(self, ctx: ToolCallContext) -> bool:
        """Return whether a background process of an earlier command may write files during this call."""
        runs = any(isinstance(effect, RunsCommand) for effect in ctx.effects)
        return runs and self._recorder is not None and bool(await in_daemon_thread(self._recorder.writers))

    async def _before(self, call: ToolCall) -> None:
        recorder = await self._recording()
        self._begun[id(call)] = await recorder.before(call.id, self._turn, command_in(call))
        self._has_acted = True

    async def _recording(self) -> CallRecorder:
        project = await in_daemon_thread(self._open)
        if self._recorder is None:
            from tools.undo.keeper import holder_of
            from tools.undo.snapshots.calls import CallRecorder

            holder = partial(holder_of, self._scope.environment)
            recorder = CallRecorder(project, self._journal, self._session_id, holder, self._processes)
            await recorder.recover()
            if self._scope.state.get(PROCESSES.name):  # this toolcrib has started none yet: they are left from a killed one
                await recorder.between()
            await self._journal.prune(time.time() - self._days * 86_400)
            self._recorder = self._recorder or recorder
        return self._recorder

    def _processes(self) -> Sequence[str]:
        """Return the commands of the session's background processes that run."""
        table, known = self._scope.opened_processes, self._scope.state.get(PROCESSES.name)
        if table is None or not isinstance(known, Mapping):
            return []
        return [str(known[name]["command"]) for name in sorted(table.names) if name in known]

    async def after(self, call: ToolCall, entry: ToolEntry, /) -> None:
        """Take a snapshot after a call, and record the call's changes. If that fails, a later undo records them."""
        assert self._recorder is not None, "before() returned True"  # noqa: S101 - for the type checker
        try:
            await self._recorder.after(self._begun.pop(id(call)), call.name, self._turn, is_kept=entry.kind == "edit")
        except (SnapshotRefused, SnapshotFailed, StoreFailed) as error:
            _log.warning("the snapshot after %s could not be taken: %s", call.name, error)

    def begin_full_walk(self) -> None:
        """Walk the project in the background if a call ran since the last walk.

        This finds writes through a memory map: no event reports them while the file is mapped.
        """
        if self._has_acted and self._project is not None and not self._why_not:
            self._has_acted = False
            self._project.begin(thorough=True)

    async def close(self, end: Callable[[], Awaitable[None]], /) -> None:
        """Call ``end``, which ends what may still write in the project, and record what changed since the last call."""
        recorder, names = None, list[str]()
        try:
            if self.users == 1 and not self._why_not and (self._recorder or self._scope.state.get(PROCESSES.name)):
                recorder = await self._recording()
                names = await in_daemon_thread(recorder.at_work)
        except (SnapshotRefused, SnapshotFailed, StoreFailed, EnvironmentFailed) as error:
            _log.warning(_UNRECORDED, error)
        try:
            await end()
            if recorder is not None:
                await recorder.between(names)
        except (SnapshotRefused, SnapshotFailed, StoreFailed) as error:
            _log.warning(_UNRECORDED, error)
        finally:
            self.release()

    def release(self) -> None:
        """Release the snapshots for one scope; the last release closes the project."""
        with self._opening:
            self.users -= 1
            if not self.users and self._project is not None:
                if self._recorder is not None:
                    self._project.drop_compiled(self._since)
                self._project.close()

    @property
    def _turn(self) -> int:
        return 0 if self._scope.undo is None else self._scope.undo.turn


async def _shown(work: Coroutine[Any, Any, None], ctx: ToolCallContext, progress: Callable[[], tuple[int, int]]) -> None:
    """Await a snapshot, and report its progress if it takes long."""
    task = asyncio.ensure_future(work)
    has_waited = False
    try:
        while not (await asyncio.wait([task], timeout=_SHOWN_AFTER))[0]:
            done, found = progress()
            ctx.report_progress(ProgressStatus.RUNNING, f"waits for a snapshot of the project: {done:,} of {found:,} files")
            has_waited = True
    except asyncio.CancelledError:
        task.cancel()
        await asyncio.wait([task])
        raise
    task.result()
    if has_waited:
        ctx.report_progress(ProgressStatus.RUNNING, "the snapshot has been taken")


def command_in(call: ToolCall) -> str:
    """Return the command that a call runs, or the name of its tool."""
    command = call.args.get("command")
    return command if isinstance(command, str) else call.name
