"""A project folder and its configuration, approval policy, backends, toolsets and undo."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.backends import Backend, Backends, Location
from agent.config import PlatformConfig, read_secrets, token_values
from agent.conversation.locating import PROJECT, location_for
from agent.desk.request import SessionRequest, by_fields
from agent.policy.allowlist import PermanentGrants
from agent.policy.audit_hook import ToldAudit
from agent.policy.grants import SessionGrants
from agent.policy.host_rights import withheld_from_user
from agent.policy.self_protection import folders_of
from agent.policy.tool_selection import ToolLine
from toolcrib.contract.context import EventSink, Principal, RunIdentity
from toolcrib.contract.dataclass import replace
from toolcrib.contract.environment import Environment
from toolcrib.contract.frozen import freeze
from toolcrib.contract.store import SessionInfo, Store
from toolcrib.contract.types import Handler
from tools.approval.modes import mode_of
from tools.approval.origins import SessionFiles
from tools.approval.policy import Policy
from tools.dispatch.bridge import run_async
from tools.dispatch.scope import Asker, CallScope, Limits
from tools.judge.harmless import Harmless
from tools.judge.setting import Setting
from tools.redact import RedactingSink, Redactor

if TYPE_CHECKING:  # only for annotations: some of these modules load late, or never
    from agent.conversation.core import SessionCore
    from agent.conversation.session import Session
    from agent.events import Event
    from agent.process import Crib
    from agent.undo import Undo
    from agent.workspaces import ProjectFolder, Setup
    from toolcrib.contract.context import ToolCallContext
    from toolcrib.contract.session import ExecutedCall
    from toolcrib.contract.types import ToolCall
    from toolcrib.contract.undo import Keeping, UndoLog
    from tools.dispatch.hooks import HookManager
    from tools.dispatch.pipeline import Dispatcher
    from tools.undo.keeper import UndoStore
    from tools.undo.snapshots.project import Project

_log = logging.getLogger(__name__)


class Workspace:
    """A project folder in a process, made by ``Crib.workspace``. Its sessions use its configuration.

    The process's parts (store, tools, plugins, dispatcher) belong to the Crib; all folders with this configuration share
    ``setup``. ``grants`` are the local user's permanent grants, shared by all workspaces of one configuration file and folder;
    grants of other users are in the store.
    """

    def __init__(self, crib: Crib, setup: Setup, folder: ProjectFolder, grants: PermanentGrants) -> None:
        self._crib = crib
        self._setup = setup
        self._folder = folder  # keeps the folder's object alive, which is only referenced weakly elsewhere
        self.config = setup.config
        self.project_dir = folder.path
        self.store = crib.store
        self.registry = crib.registry
        self.providers = crib.providers
        self.grants = grants
        self.catalog = setup.catalog
        self.windows_learned = setup.windows_learned
        self._judged_by = setup.setting
        self._harmless = Harmless()

    @property
    def setting(self) -> Setting:
        """The setting for judging calls; it is replaced when more files must be protected."""
        if self._judged_by is not self._setup.setting:
            self._judged_by, self._harmless = self._setup.setting, Harmless()  # a command may now use a protected file
        return self._judged_by

    @property
    def backends(self) -> Backends:
        """The configured backends, which keep our own files out of reach."""
        return self._setup.backends

    def add_toolset(self, name: str, definition: Mapping[str, Any]) -> None:
        """Add a plugin's toolset in all folders of this configuration; see Setup.add_toolset."""
        self._setup.add_toolset(name, definition)

    @property
    def _keeps(self) -> UndoStore | None:
        """The store of undo's contents; None if the configuration disables it."""
        return self._crib.workspaces.undo_store(self.config)

    @property
    def hooks(self) -> HookManager:
        """The hooks of the process's plugins, and its approval gate."""
        return self._crib.hooks

    @property
    def dispatcher(self) -> Dispatcher:
        """The process's dispatcher, created with the first call."""
        return self._crib.dispatcher

    async def start_plugins(self) -> None:
        """Start the process's plugins, unless they are started."""
        await self._crib.lifecycle.start()

    def redactor(self) -> Redactor:
        """Return the redactor for the current secrets of the environment and of the user's file."""
        folder = self.config.folder
        return Redactor.of(os.environ, {**token_values(folder), **read_secrets(folder), **self.config.store_secrets})

    def definitions(self, names: Sequence[str], backend: Backend) -> list[Any]:
        """Return the schemas of these tools for a model in a session of this backend."""
        shown = self.registry.get_definitions(names)
        sandbox = self.config.sandbox
        if backend.held == "none" or (sandbox.outside == "never" and not backend.limits_hosts):
            return shown
        from tools.processes.arguments import sandboxed_schema, schema_for

        offered = {"outside": sandbox.outside == "ask", "hosts": backend.limits_hosts}
        full = {
            entry.name: freeze({**entry.definition, "function": sandboxed_schema(entry.schema, names, offered)})
            for entry in self.registry.entries()
            if entry.dynamic_schema is schema_for
        }
        return [full.get(one["function"]["name"], one) for one in shown]

    # -- granted tools -------------------------------------------------------------------------------------------

    def granted(
        self,
        platform: str = "cli",
        enabled: Sequence[str] | None = None,
        disabled: Sequence[str] | None = None,
        user: str = "",
    ) -> list[str]:
        """Return the tools that a session may call; see Granting."""
        return self._setup.granting.granted(platform, enabled, disabled, user)

    def explain(self, platform: str = "cli", user: str = "") -> list[ToolLine]:
        """Return every registered tool: whether a session of this platform and user gets it, and why not; see Granting.

        On a chat platform, this is a session that a gateway opens. Without ``user`` it is for users without a role.
        """
        asked = platform, user, self.config.platforms.get(platform, PlatformConfig())
        withheld = withheld_from_user(*asked, self.registry, self.store, self._crib.platforms, self.is_contained)
        return self._setup.granting.explain(platform, user, withheld)

    def missing_tools(self) -> dict[str, str]:
        """Return the registered tools that no session gets here, each with the reason and the fix."""
        return self._setup.granting.missing()

    def policy_for(self, store: Store, redactor: Redactor | None = None) -> Policy:
        """Return the approval policy of one session; ``store`` is the session's fenced view.

        The gate takes the principal from each call: grants of one principal never cover calls of another.
        """
        return Policy(
            grants=SessionGrants(self.grants, store.grants),
            setting=self.setting,
            project_root=str(self.project_dir),
            audit=ToldAudit(store.audit, lambda: self._crib.hooks, (redactor or self.redactor()).text),
            tool_rules=self._setup.tool_rules,
            redact=(redactor or self.redactor()).text,
            files=SessionFiles(store.origins),
            harmless=self._harmless,
            mode=mode_of(self.config.approval.mode),
        )

    # -- sessions ------------------------------------------------------------------------------------------------

    async def open_by(self, request: SessionRequest) -> Session:
        """Open the session of a request here. Raises what Crib.open raises."""
        from agent.desk.opening import open_session

        self._crib.hold.add(folders_of(self.config))
        return self._crib.keep(await open_session(self, request))

    @by_fields(SessionRequest)
    async def open(self, request: SessionRequest) -> Session:
        """Open a session here, by the fields of a SessionRequest. Raises what Crib.open raises."""
        return await self.open_by(request)

    def beside(self, folder: Path) -> Workspace:
        """Return the workspace of another folder, in the same process."""
        return self._crib.workspace(folder)

    def workspace_of(self, info: SessionInfo) -> Workspace:
        """Return the workspace of a stored session, whichever folder it is resumed from."""
        folder = Path(info.place.get(PROJECT, "") or self.project_dir)
        return self if folder == self.project_dir or not folder.is_dir() else self.beside(folder)

    @property
    def start(self) -> str:
        """The folder that sessions start in when the user names no other."""
        return self.config.terminal.cwd or str(self.project_dir)

    def location(self, backend: str = "", cwd: str | None = None, *, info: SessionInfo | None = None) -> Location:
        """Return the location of a new session, or of the stored session ``info``; see agent.conversation.locating.

        Raises ConfigError and ToolcribError.
        """
        return location_for(self.backends, self.project_dir, self.start, backend, cwd, info)

    def is_contained(self, backend: str, info: SessionInfo | None = None) -> bool:
        """Return whether commands of a session can't reach toolcrib's own files. Raises what ``location`` raises."""
        return self.location(backend, info=info).backend.row.is_contained

    def open_session(self, **wanted: Any) -> Session:
        """Open a session from sync code; see ``open``."""
        return run_async(self.open(**wanted))

    def scope(
        self,
        identity: RunIdentity,
        names: Sequence[str],
        location: Location,
        *,
        store: Store,
        asker: Asker | None,
        suspends: bool,
        sink: EventSink | None,
        handlers: Mapping[str, Handler],
    ) -> CallScope:
        """Return the CallScope of a session, for the dispatcher. ``store`` is the session's fenced view."""
        redactor = self.redactor()
        return CallScope(
            identity=identity,
            open_environment=lambda: self.backends.open(location, identity.session_id, continues=True),
            start=location.known_cwd,
            granted=frozenset(names),
            asker=asker,
            suspends=suspends,
            handlers=handlers,
            activity_sink=None if sink is None else RedactingSink(sink, redactor),
            ledger=store.ledger,
            tickets=store.tickets,
            states=store.state,
            profile=self.config.profile,
            artifacts=store.artifacts,
            redactor=redactor,
            undo=_LateUndo(lambda: self._log(store, identity.session_id)) if self.config.undo.enabled else None,
            policy=self.policy_for(store, redactor),
            dispatcher=_LateRunner(self._crib),
            settings=self.settings,
            limits=self.limits,
        )

    def _log(self, store: Store, session_id: str) -> UndoLog:
        keeps = self._keeps
        assert keeps is not None, "the caller checks that undo is enabled"  # noqa: S101 - for the type checker
        return replace(keeps, journal=store.changes).log(session_id)

    def outfit(
        self,
        session: SessionCore,
        enabled: Sequence[str] | None,
        disabled: Sequence[str] | None,
        *,
        within: Collection[str] | None = None,
        others: Collection[str] | None = None,
    ) -> Callable[[Principal], None]:
        """Return a function that prepares the session for each run: the tools of the run's principal, and the current policy.

        ``within`` are the only tools that the session may ever have; a tool that its source later replaces by one of another kind
        is not among them. ``others`` are the only tools in runs for users other than the local one.
        """
        scope = session.scope
        natures = {name: self._nature(name) for name in within or ()}
        now, known = scope.identity.principal, self._crib.sources.generation

        def granted(principal: Principal) -> list[str]:
            names = self.granted(principal.platform, enabled, disabled, principal.person)
            bounds = [one for one in (within, None if principal.is_local else others) if one is not None]
            names = [name for name in names if all(name in bound for bound in bounds)]
            return [name for name in names if within is None or self._nature(name) == natures[name]]

        def fit(principal: Principal) -> None:
            nonlocal now, known
            is_changed, known = known != self._crib.sources.generation, self._crib.sources.generation
            if is_changed:
                session.names = granted(session.opened_for.principal)
                session.link.renew()
            if principal != now or is_changed:  # otherwise the tools stay unchanged, because servers cache them
                names = granted(principal)
                if principal.speaker:  # in a room the model sees the same tools for every speaker
                    names = [name for name in session.names if name in names]
                else:
                    session.names = names
                    session.link.renew()
                scope.granted, now = frozenset(names), principal
            if isinstance(scope.policy, Policy) and scope.policy.setting is not self.setting:
                scope.policy = replace(scope.policy, setting=self.setting, harmless=self._harmless)

        return fit

    def _nature(self, name: str) -> tuple[str, str, str] | None:
        """Return the kind, the toolset and the module of a tool, or None for an unknown tool."""
        entry = self.registry.get(name)
        return None if entry is None else (entry.kind, entry.toolset, entry.module)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that tools see."""
        cron = self.config.cron
        return {
            "terminal.timeout": self.config.terminal.timeout,
            "terminal.processes": self.config.terminal.processes,
            "terminal.log_mb": self.config.terminal.log_mb,
            "store.name": self.config.store_name,
            "files.own": list(self.setting.protected),
            "sandbox.outside": self.config.sandbox.outside,
            **{f"cron.{key}": getattr(cron, key) for key in ("zone", "unattended", "missed", "shortest_interval")},
        }

    @property
    def limits(self) -> Limits:
        """The limits of one call."""
        config = self.config
        return Limits(
            handler_seconds=config.tools.timeout,
            gate_seconds=config.approval.gate_timeout,
            answer_seconds=config.approval.answer_timeout,
            park_seconds=config.approval.park_timeout,
            remind_seconds=config.approval.reminders,
            result_chars=config.tools.max_result_chars,
        )

    def behind_model(self, asker: Asker | None, platform: str, told: Callable[[Event], None]) -> Asker | None:
        """Return ``asker``, preceded by the model of approval.smart if that is enabled here.

        Raises ConfigError with the setting to change.
        """
        here = self.config.platforms.get(platform)
        if not self.config.approval.smart.enabled or (here is not None and not here.smart_approval):
            return asker
        from agent.policy.smart import Auxiliary, SmartAsker

        return SmartAsker(asker, Auxiliary.of(self.config, self.providers), self.redactor(), told)

    def undo(self, session_id: str) -> Undo:
        """Return the undo of a session's file changes. Raises ToolcribError if undo is disabled."""
        from agent.undo import Undo

        return Undo(
            self._keeps, self.store, self.registry, session_id, self._snapshots if self.config.snapshots.enabled else None
        )

    def _snapshots(self, info: SessionInfo) -> Project | None:
        """Open the snapshots of a session's project; None if it has none."""
        from agent.snapshots import open_project

        return open_project(self.config.snapshots, info.cwd, only_known=True)

    async def delete_sessions(self, session_ids: Collection[str]) -> Sequence[str]:
        """Delete stored sessions with all their data, including old contents of files; see agent.deleting."""
        from agent.deleting import delete_sessions

        return await delete_sessions(self.store, self._keeps, session_ids)

    def open_environment(self, info: SessionInfo, backend: str = "") -> Environment:
        """Open the environment of a stored session, or one in the named ``backend``; the caller closes it.

        Raises EnvironmentFailed, ConfigError, and ToolcribError for the reasons of ``open``.
        """
        return self.backends.open(self.location(backend, info=info), info.id)


class _LateRunner:
    """The process's dispatcher, created with the first call."""

    def __init__(self, crib: Crib) -> None:
        self._crib = crib

    def call_sync(self, call: ToolCall, scope: CallScope, extra: Mapping[str, Any], /) -> ExecutedCall:
        """Run one call from sync code."""
        return self._crib.dispatcher.call_sync(call, scope, extra)


class _LateUndo:
    """A session's UndoLog, which opens the store of old contents at the first change of a file."""

    def __init__(self, log: Callable[[], UndoLog]) -> None:
        self.turn = 0
        self._open = log
        self._log: UndoLog | None = None

    def changing(self, ctx: ToolCallContext, paths: Sequence[str]) -> AbstractAsyncContextManager[Keeping]:
        """Keep the old contents of these files, as UndoLog.changing does."""
        self._log = self._log or self._open()
        self._log.turn = self.turn
        return self._log.changing(ctx, paths)
