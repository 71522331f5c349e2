"""The way to one account on one host: as many connections as its server makes necessary."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from toolcrib import EnvironmentFailed
from tools.environments.remote.channel import Channel, Link
from tools.environments.ssh import guard
from tools.environments.ssh.dial import answers, connect
from tools.environments.ssh.target import Wish, resolve

if TYPE_CHECKING:
    from tools.environments.ssh.connection import Connection

_PROBE = 1.5
"""Seconds that a host has to answer while a failed call waits to say why it failed."""


class SshLink:
    """Raises EnvironmentFailed where ``wish`` or ``~/.ssh/config`` cannot be understood. Connects at the first ``open``."""

    def __init__(self, wish: Wish) -> None:
        self._hops = resolve(wish)
        self._lock = threading.Lock()
        self._connections: list[Connection] = []
        self._reason = ""
        self._folder = ""
        self._closed = threading.Event()
        self._now = threading.Event()
        self._heart: threading.Thread | None = None

    @property
    def where(self) -> str:
        return f"ssh:{self._hops[-1].where}"

    @property
    def epoch(self) -> int:
        return 0

    def open(self, argv: Sequence[str]) -> Channel:
        with self._lock:
            for connection in list(self._connections):
                channel = self._try(connection, argv)
                if channel is not None:
                    return channel
            self._need_open()
            connection = self._connect()
            channel = connection.open(argv)
            self._need_open()
            if channel is None:
                raise EnvironmentFailed(f"{self.where} allows no session at all: see MaxSessions in its sshd_config")
            return channel

    def _need_open(self) -> None:
        if self._closed.is_set():
            for each in self._connections:
                each.close()
            raise EnvironmentFailed(f"the way to {self.where} is closed: open another environment")

    def _try(self, connection: Connection, argv: Sequence[str]) -> Channel | None:
        if connection.alive:
            try:
                channel = connection.open(argv)
            except EnvironmentFailed:
                if connection.alive:
                    raise
            else:
                if channel is not None or connection.alive:
                    return channel
        connection.look()
        connection.close()
        self._connections.remove(connection)
        return None

    def _connect(self) -> Connection:
        from tools.environments.ssh.connection import Connection

        made = Connection(connect(self._hops), self.where, self._lost)
        self._connections.append(made)
        if self._heart is None:
            self._heart = threading.Thread(target=self._beat, name="ssh-beat", daemon=True)
            self._heart.start()
        return made

    def _beat(self) -> None:
        while self._heart is threading.current_thread() and not self._closed.is_set():
            self._now.wait(guard.BEAT)
            self._now.clear()
            for connection in list(self._connections):
                connection.beat(self._folder)

    def _lost(self, reason: str) -> None:
        self._reason = reason

    def variables(self) -> None:
        """Return None: the account sets its own variables."""

    def leave(self, folder: str) -> None:
        self._folder = folder
        self._now.set()

    def diagnose(self) -> str:
        for connection in list(self._connections):
            connection.look()
        if not self._reason:
            return self.silence().rstrip(".").replace("Nothing", "nothing", 1)
        from tools.environments.ssh.connection import SILENT

        if self._reason == SILENT:  # the host has just been asked, many times
            return self._reason
        first = self._hops[0]
        now = "takes connections now" if answers(first, _PROBE) else "does not answer now"
        return f"{self._reason}; {first.host} {now}"

    def halted(self) -> str:
        """Return "": whether a host runs shows in its connection."""
        return ""

    def silence(self) -> str:
        if not any(connection.silenced() for connection in list(self._connections)):
            return ""
        return (
            f"Nothing was heard from this machine over there for more than {guard.SILENCE} seconds (was it suspended?), so what "
            "ran there was ended."
        )

    def advice(self) -> str:
        if self._reason:
            return "call again"
        return (
            "may this account run commands (nologin, ForceCommand), and does nothing in its login files, such as .bashrc, "
            "end the shell or wait?"
        )

    def rest(self) -> None:
        with self._lock:
            connections, self._connections = self._connections, []
            heart, self._heart = self._heart, None
            for connection in connections:
                connection.close()
            self._folder = ""
        self._now.set()
        if heart is not None:
            heart.join()

    def close(self) -> None:
        self._closed.set()
        self._now.set()
        for connection in list(self._connections):
            connection.close()
        heart = self._heart
        if heart is not None:
            heart.join()


if TYPE_CHECKING:

    def _conforms(link: SshLink) -> Link:
        return link
