"""State of a process: store, tools, plugins, the dispatcher with its gates, connections, and its workspaces."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import model_tools
from agent.backends import BUILT_IN, Backends
from agent.config import Config
from agent.desk.desk import FrontDesk
from agent.desk.request import SessionRequest, by_fields
from agent.plugin_host.additions import checked_command, must_open, once
from agent.plugin_host.lifecycle import Lifecycle
from agent.plugin_host.plugin_tools import PluginTools
from agent.plugin_host.slash_commands import PluginSlash, plugin_slash
from agent.policy.allowlist import PermanentGrants
from agent.policy.self_protection import Hold
from agent.workspaces import Workspaces
from toolcrib.contract.context import LOCAL_PLATFORMS
from toolcrib.contract.dataclass import replace
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import PluginError
from toolcrib.contract.paths import real_path, with_home
from toolcrib.contract.regex import Regex
from toolcrib.contract.registry import ToolRegistry, registry
from toolcrib.contract.store import SessionInfo, Store
from toolcrib.contract.tool_sources import ToolSources
from tools.approval.gate import ApprovalGate
from tools.arguments import check_schema
from tools.dispatch.bridge import run_async
from tools.dispatch.threads import ThreadPool, shared_pool
from tools.environments import Factory, register_environment
from tools.redact import Redactor
from toolsets import ToolsetCatalog

if TYPE_CHECKING:  # only for annotations: some of these modules load late, or never
    from agent.conversation.session import Session
    from agent.mcp.discovery import McpServers
    from agent.plugin_host.plugins import PluginInfo
    from agent.policy.tool_selection import ToolLine
    from agent.undo import Undo
    from agent.workspace import Workspace
    from toolcrib.contract.chat import Platform
    from tools.dispatch.pipeline import Dispatcher

_BACKEND_NAME = Regex(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
RESERVED_PLATFORMS = LOCAL_PLATFORMS | {"gateway"}
"""Platforms that no plugin may add: most of them are the local user's."""


