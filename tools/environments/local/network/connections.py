"""Connections of one guard: accepted from several listeners, bounded in number and in idle time, and tunnelled."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable

from tools.environments.local.network.tunnel import Pipes, Tunnel

_log = logging.getLogger(__name__)
MOST = 256
"""Connections at once. Further ones wait in the backlog of their listener."""
IDLE = 3600.0
"""Seconds after which a connection ends that carries nothing."""
_SWEEP = 30.0
_AT_ONCE = 16
_ATTEMPTS = 3
"""Retries of a connection that gets no answer; the kernel makes them in about 15 seconds."""

Answer = Callable[[socket.socket], Awaitable[socket.socket | None]]


class Connections:
    """Accepts on listeners and tunnels each connection to the socket that the listener's function returns for it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pipes = Pipes()
        self._answers: dict[socket.socket, Answer] = {}
        self._paused: set[socket.socket] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._tunnels: set[Tunnel] = set()
        self._sweep: asyncio.TimerHandle = self._loop.call_later(_SWEEP, self._end_idle)

    def serve(self, listener: socket.socket, answer: Answer) -> None:
        """Accept on ``listener``. ``answer`` gets each client and returns the other end, None if it has dealt with it."""
        listener.setblocking(False)
        self._answers[listener] = answer
        self._loop.add_reader(listener.fileno(), self._accept, listener)

    def stop(self, listener: socket.socket) -> None:
        """Close a listener. Its connections go on."""
        self._loop.remove_reader(listener)
        self._paused.discard(listener)
        self._answers.pop(listener, None)
        listener.close()

    async def close(self) -> None:
        """Close all listeners and connections."""
        self._sweep.cancel()
        for listener in list(self._answers):
            self.stop(listener)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for tunnel in list(self._tunnels):
            tunnel.close()
        self._pipes.close()

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_AT_ONCE):
            if len(self._tasks) + len(self._tunnels) >= MOST:
                self._pause(listener)
                return
            try:
                client, _address = listener.accept()
            except BlockingIOError:
                return
            except OSError as error:  # no descriptor is left; the listener stays readable
                _log.warning("a connection of the sandbox can't be accepted: %s", error)
                self._pause(listener)
                self._loop.call_later(1.0, self._resume)
                return
            client.setblocking(False)
            task = self._loop.create_task(self._serve(client, self._answers[listener]))
            self._tasks.add(task)
            task.add_done_callback(self._answered)

    def _pause(self, listener: socket.socket) -> None:
        self._loop.remove_reader(listener)
        self._paused.add(listener)

    def _resume(self) -> None:
        for listener in self._paused:
            self._loop.add_reader(listener.fileno(), self._accept, listener)
        self._paused.clear()

    def _answered(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._resume()

    def _tunnel_ended(self, tunnel: Tunnel) -> None:
        self._tunnels.discard(tunnel)
        self._resume()

    async def _serve(self, client: socket.socket, answer: Answer) -> None:
        other = None
        try:
            other = await answer(client)
            if other is not None:
                self._tunnels.add(Tunnel(client, other, self._pipes, self._tunnel_ended))
        except OSError as error:  # its client is gone, or the other end was not reached
            _log.debug("a connection of the sandbox ended: %s", error)
        finally:
            if other is None:
                client.close()

    def _end_idle(self) -> None:
        for tunnel in list(self._tunnels):
            if self._loop.time() - tunnel.used > IDLE:
                tunnel.close()
        self._sweep = self._loop.call_later(_SWEEP, self._end_idle)


async def dial(address: str, port: int) -> socket.socket:
    """Return a connection to an address. Raises OSError."""
    made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_SYNCNT, _ATTEMPTS)
        await asyncio.get_running_loop().sock_connect(made, (address, port))
    except BaseException:
        made.close()
        raise
    return made


async def dial_any(addresses: list[str], port: int) -> socket.socket:
    """Return a connection to the first of the addresses that can be reached. Raises the OSError of the last one."""
    for address in addresses[:-1]:
        try:
            return await dial(address, port)
        except OSError as error:
            _log.debug("%s:%d can't be reached, the next address is tried: %s", address, port, error)
    return await dial(addresses[-1], port)
