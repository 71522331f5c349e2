"""The lock file: the tools of MCP servers as the user saw them. Only these tools are offered, exactly as they are here.

Only users change the file, by ``toolcrib mcp``. It is JSON beside config.yaml, where no tool may write.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from agent.config import locked, write_private
from agent.mcp.extra_tools import EXTRA_TOOLS, offered_name
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.paths import with_home
from toolcrib.contract.types import Json

_VERSION = 1
_MOST_BYTES = 64 << 20
_FIELDS = ("title", "description", "inputSchema", "outputSchema", "annotations")
"""Parts of a tool's definition that the user sees, and that the lock fixes."""


@dataclass(frozen=True, slots=True)
class LockedTool:
    """A locked tool. ``name`` is the server's name for it, ``offered`` the name that models call. ``definition`` has the locked
    fields of MCP's ``Tool``.
    """

    name: str
    offered: str
    definition: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class LockedServer:
    """A server as it was when the user locked it. ``run``: see ``digest_of_run``."""

    run: str
    tools: Sequence[LockedTool] = ()
    version: str = ""
    """The server's own name and version."""


@dataclass(frozen=True, slots=True)
class Lock:
    """The content of the lock file."""

    servers: Mapping[str, LockedServer] = field(default_factory=dict)

    def offered(self, without: str = "") -> frozenset[str]:
        """Return the names of all locked tools, except those of one server."""
        return frozenset(tool.offered for name, one in self.servers.items() if name != without for tool in one.tools)


def lock_path(config_path: Path) -> Path:
    """Return the path of the lock file that belongs to a configuration file."""
    return config_path.with_name("mcp-lock.json")


def read_lock(path: Path) -> Lock:
    """Read the lock file; there is nothing locked if it does not exist. Raises ConfigError with its fault."""
    try:
        with path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return Lock()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        if len(data) > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES:,} bytes")
        return _parsed(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"{path}: expected the file that toolcrib wrote: {type(error).__name__}: {error}. Delete it, and lock the"
            " servers again: toolcrib mcp lock"
        ) from error


def _parsed(data: Json) -> Lock:
    if data["version"] != _VERSION:
        raise ValueError(f"version {data['version']!r} is of another toolcrib; expected {_VERSION}")
    return Lock({str(name): _server(one) for name, one in data["servers"].items()})


def _server(data: Mapping[str, Json]) -> LockedServer:
    tools = [LockedTool(_text(name), _text(one["offered"]), dict(one["definition"])) for name, one in data["tools"].items()]
    return LockedServer(_text(data["run"]), tools, _text(data["version"]))


def _text(value: Json) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected text, got {value!r}"[:200])
    return value


def write_server(path: Path, name: str, server: LockedServer | None) -> None:
    """Lock a server, or remove it with None. Raises ConfigError, and then the file is unchanged."""
    with locked(path):
        servers = {**read_lock(path).servers}
        servers.pop(name, None)
        if server is not None:
            servers[name] = server
        data = {"version": _VERSION, "servers": {name: _written(one) for name, one in sorted(servers.items())}}
        write_private(path, json.dumps(data, indent=1, ensure_ascii=True) + "\n")


def _written(server: LockedServer) -> dict[str, Json]:
    return {
        "run": server.run,
        "version": server.version,
        "tools": {tool.name: {"offered": tool.offered, "definition": dict(tool.definition)} for tool in server.tools},
    }


def definition_of(tool: Mapping[str, Json]) -> dict[str, Json]:
    """Return the fixed part of a tool's definition, from its JSON form in the protocol."""
    return {key: tool[key] for key in _FIELDS if tool.get(key) is not None}


def digest_of_run(command: Sequence[str], url: str, cwd: str | os.PathLike[str]) -> str:
    """Return a digest of a command, with the content of the files that its words name, or of an address.

    A program that is found by PATH counts by its name only: the system's package manager may update it.
    """
    digest = hashlib.sha256(json.dumps([*command, url]).encode())
    for word in command:
        file = Path(cwd, with_home(word))
        if "/" in word or (word is not command[0] and file.is_file()):
            digest.update(_content(file))
    return digest.hexdigest()


def _content(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").digest()
    except OSError:
        return b""


def offered_names(server: str, names: Sequence[str], taken: Mapping[str, Any] | frozenset[str]) -> dict[str, str]:
    """Return the name that each tool of a new server gets: its own if that is free (001-17), else ``SERVER.NAME``."""
    found: dict[str, str] = {}
    used = {*taken}
    for name in names:
        offered = offered_name(server, name) if name in EXTRA_TOOLS else name if name not in used else f"{server}.{name}"
        while offered in used:
            offered = f"{offered}_"
        used.add(offered)
        found[name] = offered
    return found
