"""Connections of one guard: accepted from several listeners, bounded in number and in idle time, and tunnelled."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import socket
import time
from collections.abc import Callable, Sequence
from functools import partial

from tools.environments._workers import Workers
from tools.environments.local.network.mover import CHUNK, ONCE, READ, WRITE, Mover

_log = logging.getLogger(__name__)
MOST = 256
"""Maximum number of connections. Further ones wait in the backlog of their listener."""
_ANSWERS = 128
"""Maximum number of connections being answered. Established connections need no thread."""
IDLE = 3600.0
"""Seconds after which an idle connection is closed."""
_PAUSE = 1.0
_ROUNDS = 4
"""Number of reads from one side before others get their turn. Several, as a connection often ends right after its data."""
_SPLICE = 1 | 2
"""SPLICE_F_MOVE | SPLICE_F_NONBLOCK."""
_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 15),
    (socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 4),
    (socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 120_000),
    (socket.IPPROTO_TCP, socket.TCP_SYNCNT, 3),  # the kernel stops connecting after about 15 seconds
)

Answer = Callable[[socket.socket], socket.socket | None]


class Connections:
    """Accepts on listeners and tunnels each connection to the socket that the listener's function returns for it.

    The functions run in threads and may block. They raise OSError if they cannot connect.
    """

    def __init__(self, mover: Mover) -> None:
        self.mover = mover
        self._workers = Workers("toolcrib-network-answer", _ANSWERS)
        self._answers: dict[socket.socket, Answer] = {}
        self._paused: dict[socket.socket, float] = {}
        self._answering: set[socket.socket] = set()
        self._tunnels: set[Tunnel] = set()
        self._is_closed = False

    def serve(self, listener: socket.socket, answer: Answer) -> None:
        """Accept on ``listener``. ``answer`` gets each client and returns the other end, or None if it has handled the client
        itself.
        """
        listener.setblocking(False)
        with self.mover.lock:
            self._answers[listener] = answer
            self.mover.watch(listener.fileno(), READ, lambda _events: self._accept(listener))

    def stop(self, listener: socket.socket) -> None:
        """Close a listener. Its connections continue."""
        with self.mover.lock:
            self.mover.forget(listener.fileno())
            self._paused.pop(listener, None)
            self._answers.pop(listener, None)
            listener.close()

    def close(self) -> None:
        """Close all listeners and connections."""
        with self.mover.lock:
            self._is_closed = True
            for listener in list(self._answers):
                self.stop(listener)
            for client in self._answering:  # the thread that answers it closes it
                with contextlib.suppress(OSError):
                    client.shutdown(socket.SHUT_RDWR)
            for tunnel in list(self._tunnels):
                tunnel.close()

    def close_idle(self) -> None:
        """End idle connections, and accept again after an error."""
        now = time.monotonic()
        for tunnel in [tunnel for tunnel in self._tunnels if now - tunnel.used > IDLE]:
            tunnel.close()
        self._resume(now)

    def _accept(self, listener: socket.socket) -> None:
        if len(self._answering) + len(self._tunnels) >= MOST:
            self._pause(listener, 0.0)
            return
        try:
            client, _address = listener.accept()
        except BlockingIOError:  # the client has gone
            return
        except OSError as error:  # no descriptor is left; the listener stays readable
            _log.warning("a connection of the sandbox can't be accepted: %s", error)
            self._pause(listener, time.monotonic() + _PAUSE)
            return
        self._answering.add(client)
        self._workers.submit(partial(self._serve, client, self._answers[listener]))

    def _pause(self, listener: socket.socket, until: float) -> None:
        self.mover.forget(listener.fileno())
        self._paused[listener] = until

    def _resume(self, now: float = 0.0) -> None:
        for listener in [listener for listener, until in self._paused.items() if until <= now]:
            del self._paused[listener]
            self.serve(listener, self._answers[listener])

    def _serve(self, client: socket.socket, answer: Answer) -> None:
        other = None
        try:
            other = answer(client)
        except OSError as error:  # the client is gone, or the other end could not be reached
            _log.debug("a connection of the sandbox ended: %s", error)
        finally:
            with self.mover.lock:
                self._answering.discard(client)
                if other is None or self._is_closed:
                    for each in filter(None, (client, other)):
                        each.close()
                    self._resume()
                else:
                    self._tunnels.add(Tunnel(client, other, self.mover, self._ended))

    def _ended(self, tunnel: Tunnel) -> None:
        self._tunnels.discard(tunnel)
        self._resume()


class Tunnel:
    """Tunnel between two sockets, until both have ended or one of them fails. It closes both sockets.

    The kernel moves the bytes. While one side does not accept more data, the other side is not read.
    """

    def __init__(self, one: socket.socket, other: socket.socket, mover: Mover, on_end: Callable[[Tunnel], None]) -> None:
        self._sockets, self._mover, self._on_end = (one, other), mover, on_end
        self._rests: dict[socket.socket, bytes] = {}  # data that the target has not accepted yet, by source
        self._has_ended: set[socket.socket] = set()
        self.used = time.monotonic()
        """Time of the last move of data."""
        for source, target in ((one, other), (other, one)):
            source.setblocking(False)
            source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            mover.watch(source.fileno(), READ | ONCE, partial(self._ready, source, target))

    def _ready(self, source: socket.socket, target: socket.socket, events: int) -> None:
        self.used = time.monotonic()
        try:
            if events & WRITE:
                self._move(target, source)
            if events & ~WRITE:
                self._move(source, target)
        except OSError:  # one of them was reset
            self.close()

    def _move(self, source: socket.socket, target: socket.socket) -> None:
        """Move the data of ``source``, as much as ``target`` accepts. Raises OSError."""
        if source in self._has_ended or source.fileno() < 0:
            return
        (out, into), held = self._mover.pipe, 0
        try:
            while rest := self._rests.get(source):
                self._rests[source] = rest[target.send(rest) :]
            for _ in range(_ROUNDS):
                held = os.splice(source.fileno(), into, CHUNK, flags=_SPLICE)
                if not held:
                    self._end(source, target)
                    return
                while held:
                    held -= os.splice(out, target.fileno(), held, flags=_SPLICE)
            self._mover.again(source.fileno(), READ | WRITE | ONCE)
        except BlockingIOError:
            if held:
                self._mover.again(target.fileno(), READ | WRITE | ONCE)
        finally:
            if held:  # empty the pipe, which all tunnels share
                self._rests[source] = os.read(out, held)

    def _end(self, source: socket.socket, target: socket.socket) -> None:
        """Forward the end of one direction. The other continues: a client may finish sending and still wait for the answer."""
        self._has_ended.add(source)
        if len(self._has_ended) == 2:
            self.close()
            return
        with contextlib.suppress(OSError):  # the target has ended too
            target.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        """Close both sockets. The caller holds the mover's lock. May be called again."""
        for each in self._sockets:
            if (fd := each.fileno()) >= 0:
                self._mover.forget(fd)
                each.close()
        self._on_end(self)


def dial(addresses: Sequence[str], port: int) -> socket.socket:
    """Return a connection to the first reachable address. Raises the OSError of the last attempt."""
    failed = OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL))
    for address in addresses:
        try:
            return connected(socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET), address, port)
        except OSError as error:
            failed = error
    raise failed


def connected(made: socket.socket, address: str, port: int, seconds: float | None = None) -> socket.socket:
    """Connect a socket and return it. On failure it is closed. Raises OSError."""
    try:
        for level, option, value in _OPTIONS:
            made.setsockopt(level, option, value)
        made.settimeout(seconds)
        made.connect((address, port))
    except BaseException:
        made.close()
        raise
    return made
