"""Find the MCP servers that other programs are configured with, in their forms.

Each form is as that program's documentation describes it: ``mcpServers`` of Claude Code and Desktop, Cursor and Gemini CLI,
``servers`` of VS Code, ``mcp_servers`` of Codex and hermes-agent, ``mcp`` of opencode.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.config._foreign import parse_yaml
from agent.config._setting import is_base_url
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.regex import Regex
from toolcrib.contract.types import Json
from tools.redact import may_be_secret

_FILES: Mapping[str, tuple[str, ...]] = {
    "claude-code": (".claude.json",),
    "claude-desktop": (
        ".config/Claude/claude_desktop_config.json",
        "Library/Application Support/Claude/claude_desktop_config.json",
    ),
    "cursor": (".cursor/mcp.json",),
    "vscode": (".config/Code/User/mcp.json", "Library/Application Support/Code/User/mcp.json"),
    "codex": (".codex/config.toml",),
    "gemini": (".gemini/settings.json",),
    "opencode": (".config/opencode/opencode.json", ".config/opencode/opencode.jsonc"),
    "hermes": (".hermes/config.yaml",),
}
"""The files of each program, below the home folder."""
PROGRAMS = tuple(_FILES)
_TABLES = ("mcpServers", "mcp_servers", "servers", "mcp")
_MOST_BYTES = 16 << 20
_COMMENT = Regex(r'("(?:[^"\\]|\\.)*")|//[^\n]*|/\*.*?\*/', re.DOTALL)
_SCHEME = Regex(r"(?i)((?:bearer|basic|token)\s+)(\S+)")


@dataclass(frozen=True, slots=True)
class FoundServer:
    """A server of another program. ``entry`` is its section for ``mcp.servers``; ``secrets`` are values by name, which belong
    into secrets.env. ``fault``: why it can't be taken.
    """

    program: str
    file: Path
    name: str
    entry: Mapping[str, Json]
    secrets: Mapping[str, str]
    fault: str = ""


def found_servers(program: str = "", home: Path | None = None) -> Iterator[FoundServer]:
    """Yield the servers of one program, or of all. Raises ConfigError for a file that can't be read."""
    for name, places in _FILES.items():
        if program in ("", name):
            for place in places:
                file = (home or Path.home()) / place
                if file.is_file():
                    yield from _servers(name, file)


def _servers(program: str, file: Path) -> Iterator[FoundServer]:
    data = _read(file)
    for table in _TABLES:
        servers = data.get(table)
        if isinstance(servers, Mapping):
            for name, given in servers.items():
                yield _found(program, file, str(name), given)
            return


def _read(file: Path) -> Mapping[str, Any]:
    try:
        with file.open("rb") as opened:
            text = opened.read(_MOST_BYTES).decode()
        data = _parsed(file.suffix, text)
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{file} can't be read: {error}") from error
    return data if isinstance(data, Mapping) else {}


def _parsed(suffix: str, text: str) -> Any:
    if suffix == ".toml":
        return tomllib.loads(text)
    if suffix in (".yaml", ".yml"):
        return parse_yaml(text)
    return json.loads(_COMMENT.sub(lambda found: found[1] or "", text))


def _found(program: str, file: Path, name: str, given: Any) -> FoundServer:
    safe = re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-_")[:40]
    if not isinstance(given, Mapping) or not safe:
        return FoundServer(program, file, safe or name, {}, {}, "it is not in the usual form")
    secrets: dict[str, str] = {}
    entry = {key: value for key, value in _entry(given, safe, secrets).items() if value or value is False}
    return FoundServer(program, file, safe, entry, secrets, _fault(entry))


def _fault(entry: Mapping[str, Json]) -> str:
    if ("command" in entry) == ("url" in entry):
        return "it has neither a command nor an address"
    if not is_base_url(str(entry.get("url", ""))):
        return "its address is not a plain http(s) URL, and may contain a key: add the server yourself (toolcrib mcp add)"
    return ""


def _entry(given: Mapping[str, Any], name: str, secrets: dict[str, str]) -> dict[str, Json]:
    command = given.get("command")
    words = [str(one) for one in command] if isinstance(command, list) else [str(command)] if command else []
    words += [str(one) for one in given.get("args") or ()]
    url = str(given.get("httpUrl") or given.get("url") or "") if not words else ""
    is_sse = given.get("type") == "sse" or ("url" in given and "httpUrl" not in given and url.rstrip("/").endswith("/sse"))
    env, named = _variables(given.get("env") or given.get("environment"), secrets)
    return {
        "command": words,
        "url": url,
        "transport": "sse" if url and is_sse else "",
        "env": env,
        "secrets": named,
        "headers": _headers(given.get("headers") or given.get("http_headers"), name, secrets),
        **({"enabled": False} if given.get("disabled") is True or given.get("enabled") is False else {}),
    }


def _variables(given: Any, secrets: dict[str, str]) -> tuple[dict[str, str], list[str]]:
    """Return plain variables, and the names of secret ones, whose values are added to ``secrets``."""
    plain: dict[str, str] = {}
    named: list[str] = []
    for name, value in given.items() if isinstance(given, Mapping) else ():
        if may_be_secret(str(name), str(value)):
            secrets[str(name)] = str(value)
            named.append(str(name))
        else:
            plain[str(name)] = str(value)
    return plain, named


def _headers(given: Any, server: str, secrets: dict[str, str]) -> dict[str, str]:
    """Return the headers. Each value counts as a secret, but not the scheme before it, such as Bearer."""
    headers: dict[str, str] = {}
    for name, value in given.items() if isinstance(given, Mapping) else ():
        variable = re.sub(r"[^A-Z0-9]+", "_", f"{server}_{name}".upper())
        scheme = _SCHEME.fullmatch(str(value))
        secrets[variable] = scheme[2] if scheme else str(value)
        headers[str(name)] = f"{scheme[1] if scheme else ''}${{{variable}}}"
    return headers
