"""Facts about a configured server that are known without starting it: its digest, its state, its place."""

from __future__ import annotations

from agent.config import Config
from agent.config._mcp import McpServer
from agent.mcp.lock import LockedServer, digest_of_run


def digest_of(config: Config, server: McpServer) -> str:
    """Return the digest of a server's command or address."""
    return digest_of_run(server.command, server.url, config.folder)


def where(config: Config, server: McpServer) -> str:
    """Return where a server runs, for users."""
    return server.url or f"a program, in {server.backend or config.terminal.backend}"


def state_of(config: Config, name: str, known: LockedServer | None) -> str:
    """Return the state of a server, for users: on, off, changed, not logged in or not locked. ``known`` is the locked server."""
    from agent.mcp.logins import Logins

    server = config.mcp.servers[name]
    if not server.enabled:
        return "off"
    if Logins(config.folder, name, server, "").is_needed:
        return "not logged in"
    if known is None:
        return "not locked"
    return "on" if known.run == digest_of(config, server) else "changed"
