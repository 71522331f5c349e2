"""Connections for httpx's clients, made directly with asyncio.

httpcore uses anyio, which starts and stops watching the socket for each piece that it reads. These two system calls are half the
cost of a piece of a streamed reply. httpx and httpcore still do the rest: HTTP, and the reuse of connections.
"""

from __future__ import annotations

import asyncio
import errno
import os
import ssl
from collections.abc import Iterable
from typing import Any, cast

import httpcore
import httpx

_MOST_HELD = 256 * 1024
"""Bytes that are held for a reader; above that, the server has to wait."""
_PLAIN = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH)
"""Errors that are shown with the system's message, because asyncio's repeats the address."""


class AsyncioTransport(httpx.AsyncHTTPTransport):
    """httpx's transport for connections without a proxy, which are made with asyncio."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._pool = httpcore.AsyncConnectionPool(  # with httpx's limits
            ssl_context=context,
            max_connections=100,
            max_keepalive_connections=20,
            keepalive_expiry=5.0,
            network_backend=_AsyncioBackend(),
        )


class _AsyncioBackend(httpcore.AsyncNetworkBackend):
    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        # Try the next address after a short delay; other loops (uvloop) try one after another.
        addresses: dict[str, Any] = {"happy_eyeballs_delay": 0.25} if isinstance(loop, asyncio.BaseEventLoop) else {}
        try:
            async with asyncio.timeout(timeout):
                _, protocol = await loop.create_connection(_Incoming, host, port, **addresses)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ConnectError(os.strerror(error.errno) if error.errno in _PLAIN else str(error)) from error
        return _AsyncioStream(protocol)

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class _AsyncioStream(httpcore.AsyncNetworkStream):
    def __init__(self, protocol: _Incoming) -> None:
        self._protocol = protocol

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109 - httpcore's signature
        try:
            if timeout is None:
                return await self._protocol.read(max_bytes)
            async with asyncio.timeout(timeout):
                return await self._protocol.read(max_bytes)
        except TimeoutError as error:
            raise httpcore.ReadTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.ReadError(str(error)) from error

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109 - httpcore's signature
        try:
            async with asyncio.timeout(timeout):
                await self._protocol.write(buffer)
        except TimeoutError as error:
            raise httpcore.WriteTimeout(str(error)) from error
        except OSError as error:
            raise httpcore.WriteError(str(error)) from error

    async def aclose(self) -> None:
        transport = self._protocol.transport
        transport.close()
        await asyncio.sleep(0)  # send what can be sent at once
        transport.abort()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109 - httpcore's signature
    ) -> httpcore.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                await self._protocol.encrypt(ssl_context, server_hostname)
        except BaseException as error:
            self._protocol.transport.abort()
            if isinstance(error, TimeoutError):
                raise httpcore.ConnectTimeout(str(error)) from error
            if isinstance(error, OSError):
                raise httpcore.ConnectError(str(error)) from error
            raise
        return self

    def get_extra_info(self, info: str) -> Any:
        names = {"client_addr": "sockname", "server_addr": "peername"}
        if info == "is_readable":
            return self._protocol.has_news
        return self._protocol.transport.get_extra_info(names.get(info, info))


class _Incoming(asyncio.Protocol):
    """A connection with the bytes that have arrived and were not read yet."""

    transport: asyncio.Transport

    def __init__(self) -> None:
        self._held = bytearray()
        self._is_paused = False
        self._is_encrypted = False
        self._has_ended = False
        self._error: Exception | None = None
        self._reader: asyncio.Future[None] | None = None
        self._can_write = asyncio.Event()
        self._can_write.set()

    @property
    def has_news(self) -> bool:
        """True if a read would not wait. On an idle connection, the server has then closed it, or violates the protocol."""
        return bool(self._held) or self._has_ended or self.transport.is_closing()

    async def read(self, most: int) -> bytes:
        """Return up to ``most`` bytes that arrived; b"" after the end. Raises OSError if the connection broke."""
        if not self._held and not self._has_ended:
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        if not self._held:
            if self._error is not None:
                raise self._error
            return b""
        piece = bytes(self._held) if len(self._held) <= most else bytes(self._held[:most])
        del self._held[:most]
        if self._is_paused and len(self._held) <= _MOST_HELD:
            self._is_paused = False
            self.transport.resume_reading()
        return piece

    async def write(self, data: bytes) -> None:
        """Send data, and return when the server is ready for more. Raises OSError if the connection broke."""
        if self._error is not None or self.transport.is_closing():
            raise self._error or ConnectionResetError("the connection was closed")
        self.transport.write(data)
        await self._can_write.wait()
        if self._error is not None:
            raise self._error

    async def encrypt(self, context: ssl.SSLContext, host: str | None) -> None:
        """Use TLS from now on. Raises OSError (ssl.SSLError is one)."""
        self._is_encrypted = True
        loop = asyncio.get_running_loop()
        self.transport = await loop.start_tls(self.transport, self, context, server_hostname=host) or self.transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._held += data
        self._wake()
        if len(self._held) > _MOST_HELD and not self._is_paused:
            self._is_paused = True
            self.transport.pause_reading()

    def eof_received(self) -> bool:
        self._has_ended = True
        self._wake()
        return not self._is_encrypted  # the rest of the request may still have to be sent

    def connection_lost(self, error: Exception | None) -> None:
        self._has_ended, self._error = True, error
        self._wake()
        self._can_write.set()

    def pause_writing(self) -> None:
        self._can_write.clear()

    def resume_writing(self) -> None:
        self._can_write.set()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
