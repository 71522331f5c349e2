"""Guard of a sandbox's network: its thread, its Unix socket, and the proxy and ports of the sandbox that has attached."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from tools.environments._workers import Workers
from tools.environments.local.network import inner
from tools.environments.local.network.connections import Connections
from tools.environments.local.network.hosts import LOOPBACK, DeniedHost, HostPolicy, parse_rule
from tools.environments.local.network.inside import InnerNetwork, attached
from tools.environments.local.network.learned import learned_hosts
from tools.environments.local.network.ports import SandboxPorts
from tools.environments.local.network.proxy import HostProxy

_T = TypeVar("_T")
_log = logging.getLogger(__name__)
_LOOK = 0.5
"""Seconds between two looks at the ports that the sandbox listens on."""
_learners = Workers("toolcrib-learn-hosts", 1)


class NetworkGuard:
    """The only way out of a sandbox that has a network namespace without a route. The package's docstring says how it is used.

    ``allow`` are rules as HostPolicy has them; other hosts are refused. ``said`` gets sentences for the user, on the
    guard's own event loop.
    """

    def __init__(self, allow: Sequence[str], said: Callable[[str], None]) -> None:
        self._said = said
        self._policy = HostPolicy(allow, on_loopback=self._allowed_port)
        self._thread: _LoopThread | None = None
        self._connections: Connections | None = None
        self._proxy = HostProxy(self._policy, self._own_port)
        self._inner: InnerNetwork | None = None
        self._ports: SandboxPorts | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._program: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Begin. Nothing is reached before ``join``."""
        self._thread = _LoopThread.shared()
        self._thread.run(self._begin())

    def join(self, pid: int) -> None:
        """Serve the sandbox of the process ``pid``, and no longer the one before it. Raises OSError if that can't be done.

        The sandbox has user and network namespaces of its own; it keeps ``pid`` while this runs.
        """
        if self._thread is None:
            raise RuntimeError("start the guard before it joins a sandbox")
        self.leave()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            argv = [sys.executable, "-I", "-S", inner.__file__, str(theirs.fileno()), str(pid)]
            self._program = subprocess.Popen(
                argv, cwd="/", env={}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                pass_fds=[theirs.fileno()], start_new_session=True,
            )  # fmt: skip
        try:
            self._thread.run(self._attach(ours, self._program.pid))
        except OSError as error:
            ours.close()
            program, self._program = self._program, None
            why = self._ended(program) or str(error)
            raise OSError(error.errno, f"the sandbox's network can't be reached: {why}") from error

    def leave(self) -> None:
        """Serve no sandbox. Call it when the sandbox has ended; it may be called again."""
        if self._thread is not None:
            self._thread.call(self._detach)
        program, self._program = self._program, None
        if program is not None:
            self._ended(program)

    def close(self) -> None:
        """Close all connections and listeners. It may be called again."""
        self.leave()
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.run(self._end())
            thread.release()

    def environment(self) -> dict[str, str]:
        """Return the variables by which commands find the proxy."""
        return proxy_environment(inner.PROXY_PORT)

    def allow(self, host: str) -> None:
        """Allow a host, effective at once. Raises ValueError if it is no rule."""
        parse_rule(host)
        if self._thread is None:
            self._policy.allow(host)
        else:
            self._thread.call(lambda: self._policy.allow(host))

    @contextlib.contextmanager
    def allowing(self, hosts: Iterable[str]) -> Iterator[None]:
        """Allow hosts until the end of the block. Connections that were made meanwhile stay. Raises ValueError as ``allow``."""
        with contextlib.ExitStack() as allowed:
            for host in hosts:
                self.allow(host)
                allowed.callback(self._withdraw, host)
            yield

    def _withdraw(self, host: str) -> None:
        if self._thread is None:
            self._policy.withdraw(host)
        else:
            self._thread.call(lambda: self._no_longer(host))

    async def unknown(self, rules: Sequence[str]) -> list[str]:
        """Return those of the rules that nothing allows yet, once ``learn`` has ended. Raises ValueError if one is no rule."""
        if self._thread is None:
            raise RuntimeError("start the guard before it is asked")
        return await asyncio.wrap_future(self._thread.submit(self._policy.unknown(rules)))

    def denials(self, since: float) -> list[DeniedHost]:
        """Return the connections that were refused at ``since`` (``time.time()``) or later, the oldest first."""
        return self._policy.denials(since)

    def learn(self, environment: Mapping[str, str], home: str, *projects: str) -> None:
        """Allow the hosts of package managers, found in the background. Until then connections to unknown hosts wait."""
        if self._thread is None:
            raise RuntimeError("start the guard before it learns hosts")
        found = dict(environment)
        self._thread.call(lambda: self._keep(self._learn(lambda: learned_hosts(found, home, *projects))))

    async def _learn(self, find: Callable[[], list[str]]) -> None:
        learning = self._policy.learning = asyncio.get_running_loop().create_future()
        try:
            for host in await _learners.run(find):
                self._policy.allow(host)
        finally:
            learning.set_result(None)

    # -- on the event loop -------------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        self._connections = Connections()
        self._keep(self._look())

    async def _end(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._detach()
        if self._connections is not None:
            await self._connections.close()

    def _keep(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("the network guard of a sandbox failed", exc_info=error)

    async def _attach(self, line: socket.socket, pid: int) -> None:
        assert self._connections is not None  # noqa: S101 - made before anything attaches
        network = await attached(line, pid)
        self._inner = network
        self._ports = SandboxPorts(network, self._connections, self._said)
        self._connections.serve(network.listener, self._proxy.answer)
        for port in self._policy.loopback_ports():
            self._allowed_port(port)

    def _detach(self) -> None:
        if self._inner is not None and self._ports is not None and self._connections is not None:
            self._ports.close()
            self._connections.stop(self._inner.listener)
            self._inner.close()
        self._inner = self._ports = None

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(_LOOK)
            if self._inner is not None and self._inner.has_ended():
                self._detach()
            try:
                if self._ports is not None:
                    self._ports.look()
            except OSError as error:  # no descriptor is left: the next look may find one
                _log.warning("ports of the sandbox can't be forwarded: %s", error)

    @staticmethod
    def _ended(program: subprocess.Popen[bytes]) -> str:
        """End the inner program. Return the last line of its errors."""
        program.kill()
        lines = program.communicate()[1].decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    async def _own_port(self, port: int) -> socket.socket | None:
        return None if self._ports is None else await self._ports.own(port)

    def _allowed_port(self, port: int) -> None:
        if self._ports is not None:
            self._keep(self._offer(self._ports, port))

    async def _offer(self, ports: SandboxPorts, port: int) -> None:
        await ports.offer(port)
        self._close_withdrawn(ports, port)

    def _no_longer(self, host: str) -> None:
        self._policy.withdraw(host)
        name, port = parse_rule(host)
        if name == LOOPBACK and port is not None and self._ports is not None:
            self._close_withdrawn(self._ports, port)

    def _close_withdrawn(self, ports: SandboxPorts, port: int) -> None:
        if port not in self._policy.loopback_ports():
            ports.withdraw(port)


def proxy_environment(port: int) -> dict[str, str]:
    """Return the variables that lead programs to an HTTP proxy at ``port`` of the sandbox's loopback.

    ALL_PROXY is the HTTP proxy too: httpx and requests refuse to start with socks5h:// unless a further package is installed.
    """
    proxy = f"http://127.0.0.1:{port}"
    values = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": ""}
    return {**values, **{name.lower(): value for name, value in values.items()}, "NODE_USE_ENV_PROXY": "1"}


class _LoopThread:
    """The thread and event loop of all guards of this process. It ends with the last one."""

    _lock = threading.Lock()
    _current: _LoopThread | None = None

    def __init__(self) -> None:
        self._users = 0
        self._owner = os.getpid()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="toolcrib-network", daemon=True)
        self._thread.start()

    @classmethod
    def shared(cls) -> _LoopThread:
        """Return the thread for one more guard."""
        with cls._lock:
            if cls._current is None or cls._current._owner != os.getpid():  # a fork has no threads
                cls._current = cls()
            cls._current._users += 1
            return cls._current

    def release(self) -> None:
        """End the thread if no other guard uses it."""
        with self._lock:
            self._users -= 1
            if self._users:
                return
            _LoopThread._current = None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def run(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Return what ``work`` returns on the loop. From another thread."""
        return self.submit(work).result()

    def submit(self, work: Coroutine[Any, Any, _T]) -> Future[_T]:
        """Begin ``work`` on the loop. From another thread."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def call(self, work: Callable[[], None]) -> None:
        """Call ``work`` on the loop and wait for it. From any thread, the loop's own too."""
        if threading.current_thread() is self._thread:
            work()
            return

        async def called() -> None:
            work()

        with contextlib.suppress(asyncio.CancelledError):
            self.run(called())
