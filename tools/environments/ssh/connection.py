"""A connection to the host, with as many channels as its server allows."""

from __future__ import annotations

import contextlib
import errno
import functools
import math
import select
import shlex
import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import cast

import paramiko

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments.ssh import guard
from tools.environments.ssh.channel import SshChannel
from tools.environments.ssh.dial import limited
from tools.environments.ssh.transport import ConnectionLost, End, Heard, SshSocket, Transport

_OPEN_LIMIT = 20.0
_NOTICE = 1.0
"""Seconds within which paramiko's own thread notices a lost connection."""
_SIGN_LIMIT = 3.0
"""Seconds that a guard has to show a sign of life."""
_LATELY = 30.0
_SMALL, _LARGE = 1 << 14, 1 << 15
SILENT = "the connection was lost: no data for some seconds (the link is cut, or the host is down)"


class Connection:
    """A connection. ``transports`` has one for each hop, the host's own last. ``lost`` is called once, with the reason for a
    loss.
    """

    def __init__(self, transports: Sequence[Transport], where: str, lost: Callable[[str], None]) -> None:
        self._transports = transports
        self._transport = transports[-1]
        self._where = where
        self._lost = lost
        self._told = False
        self._full = False
        self._guard: guard.ConnectionGuard | None = None
        self._silence = -math.inf
        self._sock = cast("SshSocket", transports[0].sock)
        self._lock = threading.Lock()
        self._opening = threading.Lock()
        self.used = False
        """True once a channel was opened."""

    @property
    def silent(self) -> bool:
        """True if the connection was lost because the host was silent."""
        return not self.alive and self._reason() == SILENT

    @property
    def alive(self) -> bool:
        """True while the connection is up."""
        return self._transport.is_active()

    def open(self, argv: Sequence[str], *, terminal: bool = False) -> SshChannel | None:
        """Open a channel. Return None if the server allows no more on this connection.

        Raises EnvironmentFailed; ``alive`` is then False if the connection was lost. One caller at a time, so that the guard gets
        a channel before they run out.
        """
        with self._opening:
            return self._open(argv, terminal)

    def _open(self, argv: Sequence[str], terminal: bool) -> SshChannel | None:
        if self._full:
            return None
        channel = self._session(f"exec {shlex.join(argv)}", terminal=terminal)
        if channel is None:
            self._full = True
            return None
        self.used = True
        end = self._transport.ends[channel.get_id()]
        self._watch()
        ticket = guard.Ticket()
        room = functools.partial(self._room_for, ticket)
        room()  # asks the guard to scan
        fed, done = self._transport.fed, lambda: self._gone(channel.get_id())
        return SshChannel(channel, end, room=room, why=self._why, fed=fed, done=done)

    def _session(self, command: str, *, terminal: bool = False) -> paramiko.Channel | None:
        try:
            with limited(self._transport, _OPEN_LIMIT):
                try:
                    channel = self._transport.open_session(timeout=_OPEN_LIMIT)
                except paramiko.ChannelException:
                    return None
                self._transport.ends[channel.get_id()] = End()
                if terminal:
                    channel.get_pty("", width=0, height=0)
                channel.exec_command(command)
                return channel
        except (paramiko.SSHException, EOFError, OSError) as error:
            if not self.alive:
                raise EnvironmentFailed(f"{self._where}: {self._why()}; nothing was run: call again") from error
            forbids = "PermitTTY no, or ForceCommand" if terminal else "ForceCommand"
            what = "terminals" if terminal else "programs"
            raise EnvironmentFailed(
                f"{self._where} does not start {what} ({error}): does its sshd_config forbid that ({forbids})?"
            ) from error

    def _gone(self, number: int) -> None:
        self._transport.ends.pop(number, None)
        self._full = False

    # -- the guard -----------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Start a guard, or another if one has ended. Start none if no channel is free."""
        if self._guard is not None and self._guard.gone:
            self.silenced()
            self._guard = None
        if self._guard is None and not self._full:
            with contextlib.suppress(EnvironmentFailed):  # the next call reports it
                channel = self._session(f"exec bash --noprofile --norc -c {shlex.quote(guard.SCRIPT)} 2>/dev/null")
                self._full = channel is None
                self._guard = guard.ConnectionGuard(channel) if channel is not None else None

    def silenced(self) -> bool:
        """Return True if the guard has just ended all processes because it heard nothing for too long."""
        if self.alive and self._guard is not None and self._guard.has_ended_all(_SIGN_LIMIT):
            self._guard, self._silence = None, time.monotonic()
        return time.monotonic() - self._silence < _LATELY

    def beat(self, folder: str) -> None:
        """Send the guard a keepalive, with the ``folder`` that it removes at the end.

        Waits until it can be sent, because an upload may fill the socket for longer than the guard's patience.
        """
        if self._guard is not None and self.alive:
            with contextlib.suppress(paramiko.SSHException, EOFError, OSError):  # others detect the loss
                self._guard.ask(folder)

    def _room_for(self, ticket: guard.Ticket) -> int:
        room = self._room()
        if room:
            with contextlib.suppress(paramiko.SSHException, EOFError, OSError):  # others detect the loss
                return room if ticket.is_seen(self._guard) else 0
        return room

    # -- its state -----------------------------------------------------------------------------------------------

    def _room(self) -> int:
        """Return how many bytes can be sent without waiting: 0 during a key exchange or if the socket is full.

        A writable socket has room for a third of its buffer.
        """
        if not self.alive:
            return _SMALL  # sending fails at once
        through = [each.sock for each in self._transports[1:] if isinstance(each.sock, Heard)]
        if not self._transport.clear_to_send.is_set() or not all(each.send_ready() for each in through):
            return 0
        poll = select.poll()  # one for each call, because two threads cannot share one
        try:
            poll.register(self._sock, select.POLLOUT)
            if not poll.poll(0):
                return 0
            return _LARGE if self._sock.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) >= 8 * _LARGE else _SMALL
        except (OSError, ValueError):  # the connection's own thread has just closed it: sending fails at once
            return _SMALL

    def _why(self) -> str:
        """Return the reason for the loss of the connection, for the user, and report it to the link."""
        text = self._reason()
        if not text and self._transport.over.wait(_NOTICE):  # a sender may notice the loss before a reader
            text = self._reason()
        text = text or "the connection was closed"
        with self._lock:
            told, self._told = self._told, True
        if not told:
            self._lost(text)
        return text

    def _reason(self) -> str:
        return next((text for each in self._transports if (text := _reason(each))), "")

    def report_if_lost(self) -> None:
        """Report a lost connection to the link."""
        if not self.alive:
            self._why()

    def close(self) -> None:
        """Close the connection, hop by hop."""
        for transport in reversed(self._transports):
            transport.end()


def _reason(transport: Transport) -> str:
    error = transport.broke or transport.saved_exception
    if isinstance(error, (EOFError, BrokenPipeError)):
        return "the connection was closed by the other side (its sshd ended it, or was killed)"
    if isinstance(error, ConnectionLost) or getattr(error, "errno", 0) in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return SILENT
    if isinstance(error, ConnectionResetError):
        return "the connection was reset (its sshd was killed, the host was restarted, or a device in between cut it)"
    if isinstance(error, (OSError, paramiko.SSHException)):
        return f"the connection was lost: {getattr(error, 'strerror', None) or error}"
    return ""
