"""What one process has: configuration, store, tools, plugins and gates, put together."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import model_tools
from agent.allowlist import PermanentGrants
from agent.config import Config, read_secrets, secrets_path, state_dir
from agent.conversation.session import Session
from agent.events import Event
from agent.granting import Granting, ToolLine
from agent.places import BUILT_IN, Places, Spot
from agent.plugins import PluginInfo, load_plugins
from agent.providers.factory import MANUAL, PROVIDERS
from agent.undo import Undo, open_undo
from toolcrib import ConfigError, Environment, EventSink, PluginError, RunIdentity, ToolRegistry, registry
from toolcrib._store import SessionInfo, Store
from toolcrib._types import Handler
from tools.approval.gate import ApprovalGate, RuleSays, ToolRules
from tools.approval.judge import Judge
from tools.approval.setting import Setting, person_home
from tools.arguments import check_schema
from tools.dispatch.bridge import run_async
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import Asker, CallScope, Limits
from tools.environments import Factory, register_environment
from tools.redact import Redactor
from toolsets import ToolsetCatalog

if TYPE_CHECKING:
    from tools.approval.table import Rule


class Crib:
    """A context manager; ``close`` takes back what its plugins registered, and closes the store."""

    def __init__(self, config: Config, project_dir: Path | None, store: Store) -> None:
        self.config = config
        self.project_dir = project_dir or Path.cwd()
        self.store = store
        self._keeps = open_undo(config, store)
        self.registry: ToolRegistry = registry.child()
        self.grants = PermanentGrants(store.grants, config.path)
        self.catalog = ToolsetCatalog(self.registry)
        self.commands: dict[str, Any] = {}
        self.providers: dict[str, Callable[..., Any]] = {}
        self.platforms: dict[str, Callable[..., Any]] = {}
        self._factories: dict[str, Factory] = {}
        self.dispatcher: Dispatcher = model_tools.new_dispatcher(self._approval_gate(), self.registry)
        self.registry.attach(model_tools.face_of(self.dispatcher), check_schema)
        self.places = Places(config, self._protected())
        self._take_back = [self.registry.checkpoint()]
        for name, bundle in config.toolsets.custom.items():
            definition = {"description": bundle.description, "tools": bundle.tools, "includes": bundle.includes}
            self.catalog.add(name, definition, source=str(config.path))
        self.plugins: list[PluginInfo] = load_plugins(
            config,
            self.dispatcher.hooks,
            self.registry,
            add_toolset=self._add_toolset,
            add_command=self._add_command,
            add_environment=self._add_environment,
            add_provider=self._add_provider,
            add_platform=lambda name, factory: _once(self.platforms, "platform", name, factory),
            project_dir=self.project_dir,
        )
        self._granting = Granting(config, self.registry, self.catalog)

    def __enter__(self) -> Crib:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        for take_back in reversed(self._take_back):
            take_back()
        if self._keeps is not None:
            self._keeps.close()
        self.store.close()

    def _approval_gate(self) -> ApprovalGate:
        protected = self._protected()
        rules, tool_rules = _operators(self.config)
        setting = Setting(protected=protected, home=person_home(), rules=rules)
        self.judge = Judge(setting)
        return ApprovalGate(
            self.grants,
            setting=setting,
            project_root=str(self.project_dir),
            audit=self.store.audit,
            tool_rules=tool_rules,
            redact=self.redactor().text,
        )

    def _add_toolset(self, name: str, definition: Mapping[str, Any]) -> None:
        if name in self.catalog.added:
            raise PluginError(f"the toolset {name!r} was added before, by {self.catalog.added[name]}; choose another name")
        self.catalog.add(name, definition, source="plugin")

    def _add_command(self, name: str, module: Any) -> None:
        if lacks := [part for part in ("HELP", "configure", "run") if not hasattr(module, part)]:
            raise PluginError(f"the command {name!r} has no {', '.join(lacks)}: give it HELP, configure(parser) and run(args)")
        _once(self.commands, "command", name, module)

    def _add_environment(self, name: str, factory: Factory) -> None:
        if name in self.places.named:
            raise PluginError(f"{self.config.path} gives the name {name!r} to a place of its own; rename one of the two")
        if name in BUILT_IN:  # sessions would run elsewhere than everybody thinks
            raise PluginError(f"the place {name!r} is toolcrib's own; choose another name")
        _must_open("place", name, factory)
        _once(self._factories, "place", name, factory)
        self._take_back.append(register_environment(name, factory))

    def redactor(self) -> Redactor:
        """Takes out the secrets of the environment and of the person's file, as they are now."""
        return Redactor.of(os.environ, read_secrets(self.config.path.parent))

    def _add_provider(self, name: str, factory: Callable[..., Any]) -> None:
        if name in PROVIDERS or name == MANUAL:
            raise PluginError(f"the provider {name!r} is toolcrib's own; choose another name")
        _must_open("provider", name, factory)
        _once(self.providers, "provider", name, factory)

    # -- what is granted -----------------------------------------------------------------------------------------

    def granted(
        self,
        platform: str = "cli",
        enabled: Sequence[str] | None = None,
        disabled: Sequence[str] | None = None,
        user: str = "",
    ) -> list[str]:
        """The tools that a session may call; see Granting."""
        return self._granting.granted(platform, enabled, disabled, user)

    def explain(self, platform: str = "cli", user: str = "") -> list[ToolLine]:
        """Every registered tool, and why it is not granted; see Granting."""
        return self._granting.explain(platform, user)

    # -- sessions ------------------------------------------------------------------------------------------------

    async def open(
        self,
        *,
        platform: str = "cli",
        user: str = "",
        roles: Sequence[str] = (),
        asker: Asker | None = None,
        suspends: bool = False,
        cwd: str | None = None,
        backend: str = "",
        enabled: Sequence[str] | None = None,
        disabled: Sequence[str] | None = None,
        sink: EventSink | None = None,
        resume: str = "",
        latest: bool = False,
        named: str = "",
        handlers: Mapping[str, Handler] | None = None,
        once: bool = False,
    ) -> Session:
        """Open a session with what the platform grants. Without an ``asker``, whatever would ask is denied; with ``suspends`` the
        run is parked instead. Close it at the end.

        ``backend`` names where it runs (see agent.places); it is a person's to choose, and "" takes the configured one. ``cwd`` is
        the folder that it starts in, there where the backend is far. ``handlers``, by name, run tools that are registered without
        one; they come before our own.

        ``resume`` continues a stored one by its id or the beginning of it, ``latest`` the last of this platform, user and folder,
        and where it ran, unless ``backend`` names another. ``named`` is the id itself: that session is continued, or made.
        ``once``: nobody will continue it, so no container is kept for it. Raises ToolcribError where there is none or its backend
        is another now, and ConfigError for an unknown backend, where approval.smart is enabled and can't be used, and where the
        grants of command_allowlist can't be read or written.
        """
        from agent.conversation.opening import Opening, open_session

        wanted = Opening(
            platform=platform,
            user=user,
            roles=roles,
            asker=asker,
            suspends=suspends,
            cwd=cwd,
            backend=backend,
            enabled=enabled,
            disabled=disabled,
            sink=sink,
            resume=resume,
            latest=latest,
            named=named,
            handlers=handlers or {},
            once=once,
        )
        return await open_session(self, wanted)

    def open_session(self, **wanted: Any) -> Session:
        """Open a session from sync code; see ``open``."""
        return run_async(self.open(**wanted))

    def behind_model(self, asker: Asker | None, platform: str, told: Callable[[Event], None]) -> Asker | None:
        """Return ``asker``, behind the model of approval.smart where that is wanted here. Raises ConfigError with what to set."""
        here = self.config.platforms.get(platform)
        if not self.config.approval.smart.enabled or (here is not None and not here.smart_approval):
            return asker
        from agent.smart import Auxiliary, SmartAsker

        return SmartAsker(asker, Auxiliary.of(self.config, self.providers), self.redactor(), told)

    async def find_session(self, prefix: str) -> SessionInfo:
        """Return the stored session whose id begins so. Raises ToolcribError where there is none, or more than one."""
        from agent.conversation.opening import find_session

        return await find_session(self, prefix)

    def undo(self, session_id: str) -> Undo:
        """Taking back what a session's tools changed in files. Raises ToolcribError where nothing is kept."""
        return Undo(self._keeps, self.store, self.registry, session_id)

    def open_place(self, info: SessionInfo, backend: str = "") -> Environment:
        """Where a stored session's files are, or the place with that name; to be closed. Raises EnvironmentFailed, ConfigError,
        and ToolcribError as open_session.
        """
        from agent.conversation.opening import spot_of

        return self.places.open(spot_of(self, info, backend), info.id)

    def _protected(self) -> list[str]:
        """Our own files, which no tool may change and no container see."""
        beside = self.config.path.parent
        store = [self.config.store_path.with_name(f"{self.config.store_path.name}{end}") for end in ("", "-wal", "-shm")]
        own = [self.config.path, beside / "plugins", secrets_path(beside), state_dir(), *store]
        return [*model_tools.own_paths(), *model_tools.with_targets(own)]

    def scope(
        self,
        identity: RunIdentity,
        names: Sequence[str],
        spot: Spot,
        *,
        store: Store,
        asker: Asker | None,
        suspends: bool,
        sink: EventSink | None,
        handlers: Mapping[str, Handler],
    ) -> CallScope:
        """Return a session's side of the dispatcher. ``store`` is the session's fenced view."""
        config = self.config
        keeps = None if self._keeps is None else replace(self._keeps, journal=store.changes)
        return CallScope(
            identity=identity,
            open_environment=lambda: self.places.open(spot, identity.session_id),
            granted=frozenset(names),
            asker=asker,
            suspends=suspends,
            handlers=handlers,
            activity_sink=sink,
            ledger=store.ledger,
            tickets=store.tickets,
            redactor=self.redactor(),
            undo=None if keeps is None else keeps.log(identity.session_id),
            dispatcher=self.dispatcher,
            settings={"terminal.timeout": config.terminal.timeout},
            limits=Limits(
                handler_seconds=config.tools.timeout,
                gate_seconds=config.approval.gate_timeout,
                answer_seconds=config.approval.answer_timeout,
                park_seconds=config.approval.park_timeout,
                remind_seconds=config.approval.reminders,
                result_chars=config.tools.max_result_chars,
            ),
        )


def _operators(config: Config) -> tuple[Sequence[Rule], ToolRules | None]:
    """The operator's own rules: rows for commands, and what is decided about tools. Raises ConfigError."""
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
        raise ConfigError(f"{config.origins.get(key, config.path)}: {error}") from error

    def says(name: str, args: Any) -> RuleSays | None:
        rule = decide(decisions, name, args if isinstance(args, Mapping) else {})
        return None if rule is None else RuleSays(rule.decision, rule.tool, rule.why)

    return rows, says if decisions else None


def _once(table: dict[str, Any], what: str, name: str, value: Any) -> None:
    if name in table:
        raise PluginError(f"the {what} {name!r} was added before; choose another name")
    table[name] = value


def _must_open(what: str, name: str, factory: object) -> None:
    if not callable(factory):
        raise PluginError(f"the {what} {name!r} needs a function that opens it, got {factory!r}")
