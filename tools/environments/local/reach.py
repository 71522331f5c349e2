"""Hosts that the sandbox of one environment reaches, and the guard that refuses all others."""

from __future__ import annotations

import asyncio
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from toolcrib import EnvironmentFailed
from tools.environments.local.network import DeniedHost, NetworkGuard
from tools.environments.local.network.hosts import askable

_MOST_NOTICES = 32


class SandboxReach:
    """The network of an environment whose sandbox reaches ``allow`` and the hosts of package managers. See HostPolicy for rules.

    ``variables`` are those of the user's commands, and ``projects`` are the folders that commands can change, whose files are
    not trusted. The guard starts when it is first needed. Raises EnvironmentFailed for a malformed rule. Threads may share it.
    """

    def __init__(self, allow: Sequence[str], variables: Mapping[str, str], projects: Sequence[str]) -> None:
        self._notices: deque[str] = deque(maxlen=_MOST_NOTICES)
        self.said: Callable[[str], None] = self._notices.append
        """Gets sentences for the user. They are kept for ``notices`` unless it is replaced."""
        try:
            self._guard = NetworkGuard(allow, lambda text: self.said(text))
        except ValueError as error:
            raise EnvironmentFailed(f"sandbox.hosts: {error}") from error
        self._variables, self._projects = variables, projects
        self._lock = threading.Lock()
        self._is_started = False

    def environment(self) -> dict[str, str]:
        """Return the variables by which commands find the proxy."""
        return self._guard.environment()

    def join(self, pid: int) -> None:
        """Serve the sandbox of a process. Raises EnvironmentFailed."""
        try:
            self._started().join(pid)
        except OSError as error:
            raise EnvironmentFailed(
                f"the sandbox has no network, so nothing runs in it: {error.strerror}. Set sandbox.network to none or on"
            ) from error

    def join_new(self, process: subprocess.Popen[bytes]) -> None:
        """Serve the sandbox that a process makes, once it is there or the process has ended. Raises EnvironmentFailed."""
        own = Path("/proc/self/ns/net").stat().st_ino
        while process.poll() is None:
            if Path(f"/proc/{process.pid}/ns/net").stat().st_ino != own:
                self.join(process.pid)
                return
            time.sleep(0.005)

    def leave(self) -> None:
        """Serve no sandbox."""
        self._guard.leave()

    async def unknown(self, hosts: Sequence[str]) -> list[str]:
        """See LimitsHosts."""
        return await self._started().unknown([askable(host) for host in hosts])

    def allowing(self, hosts: Iterable[str]) -> AbstractContextManager[None]:
        """See LimitsHosts."""
        return self._guard.allowing(hosts)

    def denied(self, since: float) -> list[DeniedHost]:
        """See LimitsHosts."""
        return self._guard.denials(since)

    def notices(self) -> list[str]:
        """Return the sentences for the user since the last call, such as which port is forwarded."""
        return [self._notices.popleft() for _ in range(len(self._notices))]

    def _started(self) -> NetworkGuard:
        with self._lock:
            if not self._is_started:
                self._guard.start()
                self._guard.learn(self._variables, str(Path.home()), *self._projects)
                self._is_started = True
            return self._guard

    async def close(self) -> None:
        """End the guard. The sandbox has ended."""
        await asyncio.to_thread(self._guard.close)
