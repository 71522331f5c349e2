"""Guard of a sandbox's network: the proxy, and the ports of the joined sandbox."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments._workers import Workers
from tools.environments.local import _inner
from tools.environments.local.network.connections import Connections
from tools.environments.local.network.hosts import LOOPBACK, DeniedHost, HostPolicy, askable, parse_rule
from tools.environments.local.network.inside import InnerNetwork
from tools.environments.local.network.mover import Mover
from tools.environments.local.network.ports import SandboxPorts
from tools.environments.local.network.proxy import HostProxy

_HEAD_SECONDS = 30
_MOST_NOTICES = 32
_learners = Workers("toolcrib-learn-hosts", 1)
_workers = Workers("toolcrib-hosts", 4)


class NetworkGuard:
    """The only way out of a sandbox whose network namespace has no route. The package's docstring shows its use.

    ``allow`` are rules as in HostPolicy. Other hosts are refused, except the hosts from ``find``; ``find`` runs once, when a
    command first needs a host that no rule allows. Raises ValueError for a malformed rule. The guard starts on first use. Threads
    may share it.
    """

    def __init__(self, allow: Sequence[str], find: Callable[[], Sequence[str]] | None = None) -> None:
        self._find = find
        self._notices: deque[str] = deque(maxlen=_MOST_NOTICES)
        self.said: Callable[[str], None] = self._notices.append
        """Gets sentences for the user, in another thread. By default they are kept for ``notices``."""
        self._policy = HostPolicy(allow)
        self._proxy = HostProxy(self._policy, self._own_port)
        self._starting = threading.Lock()
        self._connections: Connections | None = None
        self._joined: tuple[InnerNetwork, SandboxPorts] | None = None
        self._program: subprocess.Popen[bytes] | None = None

    def _started(self) -> Connections:
        with self._starting:
            if self._connections is None:
                self._connections = Connections(Mover.shared(self._look))
                if self._find is not None:
                    self._policy.learned.clear()
                    self._policy.learn = partial(_learners.submit, partial(self._learn, self._find))
                    self._find = None
            return self._connections

    def _learn(self, find: Callable[[], Sequence[str]]) -> None:
        try:
            for host in find():
                self._policy.allow_own(host)
                self._offer_if_local(host)
        finally:
            self._policy.learned.set()

    def join(self, pid: int) -> None:
        """Serve the sandbox of the process ``pid`` instead of the previous one. Raises EnvironmentFailed.

        The sandbox has its own user and network namespaces. The caller keeps ``pid`` alive during the call.
        """
        self.leave()
        ours, theirs = line()
        with theirs:
            argv = [sys.executable, "-I", "-S", _inner.__file__, str(theirs.fileno()), str(pid)]
            self._program = subprocess.Popen(
                argv, cwd="/", env={}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        self._serve(ours, self._program.pid)

    def join_at(self, ours: socket.socket, pid: int) -> None:
        """Serve the sandbox whose launcher, the process ``pid``, answers on the other end of ``ours``. Raises EnvironmentFailed.

        ``ours`` is closed if that fails, and by ``leave``. The caller keeps ``pid`` alive during the call.
        """
        self.leave()
        self._serve(ours, pid)

    def _serve(self, ours: socket.socket, pid: int) -> None:
        connections = self._started()
        try:
            network = InnerNetwork(ours, pid)
        except OSError as error:
            raise EnvironmentFailed(
                f"the sandbox's network is unavailable, so nothing runs in it: {self._ended() or error}."
                " Set sandbox.network to none or on"
            ) from error
        ports = SandboxPorts(network, connections, lambda text: self.said(text))
        # A proxy's clients speak first, so the guard wakes only once for a connection and its request.
        network.listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, _HEAD_SECONDS)
        connections.serve(network.listener, self._proxy.answer)
        self._joined = network, ports
        for port in self._policy.loopback_ports():
            self._offer(port)

    def join_new(self, process: subprocess.Popen[bytes]) -> None:
        """Serve the sandbox that ``process`` makes. Return when the sandbox is served, or ``process`` has ended without making
        one. Raises EnvironmentFailed.
        """
        own = Path("/proc/self/ns/net").stat().st_ino
        while process.poll() is None:
            if Path(f"/proc/{process.pid}/ns/net").stat().st_ino != own:
                self.join(process.pid)
                return
            time.sleep(0.005)

    def leave(self) -> None:
        """Stop serving. Call it when the sandbox has ended; may be called again."""
        self._detach()
        self._ended()

    def close(self) -> None:
        """Close all connections and listeners. May be called again."""
        self.leave()
        connections, self._connections = self._connections, None
        if connections is not None:
            connections.close()
            connections.mover.release(self._look)

    def environment(self) -> dict[str, str]:
        """Return the environment variables that direct commands to the proxy.

        ALL_PROXY names the HTTP proxy too: httpx and requests need another package to accept socks5h://.
        """
        proxy = f"http://127.0.0.1:{_inner.PROXY_PORT}"
        values = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": ""}
        return {**values, **{name.lower(): value for name, value in values.items()}, "NODE_USE_ENV_PROXY": "1"}

    def allow(self, host: str) -> None:
        """Allow a host, effective at once. Raises ValueError for a malformed rule."""
        self._policy.allow(host)
        self._offer_if_local(host)

    @contextlib.contextmanager
    def allowing(self, hosts: Iterable[str]) -> Iterator[None]:
        """Allow hosts until the end of the block. Connections made in the block stay open. Raises ValueError like ``allow``."""
        with contextlib.ExitStack() as allowed:
            for host in hosts:
                self.allow(host)
                allowed.callback(self._withdraw, host)
            yield

    def _withdraw(self, host: str) -> None:
        self._policy.withdraw(host)
        _, port = parse_rule(host)
        joined = self._joined
        if joined is not None and port is not None and port not in self._policy.loopback_ports():
            joined[1].withdraw(port)

    async def unknown(self, hosts: Sequence[str]) -> list[str]:
        """See LimitsHosts. Return the hosts that are not allowed yet; hosts of package managers count as allowed."""
        rules = [askable(host) for host in hosts]
        self._started()
        if self._policy.learned.is_set():
            return self._policy.unknown(rules)
        return await _workers.run(lambda: self._policy.unknown(rules))

    def has_hosts(self) -> bool:
        """Return whether a host is allowed now, besides those of package managers."""
        return self._policy.has_hosts()

    def denials(self, since: float) -> list[DeniedHost]:
        """Return the connections refused at ``since`` (``time.time()``) or later, oldest first."""
        return self._policy.denials(since)

    def notices(self) -> list[str]:
        """Return the notices for the user since the last call, such as about a forwarded port."""
        return [self._notices.popleft() for _ in range(len(self._notices))]

    def _detach(self) -> None:
        joined, connections = self._joined, self._connections
        if joined is not None and connections is not None:
            network, ports = joined
            with connections.mover.lock:
                self._joined = None
                ports.close()
                connections.stop(network.listener)
                network.close()

    def _look(self) -> None:
        if (connections := self._connections) is not None:
            connections.close_idle()
        if (joined := self._joined) is not None:
            network, ports = joined
            if network.has_ended():
                self._detach()
            else:
                ports.update_forwards()

    def _ended(self) -> str:
        """End the inner program. Return the last line of its standard error."""
        program, self._program = self._program, None
        if program is None:
            return ""
        program.kill()
        lines = program.communicate()[1].decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def _own_port(self, port: int) -> socket.socket | None:
        return None if (joined := self._joined) is None else joined[1].own(port)

    def _offer_if_local(self, host: str) -> None:
        name, port = parse_rule(host)
        if name == LOOPBACK and port is not None:
            self._offer(port)

    def _offer(self, port: int) -> None:
        if (joined := self._joined) is not None:
            _workers.submit(partial(joined[1].offer, port, lambda: port in self._policy.loopback_ports()))


def line() -> tuple[socket.socket, socket.socket]:
    """Return the guard's end of a new connection, and the end for the process in the sandbox's namespaces."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
