"""Stored logins at MCP servers, with the rules of their use: by principal, and by the server's address."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent.config import read_tokens, write_tokens
from agent.config._mcp import McpServer
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.types import Json

_EARLY = 30.0
"""A token counts as expired this many seconds before its end."""


class LoginFailed(ToolcribError):
    """A login failed. The message has the reason, and never a token."""


@dataclass(frozen=True, slots=True)
class Login:
    """A principal's login at a server. ``owner`` is the principal. ``token`` has the fields of a token response (RFC 6749),
    ``client`` those of a client registration (RFC 7591). ``resource`` identifies the server to the authorization server, "" if it
    is left out.
    """

    owner: str
    token: Mapping[str, Any]
    expires_at: float | None
    client: Mapping[str, Any]
    token_endpoint: str
    resource: str

    @property
    def access(self) -> str:
        """The access token."""
        return str(self.token["access_token"])

    @property
    def is_expired(self) -> bool:
        """True if the access token has expired, or soon will."""
        return self.expires_at is not None and time.time() > self.expires_at - _EARLY


def new_login(owner: str, token: Mapping[str, Any], client: Mapping[str, Any], endpoint: str, resource: str) -> Login:
    """Return the login of a token that was just issued."""
    seconds = token.get("expires_in")
    return Login(owner, token, time.time() + seconds if seconds else None, client, endpoint, resource)


class Logins:
    """The logins at one server that a principal may use. ``principal`` is its ``Principal.key``."""

    def __init__(self, folder: Path, name: str, server: McpServer, principal: str) -> None:
        self.folder = folder
        self.name = name
        self.server = server
        self.principal = principal

    def find(self) -> Login | None:
        """Return the login to use: the principal's own, else the owner's if the server is shared. Raises ConfigError."""
        found = read_tokens(self.folder)
        owners = [self.principal, *([""] if self.server.shared else [])]
        for owner in owners:
            entry = found.get(owner, {}).get(self.name, {})
            if entry.get("url") == self.server.url and "token" in entry:
                return _login(owner, entry)
        return None

    def client(self) -> Mapping[str, Any] | None:
        """Return the principal's registration at the server, which a new login can use again."""
        entry = read_tokens(self.folder).get(self.principal, {}).get(self.name, {})
        return entry.get("client") if entry.get("url") == self.server.url else None

    def store(self, login: Login) -> None:
        """Store a login for its owner. Raises ConfigError."""
        entry: dict[str, Json] = {
            "url": self.server.url,
            "token": dict(login.token),
            "expires_at": login.expires_at,
            "client": dict(login.client),
            "token_endpoint": login.token_endpoint,
            "resource": login.resource,
        }
        write_tokens(login.owner, self.name, entry, self.folder)

    def forget(self, owner: str) -> None:
        """Remove the token of ``owner``, and record that the server needs a login. Raises ConfigError."""
        write_tokens(owner, self.name, {"url": self.server.url}, self.folder)

    @property
    def is_needed(self) -> bool:
        """True if the server needs a login, as far as is known, and there is none. Raises ConfigError."""
        if self.server.client_id or not self.server.url:
            return False
        return self.name in read_tokens(self.folder).get(self.principal, {}) and self.find() is None


def _login(owner: str, entry: Mapping[str, Any]) -> Login:
    return Login(owner, entry["token"], entry["expires_at"], entry["client"], entry["token_endpoint"], entry["resource"])
