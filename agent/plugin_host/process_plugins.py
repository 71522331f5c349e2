"""Plugins for the whole process: for callers of ``model_tools`` without a Crib.

They are loaded into the parts behind the synchronous interface: the registry of the built-in tools, its dispatcher with the
approval gate, and the catalog of toolsets. A Crib does not see them: it loads the plugins of its own configuration.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agent.backends import BUILT_IN
from agent.config import Config, load_config, secrets_path, tokens_path
from agent.plugin_host.additions import leave_out
from agent.plugin_host.plugin_tools import PluginTools
from agent.plugin_host.plugins import PluginInfo, load_plugins
from agent.plugin_host.sources import canonical
from agent.policy.confirmation import require_confirmed
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import PluginError
from toolcrib.contract.tool_sources import ToolSources
from tools.dispatch.hooks import life_hooks
from tools.dispatch.pipeline import Dispatcher
from tools.environments import Factory, register_environment
from toolsets import ToolsetCatalog

_log = logging.getLogger(__name__)


class ProcessPlugins:
    """Plugins and tools that were loaded for the process; ``unload`` removes them. Callable from any thread."""

    def __init__(self, dispatcher: Dispatcher, catalog: ToolsetCatalog) -> None:
        self._dispatcher = dispatcher
        self._registry = dispatcher.registry
        self._catalog = catalog
        self._lock = threading.RLock()
        self._loaded: dict[str, PluginInfo] = {}
        self._sources = ToolSources(self._registry)
        self._tools: PluginTools | None = None
        self._take_back: list[Callable[[], None]] = []

    def load(self, config: Config | None, protect: Callable[[list[Path]], None]) -> list[PluginInfo]:
        """Load the plugins that ``config`` or, for None, the user's own configuration enables. Loaded plugins stay unchanged.

        ``protect`` receives the files that no tool may change, before any plugin's code runs. Raises ConfigError.
        """
        with self._lock:
            config = require_confirmed(load_config(project_dir=Path.cwd())) if config is None else config
            if not config.plugins.enabled:
                return []
            protect([config.path, config.folder / "plugins", secrets_path(config.folder), tokens_path(config.folder)])
            fresh = tuple(name for name in config.plugins.enabled if canonical(name) not in self._loaded)
            known = [info for key, info in self._loaded.items() if key in {canonical(name) for name in config.plugins.enabled}]
            return [*known, *self._load(replace(config, plugins=replace(config.plugins, enabled=fresh)))]

    def _load(self, config: Config) -> list[PluginInfo]:
        self._tools = self._tools or PluginTools(self._registry, self._sources)
        with self._tools.loading():
            infos = load_plugins(
                config,
                self._dispatcher.hooks,
                self._registry,
                add_toolset=self._add_toolset,
                add_command=leave_out,  # subcommands, models and platforms are for sessions and the command line
                add_environment=self._add_environment,
                add_provider=leave_out,
                add_platform=leave_out,
                add_slash=leave_out,
                project_dir=Path.cwd(),
            )
        self._loaded |= {canonical(info.name): info for info in infos if info.loaded}
        for hook in life_hooks(self._dispatcher.hooks, "on_start"):
            if any(info.name == hook.plugin for info in infos):
                _log.warning("the plugin %s has on_start, which only a Crib calls: here it is not called", hook.plugin)
        return infos

    def unload(self) -> None:
        """Remove every loaded plugin: its hooks, tools, toolsets and backends."""
        with self._lock:
            self._sources.end()
            self._tools = None
            while self._take_back:
                self._take_back.pop()()
            for info in self._loaded.values():  # last, because their gates are called until their tools are removed
                self._dispatcher.hooks.unregister(name=info.name)
            self._loaded.clear()

    def _add_toolset(self, name: str, definition: Mapping[str, Any]) -> None:
        if name in self._catalog.added:
            raise PluginError(f"the toolset {name!r} was already added by {self._catalog.added[name]}; choose another name")
        self._catalog.add(name, definition, source="plugin")
        self._take_back.append(lambda: self._catalog.remove(name))

    def _add_environment(self, name: str, factory: Factory) -> None:
        if name in BUILT_IN:
            raise PluginError(f"the backend {name!r} is toolcrib's own; choose another name")
        if not callable(factory):
            raise PluginError(f"the backend {name!r} needs a function that opens it, got {factory!r}")
        self._take_back.append(register_environment(name, factory))
