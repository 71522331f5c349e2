"""Access to Telegram. Only the transport below the library knows the token, so that no log and no error contains it."""

from __future__ import annotations

import warnings
from typing import Any
from urllib.request import getproxies, proxy_bypass

import httpx
from telegram import Bot
from telegram.error import BadRequest, Forbidden, NetworkError, RetryAfter, TelegramError
from telegram.request import HTTPXRequest
from telegram.warnings import PTBDeprecationWarning

from toolcrib.chat import NotSent

_HIDDEN = "hidden"
_SECONDS = 20.0
_NOT_CONNECTED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)


class _TokenTransport(httpx.AsyncHTTPTransport):
    """Inserts the token into the addresses of outgoing requests."""

    def __init__(self, token: str, **more: Any) -> None:
        super().__init__(**more)
        self._token = f"/bot{token}/".encode()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.raw_path.replace(f"/bot{_HIDDEN}/".encode(), self._token, 1)
        url = request.url.copy_with(raw_path=path)
        real = httpx.Request(request.method, url, headers=request.headers, stream=request.stream, extensions=request.extensions)
        return await super().handle_async_request(real)


def bot_of(token: str, base_url: str, proxy: str) -> Bot:
    """Return a bot that connects to ``base_url``, through ``proxy`` or the environment's proxy."""
    warnings.filterwarnings("ignore", ".*`retry_after`", PTBDeprecationWarning)  # the library itself causes the warning
    url = httpx.URL(base_url)
    proxy = proxy or ("" if proxy_bypass(url.host) else getproxies().get(url.scheme, ""))

    def request(connections: int) -> HTTPXRequest:
        limits = httpx.Limits(max_connections=connections)
        transport = _TokenTransport(token, limits=limits, proxy=httpx.Proxy(proxy) if proxy else None)
        return HTTPXRequest(
            read_timeout=_SECONDS,
            write_timeout=_SECONDS,
            connect_timeout=_SECONDS,
            pool_timeout=_SECONDS,
            media_write_timeout=_SECONDS * 2,
            httpx_kwargs={"transport": transport},
        )

    polling, sending = request(1), request(30)
    return Bot(_HIDDEN, f"{base_url}/bot", f"{base_url}/file/bot", request=sending, get_updates_request=polling)


def not_sent(error: TelegramError, *, is_partly_shown: bool = False) -> NotSent:
    """Return the NotSent for an error of the library."""
    text = f"Telegram: {error}"
    if (wait := wait_of(error)) is not None:
        return NotSent(text, retry_after=wait, perhaps_sent=is_partly_shown)
    if isinstance(error, (Forbidden, BadRequest)):
        return NotSent(text, for_good=True)
    is_unknown = isinstance(error, NetworkError) and not isinstance(error.__cause__, _NOT_CONNECTED)
    return NotSent(text, perhaps_sent=is_unknown or is_partly_shown)


def wait_of(error: Exception) -> float | None:
    """Return the seconds that Telegram asks us to wait, or None if it asks for none."""
    if not isinstance(error, RetryAfter):
        return None
    return float(error.__reduce__()[1][0])  # the attribute will change its type, and reading it warns about that
