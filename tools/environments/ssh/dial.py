"""Make a connection: open the socket, check the host key and log in; one jump host after the other."""

from __future__ import annotations

import contextlib
import errno
import math
import random
import socket
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments.ssh import known_hosts
from tools.environments.ssh.auth import authenticate
from tools.environments.ssh.target import Hop

if TYPE_CHECKING:
    from tools.environments.ssh.transport import Transport

_DIAL_LIMIT = 8.0
_GREET_LIMIT = 15.0
_PATIENCE = 10.0
_PAUSE, _LONGEST = 0.2, 1.0
"""Seconds: the first and the longest pause between attempts.

A server with many new connections drops some before it greets them (MaxStartups), so they are retried.
"""
_SOON = 5.0
_FULL = (b"Exceeded MaxStartups", b"Not allowed at this time")
"""Messages of a busy server that drops a new connection, if it sends any."""
_AT_ONCE = 4
"""Maximum number of simultaneous connection attempts to one server, also because of MaxStartups."""
_turns: dict[tuple[str, int], threading.BoundedSemaphore] = {}


class _NoGreeting(Exception):
    """The port was reached, but no ssh server greeted. ``dropped``: it hung up as a busy server does."""

    def __init__(self, text: str, *, dropped: bool) -> None:
        super().__init__(text)
        self.dropped = dropped


def connect(hops: Sequence[Hop]) -> list[Transport]:
    """Open a transport for each hop and return them, the host's own last. Raises EnvironmentFailed."""
    made: list[Transport] = []
    try:
        for index, hop in enumerate(hops):
            made.append(_reach(hop, made[-1] if made else None, hops[index - 1] if made else None))
    except BaseException:
        for transport in reversed(made):
            transport.end()
        raise
    return made


def _reach(hop: Hop, through: Transport | None, before: Hop | None) -> Transport:
    turn = _turns.setdefault((hop.host, hop.port), threading.BoundedSemaphore(_AT_ONCE))
    give_up, pause = time.monotonic() + _PATIENCE, _PAUSE
    while True:
        try:
            with turn:
                return _greet(hop, _carrier(hop, through, before), before)
        except _NoGreeting as error:
            if not error.dropped or time.monotonic() > give_up:
                raise EnvironmentFailed(
                    f"{hop.host}, port {hop.port}, accepts connections but does not answer as an ssh server ({error}): is that "
                    "its ssh port? It may also be flooded (MaxStartups in its sshd_config)"
                ) from error
        time.sleep(random.uniform(pause / 2, pause))  # noqa: S311 - random, so that not all retry at the same time
        pause = min(2 * pause, _LONGEST)


def _carrier(hop: Hop, through: Transport | None, before: Hop | None) -> object:
    if through is None or before is None:
        return _dial(hop)
    import paramiko

    from tools.environments.ssh.silence import ThreadKnock
    from tools.environments.ssh.transport import Heard

    def reach() -> paramiko.Channel:
        return through.open_channel("direct-tcpip", (hop.host, hop.port), ("127.0.0.1", 0), timeout=_DIAL_LIMIT)

    try:
        return Heard(reach(), lambda: ThreadKnock(reach))
    except (paramiko.SSHException, EOFError, OSError) as error:
        raise EnvironmentFailed(
            f"{hop.host}, port {hop.port}, can't be reached from the jump host {before.where}: {_said(error)}. "
            "Is the name right as seen from there, and does its sshd allow forwarding (AllowTcpForwarding)?"
        ) from error


