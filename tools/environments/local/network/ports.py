"""Forward ports of a sandbox's commands to this machine, and allowed services of this machine into the sandbox."""

from __future__ import annotations

import errno
import socket
from collections.abc import Callable

from tools.environments.local.network.connections import Connections, dial
from tools.environments.local.network.inside import InnerNetwork

MOST_FORWARDED = 32
_PRIVILEGED = 1024


class SandboxPorts:
    """Forwarded ports of one sandbox. Listeners outside are on 127.0.0.1, never on a privileged port."""

    def __init__(self, inner: InnerNetwork, connections: Connections, said: Callable[[str], None]) -> None:
        self._inner, self._connections, self._said = inner, connections, said
        self._lock = connections.mover.lock
        self._seen: set[int] = set()
        self._outside: dict[int, socket.socket] = {}
        self._offered: dict[int, socket.socket | None] = {}  # None: the listener is being made
        self._is_closed = False
        self._told: set[str] = set()

    def own(self, port: int) -> socket.socket | None:
        """Return a connection to a command's listening port, None if no command listens there. Raises OSError."""
        if port in self._offered or port not in self._inner.listening():
            return None
        return self._inner.connect(port)

    def update_forwards(self) -> None:
        """Forward ports that were found listening in this and the previous check, and close forwards whose listener has ended."""
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
        why = (
            ""
            if outer == port
            else f", because {port} is in use here"
            if port >= _PRIVILEGED
            else ", because ports below 1024 are not opened"
        )
        self._say(f"Port {port} of this session can be reached on this machine at 127.0.0.1:{outer}{why}.")

    def offer(self, port: int, is_allowed: Callable[[], bool]) -> None:
        """Listen in the sandbox on a port of this machine's loopback, for programs without proxy support, if still allowed."""
        with self._lock:
            if self._is_closed or port in self._offered:
                return
            self._offered[port] = None
        listener, error = None, None
        try:
            listener = self._inner.made("listen", port)
        except OSError as raised:
            error = raised
        with self._lock:
            self._offered.pop(port, None)
            if listener is not None and (self._is_closed or not is_allowed()):
                listener.close()
            elif listener is not None:
                self._offered[port] = listener
                self._connections.serve(listener, lambda _client: dial(["127.0.0.1", "::1"], port))
            elif error is not None and not self._is_closed:
                reason = "the session itself listens on it" if error.errno == errno.EADDRINUSE else error.strerror or "no answer"
                self._say(f"localhost:{port} of this machine is allowed, but only through the proxy: {reason}.")

    def withdraw(self, port: int) -> None:
        """Stop offering a port. Existing connections stay."""
        with self._lock:
            if (listener := self._offered.get(port)) is not None:
                del self._offered[port]
                self._connections.stop(listener)

    def close(self) -> None:
        """Close all listeners."""
        with self._lock:
            self._is_closed = True
            for listener in filter(None, (*self._outside.values(), *self._offered.values())):
                self._connections.stop(listener)
            self._outside.clear()
            self._offered.clear()

    def _say(self, text: str) -> None:
        if text not in self._told:
            self._told.add(text)
            self._said(text)


def _listener(port: int) -> socket.socket:
    """Return a listener on ``port`` of 127.0.0.1, or on a free port if it is taken here or on ::1: both are ``localhost``."""
    try:
        socket.create_server(("::1", port), family=socket.AF_INET6).close()
    except OSError as error:  # otherwise this machine has no such address
        port = 0 if error.errno == errno.EADDRINUSE else port
    try:
        return socket.create_server(("127.0.0.1", port))
    except OSError:
        return socket.create_server(("127.0.0.1", 0))
