"""Paramiko's transport, extended to keep facts that it drops: the signal that ended a process, and who closed a channel.

Imported only when a connection is made, because paramiko is slow to import.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import select
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import paramiko
from paramiko import common

from tools.environments.ssh.silence import LONGEST, LOST, Knock, Silence, SocketKnock, silent_for

_LOG = "toolcrib.ssh"
_PULSE = 1.0
"""Seconds between two keepalive requests."""
_END = 5.0
_LONG = 3
"""A wait counts as silence for at most this multiple of its time limit. Under load, it may take longer."""
_RTO_MAX_MS = 44
"""Number of TCP_RTO_MAX_MS, which has no name in Python: the longest pause between retries, on Linux 6.15 and newer."""
_AHEAD = 1 << 17
"""Bytes to read from a socket at once: paramiko asks for 16, and then for the rest of a packet."""
_MANY = 8
"""Packets after which waiting readers are woken even if more have arrived: each may hold 32 KiB."""


@dataclass(slots=True)
class End:
    """End of a channel's process, as reported by the far side."""

    code: int | None = None
    closed: bool = False
    on_data: Callable[[], None] = lambda: None


def _demote(record: logging.LogRecord) -> bool:
    """Log paramiko's records and traces only at debug level: errors are raised, with toolcrib's messages."""
    record.levelno, record.levelname = logging.DEBUG, "DEBUG"
    return logging.getLogger(_LOG).isEnabledFor(logging.DEBUG)


class Transport(paramiko.Transport):
    """Paramiko's transport, which keeps the end of each channel's process."""

    def __init__(self, sock: Any) -> None:
        super().__init__(sock)
        self.ends: dict[int, End] = {}
        self.broke: Exception | None = None
        self.over = threading.Event()
        self._fed: list[Callable[[], None]] = []
        self._later: list[Any] = []
        self._sender = threading.local()
        if isinstance(sock, (SshSocket, Heard)):
            sock.before_waiting = self._wake
        self.banner_timeout = self.handshake_timeout = self.auth_timeout = 15
        self.set_log_channel(_LOG)
        log = logging.getLogger(_LOG)
        if not log.handlers:
            log.addHandler(logging.NullHandler())  # otherwise Python prints unhandled records
            log.addFilter(_demote)

    def get_exception(self) -> Exception | None:
        """Return the error that ended the transport, and keep it: paramiko forgets an error after returning it once."""
        error = super().get_exception()
        if error is not None and not isinstance(error, paramiko.ChannelException):  # such an error concerns one channel only
            self.broke = error
        return error

    def run(self) -> None:
        try:
            super().run()
        finally:
            self._wake()
            self.sock.close()  # paramiko leaves it open if it was stopped before it began
            self.over.set()

    def fed(self, wake: Callable[[], None]) -> None:
        """Call ``wake`` soon, before this transport waits for more data.

        Waking the reader for each packet would be too slow: it takes longer to read one than the next one takes to arrive.
        """
        if threading.current_thread() is not self:
            wake()
            return
        self._fed.append(wake)
        if len(self._fed) >= _MANY:
            self._wake()

    def _wake(self) -> None:
        fed, self._fed = self._fed, []
        for wake in fed:
            wake()

    @contextlib.contextmanager
    def sending(self, channel: paramiko.Channel) -> Iterator[None]:
        """Within this context, drop this thread's messages on a channel that has been closed.

        Paramiko checks first and sends later. If the other side closes the channel in between, the message follows the
        confirmation of the close. sshd ends the whole connection for a message on a channel that both sides have closed.
        """
        before = getattr(self._sender, "channel", None)
        self._sender.channel = channel
        try:
            yield
        finally:
            self._sender.channel = before

    def _send_message(self, data: Any) -> None:
        channel = getattr(self._sender, "channel", None)
        if channel is not None and channel.closed:
            return
        if threading.current_thread() is self:  # sending may have to wait for room
            self._wake()
        super()._send_message(data)  # type: ignore[misc]  # missing in the stubs

    def _send_user_message(self, data: Any) -> None:
        """Send a message, or queue it during a key exchange if this is the transport's own thread.

        Nothing else may be sent meanwhile, and that thread performs the exchange. Paramiko's own method would make it wait for
        itself, and then close the connection.
        """
        if threading.current_thread() is self and (self._later or not self.clear_to_send.is_set()):
            self._later.append(data)
        else:
            super()._send_user_message(data)  # type: ignore[misc]  # missing in the stubs

    def _parse_newkeys(self, message: Any) -> None:
        super()._parse_newkeys(message)  # type: ignore[misc]  # as above
        later, self._later = self._later, []
        for data in later:
            self._send_user_message(data)

    def end(self) -> None:
        """Close the transport, and wait until its thread has noticed."""
        if isinstance(self.sock, SshSocket):
            with contextlib.suppress(OSError):  # the connection is lost already
                self.sock.shutdown(socket.SHUT_RDWR)
        self.close()
        if self.is_alive() and self is not threading.current_thread():
            self.join(_END)

    _channel_handler_table = {  # noqa: RUF012 - paramiko's own way to register handlers
        **paramiko.Transport._channel_handler_table,  # type: ignore[attr-defined]  # missing in the stubs
        common.MSG_CHANNEL_REQUEST: lambda channel, message: _requested(channel, message),
        common.MSG_CHANNEL_CLOSE: lambda channel, message: _closed(channel, message),
    }