def _dial(hop: Hop) -> socket.socket:
    from tools.environments.ssh.transport import SshSocket

    try:
        found = socket.getaddrinfo(hop.host, hop.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        also = f" (HostName of {hop.name} in ~/.ssh/config)" if hop.host != hop.name else ""
        raise EnvironmentFailed(f"there is no host {hop.host!r}{also}: check the name, and the name server") from error
    begun = time.monotonic()
    give_up = begun + _DIAL_LIMIT
    last: OSError = TimeoutError()
    for family, kind, protocol, _, address in found:
        sock = SshSocket(family, kind, protocol)
        try:
            sock.settimeout(max(0.1, give_up - time.monotonic()))
            sock.prepare()
            sock.connect(address)
            return sock
        except OSError as error:
            sock.close()
            last = error
        if time.monotonic() >= give_up:
            break
    raise _unreachable(hop, last, time.monotonic() - begun) from last


def _said(error: Exception) -> str:
    return (getattr(error, "text", "") or str(error)).rstrip(".") or "it hung up"


def _unreachable(hop: Hop, error: OSError, waited: float) -> EnvironmentFailed:
    place = f"{hop.host}, port {hop.port},"
    if isinstance(error, ConnectionRefusedError):
        return EnvironmentFailed(f"{place} refuses connections: is sshd running there, and is that its port?")
    if isinstance(error, TimeoutError):
        return EnvironmentFailed(
            f"{place} did not answer within {math.ceil(waited)} seconds: is the host up, or does a firewall block it?"
        )
    if error.errno in (errno.ENETUNREACH, errno.EHOSTUNREACH):
        return EnvironmentFailed(f"{place} can't be reached from here ({error.strerror}): are the network and the host up?")
    return EnvironmentFailed(f"{place} cannot be connected to: {error.strerror or error}")


def _greet(hop: Hop, carrier: object, before: Hop | None) -> Transport:
    import paramiko

    from tools.environments.ssh.transport import Heard, Transport, keep_asking

    begun = time.monotonic()
    transport = Transport(carrier)
    try:
        _prefer(transport, hop)
        with limited(transport, 2 * _GREET_LIMIT):
            transport.start_client(timeout=_GREET_LIMIT)
            key = transport.get_remote_server_key()
            known_hosts.check(hop, key.get_name(), key.asbytes(), before)
            authenticate(transport, hop)
    except BaseException as error:
        transport.end()
        carrier.close()  # type: ignore[attr-defined]  # a socket, or its replacement
        if isinstance(error, paramiko.ssh_exception.IncompatiblePeer):
            raise EnvironmentFailed(f"{hop.where} and paramiko have no algorithm in common: {error}") from error
        if isinstance(error, (paramiko.SSHException, EOFError, OSError)):
            if not transport.remote_version:
                said = getattr(carrier, "greeting", b"")
                dropped = time.monotonic() < begun + _SOON and (not said or said.startswith(_FULL))
                raise _NoGreeting(_said(error), dropped=dropped) from error
            raise EnvironmentFailed(f"{hop.where} closed the connection during its setup: {_said(error)}") from error
        raise
    if isinstance(carrier, Heard):
        keep_asking(transport)
    return transport


def _prefer(transport: Transport, hop: Hop) -> None:
    """Prefer the kinds of host key that are known: a host has several, and only the one that it shows can be compared."""
    known = {entry.kind for entry in known_hosts.entries(hop) if not entry.marker}
    if "ssh-rsa" in known:
        known |= {"rsa-sha2-256", "rsa-sha2-512"}
    options = transport.get_security_options()
    kinds = list(options.key_types)
    options.key_types = sorted(kinds, key=lambda kind: kind not in known)


class limited:  # noqa: N801 - used as a function
    """Close the transport if the block takes longer than ``seconds``, because paramiko waits for some answers forever."""

    def __init__(self, transport: Transport, seconds: float) -> None:
        self._timer = threading.Timer(seconds, transport.close)
        self._timer.daemon = True

    def __enter__(self) -> None:
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        self._timer.join()


def answers(hop: Hop, within: float) -> bool:
    """Return True if the hop's port accepts connections now."""
    with contextlib.suppress(OSError, UnicodeError), socket.create_connection((hop.host, hop.port), timeout=within):
        return True
    return False
