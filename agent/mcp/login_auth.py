"""Requests to a server with the stored login. An expired token is renewed. No user is asked here, and no browser opened."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import httpx2
from mcp.client.auth.utils import extract_field_from_www_auth, extract_scope_from_www_auth

from agent.config import locked, tokens_path
from agent.mcp.logins import Login, Logins
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.config import Config

_log = logging.getLogger(__name__)


class LoginAuth(httpx2.Auth):
    """Adds the token of a login to requests. ``refused`` is why the server refused the latest request for its token, else "";
    ``refusing`` is set with the first refusal.
    """

    def __init__(self, config: Config, logins: Logins) -> None:
        self._config = config
        self._logins = logins
        self._renewing: asyncio.Task[Login | None] | None = None
        self.refused = ""
        self.refusing = asyncio.Event()

    async def async_auth_flow(self, request: httpx2.Request) -> AsyncGenerator[httpx2.Request, httpx2.Response]:
        """See httpx2.Auth. A response that refuses the token is passed on: an error here would end the whole transport."""
        login, why = None, ""
        is_renewed = False
        try:
            login = self._logins.find()
            if login is not None and login.is_expired:
                is_renewed = True
                login = await self._renewed(login)
        except ToolcribError as error:
            login, why = None, str(error)
        response = yield _with_token(request, login)
        if response.status_code == httpx2.codes.UNAUTHORIZED and not (is_renewed or why):
            try:
                login = await self._renewed(login)
            except ToolcribError as error:
                login, why = None, str(error)
            if login is not None:
                response = yield _with_token(request, login)
        self._judge(response, why)

    async def _renewed(self, old: Login | None) -> Login | None:
        """Return another login than ``old``, or None. Raises ToolcribError.

        All requests share one renewal, which continues if a request is cancelled: a refresh token is often valid only once, so
        the answer must not be lost.
        """
        if old is None and not self._logins.server.client_id:
            return None
        if self._renewing is None or self._renewing.done():
            self._renewing = asyncio.create_task(self._renew(old))
        return await asyncio.shield(self._renewing)

    async def _renew(self, old: Login | None) -> Login | None:
        file = tokens_path(self._logins.folder)
        lock = locked(file.with_name(f"{file.name}.{self._logins.name}"))
        await asyncio.to_thread(lock.__enter__)
        try:
            return await self._renew_locked(old)
        finally:
            lock.__exit__(None, None, None)

    async def _renew_locked(self, old: Login | None) -> Login | None:
        from agent.mcp.oauth import log_in_by_credentials, refreshed

        current = self._logins.find()
        if current is not None and (old is None or current.access != old.access):
            return current  # another process has renewed it
        if self._logins.server.client_id:
            new: Login | None = await log_in_by_credentials(self._config, self._logins)
        elif current is None:
            return None
        else:
            new = await refreshed(current)
        if new is not None:
            self._logins.store(new)
        elif current is not None:
            self._logins.forget(current.owner)
        return new

    def _judge(self, response: httpx2.Response, why: str) -> None:
        self.refused = ""
        if response.status_code == httpx2.codes.UNAUTHORIZED:
            self.refused = why or f"not logged in: {self._fix()}"
            self._note()
        elif response.status_code == httpx2.codes.FORBIDDEN and _error(response) == "insufficient_scope":
            scope = extract_scope_from_www_auth(response)
            needed = f"the scope {scope!r}" if scope else "the scope that this needs"
            self.refused = f"the login does not include {needed}: {self._fix()}"
        if self.refused:
            self.refusing.set()

    def _fix(self) -> str:
        line = f"toolcrib mcp login {self._logins.name}"
        if not self._logins.principal:
            return line
        return f"{line} --for {self._logins.principal}, or set mcp.servers.{self._logins.name}.shared"

    def _note(self) -> None:
        """Record that the server needs a login, which `toolcrib mcp list` shows."""
        try:
            if not self._logins.principal and self._logins.find() is None and not self._logins.is_needed:
                self._logins.forget("")
        except ToolcribError as error:
            _log.info("it is not recorded that %s needs a login: %s", self._logins.name, error)


def _error(response: httpx2.Response) -> str | None:
    return extract_field_from_www_auth(response, "error")


def _with_token(request: httpx2.Request, login: Login | None) -> httpx2.Request:
    if login is not None:
        request.headers["Authorization"] = f"Bearer {login.access}"
    else:
        request.headers.pop("Authorization", None)
    return request
