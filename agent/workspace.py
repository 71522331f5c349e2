"""A project folder with what holds there: configuration, approval policy, backends, toolsets, undo."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import model_tools
from agent.allowlist import PermanentGrants
from agent.backends import Backends, Location
from agent.below import folders_of
from agent.config import Config, read_secrets, secrets_path, state_dir
from agent.granting import Granting, ToolLine
from agent.grants import SessionGrants
from toolcrib import ConfigError, Environment, EventSink, Principal, RunIdentity
from toolcrib._dataclass import replace
from toolcrib._store import SessionInfo, Store
from toolcrib._types import Handler
from tools.approval.modes import mode_of
from tools.approval.origins import SessionFiles
from tools.approval.policy import Policy, RuleSays, ToolRules
from tools.dispatch.bridge import run_async
from tools.dispatch.scope import Asker, CallScope, Limits
from tools.installed import installed
from tools.judge.harmless import Harmless
from tools.judge.setting import Setting, person_home
from tools.redact import RedactingSink, Redactor
from toolsets import ToolsetCatalog

if TYPE_CHECKING:  # all that only some uses need loads with them
    from agent.conversation.session import Session
    from agent.crib import Crib
    from agent.events import Event
    from agent.undo import Undo
    from toolcrib import ExecutedCall, ToolCall, ToolCallContext
    from toolcrib._undo import Keeping, UndoLog
    from tools.dispatch.hooks import HookManager
    from tools.dispatch.pipeline import Dispatcher
    from tools.judge.table import Rule
    from tools.undo.keeper import UndoStore

_log = logging.getLogger(__name__)

_ARTIFACTS = ("", "-wal", "-shm", "-backup", "-backup-before", "-repaired")
_STORE_ENDS = ("", "-wal", "-shm", "-backup", "-backup-before", "-repaired", "-search", "-search-wal", "-search-shm")
"""Endings of the store's file and of those beside it."""


