"""The locked tools of all enabled servers, as a source of a registry."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.config._mcp import McpServer
from agent.mcp.entries import Call, entries_of
from agent.mcp.lock import Lock, LockedServer, definition_of
from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.namedtuple import NamedTuple
from toolcrib.contract.registry import Problem

if TYPE_CHECKING:
    from agent.mcp.connection import Listed

NAME = "mcp"
_SUBJECT = "MCP server"
"""Beginning of the subject of a problem."""


class _Made(NamedTuple):
    """The entries of a server, and what they were made of."""

    server: McpServer
    locked: LockedServer
    where: str
    entries: Sequence[ToolEntry]


class McpTools:
    """See ToolSource. It never waits: the tools come from the lock file, and a server starts at its first call.

    A tool that its server lists in another form than the locked one is removed. ``problems`` gets what is wrong with servers.
    """

    def __init__(self, problems: list[Problem]) -> None:
        self.changed: Callable[[], None] = lambda: None
        self._problems = problems
        self._guard = threading.Lock()
        self._made: dict[str, _Made] = {}
        self._locked: Mapping[str, LockedServer] = {}
        self._different: dict[str, frozenset[str]] = {}

    def load(
        self,
        servers: Mapping[str, McpServer],
        lock: Lock,
        digest: Callable[[McpServer], str],
        call: Call,
        where: Callable[[McpServer], str],
    ) -> frozenset[str]:
        """Make the entries, whose calls ``call`` runs. Return the servers that had entries and have changed.

        Unchanged servers keep their entries, so that calls of them that wait for an answer can continue.
        """
        with self._guard:
            before, made = self._made, dict[str, _Made]()
            self._problems[:] = [one for one in self._problems if not one.subject.startswith(_SUBJECT)]
            for name, server in servers.items():
                locked = lock.servers.get(name)
                if not server.enabled or not self._is_sound(name, locked, server, digest):
                    continue
                known = before.get(name)
                if known is not None and (known.server, known.locked, known.where) == (server, locked, where(server)):
                    made[name] = known
                elif locked is not None:
                    entries = entries_of(name, server, locked, call, where(server))
                    made[name] = _Made(server, locked, where(server), entries)
            self._made, self._locked = made, lock.servers
            changed = frozenset(name for name, one in before.items() if made.get(name) is not one)
            for name in changed:
                self._different.pop(name, None)
            return changed

    def _is_sound(self, name: str, locked: LockedServer | None, server: McpServer, digest: Callable[[McpServer], str]) -> bool:
        if locked is None:
            self._report(name, "its tools are not locked", f"check and lock them: toolcrib mcp lock {name}")
        elif locked.run == digest(server):
            return True
        else:
            why = "its command, its address or a file in its command has changed since it was locked"
            self._report(name, why, f"check it and lock it again: toolcrib mcp lock {name}")
        return False

    def _report(self, name: str, reason: str, fix: str) -> None:
        self._problems.append(Problem(f"{_SUBJECT} {name}", reason, fix))

    def count(self, name: str) -> int:
        """Return how many tools of a server sessions can have."""
        made = self._made.get(name)
        return 0 if made is None else len([one for one in made.entries if one.name not in self._different.get(name, ())])

    async def start(self, changed: Callable[[], None]) -> None:
        """See ToolSource."""
        self.changed = changed

    def tools(self) -> Sequence[ToolEntry]:
        """See ToolSource."""
        with self._guard:
            return [
                entry
                for name, made in self._made.items()
                for entry in made.entries
                if entry.name not in self._different.get(name, ())
            ]

    async def stop(self) -> None:
        """See ToolSource."""
        self._made = {}

    def listed(self, name: str, listed: Listed) -> frozenset[str]:
        """Compare what a server lists with the lock. Return the tools that may be called, by the server's names."""
        locked = self._locked.get(name, LockedServer(""))
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
            self.changed()
        return same
