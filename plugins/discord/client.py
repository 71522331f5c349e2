"""The connection to Discord: the library's client, reduced to the events that matter here. This module, not the library,
reconnects it.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import aiohttp
import discord
from discord.gateway import DiscordWebSocket, ReconnectWebSocket

from toolcrib.chat import NotSent

_log = logging.getLogger(__name__)
LOST = (
    discord.HTTPException,
    discord.RateLimited,
    discord.GatewayNotFound,
    discord.ConnectionClosed,
    aiohttp.ClientError,
    OSError,
    TimeoutError,
)
"""Errors of a server that can't be reached, or that refuses a request."""
_CLOSED_FOR_GOOD = (4004, 4010, 4011, 4012, 4013, 4014)
_OUTDATED = (4007, 4009)
"""Close codes of a session that can't be resumed."""
_LONG_PAUSE = 300.0
_CONNECT_SECONDS = 60.0
_LASTING_SECONDS = 5.0
_MOST_WAITED = 30.0
"""Seconds that the library itself may wait when the server asks for it; if it asks for more, the gateway waits instead."""


class DiscordClient(discord.Client):
    """A client that calls the handler of each event at once, in the events' order. ``handlers`` has the library's event names."""

    def __init__(self, handlers: Mapping[str, Callable[..., None]], proxy: str) -> None:
        self._hears = handlers
        self._way: dict[str, Any] = {"initial": True}
        super().__init__(
            intents=discord.Intents(guilds=True, guild_messages=True, dm_messages=True, message_content=True),
            allowed_mentions=discord.AllowedMentions.none(),
            member_cache_flags=discord.MemberCacheFlags.none(),
            chunk_guilds_at_startup=False,
            max_messages=None,
            guild_ready_timeout=0.2,  # servers that are reported later are read at that time
            max_ratelimit_timeout=_MOST_WAITED,
            proxy=proxy or None,
        )
        self._ask = self.http.request
        self.http.request = self._asked  # type: ignore[method-assign]  # the library has no other way

    async def _asked(self, *args: Any, **more: Any) -> Any:
        """Send a request to the API. If it is cancelled while the library waits for Discord's global limit, release that
        limit.
        """
        try:
            return await self._ask(*args, **more)
        except asyncio.CancelledError:
            self.http._global_over.set()
            raise

    def dispatch(self, event: str, /, *args: Any, **kwargs: Any) -> None:
        """Call the handler of an event. The library would start a task for each event, and lose their order."""
        if (handler := self._hears.get(event)) is not None:
            handler(*args)

    async def receive(self) -> None:
        """Receive over one connection until it is lost; the next call resumes its session. Raises one of LOST."""
        begun, resumes, is_open = time.monotonic(), True, False
        try:
            self.ws = await asyncio.wait_for(DiscordWebSocket.from_client(self, **self._way), _CONNECT_SECONDS)
            is_open = True
            self._way = {"initial": False}
            await self._poll()
        except ReconnectWebSocket as error:
            resumes = error.resume and not (is_open and self.ws.socket.close_code in _OUTDATED)
            if time.monotonic() - begun < _LASTING_SECONDS:
                raise ConnectionResetError("the connection was closed") from error
        finally:
            ws: DiscordWebSocket | None = self.ws
            if ws is not None and resumes and ws.session_id is not None:
                where = {"gateway": ws.gateway} if is_open else {}  # otherwise it resumes at the default address
                self._way = {"initial": False, "resume": True, "session": ws.session_id, "sequence": ws.sequence, **where}
            else:
                self._way = {"initial": self._way.get("initial", False)}

    async def _poll(self) -> None:
        while True:
            try:
                await self.ws.poll_event()
            except (*LOST, ReconnectWebSocket):
                raise
            except Exception as error:  # noqa: BLE001 - one unreadable event must not block the others
                _log.warning("an event could not be read and is skipped: %s", type(error).__name__)

    async def close(self) -> None:
        """Close the connection and cancel its tasks."""
        ready = getattr(self._connection, "_ready_task", None)  # the task of a connection that has just begun
        await super().close()
        if ready is not None:
            ready.cancel()
            await asyncio.gather(ready, return_exceptions=True)


def wait_of(error: Exception) -> float | None:
    """Return the seconds to wait, or None if Discord does not say."""
    if isinstance(error, discord.ConnectionClosed) and error.code in _CLOSED_FOR_GOOD:
        _log.error("Discord closed the connection (%s): check the bot's token and its Message Content Intent", str(error.code))
        return _LONG_PAUSE
    if isinstance(error, discord.RateLimited):
        return error.retry_after
    told = error.response.headers.get("Retry-After", "") if isinstance(error, discord.HTTPException) else ""
    return float(told) if told.isdecimal() else None


def not_sent(error: Exception) -> NotSent:
    """Return the NotSent for an error."""
    text = f"Discord: {error}"
    match error:
        case discord.RateLimited():
            return NotSent(text, retry_after=error.retry_after, code="429")
        case discord.DiscordServerError():
            return NotSent(text, perhaps_sent=True, code=str(error.status))
        case discord.HTTPException():
            code = f"{error.status}-{error.code}"
            return NotSent(text, retry_after=wait_of(error), for_good=error.status not in (401, 408, 429), code=code)
        case aiohttp.ClientConnectorError():
            return NotSent(text)
    return NotSent(text, perhaps_sent=True)