class Workspace:
    """Made by ``Crib.workspace``, and kept as long as the Crib. Sessions that are opened here run by its configuration.

    What a process has (store, tools, plugins, dispatcher) is the Crib's. ``grants`` are the local person's lasting ones, shared
    by all workspaces of one configuration file and folder; those of others lie in the store.
    """

    def __init__(
        self, crib: Crib, config: Config, project_dir: Path, grants: PermanentGrants, *, is_derived: bool = False
    ) -> None:
        """``is_derived``: the configuration is the Crib's own, narrowed by the folder's.

        Raises ConfigError for operator's rules that can't be read, and for two backends of one name.
        """
        self._crib = crib
        self.is_derived = is_derived
        self.config = config
        self.project_dir = project_dir
        self.store = crib.store
        self.registry = crib.registry
        self.providers = crib.providers
        self.grants = grants
        self.windows_learned: dict[tuple[str, str], int] = {}
        """Tokens that models read, by base_url and name, where only a refusal said it."""
        self.catalog = ToolsetCatalog(crib.registry)
        for name, bundle in config.toolsets.custom.items():
            definition = {"description": bundle.description, "tools": bundle.tools, "includes": bundle.includes}
            self.catalog.add(name, definition, source=str(config.path))
        for name, added in crib.toolsets.items():
            self.add_toolset(name, added)
        self._granting = Granting(config, crib.registry, self.catalog)
        self._rules, self._tool_rules = _operators(config)
        self._opened_undo: list[UndoStore | None] = []
        self.protect(crib.protected)

    def protect(self, paths: Sequence[str]) -> None:
        """Judge by these closed files of ours from now on; sessions that are open do so from their next run on."""
        develop = self.config.approval.develop_toolcrib
        self.setting = Setting(protected=paths, home=person_home(), rules=self._rules, installed=installed(develop=develop))
        self.backends = Backends(self.config, paths)
        self._harmless = Harmless()  # what was harmless may be closed now

    def add_toolset(self, name: str, definition: Mapping[str, Any]) -> None:
        """Take over a plugin's toolset, unless the configuration has given the name to one of its own."""
        if name in self.catalog.added:
            _log.warning("%s gives the name %r to a toolset of its own; the plugin's is left out", self.config.path, name)
        else:
            self.catalog.add(name, definition, source="plugin")

    def close(self) -> None:
        """Close the store of undo's contents."""
        for keeps in self._opened_undo:
            if keeps is not None:
                keeps.close()

    @property
    def _keeps(self) -> UndoStore | None:
        """The store of undo's contents, opened at its first use; None where the configuration disables it."""
        if not self._opened_undo:
            from agent.undo import open_undo

            self._opened_undo.append(open_undo(self.config, self.store))
        return self._opened_undo[0]

    @property
    def hooks(self) -> HookManager:
        """The hooks of the process's plugins, and its approval gate."""
        return self._crib.hooks

    @property
    def dispatcher(self) -> Dispatcher:
        """The process's dispatcher, made with the first call."""
        return self._crib.dispatcher

    async def start_plugins(self) -> None:
        """Start the process's plugins, unless that was done."""
        await self._crib.lifecycle.start()

    def redactor(self) -> Redactor:
        """Return what takes out the secrets of the environment and of the person's file, as they are now."""
        return Redactor.of(os.environ, {**read_secrets(self.config.path.parent), **self.config.store_secrets})

    # -- what is granted -----------------------------------------------------------------------------------------

    def granted(
        self,
        platform: str = "cli",
        enabled: Sequence[str] | None = None,
        disabled: Sequence[str] | None = None,
        user: str = "",
    ) -> list[str]:
        """Return the tools that a session may call; see Granting."""
        return self._granting.granted(platform, enabled, disabled, user)

    def explain(self, platform: str = "cli", user: str = "") -> list[ToolLine]:
        """Return every registered tool, and why it is not granted; see Granting."""
        return self._granting.explain(platform, user)

    def policy_for(self, store: Store, redactor: Redactor | None = None) -> Policy:
        """Return what the approval gate goes by in one session; ``store`` is the session's fenced view.

        The gate itself takes the principal from each call: grants of one never cover calls of another.
        """
        return Policy(
            grants=SessionGrants(self.grants, store.grants),
            setting=self.setting,
            project_root=str(self.project_dir),
            audit=store.audit,
            tool_rules=self._tool_rules,
            redact=(redactor or self.redactor()).text,
            files=SessionFiles(store.origins),
            harmless=self._harmless,
            mode=mode_of(self.config.approval.mode),
        )

    # -- sessions ------------------------------------------------------------------------------------------------

    async def open(self, **wanted: Any) -> Session:
        """Open a session here; see Crib.open for what can be wanted."""
        from agent.conversation.opening import Opening, open_session

        self._crib.hold.add(folders_of(self.config))
        return await open_session(self, Opening(**wanted))

    def beside(self, folder: Path) -> Workspace:
        """Return the workspace of another folder, in the same process."""
        return self._crib.workspace(folder)

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
        """Return a session's side of the dispatcher. ``store`` is the session's fenced view."""
        redactor = self.redactor()
        return CallScope(
            identity=identity,
            open_environment=lambda: self.backends.open(location, identity.session_id),
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
            settings={"terminal.timeout": self.config.terminal.timeout},
            limits=self.limits,
        )

    def _log(self, store: Store, session_id: str) -> UndoLog:
        keeps = self._keeps
        assert keeps is not None, "nobody asks where undo is disabled"  # noqa: S101 - for the type checker
        return replace(keeps, journal=store.changes).log(session_id)

    def outfit(
        self,
        session: Session,
        enabled: Sequence[str] | None,
        disabled: Sequence[str] | None,
        *,
        within: Collection[str] | None = None,
    ) -> Callable[[Principal], None]:
        """Return what fits the session out before each run: the tools of whom it is for, and the policy that holds now.

        ``within`` are the only tools that it may ever have.
        """
        scope = session.scope
        now = scope.identity.principal

        def fit(principal: Principal) -> None:
            nonlocal now
            if principal != now:  # else the tools stay as they are: servers cache by them
                names = self.granted(principal.platform, enabled, disabled, principal.person)
                names = names if within is None else [name for name in names if name in within]
                if principal.speaker:  # in a room the model sees the same tools, whoever speaks
                    names = [name for name in session.names if name in names]
                else:
                    session.names = names
                    session.link.renew()
                scope.granted, now = frozenset(names), principal
            if isinstance(scope.policy, Policy) and scope.policy.setting is not self.setting:
                scope.policy = replace(scope.policy, setting=self.setting, harmless=self._harmless)

        return fit

    @property
    def limits(self) -> Limits:
        """Return the limits of one call."""
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
        """Return ``asker``, behind the model of approval.smart where that is wanted here. Raises ConfigError with what to set."""
        here = self.config.platforms.get(platform)
        if not self.config.approval.smart.enabled or (here is not None and not here.smart_approval):
            return asker
        from agent.smart import Auxiliary, SmartAsker

        return SmartAsker(asker, Auxiliary.of(self.config, self.providers), self.redactor(), told)

    def undo(self, session_id: str) -> Undo:
        """Return what takes back changes of a session's tools in files. Raises ToolcribError where nothing is kept."""
        from agent.undo import Undo

        return Undo(self._keeps, self.store, self.registry, session_id)

    async def delete_sessions(self, session_ids: Collection[str]) -> Sequence[str]:
        """Delete stored sessions with all that was kept of them, what could be undone too; see agent.deleting."""
        from agent.deleting import delete_sessions

        return await delete_sessions(self.store, self._keeps, session_ids)

    def open_environment(self, info: SessionInfo, backend: str = "") -> Environment:
        """Open the environment of a stored session, or the backend with that name; to be closed.

        Raises EnvironmentFailed, ConfigError, and ToolcribError as ``open``.
        """
        from agent.conversation.locating import location_of

        return self.backends.open(location_of(self, info, backend), info.id)


