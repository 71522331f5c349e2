"""What one process has: configuration, store, tools, plugins and gates, put together."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import model_tools
from agent.allowlist import PermanentGrants
from agent.config import Config, read_secrets, secrets_path, state_dir
from agent.events import Event
from agent.granting import Granting, ToolLine
from agent.handlers import TODOS, TodoStore, loop_handlers
from agent.places import BUILT_IN, LOCAL, Places, Spot
from agent.plugins import PluginInfo, load_plugins
from agent.providers.factory import MANUAL, PROVIDERS
from agent.session import Session
from agent.undo import Undo, open_undo
from toolcrib import ConfigError, Environment, EventSink, PluginError, RunIdentity, ToolcribError, ToolRegistry, registry
from toolcrib._store import SessionInfo, Store
from toolcrib._types import Handler
from tools.approval.gate import ApprovalGate, RuleSays, ToolRules
from tools.approval.judge import Judge
from tools.approval.setting import Setting, person_home
from tools.arguments import check_schema
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
        return Redactor.of(os.environ, {**read_secrets(self.config.path.parent), **self.config.store_secrets})

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

    def open_session(
        self,
        *,
        platform: str = "cli",
        user: str = "",
        asker: Asker | None = None,
        cwd: str | None = None,
        backend: str = "",
        enabled: Sequence[str] | None = None,
        disabled: Sequence[str] | None = None,
        sink: EventSink | None = None,
        resume: str = "",
        latest: bool = False,
        handlers: Mapping[str, Handler] | None = None,
        once: bool = False,
    ) -> Session:
        """A session with what the platform grants. Without an ``asker``, whatever would ask is denied. Close it at the end.

        ``backend`` names the place that it runs in (see agent.places); it is a person's to choose, and "" takes the configured
        one. ``cwd`` is the folder that it starts in, there where the place is far. ``handlers``, by name, run tools that are
        registered without one; they come before our own.

        ``resume`` goes on with a stored one by its id or the beginning of it, ``latest`` with the last of this platform, user and
        folder, and in the place where it was, unless ``backend`` names one. ``once``: nobody will, so no container is kept
        for it. Raises ToolcribError where there is none or its place is another now, and ConfigError for an unknown place,
        where approval.smart is enabled and can't be used, and where the grants of command_allowlist can't be read or written.
        """
        if self.grants.problem is not None:
            raise self.grants.problem
        here = cwd if cwd is not None and not self.places.get(backend).is_far else self._start
        old = self._stored(resume, platform, user, here) if resume or latest else None
        spot = self._spot(backend, cwd, old)
        spot = replace(spot, place=spot.place.fleeting) if once else spot
        identity = RunIdentity(old.id if old is not None else secrets.token_hex(16), platform=platform, user=user)
        names = self.granted(platform, enabled, disabled, user)
        todos = TodoStore()
        asker = self._behind_model(asker, platform, lambda event: session.happened(event))
        scope = self._scope(identity, names, spot, asker, sink, {**loop_handlers(todos), **(handlers or {})})
        session = Session(
            scope, names, spot.place, store=self.store, dispatcher=self.dispatcher, config=self.config, providers=self.providers
        )
        if old is None:
            create = self.store.sessions.create
            create(identity.session_id, platform=platform, user=user, cwd=spot.start, place=spot.record())
        else:
            if old.place != spot.record():
                self.store.sessions.update(identity.session_id, place=spot.record())
            session.repair()
            todos.write(session.stored_state(TODOS.name) or [])
        return session

    def _behind_model(self, asker: Asker | None, platform: str, told: Callable[[Event], None]) -> Asker | None:
        """``asker``, behind the model of approval.smart where that is wanted here. Raises ConfigError with what to set."""
        here = self.config.platforms.get(platform)
        if not self.config.approval.smart.enabled or (here is not None and not here.smart_approval):
            return asker
        from agent.smart import Auxiliary, SmartAsker

        return SmartAsker(asker, Auxiliary.of(self.config, self.providers), self.redactor(), told)

    def find_session(self, prefix: str) -> SessionInfo:
        """The stored session whose id begins so. Raises ToolcribError where there is none, or more than one."""
        found = self.store.sessions.get(prefix)
        if found is None:
            raise ToolcribError(f"no session begins with {prefix!r}; `toolcrib sessions` lists them")
        return found

    def _stored(self, prefix: str, platform: str, user: str, cwd: str) -> SessionInfo:
        if prefix:
            return self.find_session(prefix)
        found = self.store.sessions.latest(platform=platform, user=user, cwd=cwd)
        if found is None:
            raise ToolcribError(f"there is no session of this folder ({cwd}) to go on with; `toolcrib sessions` lists all")
        return found

    @property
    def _start(self) -> str:
        """The folder that sessions start in, where nobody names another."""
        return self.config.terminal.cwd or str(self.project_dir)

    def _spot(self, backend: str, cwd: str | None, old: SessionInfo | None) -> Spot:
        """Where a session runs: where it was, unless somebody names a place. Raises ConfigError and ToolcribError."""
        start = self._start
        if old is None or backend or not old.place:
            place, chosen = self.places.get(backend), bool(backend)
            if old is not None and not backend and place.kind != LOCAL:
                raise ToolcribError(
                    f"the session {old.id[:12]} is from before sessions were bound to places, and {place.name} may not be where "
                    "it ran: name the place that it shall go on in (--backend NAME)"
                )
        else:
            place, chosen = self.places.again(old.place, old.id), "chosen" in old.place
            cwd = cwd or old.place.get("cwd")
        if old is not None and old.cwd and Path(old.cwd).is_dir():
            start = old.cwd
        return Spot(place, start, cwd, chosen) if place.is_far else Spot(place, cwd or start, None, chosen)

    def undo(self, session_id: str) -> Undo:
        """Taking back what a session's tools changed in files. Raises ToolcribError where nothing is kept."""
        return Undo(self._keeps, self.store, self.registry, session_id)

    def open_place(self, info: SessionInfo, backend: str = "") -> Environment:
        """Where a stored session's files are, or the place with that name; to be closed. Raises EnvironmentFailed, ConfigError,
        and ToolcribError as open_session.
        """
        return self.places.open(self._spot(backend, None, info), info.id)

    def _protected(self) -> list[str]:
        """Our own files, which no tool may change and no container see."""
        beside = self.config.path.parent
        store = [self.config.store_path.with_name(f"{self.config.store_path.name}{end}") for end in ("", "-wal", "-shm")]
        own = [self.config.path, beside / "plugins", secrets_path(beside), state_dir(), *store]
        return [*model_tools.own_paths(), *model_tools.with_targets(own)]

    def _scope(
        self,
        identity: RunIdentity,
        names: Sequence[str],
        spot: Spot,
        asker: Asker | None,
        sink: EventSink | None,
        handlers: Mapping[str, Handler],
    ) -> CallScope:
        config = self.config
        return CallScope(
            identity=identity,
            open_environment=lambda: self.places.open(spot, identity.session_id),
            granted=frozenset(names),
            asker=asker,
            handlers=handlers,
            activity_sink=sink,
            ledger=self.store.ledger,
            tickets=self.store.tickets,
            redactor=self.redactor(),
            undo=None if self._keeps is None else self._keeps.log(identity.session_id),
            dispatcher=self.dispatcher,
            settings={"terminal.timeout": config.terminal.timeout},
            limits=Limits(
                handler_seconds=config.tools.timeout,
                gate_seconds=config.approval.gate_timeout,
                answer_seconds=config.approval.answer_timeout,
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
