"""The locked tools of all enabled servers, as a source of a registry."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.config._mcp import McpServer
from agent.mcp.entries import Call, entries_of
from agent.mcp.lock import Lock, LockedServer, definition_of
from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.registry import Problem

if TYPE_CHECKING:
    from agent.mcp.connection import Listed

NAME = "mcp"


class McpTools:
    """See ToolSource. It never waits: the tools come from the lock file, and a server starts at its first call.

    A tool that its server lists in another form than the locked one is removed.
    """

    def __init__(
        self, servers: Mapping[str, McpServer], lock: Lock, digest: Callable[[McpServer], str], note: Callable[[Problem], None]
    ) -> None:
        self._servers = servers
        self._lock = lock
        self._digest = digest
        self._note = note
        self._changed: Callable[[], None] = lambda: None
        self._guard = threading.Lock()
        self._entries: dict[str, list[ToolEntry]] = {}
        self._different: dict[str, frozenset[str]] = {}

    def make(self, call: Call, where: Callable[[McpServer], str]) -> None:
        """Make the entries. ``call`` runs their calls."""
        for name, server in self._servers.items():
            if not server.enabled:
                continue
            locked = self._lock.servers.get(name)
            if locked is None:
                self._report(name, "its tools are not locked", f"look at them and lock them: toolcrib mcp lock {name}")
            elif locked.run != self._digest(server):
                why = "its command, its address or a file in its command has changed since it was locked"
                self._report(name, why, f"check it and lock it again: toolcrib mcp lock {name}")
            else:
                self._entries[name] = entries_of(name, server, locked, call, where(server))

    def _report(self, name: str, reason: str, fix: str) -> None:
        self._note(Problem(f"MCP server {name}", reason, fix))

    async def start(self, changed: Callable[[], None]) -> None:
        """See ToolSource."""
        self._changed = changed

    def tools(self) -> Sequence[ToolEntry]:
        """See ToolSource."""
        with self._guard:
            return [
                entry
                for name, entries in self._entries.items()
                for entry in entries
                if entry.name not in self._different.get(name, ())
            ]

    async def stop(self) -> None:
        """See ToolSource."""
        self._entries.clear()

    def listed(self, name: str, listed: Listed) -> frozenset[str]:
        """Compare what a server lists with the lock. Return the tools that may be called, by the server's names."""
        locked = self._lock.servers.get(name, LockedServer(""))
        now = {str(tool.get("name")): definition_of(tool) for tool in listed.tools}
        same = frozenset(tool.name for tool in locked.tools if now.get(tool.name) == tool.definition)
        different = frozenset(tool.offered for tool in locked.tools if tool.name not in same)
        with self._guard:
            is_new = self._different.get(name, frozenset()) != different
            self._different[name] = different
        if is_new:
            for tool in locked.tools:
                if tool.name not in same:
                    why = "is gone" if tool.name not in now else "has changed since it was locked"
                    self._report(name, f"its tool {tool.name} {why}", f"compare and lock it again: toolcrib mcp lock {name}")
            self._changed()
        return same
