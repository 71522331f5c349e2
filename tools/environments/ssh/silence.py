"""Decide when silence means a lost connection, by asking over another connection whether the host can be reached.

After a link heals, an old connection takes a while to notice, because TCP retries after pauses that double. So silence alone
proves nothing. While the host accepts new connections, the old one may still recover and gets time; if the host accepts none, the
connection is lost.
"""

from __future__ import annotations

import contextlib
import errno
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable
from typing import Any, Protocol

ASK = 4.0
"""Seconds without a sign of life after which the host is asked for the first time."""
AGAIN = 0.5
"""Seconds until the host is asked again."""
LOST = 9.0
"""Seconds without a sign of life, of the connection or of the host, after which the connection is lost.

A sign comes each second, so the link may have been cut up to one second after the last sign.
"""
LONGEST = 30.0
"""Seconds of silence on the connection after which it is lost, even if the host answers: by then, both sides have retried."""
_LAST = struct.Struct("=52xII")
"""Milliseconds since the last data and since the last acknowledgement arrived, in Linux's tcp_info."""
_HERE = (0, errno.ECONNREFUSED, errno.ECONNRESET)
"""Results of a connection attempt that prove that the host was reached."""


class Knock(Protocol):
    """A check, with a new connection, whether the host can be reached."""

    def is_answered(self) -> bool:
        """Return True when the host has answered. Does not wait."""
        ...

    def close(self) -> None:
        """Cancel the check."""
        ...


class Silence:
    """Decides whether one connection's silence means its loss. ``knock`` starts a check of the host. Used by one thread."""

    def __init__(self, knock: Callable[[], Knock]) -> None:
        self._knock = knock
        self._open: list[Knock] = []
        self._answered = 0.0
        self._next = ASK

    def is_loss(self, silent: float) -> bool:
        """Return True if the connection is lost after ``silent`` seconds without a sign of life.

        Call this several times a second while there is none.
        """
        if silent < ASK:
            self.over()
            return False
        if any(knock.is_answered() for knock in self._open):
            self._forget()
            self._answered, self._next = silent, silent + ASK
        elif silent >= self._next:
            self._open.append(self._knock())
            self._next = silent + AGAIN
        return silent - self._answered > LOST or silent > LONGEST

    def over(self) -> None:
        """Record a sign of life, or the connection's end."""
        if self._open:
            self._forget()
        self._answered, self._next = 0.0, ASK

    def _forget(self) -> None:
        for knock in self._open:
            knock.close()
        self._open = []


def silent_for(sock: socket.socket) -> float:
    """Return the seconds since the kernel last heard the peer of a TCP connection, without the time that this machine slept.

    0 if the kernel does not report it.
    """
    if sys.platform != "linux":
        return 0.0
    try:
        return float(min(_LAST.unpack(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _LAST.size)))) / 1000
    except OSError:  # closed meanwhile, which its reader notices
        return 0.0


class SocketKnock:
    """A new TCP connection to the peer of ``sock``, closed as soon as the peer accepts or refuses it."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock: socket.socket | None = None
        self._result: int | None = None
        with contextlib.suppress(OSError):  # the host cannot be asked now
            address = sock.getpeername()
            self._sock = socket.socket(sock.family, socket.SOCK_STREAM)
            self._sock.setblocking(False)
            self._sock.connect_ex(address)

    def is_answered(self) -> bool:
        if self._sock is not None and self._result is None:
            poll = select.poll()  # not ``select``, which supports no descriptor above 1023
            poll.register(self._sock, select.POLLOUT)
            if poll.poll(0):  # the kernel reports the result once
                self._result = self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return self._result in _HERE

    def close(self) -> None:
        if self._sock is not None:
            self._sock.close()


class ThreadKnock:
    """A check in a thread of its own: ``reach`` returns a connection if it reaches the host, and raises otherwise."""

    def __init__(self, reach: Callable[[], Any]) -> None:
        self._reach = reach
        self._answered = False
        threading.Thread(target=self._run, name="ssh-knock", daemon=True).start()

    def _run(self) -> None:
        with contextlib.suppress(Exception):  # paramiko may raise anything: the host was not reached
            self._reach().close()
            self._answered = True

    def is_answered(self) -> bool:
        return self._answered

    def close(self) -> None:
        """Do nothing: the check ends at its own time limit."""
