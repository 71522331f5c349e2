"""Ports across the border of a sandbox: those its commands listen on, outside; allowed services of this machine, inside."""

from __future__ import annotations

import errno
import logging
import socket
from collections.abc import Callable

from tools.environments.local.network.connections import Connections, dial_any
from tools.environments.local.network.inside import InnerNetwork

_log = logging.getLogger(__name__)
MOST_FORWARDED = 32
_PRIVILEGED = 1024


class SandboxPorts:
    """Forwarded ports of one sandbox. Listeners outside are on 127.0.0.1, never on a privileged port."""

    def __init__(self, inner: InnerNetwork, connections: Connections, said: Callable[[str], None]) -> None:
        self._inner, self._connections, self._said = inner, connections, said
        self._seen: set[int] = set()
        self._outside: dict[int, socket.socket] = {}
        self._offered: dict[int, socket.socket] = {}
        self._making: set[int] = set()
        self._is_closed = False
        self._told: set[str] = set()

    async def own(self, port: int) -> socket.socket | None:
        """Return a connection to a port that a command of the sandbox listens on, None if none does. Raises OSError."""
        if port in self._offered or port not in self._inner.listening():
            return None
        return await self._inner.connect(port)

    def look(self) -> None:
        """Forward the ports that were listened on at the last look too, and close those that no longer are."""
        now = set(self._inner.listening()) - self._offered.keys()
        for port in self._outside.keys() - now:
            self._connections.stop(self._outside.pop(port))
        for port in sorted((now & self._seen) - self._outside.keys()):
            if len(self._outside) < MOST_FORWARDED:
                self._forward(port)
        self._seen = now

    def _forward(self, port: int) -> None:
        listener = _listener(port if port >= _PRIVILEGED else 0)
        outer = listener.getsockname()[1]
        self._outside[port] = listener
        self._connections.serve(listener, lambda _client: self._inner.connect(port))
        why = "" if outer == port else f", as {port} is taken here" if port >= _PRIVILEGED else ", as low ports are not opened"
        self._say(f"Port {port} of this session can be reached on this machine at 127.0.0.1:{outer}{why}.")

    async def offer(self, port: int) -> None:
        """Listen in the sandbox at a port of this machine's loopback that is allowed, for programs that know no proxy."""
        if port in self._offered or port in self._making:
            return
        self._making.add(port)
        try:
            listener = await self._inner.made("listen", port)
        except OSError as error:
            if self._is_closed:
                return
            reason = "the session itself listens on it" if error.errno == errno.EADDRINUSE else error.strerror or "no answer"
            self._say(f"localhost:{port} of this machine is allowed, but only through the proxy: {reason}.")
            return
        finally:
            self._making.discard(port)
        if self._is_closed:
            listener.close()
            return
        self._offered[port] = listener
        self._connections.serve(listener, lambda _client: dial_any(["127.0.0.1", "::1"], port))

    def withdraw(self, port: int) -> None:
        """Offer a port no longer. Connections to it stay."""
        if (listener := self._offered.pop(port, None)) is not None:
            self._connections.stop(listener)

    def close(self) -> None:
        """Close all listeners."""
        self._is_closed = True
        for listener in (*self._outside.values(), *self._offered.values()):
            self._connections.stop(listener)
        self._outside.clear()
        self._offered.clear()

    def _say(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._said(text)


def _listener(port: int) -> socket.socket:
    """Return a listener at ``port`` of 127.0.0.1, at another port if it is taken."""
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError as error:
        _log.debug("port %d is taken: %s", port, error)
        return socket.create_server(("127.0.0.1", 0))