def sending(channel: paramiko.Channel) -> contextlib.AbstractContextManager[None]:
    """See Transport.sending."""
    transport = channel.get_transport()
    return transport.sending(channel) if isinstance(transport, Transport) else contextlib.nullcontext()


def _end_of(channel: paramiko.Channel) -> End:
    transport = channel.get_transport()
    found = transport.ends.get(channel.get_id()) if isinstance(transport, Transport) else None
    return found or End()  # no longer needed


def _requested(channel: paramiko.Channel, message: paramiko.Message) -> None:
    begun = message.packet.tell()
    if message.get_text() != "exit-signal":
        message.packet.seek(begun)
        channel._handle_request(message)  # type: ignore[attr-defined]  # missing in the stubs
        if not channel.status_event.is_set():
            return
        code: int | None = channel.exit_status
    else:
        message.get_boolean()
        number = getattr(signal, f"SIG{message.get_text()}", None)
        code = 128 + number if isinstance(number, signal.Signals) else None
    end = _end_of(channel)
    end.code = code
    end.on_data()


def _closed(channel: paramiko.Channel, message: paramiko.Message) -> None:
    _end_of(channel).closed = True
    channel._handle_close(message)  # type: ignore[attr-defined]  # missing in the stubs


class ConnectionLost(ConnectionAbortedError):
    """The connection is lost. Not a TimeoutError, which means "nothing yet" to paramiko."""


class SshSocket(socket.socket):
    """A socket that sends small packets at once, and closes if its peer is silent and unreachable: see ``silence``."""

    greeting = b""
    """The server's first line."""
    before_waiting: Callable[[], None] = staticmethod(lambda: None)
    _ahead = memoryview(b"")
    """Bytes that were received and not yet requested."""
    _silence: Silence | None = None

    def prepare(self) -> None:
        self._silence = Silence(lambda: SocketKnock(self))
        self.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        options = {"TCP_KEEPIDLE": 1, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": int(LOST), "TCP_USER_TIMEOUT": int(1000 * LONGEST)}
        for name, value in options.items():
            if hasattr(socket, name):
                self.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if sys.platform == "linux":
            with contextlib.suppress(OSError):  # an older kernel retries later
                self.setsockopt(socket.IPPROTO_TCP, _RTO_MAX_MS, 1000)

    def recv(self, size: int, flags: int = 0, /) -> bytes:
        """Receive up to ``size`` bytes. Call it from one thread only."""
        if not self._ahead:
            self._ahead = memoryview(self._more(flags))
        data = bytes(self._ahead[:size])
        self._ahead = self._ahead[size:]
        return data

    def _more(self, flags: int) -> bytes:
        poll = select.poll()  # not ``select``, which supports no descriptor above 1023
        poll.register(self, select.POLLIN)
        if not poll.poll(0):
            self.before_waiting()
        try:
            data = super().recv(_AHEAD, flags)
        except TimeoutError as error:
            if error.errno == errno.ETIMEDOUT or (self._silence is not None and self._silence.is_loss(silent_for(self))):
                raise ConnectionLost from error
            raise
        self.greeting = self.greeting or data
        return data

    def close(self) -> None:
        if self._silence is not None:
            self._silence.over()
        super().close()


class Heard:
    """The connection through a jump host. Because it is a channel, it cannot detect a silent peer as a socket can.

    ``knock`` asks the host through the same jump host. Silence is the sum of the waiting times: a machine that slept, or had no
    time for this thread, has not listened.
    """

    def __init__(self, channel: paramiko.Channel, knock: Callable[[], Knock]) -> None:
        self.before_waiting: Callable[[], None] = lambda: None
        self._channel = channel
        self._wait = 0.1
        self._silence = Silence(knock)
        self._silent = 0.0

    def recv(self, size: int) -> bytes:
        if not self._channel.recv_ready():
            self.before_waiting()
        begun = time.monotonic()
        try:
            with sending(self._channel):  # reading announces to the other side that there is room
                data = self._channel.recv(size)
        except TimeoutError:
            self._silent += min(time.monotonic() - begun, _LONG * self._wait)
            if self._silence.is_loss(self._silent):
                raise ConnectionLost from None
            raise
        self._silent = 0.0
        return data

    def send(self, data: bytes) -> int:
        with sending(self._channel):
            return self._channel.send(data)

    def send_ready(self) -> bool:
        return self._channel.send_ready()

    def settimeout(self, seconds: float) -> None:
        self._wait = seconds
        self._channel.settimeout(seconds)

    def close(self) -> None:
        self._silence.over()
        self._channel.close()

    @property
    def _closed(self) -> bool:
        return self._channel.closed


def keep_asking(transport: Transport) -> None:
    """Send keepalive requests while the transport lives, so that silence means a lost connection."""

    def ask() -> None:
        while transport.is_active():
            try:
                transport.global_request("keepalive@openssh.com", wait=True)
            except (paramiko.SSHException, EOFError, OSError):  # it has ended, which others notice
                return
            transport.over.wait(_PULSE)

    threading.Thread(target=ask, name="ssh-pulse", daemon=True).start()
