"""Add the tools of the configured servers to a registry."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.config import Config
from agent.mcp.hub import Hub
from agent.mcp.lock import Lock, lock_path, read_lock
from agent.mcp.reaching import ServerHome, ServerReach
from agent.mcp.source import NAME, McpTools
from agent.mcp.where import digest_of, where
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.registry import Problem, ToolRegistry
from toolcrib.contract.tool_sources import ToolSources

if TYPE_CHECKING:
    from agent.mcp.sampling import AnswersRequests


def add_servers(
    config: Config,
    registry: ToolRegistry,
    sources: ToolSources,
    workspace: Callable[[str], ServerHome],
    model_of: Callable[[str], AnswersRequests | None],
) -> Hub:
    """Add a source with the locked tools of the configured servers. Return the hub that runs them, which must be closed.

    ``workspace`` returns the workspace of a folder, "" for the default, ``model_of`` the model of a session by its id.
    """
    try:
        lock = read_lock(lock_path(config.path))
    except ConfigError as error:
        registry.problems.append(Problem("MCP servers", str(error)))
        lock = Lock()
    tools = McpTools(config.mcp.servers, lock, lambda server: digest_of(config, server), registry.problems.append)
    hub = Hub(
        lambda: config.mcp.servers,
        ServerReach(workspace),
        tools.listed,
        lambda ctx: model_of(ctx.run_identity.session_id),
        starts_at_once=config.mcp.starts_at_once,
    )
    tools.make(hub.call, lambda server: where(config, server))
    sources.begin(NAME, tools)
    return hub
