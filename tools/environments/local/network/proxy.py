"""Proxy of a sandbox: reads what a client asks for, has the host decided, and connects to the address that was checked."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
from collections.abc import Awaitable, Callable

from tools.environments.local.network.connections import dial_any
from tools.environments.local.network.hosts import LOOPBACK, HostPolicy, HostRefusedError, canonical
from tools.environments.local.network.requests import HEAD_LIMIT, SOCKS, ProxyRequest, RequestRefusedError, read_request, refusal

HEAD_SECONDS = 30.0
"""Seconds in which a client sends its request."""
_LINGER = 2.0
_DISCARDED = 65536

OwnPort = Callable[[int], Awaitable[socket.socket | None]]


class HostProxy:
    """Answers the clients of one sandbox. ``own_port`` connects to a port that the sandbox listens on; None if it does not."""

    def __init__(self, policy: HostPolicy, own_port: OwnPort) -> None:
        self._policy, self._own_port = policy, own_port

    async def answer(self, client: socket.socket) -> socket.socket | None:
        """Return the connection that a client asked for. None after a refusal, which the client was sent. Raises OSError."""
        loop = asyncio.get_running_loop()
        async with asyncio.timeout(HEAD_SECONDS):
            seen = await loop.sock_recv(client, HEAD_LIMIT)
            socks = seen[:1] == SOCKS
            try:
                request = await read_request(client, seen)
            except RequestRefusedError as error:
                await _refuse(client, refusal(error.status, str(error), socks))
                return None
        if request is None:
            return None
        try:
            upstream = await self._connected(request)
        except HostRefusedError as error:
            await _refuse(client, refusal(403, str(error), socks))
            return None
        except OSError as error:
            reason = error.strerror or "it did not answer in time"
            await _refuse(client, refusal(502, f"toolcrib: {request.host}:{request.port} can't be reached: {reason}", socks))
            return None
        try:
            for target, data in ((client, request.connected), (upstream, request.first)):
                if data:
                    await loop.sock_sendall(target, data)
        except BaseException:
            upstream.close()
            raise
        return upstream

    async def _connected(self, request: ProxyRequest) -> socket.socket:
        if _is_loopback(request.host) and (own := await self._own_port(request.port)) is not None:
            return own
        addresses = await self._policy.admit(request.host, request.port)
        if not addresses:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
        return await dial_any(addresses, request.port)


def _is_loopback(host: str) -> bool:
    try:
        return canonical(host) == LOOPBACK
    except ValueError:  # the policy refuses it
        return False


async def _refuse(client: socket.socket, answer: bytes) -> None:
    """Send ``answer`` and end. What the client still sends is read for a moment, else the kernel discards the answer too."""
    loop = asyncio.get_running_loop()
    with contextlib.suppress(OSError):  # the client is gone
        async with asyncio.timeout(_LINGER):
            await loop.sock_sendall(client, answer)
            client.shutdown(socket.SHUT_WR)
            left = _DISCARDED
            while left > 0 and (more := await loop.sock_recv(client, left)):
                left -= len(more)
