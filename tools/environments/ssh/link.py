"""The link to one account on one host, with as many connections as its server requires."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Sequence
from concurrent.futures import Future, InvalidStateError
from typing import TYPE_CHECKING

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments.remote.channel import Channel, Link, TerminalChannel
from tools.environments.ssh import guard
from tools.environments.ssh.dial import answers, connect
from tools.environments.ssh.target import Wish, resolve

if TYPE_CHECKING:
    from tools.environments.ssh.channel import SshChannel
    from tools.environments.ssh.connection import Connection

_PROBE = 1.5
"""Seconds to check whether the host answers while a failed call waits for the reason."""


class SshLink(Link):
    """Link to an account. Raises EnvironmentFailed if ``wish`` or ``~/.ssh/config`` is invalid. Connects at the first
    ``open``.
    """

    def __init__(self, wish: Wish) -> None:
        self._hops = resolve(wish)
        self._lock = threading.Lock()
        self._connections: list[Connection] = []
        self._dial: Future[Connection] | None = None
        """The pending connection, shared by all callers that wait for one."""
        self._reason = ""
        self._folder = ""
        self._closed = threading.Event()
        self._now = threading.Event()
        self._heart: threading.Thread | None = None

    @property
    def where(self) -> str:
        return f"ssh:{self._hops[-1].where}"

    def open(self, argv: Sequence[str]) -> Channel:
        return self._open(argv)

    def open_terminal(self, argv: Sequence[str]) -> TerminalChannel:
        return self._open(argv, terminal=True)

    def _open(self, argv: Sequence[str], *, terminal: bool = False) -> SshChannel:
        while True:
            for connection in self._standing():
                channel = self._try(connection, argv, terminal)
                if channel is not None:
                    return channel
            connection = self._dialled()
            channel = connection.open(argv, terminal=terminal)
            if self._closed.is_set():
                connection.close()
                raise self._over()
            if channel is not None:
                return channel
            if not connection.used:
                raise EnvironmentFailed(f"{self.where} allows no session at all: see MaxSessions in its sshd_config")

    def _standing(self) -> list[Connection]:
        with self._lock:
            if self._closed.is_set():
                raise self._over()
            return list(self._connections)

    def _over(self) -> EnvironmentFailed:
        return EnvironmentFailed(f"the connection to {self.where} is closed: open another environment")

    def _try(self, connection: Connection, argv: Sequence[str], terminal: bool) -> SshChannel | None:
        """Open a channel on a connection. Return None if it allows no more, or was lost before."""
        fault: EnvironmentFailed | None = None
        if connection.alive:
            try:
                return connection.open(argv, terminal=terminal)
            except EnvironmentFailed as error:
                fault = error
        if fault is not None and connection.alive:
            raise fault
        connection.report_if_lost()
        connection.close()
        with self._lock, contextlib.suppress(ValueError):  # another call may have removed it
            self._connections.remove(connection)
        if fault is not None and connection.silent:  # the host was just asked many times: dialling again would only take longer
            raise fault
        return None

    # -- dialling ------------------------------------------------------------------------------------------------

    def _dialled(self) -> Connection:
        """Return a new connection, shared by all callers that wait for one now. Raises EnvironmentFailed for all of them."""
        with self._lock:
            if self._closed.is_set():
                raise self._over()
            dial = self._dial
            if dial is None:
                dial = self._dial = Future()
                threading.Thread(target=self._make, args=(dial,), name="ssh-dial", daemon=True).start()
        try:
            return dial.result()
        except EnvironmentFailed as error:
            raise EnvironmentFailed(str(error)) from error

    def _make(self, dial: Future[Connection]) -> None:
        from tools.environments.ssh.connection import Connection

        try:
            made = Connection(connect(self._hops), self.where, self._lost)
        except BaseException as error:  # noqa: BLE001 - the waiters get the error
            with self._lock:
                self._dial = None if self._dial is dial else self._dial
            with contextlib.suppress(InvalidStateError):  # the waiters already got the error of a closed link
                dial.set_exception(error)
            return
        with self._lock:
            wanted = self._dial is dial
            if wanted:
                self._dial = None
                self._connections.append(made)
                if self._heart is None:
                    self._heart = threading.Thread(target=self._beat, name="ssh-beat", daemon=True)
                    self._heart.start()
                dial.set_result(made)
        if not wanted:
            made.close()

    def _hang_up(self) -> None:
        """Cancel the pending connection. Must be called with the lock held."""
        dial, self._dial = self._dial, None
        if dial is not None:
            dial.set_exception(self._over())

    def _beat(self) -> None:
        while self._heart is threading.current_thread() and not self._closed.is_set():
            self._now.wait(guard.BEAT)
            self._now.clear()
            for connection in list(self._connections):
                connection.beat(self._folder)

    def _lost(self, reason: str) -> None:
        self._reason = reason

    def leave(self, folder: str) -> None:
        self._folder = folder
        self._now.set()

    def diagnose(self) -> str:
        for connection in list(self._connections):
            connection.report_if_lost()
        if not self._reason:
            return self.silence().rstrip(".").replace("Nothing", "nothing", 1)
        from tools.environments.ssh.connection import SILENT

        if self._reason == SILENT:  # the host was just asked many times
            return self._reason
        first = self._hops[0]
        now = "accepts connections now" if answers(first, _PROBE) else "does not answer now"
        return f"{self._reason}; {first.host} {now}"

    def silence(self) -> str:
        if not any(connection.silenced() for connection in list(self._connections)):
            return ""
        return (
            f"The host received nothing from this machine for more than {guard.SILENCE} seconds (was it suspended?), so "
            "commands there were stopped."
        )

    def advice(self) -> str:
        if self._reason:
            return "call again"
        return (
            "check that this account may run commands (nologin, ForceCommand), and that its login files, such as .bashrc, "
            "neither end the shell nor wait"
        )

    def release_connections(self) -> None:
        with self._lock:
            self._hang_up()
            connections, self._connections = self._connections, []
            heart, self._heart = self._heart, None
            self._folder = ""
        for connection in connections:
            connection.close()
        self._now.set()
        if heart is not None:
            heart.join()

    def close(self) -> None:
        with self._lock:
            self._closed.set()
            self._hang_up()
        self._now.set()
        for connection in list(self._connections):
            connection.close()
        heart = self._heart
        if heart is not None:
            heart.join()
