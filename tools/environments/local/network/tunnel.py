"""Two connected sockets, each of which gets what the other sends."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import socket
from collections.abc import Callable

CHUNK = 1 << 20
"""Bytes that a pipe takes at once, if the kernel allows a pipe of that size."""
_SPLICE = 1 | 2
"""SPLICE_F_MOVE | SPLICE_F_NONBLOCK."""
_F_SETPIPE_SZ = 1031
_KEEPALIVE = ((socket.TCP_KEEPIDLE, 60), (socket.TCP_KEEPINTVL, 15), (socket.TCP_KEEPCNT, 4), (socket.TCP_USER_TIMEOUT, 120_000))
_IN_USE = 8
"""Empty pipes that are kept for later."""


class Tunnel:
    """Bytes from ``one`` to ``other`` and back, until both have ended or one of them fails. It closes both sockets.

    The kernel moves the bytes (splice); what a slow side does not take stays in a pipe, and the fast one is not read meanwhile.
    """

    def __init__(self, one: socket.socket, other: socket.socket, pipes: Pipes, on_end: Callable[[Tunnel], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._sockets, self._on_end = (one, other), on_end
        self.used = self._loop.time()
        """Time of the loop at which something was moved last."""
        for each in self._sockets:
            each.setblocking(False)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for option, value in _KEEPALIVE:
                each.setsockopt(socket.IPPROTO_TCP, option, value)
        self._ways = (_Way(self, one, other, pipes), _Way(self, other, one, pipes))

    def moved(self) -> None:
        self.used = self._loop.time()

    def ended(self) -> None:
        """Handle the end of one direction. The other continues: a client may finish sending and still wait for the answer."""
        if all(way.ended for way in self._ways):
            self.close()
            return
        for way in self._ways:
            if way.ended:
                way.end_target()

    def close(self) -> None:
        """Close both sockets at once. It may be called again."""
        for each in self._sockets:
            if (fd := each.fileno()) >= 0:
                self._loop.remove_reader(fd)
                self._loop.remove_writer(fd)
                each.close()
        for way in self._ways:
            way.drop()
        self._on_end(self)


class _Way:
    """Direction of a tunnel. It holds a pipe only while data is in transit."""

    def __init__(self, tunnel: Tunnel, source: socket.socket, target: socket.socket, pipes: Pipes) -> None:
        self._tunnel, self._target, self._pipes = tunnel, target, pipes
        self._from, self._to = source.fileno(), target.fileno()  # asyncio writes a socket's whole description out, to look it up
        self._pipe: tuple[int, int] | None = None
        self._held = 0
        self.ended = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._from, self._readable)

    def _readable(self) -> None:
        if self._move():  # the end often comes right behind the data
            self._move()

    def _move(self) -> bool:
        """Move what the source has. Return True if it may have more and the target takes it."""
        try:
            self._pipe = self._pipes.take()
            self._held = os.splice(self._from, self._pipe[1], CHUNK, flags=_SPLICE)
        except BlockingIOError:
            self._give_back()
            return False
        except OSError:  # the source was reset, or there is no descriptor for a pipe
            self._tunnel.close()
            return False
        if not self._held:
            self._loop.remove_reader(self._from)
            self._give_back()
            self.ended = True
            self._tunnel.ended()
            return False
        if self._drain():
            self._loop.remove_reader(self._from)
            self._loop.add_writer(self._to, self._writable)
            return False
        return self._target.fileno() >= 0

    def end_target(self) -> None:
        """Pass the end of the source on."""
        with contextlib.suppress(OSError):  # it has ended by itself
            self._target.shutdown(socket.SHUT_WR)

    def _writable(self) -> None:
        if not self._drain() and self._target.fileno() >= 0:
            self._loop.remove_writer(self._to)
            self._loop.add_reader(self._from, self._readable)

    def _drain(self) -> bool:
        """Move what the pipe holds. Return True if the target takes no more for now."""
        assert self._pipe is not None  # noqa: S101 - something is held
        try:
            while self._held:
                self._held -= os.splice(self._pipe[0], self._to, self._held, flags=_SPLICE)
        except BlockingIOError:
            return True
        except OSError:  # the target is gone
            self._tunnel.close()
            return False
        finally:
            self._tunnel.moved()
        self._give_back()
        return False

    def _give_back(self) -> None:
        if self._pipe is not None:
            self._pipes.give_back(self._pipe)
            self._pipe = None

    def drop(self) -> None:
        """Close a pipe that still holds something."""
        if self._pipe is not None and self._held:
            for fd in self._pipe:
                os.close(fd)
            self._pipe = None
        self._give_back()


class Pipes:
    """Empty pipes, for all tunnels of one event loop."""

    def __init__(self) -> None:
        self._free: list[tuple[int, int]] = []

    def take(self) -> tuple[int, int]:
        """Return the two ends of an empty pipe. Raises OSError if there is no descriptor for one."""
        if self._free:
            return self._free.pop()
        pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            fcntl.fcntl(pipe[1], _F_SETPIPE_SZ, CHUNK)
        except OSError as error:
            if error.errno != errno.EPERM:  # a user may have few large pipes; a small one is slower
                raise
        return pipe

    def give_back(self, pipe: tuple[int, int]) -> None:
        """Keep an empty pipe for the next one who takes one."""
        if len(self._free) < _IN_USE:
            self._free.append(pipe)
        else:
            for fd in pipe:
                os.close(fd)

    def close(self) -> None:
        """Close the pipes that are kept."""
        while self._free:
            for fd in self._free.pop():
                os.close(fd)
