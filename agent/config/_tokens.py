"""The file of logins at MCP servers: tokens and registrations, by principal and server. Only the user may read it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent.config._files import locked, refuse_others, write_private
from agent.config._paths import config_path
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.passing import raise_passing

_VERSION = 1
_MOST_BYTES = 4 << 20
_SECRET = frozenset({"access_token", "refresh_token", "client_secret", "registration_access_token"})


def tokens_path(folder: str | Path | None = None) -> Path:
    """Return the path of ``mcp-tokens.json`` in ``folder``, else beside the configuration file. It need not exist."""
    return (Path(folder) if folder is not None else config_path().parent) / "mcp-tokens.json"


def read_tokens(folder: str | Path | None = None) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the logins, by ``Principal.key`` and the server's name. Raises ConfigError if others may read the file, or it is
    broken.
    """
    file = tokens_path(folder)
    try:
        handle = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise ConfigError(f"{file} cannot be read: {error.strerror or error}") from error
    with os.fdopen(handle, "rb") as opened:
        refuse_others(os.fstat(handle), file)
        text = opened.read(_MOST_BYTES)
    try:
        data = json.loads(text)
        if data["version"] != _VERSION:
            raise ValueError
        return {principal: {name: dict(one) for name, one in servers.items()} for principal, servers in data["logins"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # the error may quote a token
        raise ConfigError(
            f"{file}: expected the file that toolcrib wrote. Delete it, and log in again: toolcrib mcp login"
        ) from None


def write_tokens(principal: str | None, server: str, entry: Mapping[str, Any] | None, folder: str | Path | None = None) -> None:
    """Replace the entry of a principal at a server; None removes it. ``principal`` None means all principals.

    Raises ConfigError, and then the file is unchanged.
    """
    file = tokens_path(folder)
    if entry is None and not file.exists():
        return
    with locked(file):
        logins = read_tokens(folder)
        for one in [*logins] if principal is None else [principal]:
            logins.setdefault(one, {}).pop(server, None)
            if entry is not None:
                logins[one][server] = dict(entry)
        data = {"version": _VERSION, "logins": {one: servers for one, servers in sorted(logins.items()) if servers}}
        write_private(file, json.dumps(data, indent=1) + "\n")


def token_values(folder: str | Path | None = None) -> dict[str, str]:
    """Return the secret values in the file under names for the redactor: none if it can't be read, because no login is used then.
    Raises OSError if the reason is temporary, such as too many open files.
    """
    try:
        logins = read_tokens(folder)
    except ConfigError as error:
        if isinstance(error.__cause__, OSError):
            raise_passing(error.__cause__)
        return {}
    found = [
        (f"{server} {name}", value)
        for servers in logins.values()
        for server, entry in servers.items()
        for name, value in _secret_values(entry)
    ]
    return {f"MCP login {number} {name}": value for number, (name, value) in enumerate(found, 1)}


def _secret_values(entry: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for key, value in entry.items():
        if isinstance(value, Mapping):
            yield from _secret_values(value)
        elif key in _SECRET and isinstance(value, str):
            yield key, value
