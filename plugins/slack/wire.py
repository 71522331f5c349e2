"""Access to Slack: its Web API, its socket, its files."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_sdk.errors import SlackApiError
from slack_sdk.socket_mode.aiohttp import SocketModeClient
from slack_sdk.web.async_client import AsyncWebClient

from toolcrib import ToolcribError
from toolcrib.chat import NotSent

LOST = (SlackApiError, aiohttp.ClientError, OSError, TimeoutError)
"""Errors of a server that can't be reached, or that refuses a request."""
_SECONDS = 20
_PING_SECONDS = 3.0
_PIECE = 65_536
_ADDRESS_SECONDS = 10.0
_LIMITED = ("ratelimited", "rate_limited")
_TOKEN = ("invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive")
"""Errors that a new token resolves: nothing was done, and a later attempt can succeed."""
_UNKNOWN = ("internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org", "accesslimited")
_log = logging.getLogger(__name__)
Taking = Callable[[Mapping[str, Any]], Awaitable[None]]


def client_of(token: str, base_url: str, proxy: str) -> AsyncWebClient:
    """Return a client of the Web API without retries, because the library's retries could show a message twice."""
    more: dict[str, Any] = {"timeout": _SECONDS, "proxy": proxy or None, "logger": _quiet(), "retry_handlers": []}
    return AsyncWebClient(token, base_url=f"{base_url}/", **more)


class _Connection(SocketModeClient):
    """The library's connection, with an address that expires: Slack's addresses are valid once and briefly, and the library would
    reuse them.
    """

    _address: str | None = None
    _good_until = 0.0

    @property  # type: ignore[override]  # the library declares it as never None, and sets it to None
    def wss_uri(self) -> str | None:
        """The address to connect to, or None if a new one is needed."""
        return self._address if time.monotonic() < self._good_until else None

    @wss_uri.setter
    def wss_uri(self, address: str | None) -> None:
        self._address, self._good_until = address, time.monotonic() + _ADDRESS_SECONDS

    async def issue_new_wss_url(self) -> str:
        """Request an address. Log an error here, because the library's log is silenced, and raise it."""
        try:
            return await super().issue_new_wss_url()
        except Exception as error:
            _log.warning("Slack offers no connection, retrying: %s", code_of(error) or type(error).__name__)
            raise


class _Handler(AsyncSocketModeHandler):
    def __init__(self, app: AsyncApp, client: _Connection) -> None:
        self.app, self.client = app, client
        client.socket_mode_request_listeners.append(self.handle)  # type: ignore[arg-type]  # as in the library itself


class SlackSocket:
    """Receives events and presses. ``event`` is awaited with each event, which is acknowledged afterwards; ``action`` is awaited
    with each press, and must return at once; ``begun`` is called when a connection begins.
    """

    def __init__(
        self, client: AsyncWebClient, app_token: str, me: str, event: Taking, action: Taking, begun: Callable[[], None]
    ) -> None:
        async def authorize(**_: Any) -> AuthorizeResult:  # sends no request, so that messages keep their order
            return AuthorizeResult(enterprise_id=None, team_id=None, bot_user_id=me, bot_token=client.token)

        self._event, self._action, self._begun = event, action, begun
        app = AsyncApp(client=client, authorize=authorize, process_before_response=True, logger=_quiet())
        app.use(self._taken)
        web = AsyncWebClient(app_token, base_url=client.base_url, timeout=_SECONDS, proxy=client.proxy, logger=_quiet())
        more: dict[str, Any] = {"logger": _quiet(), "web_client": web, "proxy": client.proxy, "ping_interval": _PING_SECONDS}
        self._handler = _Handler(app, _Connection(app_token, **more))
        self._handler.client.message_listeners.append(self._heard)

    async def open(self) -> None:
        """Connect. The library then keeps the connection open."""
        await self._handler.connect_async()  # type: ignore[no-untyped-call]  # the library has no types

    async def close(self) -> None:
        """Stop receiving, and close the connection."""
        client = self._handler.client
        tasks = [client.message_processor, client.current_session_monitor, client.message_receiver]
        await self._handler.close_async()  # type: ignore[no-untyped-call]  # as above
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)

    async def _heard(self, client: object, message: Mapping[str, Any], raw: object) -> None:
        if message.get("type") == "hello":
            self._begun()

    async def _taken(self, body: dict[str, Any], ack: Any) -> Any:
        """Handle each request before bolt's own listeners. If this raises, the request is not acknowledged, and Slack sends it
        again.
        """
        if isinstance(event := body.get("event"), dict):
            await self._event(event)
        elif body.get("type") == "block_actions":
            await self._action(body)
        return await ack()


