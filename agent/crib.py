"""What one process has: configuration, store, tools, plugins and gates, put together."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import model_tools
from agent.allowlist import PermanentGrants
from agent.config import Config, state_dir
from agent.handlers import loop_handlers
from agent.plugins import PluginInfo, load_plugins
from agent.session import Session
from toolcrib import EventSink, PluginError, RunIdentity, ToolRegistry, ToolsetError, registry
from toolcrib._store import Store
from tools.approval.gate import ApprovalGate
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.scope import Asker, CallScope, Limits
from tools.environments import open_environment, register_environment
from toolsets import ToolsetCatalog

PLATFORM_PRESET = "toolcrib-{platform}"


@dataclass(frozen=True, slots=True)
class ToolLine:
    """One registered tool, as people are told of it. ``reason`` says why it is not granted."""

    name: str
    toolset: str
    emoji: str
    description: str
    granted: bool
    reason: str | None


class Crib:
    """A context manager; ``close`` takes back what its plugins registered."""

    def __init__(self, config: Config, project_dir: Path | None, store: Store) -> None:
        self.config = config
        self.project_dir = project_dir or Path.cwd()
        self.store = store
        self.registry: ToolRegistry = registry
        self.grants = PermanentGrants(store.grants, config.path)
        self.catalog = ToolsetCatalog(registry)
        self.commands: dict[str, Any] = {}
        self.providers: dict[str, Callable[..., Any]] = {}
        own = [config.path, config.path.parent / "plugins", state_dir()]
        protected = [*model_tools.own_paths(), *model_tools.with_targets(own)]
        gate = ApprovalGate(self.grants, protected=protected, project_root=str(self.project_dir), audit=store.audit)
        self.dispatcher: Dispatcher = model_tools.new_dispatcher(gate)
        self._take_back = registry.checkpoint()
        for name, bundle in config.toolsets.custom.items():
            self.catalog.add(
                name,
                {"description": bundle.description, "tools": bundle.tools, "includes": bundle.includes},
                source=str(config.path),
            )
        self.plugins: list[PluginInfo] = load_plugins(
            config, self.dispatcher.hooks, registry, add_toolset=self._add_toolset, add_command=_once(self.commands, "command"),
            add_environment=register_environment, add_provider=_once(self.providers, "provider"), project_dir=self.project_dir,
        )  # fmt: skip

    def __enter__(self) -> Crib:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._take_back()
        self.store.close()

    def _add_toolset(self, name: str, definition: Mapping[str, Any]) -> None:
        if name in self.catalog.added:
            raise PluginError(f"the toolset {name!r} was added before, by {self.catalog.added[name]}; choose another name")
        self.catalog.add(name, definition, source="plugin")

    # -- what is granted -----------------------------------------------------------------------------------------

    def granted(
        self, platform: str = "cli", enabled: Sequence[str] | None = None, disabled: Sequence[str] | None = None
    ) -> list[str]:
        """The tools that a session on this platform may call, in order. Arguments stand before the configuration for
        ``enabled``, and add to it for ``disabled``. Raises ToolsetError for an unknown toolset or platform."""
        wanted = self._wanted(platform, enabled, disabled)
        return [name for name, reason in self.registry.availability(wanted).items() if reason is None]

    def explain(self, platform: str = "cli") -> list[ToolLine]:
        """Every registered tool: whether this platform gets it, and why not."""
        wanted = set(self._wanted(platform))
        here = self.config.platforms.get(platform)
        off = {*self.config.tools.disabled, *(here.disabled_tools if here else ())}
        reasons = self.registry.availability()
        lines = []
        for entry in self.registry.entries():
            reason = reasons[entry.name]
            if entry.name in off:
                reason = "switched off in the configuration (disabled tools)"
            elif entry.name not in wanted:
                reason = f"not among the toolsets of the platform {platform!r}"
            lines.append(ToolLine(entry.name, entry.toolset, entry.emoji, entry.description, reason is None, reason))
        return lines

    def _wanted(self, platform: str, enabled: Sequence[str] | None = None, disabled: Sequence[str] | None = None) -> list[str]:
        here = self.config.platforms.get(platform)
        if enabled is None:
            enabled = (
                here.enabled_toolsets if here is not None and here.enabled_toolsets is not None else self.config.toolsets.enabled
            )
        preset = PLATFORM_PRESET.format(platform=platform)
        if preset not in self.catalog.names():
            known = sorted(name.removeprefix("toolcrib-") for name in self.catalog.names() if name.startswith("toolcrib-"))
            raise ToolsetError(f"unknown platform {platform!r}; known: {', '.join(known)}")
        dropped = [*self.config.toolsets.disabled, *(here.disabled_toolsets if here else ()), *(disabled or ())]
        without = {*self.config.tools.disabled, *(here.disabled_tools if here else ())}
        chosen = [preset] if enabled is None else enabled
        return self.catalog.select(self._with_plugin_toolsets(chosen, enabled is None), dropped, without=without)

    def _with_plugin_toolsets(self, chosen: Sequence[str], by_default: bool) -> list[str]:
        """A preset also grants what enabled plugins registered: the person enabled them for that."""
        if not by_default:
            return list(chosen)
        built_in = {entry.toolset for entry in self.registry.entries() if entry.module in model_tools.BUILT_IN}
        return [*chosen, *(name for name in self.registry.toolsets() if name not in built_in)]

    # -- sessions ------------------------------------------------------------------------------------------------

    def open_session(
        self,
        *,
        platform: str = "cli",
        user: str = "",
        asker: Asker | None = None,
        cwd: str | None = None,
        enabled: Sequence[str] | None = None,
        disabled: Sequence[str] | None = None,
        sink: EventSink | None = None,
    ) -> Session:
        """A session with what the platform grants. Without an ``asker``, whatever would ask is denied. Close it at the end."""
        config = self.config
        identity = RunIdentity(secrets.token_hex(16), platform=platform, user=user)
        names = self.granted(platform, enabled, disabled)
        start = cwd or config.terminal.cwd or str(self.project_dir)
        scope = CallScope(
            identity=identity,
            open_environment=lambda: open_environment("local", cwd=start, pass_env=config.terminal.pass_env),
            granted=frozenset(names),
            asker=asker,
            handlers=loop_handlers(),
            activity_sink=sink,
            ledger=self.store.ledger,
            tickets=self.store.tickets,
            settings={"terminal.timeout": config.terminal.timeout},
            limits=Limits(
                handler_seconds=config.tools.timeout,
                gate_seconds=config.approval.gate_timeout,
                answer_seconds=config.approval.answer_timeout,
                result_chars=config.tools.max_result_chars,
            ),
        )
        self.store.sessions.create(identity.session_id, platform=platform, user=user)
        return Session(self, scope, names)


def _once(table: dict[str, Any], what: str) -> Callable[[str, Any], None]:
    def add(name: str, value: Any) -> None:
        if name in table:
            raise PluginError(f"the {what} {name!r} was added before; choose another name")
        table[name] = value

    return add
