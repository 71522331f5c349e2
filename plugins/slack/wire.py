"""The way to Slack: its Web API, its socket, its files."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from slack_bolt.adapter.socket_mode.aiohttp import AsyncSocketModeHandler
from slack_bolt.async_app import AsyncApp
from slack_bolt.authorization import AuthorizeResult
from slack_sdk.errors import SlackApiError
from slack_sdk.web.async_client import AsyncWebClient

from toolcrib import ToolcribError
from toolcrib.chat import NotSent

LOST = (SlackApiError, aiohttp.ClientError, OSError, TimeoutError)
"""Errors that tell of a server that can't be reached, or does not want to be."""
_SECONDS = 20
_PING_SECONDS = 3.0
_PIECE = 65_536
_PASSES = ("ratelimited", "rate_limited", "invalid_auth", "not_authed", "token_revoked", "token_expired", "account_inactive")
"""Reasons after which a message can be sent later all the same: nothing was done."""
_UNKNOWN = ("internal_error", "fatal_error", "service_unavailable", "request_timeout", "team_added_to_org", "accesslimited")
Taking = Callable[[Mapping[str, Any]], Awaitable[None]]


def client_of(token: str, base_url: str, proxy: str) -> AsyncWebClient:
    """Return a client of the Web API. Of its own the library would send again what may have been shown."""
    more: dict[str, Any] = {"timeout": _SECONDS, "proxy": proxy or None, "logger": _quiet(), "retry_handlers": []}
    return AsyncWebClient(token, base_url=f"{base_url}/", **more)


class SlackSocket:
    """Hears of what happens. ``event`` takes an event, and only what it has taken is confirmed; ``action`` takes a press, and has
    to return at once; ``begun`` is called when a connection begins.
    """

    def __init__(
        self, client: AsyncWebClient, app_token: str, me: str, event: Taking, action: Taking, begun: Callable[[], None]
    ) -> None:
        async def authorize(**_: Any) -> AuthorizeResult:  # without asking, so that messages keep their order
            return AuthorizeResult(enterprise_id=None, team_id=None, bot_user_id=me, bot_token=client.token)

        self._event, self._action, self._begun = event, action, begun
        app = AsyncApp(client=client, authorize=authorize, process_before_response=True, logger=_quiet())
        app.use(self._taken)
        web = AsyncWebClient(app_token, base_url=client.base_url, timeout=_SECONDS, proxy=client.proxy, logger=_quiet())
        self._handler = AsyncSocketModeHandler(app, app_token, web_client=web, proxy=client.proxy, ping_interval=_PING_SECONDS)
        self._handler.client.message_listeners.append(self._heard)

    async def open(self) -> None:
        """Connect. It stays so by itself."""
        await self._handler.connect_async()  # type: ignore[no-untyped-call]  # the library says no types

    async def close(self) -> None:
        """Hear nothing more, and free everything."""
        client = self._handler.client
        tasks = [client.message_processor, client.current_session_monitor, client.message_receiver]
        await self._handler.close_async()  # type: ignore[no-untyped-call]  # as above
        await asyncio.gather(*(task for task in tasks if task is not None), return_exceptions=True)

    async def _heard(self, client: object, message: Mapping[str, Any], raw: object) -> None:
        if message.get("type") == "hello":
            self._begun()

    async def _taken(self, body: dict[str, Any], ack: Any) -> Any:
        """Take whatever comes, as a step before bolt's own listeners: what raises is not confirmed, and told again."""
        if isinstance(event := body.get("event"), dict):
            await self._event(event)
        elif body.get("type") == "block_actions":
            await self._action(body)
        return await ack()


def code_of(error: Exception) -> str:
    """Return Slack's word for what is wrong, "" for what is none of Slack's."""
    found = error.response.get("error", "") if isinstance(error, SlackApiError) and not isinstance(error.response, str) else ""
    return str(found or "")


def wait_of(error: Exception) -> float | None:
    """Return the seconds to wait, None where Slack does not say."""
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    told = next((value for name, value in headers.items() if name.lower() == "retry-after"), "")
    return float(told) if str(told).isdecimal() else None


def not_sent(error: Exception) -> NotSent:
    """Return what an error means for a message."""
    code = code_of(error)
    if not code:
        is_unknown = not isinstance(error, aiohttp.ClientConnectorError)
        return NotSent(f"Slack: {error}", perhaps_sent=is_unknown)
    text, wait = f"Slack: {code}", wait_of(error)
    if wait is not None or code in _PASSES:
        return NotSent(text, retry_after=wait, code=code)
    return NotSent(text, for_good=code not in _UNKNOWN, perhaps_sent=code in _UNKNOWN, code=code)


async def downloaded(client: AsyncWebClient, file_id: str) -> AsyncIterator[bytes]:
    """Yield a file. The token goes to Slack alone. Raises ToolcribError, and one of LOST."""
    file = (await client.files_info(file=file_id)).get("file") or {}
    url = str(file.get("url_private_download") or file.get("url_private") or "")
    parts, own = urlsplit(url), urlsplit(client.base_url)
    is_slack = parts.scheme == "https" and f".{parts.hostname}".endswith(".slack.com")
    if not (is_slack or (parts.scheme, parts.netloc) == (own.scheme, own.netloc)):
        raise ToolcribError("it is not on Slack")
    headers = {"Authorization": f"Bearer {client.token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.get(url, headers=headers, allow_redirects=False, proxy=client.proxy) as answer,
    ):
        if answer.status != 200:
            raise ToolcribError(f"Slack does not give it ({answer.status})")
        async for piece in answer.content.iter_chunked(_PIECE):
            yield piece


async def uploaded(client: AsyncWebClient, name: str, data: bytes) -> str:
    """Upload a file that nobody sees yet, and return its id. Raises one of LOST."""
    place = await client.files_getUploadURLExternal(filename=name, length=len(data))
    url = str(place["upload_url"])
    async with aiohttp.ClientSession() as session, session.post(url, data=data, proxy=client.proxy, raise_for_status=True):
        return str(place["file_id"])


def _quiet() -> logging.Logger:
    """Return a logger for the libraries: they would log what people say."""
    found = logging.getLogger("slack_quiet")
    found.setLevel(logging.CRITICAL)
    return found