class Crib:
    """The state of a process, a sync and async context manager.

    Closing it closes the sessions that are still open, unregisters its plugins' additions and closes the store.

    ``config`` and ``project_dir`` belong to its first workspace, ``default``, which serves the Crib's own methods. Plugins are
    loaded with that configuration; ``reconfigure`` loads the plugins that a new version of it enables.
    """

    def __init__(self, config: Config, project_dir: Path | None, store: Store) -> None:
        self.config = config
        self.project_dir = project_dir or Path.cwd()
        self.store = store
        self.registry: ToolRegistry = registry.child()
        self.commands: dict[str, Any] = {}
        self.slash: dict[str, PluginSlash] = {}
        """Plugins' slash commands for terminals and chats, by name without the slash."""
        self.providers: dict[str, Callable[..., Any]] = {}
        self.platforms: dict[str, Callable[..., Platform]] = {}
        self.toolsets: dict[str, Mapping[str, Any]] = {}
        """Plugins' toolsets, by name."""
        self._factories: dict[str, Factory] = {}
        self._lock = threading.RLock()
        self.hold = Hold()
        """Locks that mark commands as running below this process's sessions."""
        self.workspaces = Workspaces(self, config, self.project_dir)
        self.hooks = model_tools.new_hooks(self._approval_gate())
        self.registry.attach(model_tools.face_of(lambda: self.dispatcher), check_schema)
        self.sources = ToolSources(self.registry)
        """Sources of tools: the plugins, and the sources that they and the process add."""
        self._plugin_tools = PluginTools(self.registry, self.sources)
        self._take_back: list[Callable[[], None]] = [self.sources.end]
        self.mcp: McpServers | None = None
        self.reload_mcp(config)
        self._loaded = self._load_plugins(config) if config.plugins.enabled else []
        self.lifecycle = Lifecycle(self.hooks, lambda text: self.redactor().text(text), self.sources)
        self._sessions: weakref.WeakKeyDictionary[Session, None] = weakref.WeakKeyDictionary()
        """Sessions of this process, oldest first."""
        self._holds_clients = False
        self.desk = FrontDesk(
            store, lambda request: self._workspace_of(request).open_by(request), lambda: self.config.gateway.approvers
        )
        """Opens sessions for interfaces."""

    # -- start and close -----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start hosting sessions in this event loop, until ``aclose``: start the plugins, and keep connections for reuse.

        Without this call, the first active session starts the plugins, in its own event loop, and a connection to a model server
        closes with the last session that uses it. ``plugins`` reports plugins that fail.
        """
        from agent.providers.clients import shared_clients

        with self._lock:
            if not self._holds_clients:
                self._holds_clients = True
                shared_clients().hold()
        await self.lifecycle.start()

    async def aclose(self) -> None:
        """Close open sessions, stop the plugins and close everything. May be called twice."""
        try:
            await self._close_sessions()
        finally:
            await self.lifecycle.stop()
            await self._release_clients()
            await asyncio.to_thread(self._free)

    def close(self) -> None:
        """Close the Crib from sync code, as ``aclose`` does; plugins stop in the event loop that started them."""
        try:
            if any(session.is_open for session in self._sessions):
                run_async(self._close_sessions())
        finally:
            self.lifecycle.stop_sync()
            if self._holds_clients:
                run_async(self._release_clients())
            self._free()

    async def _close_sessions(self) -> None:
        """Close the sessions that are still open: they may have background processes. A parent closes its delegates' sessions."""
        async with contextlib.AsyncExitStack() as closing:
            for session in reversed(list(self._sessions)):
                closing.push_async_callback(_close_if_open, session)

    def keep(self, session: Session) -> Session:
        """Close this session together with the Crib, unless it is closed before. Return it."""
        self._sessions[session] = None
        return session

    async def _release_clients(self) -> None:
        if self._holds_clients:
            from agent.providers.clients import shared_clients

            self._holds_clients = False
            await shared_clients().release()

    def _free(self) -> None:
        while self._take_back:
            self._take_back.pop()()
        self.workspaces.close()
        self.hold.close()
        self.store.close()

    def __enter__(self) -> Crib:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    async def __aenter__(self) -> Crib:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        await self.aclose()

    @property
    def plugins(self) -> list[PluginInfo]:
        """Every enabled plugin, with the reason if it could not be loaded or started."""
        failed = self.lifecycle.failed
        return [
            replace(info, error=f"it could not be started: {failed[info.name]}") if info.loaded and info.name in failed else info
            for info in self._loaded
        ]

    @cached_property
    def dispatcher(self) -> Dispatcher:
        """Dispatcher of the calls of all sessions; created when it is first needed."""
        from tools.dispatch.pipeline import Dispatcher

        return Dispatcher(self.registry, self.hooks)

    @property
    def threads(self) -> ThreadPool:
        """The process's threads for sync handlers."""
        return shared_pool()

    # -- workspaces ----------------------------------------------------------------------------------------------

    def workspace(self, project_dir: str | Path | None = None, *, config: Config | None = None) -> Workspace:
        """Return the workspace of a folder and a configuration; without arguments, the default workspace.

        The same workspace is returned while it is in use. Without ``config`` it uses the default workspace's file, narrowed by
        the folder's own file. Raises ConfigError for an invalid file.
        """
        if project_dir is None and config is None:
            return self.default
        folder = self.project_dir if project_dir is None else real_path(with_home(project_dir))
        return self.workspaces.find(folder, config)

    def _workspace_of(self, request: SessionRequest) -> Workspace:
        return self.default if request.folder in (None, self.project_dir) else self.workspace(request.folder)

    def reconfigure(self, config: Config, pinned: bytes) -> list[PluginInfo]:
        """Use this version of the configuration file from now on; load, but don't start, newly enabled plugins, and return them.

        Open sessions, and plugins that are no longer enabled, stay unchanged. Raises ConfigError, and then nothing has changed.
        """
        from agent.plugin_host.plugins import newly_enabled

        with self._lock:
            self.workspaces.reconfigure(config, pinned)
            self.reload_mcp(config)
            new, self.config = newly_enabled(self.config, config, self._loaded), config
            loaded = self._load_plugins(new) if new.plugins.enabled else []
            self._loaded += loaded
            return loaded

    def _approval_gate(self) -> ApprovalGate:
        """Return the process's single gate. Calls without a session's policy use the default workspace's."""
        policy = self.default.policy_for(self.store)
        return ApprovalGate(
            policy.grants,
            setting=policy.setting,
            project_root=policy.project_root,
            audit=policy.audit,
            tool_rules=policy.tool_rules,
            redact=policy.redact,
            origins=self.store.origins,
            mode=policy.mode,
        )

    def reload_mcp(self, config: Config) -> None:
        """Use this configuration's MCP servers, and the tools that are locked now, in sessions that are opened from now on."""
        if self.mcp is not None:
            self.mcp.reload(config)
        elif config.mcp.servers:
            from agent.mcp.discovery import McpServers

            self.mcp = McpServers(config, self.registry, lambda at: self.workspace(at or None), lambda: [*self._sessions])
            self._take_back.append(self.mcp.begin(self.sources, self.hooks))

    # -- additions by plugins ------------------------------------------------------------------------------------

    def _load_plugins(self, config: Config) -> list[PluginInfo]:
        from agent.plugin_host.plugins import load_plugins

        with self._plugin_tools.loading():
            return load_plugins(
                config,
                self.hooks,
                self.registry,
                add_toolset=self._add_toolset,
                add_command=self._add_command,
                add_slash=self._add_slash,
                add_environment=self._add_environment,
                add_provider=self._add_provider,
                add_platform=self._add_platform,
                project_dir=self.project_dir,
                adders={"register_tool_source": self.sources.add},
            )

    def _add_toolset(self, name: str, definition: Mapping[str, Any]) -> None:
        if name in self.catalog.added:
            raise PluginError(f"the toolset {name!r} was already added by {self.catalog.added[name]}; choose another name")
        self.default.add_toolset(name, definition)
        self.toolsets[name] = definition

    def _add_command(self, name: str, module: Any) -> None:
        once(self.commands, "command", name, checked_command(name, module))

    def _add_slash(self, name: str, function: Callable[..., Any], *, surfaces: Any = ("terminal",), role: str = "") -> None:
        once(self.slash, "chat command", name, plugin_slash(name, function, surfaces, role))

    def _add_environment(self, name: str, factory: Factory) -> None:
        if name in self.backends.named:
            raise PluginError(f"{self.config.path} defines another backend {name!r}; change its name there, or in the plugin")
        if not _BACKEND_NAME.fullmatch(name):
            raise PluginError(f"the backend name {name!r} is invalid: use letters, digits, '.', '_' and '-'")
        if name.casefold() in BUILT_IN:  # otherwise sessions would run on another backend than users expect
            raise PluginError(f"the backend {name!r} is toolcrib's own; choose another name")
        must_open("backend", name, factory)
        once(self._factories, "backend", name, factory)
        self._take_back.append(register_environment(name, factory))

    def _add_provider(self, name: str, factory: Callable[..., Any]) -> None:
        from agent.providers.rows import MANUAL, PROVIDERS
        from agent.providers.vendor import Vendor

        if name in PROVIDERS or name == MANUAL:
            raise PluginError(f"the provider {name!r} is toolcrib's own; choose another name")
        [key] = Vendor.of_plugin(name).keys
        if any(key in one.vendor.keys for one in PROVIDERS.values()):
            raise PluginError(f"the provider {name!r} would get the key of another vendor, {key}; choose another name")
        must_open("provider", name, factory)
        once(self.providers, "provider", name, factory)

    def _add_platform(self, name: str, factory: Callable[..., Platform]) -> None:
        """Register a plugin's platform. Its sessions get the toolset with its name, or else the gateway's."""
        if name in RESERVED_PLATFORMS:
            raise PluginError(f"the platform {name!r} is toolcrib's own; choose another name")
        must_open("platform", name, factory)
        once(self.platforms, "platform", name, factory)
        if f"toolcrib-{name}" not in self.catalog.names():
            self._add_toolset(f"toolcrib-{name}", {"description": f"The platform {name}.", "includes": ["toolcrib-gateway"]})

    # -- the default workspace -------------------------------------------------------------------------------------

    @property
    def default(self) -> Workspace:
        """The workspace of ``project_dir`` and ``config``."""
        return self.workspaces.default

    @property
    def grants(self) -> PermanentGrants:
        """The default workspace's permanent grants."""
        return self.default.grants

    @property
    def backends(self) -> Backends:
        """The default workspace's backends."""
        return self.default.backends

    @property
    def catalog(self) -> ToolsetCatalog:
        """The default workspace's toolsets."""
        return self.default.catalog

    def redactor(self) -> Redactor:
        """Return the redactor for the current secrets of the environment and of the user's file."""
        return self.default.redactor()

    def granted(
        self,
        platform: str = "cli",
        enabled: Sequence[str] | None = None,
        disabled: Sequence[str] | None = None,
        user: str = "",
    ) -> list[str]:
        """Return the tools that a session may call; see Granting."""
        return self.default.granted(platform, enabled, disabled, user)

    def explain(self, platform: str = "cli", user: str = "") -> list[ToolLine]:
        """Return every registered tool: whether a session gets it, and why not; see Workspace.explain."""
        return self.default.explain(platform, user)

    @by_fields(SessionRequest)
    async def open(self, request: SessionRequest) -> Session:
        """Open a session, by the fields of a SessionRequest (agent.desk.request). Close it at the end.

        Raises ToolcribError if there is no session to continue or its backend has changed, and ConfigError for an unknown
        backend, an unusable approval.smart, or grants of command_allowlist that can't be read or written.
        """
        return await self.desk.open(request)

    async def open_by(self, request: SessionRequest) -> Session:
        """Open the session of a request. Raises what ``open`` raises."""
        return await self.desk.open(request)

    def open_session(self, **wanted: Any) -> Session:
        """Open a session from sync code; see ``open``."""
        return run_async(self.open(**wanted))

    async def find_session(self, prefix: str) -> SessionInfo:
        """Return the stored session whose id starts with ``prefix``. Raises ToolcribError for none, or several."""
        from agent.conversation.locating import find_session

        return await find_session(self.store, prefix)

    def undo(self, session_id: str) -> Undo:
        """Return the undo of a session's file changes. Raises ToolcribError if undo is disabled."""
        return self.default.undo(session_id)

    async def delete_sessions(self, session_ids: Collection[str]) -> Sequence[str]:
        """Delete stored sessions with all their data, except drafts. Return the ids of the deleted ones.

        A session that is running or that has waiting work stays. Raises StoreFailed.
        """
        return await self.default.delete_sessions(session_ids)

    def open_environment(self, info: SessionInfo, backend: str = "") -> Environment:
        """Open the environment of a stored session; see Workspace.open_environment."""
        return self.default.open_environment(info, backend)


async def _close_if_open(session: Session) -> None:
    if session.is_open:
        await session.close()
