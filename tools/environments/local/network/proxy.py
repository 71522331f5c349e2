"""Proxy of a sandbox: read a client's request, check the host, and connect to the checked address."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable

from tools.environments.local.network.connections import dial
from tools.environments.local.network.hosts import LOOPBACK, HostPolicy, HostRefusedError, canonical
from tools.environments.local.network.requests import ProxyRequest, RequestReader, RequestRefusedError, read_request, refusal

HEAD_SECONDS = 30.0
"""Seconds that a client has to send its request."""
_LINGER = 2.0
_DISCARDED = 65536

OwnPort = Callable[[int], socket.socket | None]


class HostProxy:
    """Answers the clients of one sandbox. ``own_port`` connects to a listening port of the sandbox, or returns None."""

    def __init__(self, policy: HostPolicy, own_port: OwnPort) -> None:
        self._policy, self._own_port = policy, own_port

    def answer(self, client: socket.socket) -> socket.socket | None:
        """Return the connection that a client asked for; None after sending a refusal. Raises OSError."""
        reader = RequestReader(client, HEAD_SECONDS)
        try:
            request = read_request(reader)
            upstream = self._connected(request)
        except RequestRefusedError as error:
            _refuse(client, refusal(error.status, str(error), reader.is_socks))
            return None
        try:
            for target, data in ((client, request.connected), (upstream, request.first)):
                if data:
                    target.sendall(data)
        except BaseException:
            upstream.close()
            raise
        return upstream

    def _connected(self, request: ProxyRequest) -> socket.socket:
        host, port = request.host, request.port
        try:
            if _is_loopback(host) and (own := self._own_port(port)) is not None:
                return own
            return dial(self._policy.admit(host, port), port)
        except HostRefusedError as error:
            raise RequestRefusedError(403, str(error)) from None
        except OSError as error:
            reason = error.strerror or "it did not answer in time"
            raise RequestRefusedError(502, f"toolcrib: {host}:{port} can't be reached: {reason}") from error


def _is_loopback(host: str) -> bool:
    with contextlib.suppress(ValueError):  # the policy refuses it
        return canonical(host) == LOOPBACK
    return False


def _refuse(client: socket.socket, answer: bytes) -> None:
    """Send ``answer`` and close. Read briefly what the client still sends, or the kernel would discard the answer too."""
    give_up, left = time.monotonic() + _LINGER, _DISCARDED
    with contextlib.suppress(OSError):  # the client is gone
        client.settimeout(_LINGER)
        client.sendall(answer)
        client.shutdown(socket.SHUT_WR)
        while left > 0 and time.monotonic() < give_up and (more := client.recv(left)):
            left -= len(more)
