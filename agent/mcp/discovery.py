"""The MCP servers of a process: their locked tools in its registry, and the hub that runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING

from agent.config import Config
from agent.mcp.hub import Hub
from agent.mcp.lock import Lock, lock_path, read_lock
from agent.mcp.reaching import ServerHome, ServerReach
from agent.mcp.source import NAME, McpTools
from agent.mcp.where import digest_of, state_of, where
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.registry import Problem, ToolRegistry
from toolcrib.contract.tool_sources import ToolSources

if TYPE_CHECKING:
    from agent.conversation.session import Session
    from agent.mcp.sampling import AnswersRequests
    from toolcrib.contract.context import ToolCallContext
    from tools.dispatch.hooks import HookManager


class ServerRow(NamedTuple):
    """A server, for users. ``tools`` counts the tools that sessions can have, ``running`` its programs or connections."""

    name: str
    state: str
    tools: int
    running: int
    where: str


class McpServers:
    """The MCP servers of a configuration.

    ``workspace`` returns the workspace of a folder, "" for the default, ``sessions`` the sessions of the process.
    """

    def __init__(
        self,
        config: Config,
        registry: ToolRegistry,
        workspace: Callable[[str], ServerHome],
        sessions: Callable[[], Sequence[Session]],
    ) -> None:
        self._config = config
        self._registry = registry
        self._lock = Lock()
        self._tools = McpTools(registry.problems)
        self._sessions = sessions
        self._hub = Hub(
            lambda: self._config.mcp.servers,
            ServerReach(workspace),
            self._tools.listed,
            self._model_of,
            starts_at_once=config.mcp.starts_at_once,
        )
        self._load(config)

    def begin(self, sources: ToolSources, hooks: HookManager) -> Callable[[], None]:
        """Add the tools. Return a function that stops the servers."""
        sources.begin(NAME, self._tools)
        hooks.register(self._hub, NAME)
        return self._hub.close

    def reload(self, config: Config) -> None:
        """Take the servers of this configuration, and the lock file as it is now. Unchanged servers keep running."""
        self._hub.retire(self._load(config))
        self._tools.changed()

    def _load(self, config: Config) -> frozenset[str]:
        try:
            self._lock, problem = read_lock(lock_path(config.path)), None
        except ConfigError as error:
            self._lock, problem = Lock(), Problem("MCP servers", str(error))
        if config.mcp.servers and find_spec("mcp") is None:
            self._registry.problems.append(Problem("MCP servers", "the extra mcp is missing", "pip install 'toolcrib[mcp]'"))
        self._config = config
        found = self._tools.load(
            config.mcp.servers,
            self._lock,
            lambda server: digest_of(config, server),
            self._hub.call,
            lambda server: where(config, server),
        )
        if problem is not None:
            self._registry.problems.append(problem)
        return found

    def _model_of(self, ctx: ToolCallContext) -> AnswersRequests | None:
        for session in self._sessions():
            if session.id == ctx.run_identity.session_id and session.is_open:
                return session.single_requests
        return None

    @property
    def problems(self) -> Sequence[Problem]:
        """The problems of the servers."""
        return [one for one in self._registry.problems if one.subject.startswith("MCP server")]

    def rows(self) -> list[ServerRow]:
        """Return all servers, in the order of the configuration."""
        config, running = self._config, self._hub.running()
        return [
            ServerRow(
                name,
                state_of(config, name, self._lock.servers.get(name)),
                self._tools.count(name),
                running.count(name),
                where(config, server),
            )
            for name, server in config.mcp.servers.items()
        ]
