"""Look at a server, compare it with the lock, and make what would be locked."""

from __future__ import annotations

import asyncio
import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.config import Config
from agent.mcp.entries import fault_of
from agent.mcp.hub import Place
from agent.mcp.lock import Lock, LockedServer, LockedTool, definition_of, offered_names
from agent.mcp.reaching import ServerHome, ServerReach
from agent.mcp.where import digest_of
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from agent.mcp.connection import Listed


@dataclass(frozen=True, slots=True)
class Proposal:
    """The locked form of a server, for the user to accept. ``refused`` are tools that can't be offered, each with the reason."""

    server: LockedServer
    refused: Sequence[tuple[str, str]]


async def look(workspace: ServerHome, name: str) -> Listed:
    """Start the server of that name, and return what it offers. Raises ExecutionFailed."""
    from agent.mcp.connection import ServerConnection

    server = workspace.config.mcp.servers[name]
    found: list[Listed] = []
    reach = ServerReach(lambda _folder: workspace)
    connection = ServerConnection(
        name,
        lambda: reach.link(name, server, Place("", "")),
        asyncio.Semaphore(1),
        found.append,
        server.protocol,
        server.start_timeout,
    )
    try:
        await connection.ready()
    finally:
        await connection.stop()
    return found[-1]


def proposal(config: Config, lock: Lock, name: str, listed: Listed, taken: frozenset[str]) -> Proposal:
    """Return the locked form of a server, for the user to accept. A tool keeps its name from the lock; ``taken`` are the names of
    all other tools.
    """
    good: list[tuple[str, Mapping[str, Json]]] = []
    refused: list[tuple[str, str]] = []
    for tool in listed.tools:
        called, definition = str(tool.get("name")), definition_of(tool)
        fault = fault_of(called, definition)
        if fault:
            refused.append((called, fault))
        else:
            good.append((called, definition))
    before = lock.servers.get(name, LockedServer(""))
    known = {tool.name: tool.offered for tool in before.tools}
    new = [called for called, _ in good if called not in known]
    names = {**offered_names(name, new, taken | {*known.values()}), **known}
    tools = [LockedTool(called, names[called], definition) for called, definition in good]
    run = digest_of(config, config.mcp.servers[name])
    return Proposal(LockedServer(run, tools, listed.version), refused)


def differences(before: LockedServer | None, now: LockedServer) -> Iterator[str]:
    """Yield lines that show users how a server differs from its lock: a new tool whole, a changed one as a diff."""
    old = {} if before is None else {tool.name: tool for tool in before.tools}
    if before is not None and before.run != now.run:
        yield "  what is run has changed: the command, the address, or a file in the command"
    if before is not None and before.version != now.version:
        yield f"  version: {before.version} -> {now.version}"
    for tool in now.tools:
        known = old.pop(tool.name, None)
        if known is None:
            yield f"+ {named(tool)}: {summary(tool)}"
            yield from (f"    {line}" for line in parameters(tool))
        elif known.definition != tool.definition:
            yield f"~ {named(tool)}"
            lines = difflib.unified_diff(_lines(known), _lines(tool), lineterm="", n=1)
            yield from (f"    {line}" for line in list(lines)[2:])
    for tool in old.values():
        yield f"- {named(tool)}"


def named(tool: LockedTool) -> str:
    """Return a tool's name, and the name that models call if it differs."""
    return tool.name if tool.name == tool.offered else f"{tool.name} (called {tool.offered})"


def summary(tool: LockedTool) -> str:
    """Return the whole description on one line: a user must see all that a model will read."""
    return " ".join(str(tool.definition.get("description") or tool.definition.get("title") or "no description").split())


def parameters(tool: LockedTool) -> Iterator[str]:
    """Yield a line for each parameter, and for a danger that the server declares."""
    schema = tool.definition.get("inputSchema")
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    for name, part in properties.items() if isinstance(properties, Mapping) else ():
        yield f"{name}: {json.dumps(part, ensure_ascii=True)}"
    hints = tool.definition.get("annotations")
    if isinstance(hints, Mapping) and hints.get("destructiveHint") is True:
        yield "the server says that it may destroy something: each call asks"


def _lines(tool: LockedTool) -> list[str]:
    return json.dumps(dict(tool.definition), indent=1, sort_keys=True, ensure_ascii=True).split("\n")