def code_of(error: Exception) -> str:
    """Return Slack's error code, or "" for an error that is not Slack's, such as a proxy's error page."""
    told = getattr(error.response, "data", None) if isinstance(error, SlackApiError) else None
    found = told.get("error") if isinstance(told, dict) else ""
    return found if isinstance(found, str) else ""


def wait_of(error: Exception) -> float | None:
    """Return the seconds that Slack asks us to wait, or None if it asks for none."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    told = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    return float(told) if str(told).isdecimal() else None


def passes(error: Exception, *, with_token: bool = False) -> bool:
    """Return whether the same request may succeed later; ``with_token``: or with another token."""
    code = code_of(error)
    return not code or wait_of(error) is not None or code in _LIMITED + _UNKNOWN or (with_token and code in _TOKEN)


def not_sent(error: Exception) -> NotSent:
    """Return the NotSent for an error."""
    code, wait = code_of(error), wait_of(error)
    text = f"Slack: {code or error}"
    is_limit = getattr(getattr(error, "response", None), "status_code", 0) == 429
    if is_limit or code in _LIMITED + _TOKEN or (code and wait is not None):
        return NotSent(text, retry_after=wait, code=code or "429")
    if not code:
        return NotSent(text, retry_after=wait, perhaps_sent=not isinstance(error, aiohttp.ClientConnectorError))
    return NotSent(text, for_good=code not in _UNKNOWN, perhaps_sent=code in _UNKNOWN, code=code)


async def downloaded(client: AsyncWebClient, file_id: str) -> AsyncIterator[bytes]:
    """Yield the content of a file in pieces. The token is sent only to Slack. Raises ToolcribError, and one of LOST."""
    file = (await client.files_info(file=file_id)).get("file") or {}
    url = str(file.get("url_private_download") or file.get("url_private") or "")
    parts, own = urlsplit(url), urlsplit(client.base_url)
    is_slack = parts.scheme == "https" and f".{parts.hostname}".endswith(".slack.com")
    if not (is_slack or (parts.scheme, parts.netloc) == (own.scheme, own.netloc)):
        raise ToolcribError("the file is not stored on Slack")
    headers = {"Authorization": f"Bearer {client.token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, allow_redirects=False, proxy=client.proxy) as answer,
    ):
        if answer.status != 200:
            raise ToolcribError(f"it could not be downloaded from Slack ({answer.status})")
        async for piece in answer.content.iter_chunked(_PIECE):
            yield piece


async def uploaded(client: AsyncWebClient, name: str, data: bytes) -> str:
    """Upload a file that is not shown yet, and return its id. Raises one of LOST."""
    place = await client.files_getUploadURLExternal(filename=name, length=len(data))
    url = str(place["upload_url"])
    async with aiohttp.ClientSession() as session, session.post(url, data=data, proxy=client.proxy, raise_for_status=True):
        return str(place["file_id"])


def _quiet() -> logging.Logger:
    """Return a silent logger for the libraries, which would log users' messages."""
    found = logging.getLogger("slack_quiet")
    found.setLevel(logging.CRITICAL)
    return found