class _LateRunner:
    """The process's dispatcher, which is made with the first call."""

    def __init__(self, crib: Crib) -> None:
        self._crib = crib

    def call_sync(self, call: ToolCall, scope: CallScope, extra: Mapping[str, Any], /) -> ExecutedCall:
        """Run one call from sync code."""
        return self._crib.dispatcher.call_sync(call, scope, extra)


class _LateUndo:
    """A session's UndoLog, which opens the store of old contents with the first change of a file."""

    def __init__(self, log: Callable[[], UndoLog]) -> None:
        self.turn = 0
        self._open = log
        self._log: UndoLog | None = None

    def changing(self, ctx: ToolCallContext, paths: Sequence[str]) -> AbstractAsyncContextManager[Keeping]:
        """Keep these files as UndoLog.changing does."""
        self._log = self._log or self._open()
        self._log.turn = self.turn
        return self._log.changing(ctx, paths)


def same_config(one: Config, other: Config) -> bool:
    """Tell whether two configurations say the same, in the same file."""
    return (one.path, one.profile) == (other.path, other.profile) and one == other


def own_files(config: Config) -> list[str]:
    """Return our own files and those of this configuration, which no tool may change and no container see."""
    beside = config.path.parent
    ends = [*_STORE_ENDS, *(f"-artifacts{end}" for end in _ARTIFACTS)]
    path = config.store_path
    store = [path.with_name(f"{path.name}{end}") for end in ends]
    own = [config.path, beside / "plugins", secrets_path(beside), state_dir(), *store]
    return [*model_tools.own_paths(), *model_tools.with_targets(own)]


def _operators(config: Config) -> tuple[Sequence[Rule], ToolRules | None]:
    """Return the operator's own rules: rows for commands, and what is decided about tools. Raises ConfigError."""
    approval = config.approval
    if not approval.rules and not approval.tools:
        return (), None
    from tools.approval.operator_rules import decide, operator_rules, tool_rules

    key = "approval.rules"
    try:
        rows = operator_rules([asdict(entry) for entry in approval.rules])
        key = "approval.tools"
        decisions = tool_rules([asdict(entry) for entry in approval.tools])
    except ConfigError as error:
        item = str(error).partition("]")[0] + "]"
        where = config.origins.get(item, config.origins.get(key, config.path))
        raise ConfigError(f"{where}: {error}") from error

    def says(name: str, args: Any, paths: Sequence[str]) -> RuleSays | None:
        rule = decide(decisions, name, args if isinstance(args, Mapping) else {}, paths)
        return None if rule is None else RuleSays(rule.decision, rule.tool, rule.why)

    return rows, says if decisions else None
