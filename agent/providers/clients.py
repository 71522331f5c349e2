"""The process's httpx clients. A few sessions of one server share a client, and the clients share an SSL context.

Building a client takes time and memory, and one client for all sessions has costs that grow with the square of their number. A
client belongs to the event loop that it was made in, and is closed with it.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import importlib.util
import os
import sys
import threading
from collections.abc import AsyncGenerator, Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, WeakSet

from agent.providers.endpoint import Endpoint
from toolcrib.contract.errors import ConfigError, ConnectionFailed
from toolcrib.contract.passing import is_passing

if TYPE_CHECKING:
    import ssl
    from types import ModuleType

    import httpx

PER_CLIENT = 20
"""Maximum number of users of one client."""
KEEP = 30.0
"""Seconds that an unused client is kept while the pool is held."""

_TLS_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "SSLKEYLOGFILE")
_PROXY_VARIABLES = tuple(f"{name}_PROXY" for name in ("HTTP", "HTTPS", "ALL", "NO"))


_SPARED = ("httpx._main", "httpcore._async.http2", "httpcore._sync.http2")
"""Modules that httpx and httpcore load if click or h2 is installed, but that are not needed here.

They are httpx's command line, 40 % of its import time, and HTTP/2, which a client that uses it imports later. A None in
sys.modules makes click and h2 look absent.
"""

_NO_TLS = object()
"""Placeholder for an SSL context; encrypting with it fails."""


def load_early() -> None:
    """Import the libraries in the running loop's next iteration, for a process that will soon send its first request.

    This does not use a thread: two threads that import at once block each other at every file access, and take longer than one.
    """
    asyncio.get_running_loop().call_soon(_load)


def _load() -> None:
    spared = [name for name in _SPARED if sys.modules.setdefault(name, cast("ModuleType", None)) is None]
    try:
        with contextlib.suppress(ImportError):  # the first use reports a missing library
            # anyio loads the rest with the first request.
            for name in ("httpx", "httpcore", "anyio._core._synchronization", "anyio._backends._asyncio"):
                importlib.import_module(name)
    finally:
        for name in spared:
            sys.modules.pop(name, None)


class SharedClient:
    """A client of one event loop, and its current users."""

    def __init__(self, key: Hashable, client: httpx.AsyncClient, loop: asyncio.AbstractEventLoop) -> None:
        self.key = key
        self.client = client
        self.loop = loop
        self.users: WeakSet[Any] = WeakSet()  # a user that is garbage-collected no longer counts
        self.timer: asyncio.TimerHandle | None = None


class ClientPool:
    """Lends clients, from any thread and loop. While the pool is not held, a client is closed when its last user leaves."""

    def __init__(self, per_client: int = PER_CLIENT, keep: float = KEEP) -> None:
        self._per_client = per_client
        self._keep = keep
        self._holders = 0
        self._clients: list[SharedClient] = []
        self._contexts: dict[Hashable, ssl.SSLContext] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._ends: WeakKeyDictionary[asyncio.AbstractEventLoop, AsyncGenerator[None]] = WeakKeyDictionary()
        """Generators that close a loop's clients: an ending loop closes the generators that were begun in it."""
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        """Return how many clients are open."""
        return len(self._clients)

    def take(self, user: object, endpoint: Endpoint, connect: float, write: float) -> SharedClient:
        """Lend a client of the running loop for this server and these limits (seconds), until ``give_back``.

        Raises ConfigError if the environment's proxy or certificate settings can't be used, and ConnectionFailed if this
        process can't open more files.
        """
        loop = asyncio.get_running_loop()
        key = (*_server(endpoint), connect, write, _environment(endpoint))
        with self._lock:
            self._clients = [shared for shared in self._clients if not shared.loop.is_closed()]
            found = next((one for one in self._clients if one.loop is loop and one.key == key and self._has_room(one)), None)
            if found is None:
                found = SharedClient(key, self._new_client(endpoint, connect, write), loop)
                self._clients.append(found)
                self._close_with(loop)
            found.users.add(user)
            if found.timer is not None:
                found.timer.cancel()
                found.timer = None
            return found

    def _close_with(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop not in self._ends:
            end = self._ends[loop] = self._at_end()
            with contextlib.suppress(StopIteration):  # it has reached its yield
                end.__anext__().send(None)

    async def _at_end(self) -> AsyncGenerator[None]:
        try:
            yield
        finally:
            here = asyncio.get_running_loop()
            with self._lock:
                ending = [shared for shared in self._clients if shared.loop is here]
                for shared in ending:
                    shared.users.clear()
            await self._close(ending)

    def _has_room(self, shared: SharedClient) -> bool:
        return len(shared.users) < self._per_client

    async def give_back(self, user: object, shared: SharedClient) -> None:
        """Return a client to the pool. A client without users is closed: after a while if the pool is held, else at once."""
        with self._lock:
            shared.users.discard(user)
            if shared.users or shared not in self._clients or shared.loop.is_closed():
                return
            if self._holders:
                self._later(shared)
                return
        await self._close([shared])

    def _later(self, shared: SharedClient) -> None:
        def begin() -> None:
            shared.timer = shared.timer or shared.loop.call_later(self._keep, self._expire, shared)

        if shared.loop is asyncio.get_running_loop():
            begin()
        else:
            _call(shared.loop, begin)

    def _expire(self, shared: SharedClient) -> None:
        """Close an unused client, on its own loop."""
        shared.timer = None
        task = shared.loop.create_task(self._close_idle(shared))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close_idle(self, shared: SharedClient) -> None:
        """Close a client on its own loop, unless it is in use again. Only this call removes it from the pool."""
        with self._lock:
            if shared.users or shared not in self._clients:
                return
            self._clients.remove(shared)
        if shared.timer is not None:
            shared.timer.cancel()
        await shared.client.aclose()

    # -- keeping clients open --------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Keep unused clients open for a while from now on, until every ``hold`` is released."""
        with self._lock:
            self._holders += 1

    async def release(self) -> None:
        """Undo one ``hold``. The last ``release`` closes the unused clients."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
            idle = [shared for shared in self._clients if not shared.users]
        await self._close(idle)

    async def _close(self, clients: list[SharedClient]) -> None:
        """Close unused clients, on the loops that they belong to."""
        here = asyncio.get_running_loop()
        for shared in clients:
            if shared.loop is here:
                await self._close_idle(shared)
            else:
                _call(shared.loop, partial(self._expire, shared))

    # -- making clients --------------------------------------------------------------------------------------------

    def _new_client(self, endpoint: Endpoint, connect: float, write: float) -> httpx.AsyncClient:
        import httpx

        _spare_searches()
        try:
            context, is_direct = self._context(endpoint), not _may_have_proxy(endpoint)
            return httpx.AsyncClient(
                timeout=httpx.Timeout(None, connect=connect, write=write),
                follow_redirects=False,  # a redirect would send the key and the conversation to another host
                trust_env=not is_direct,
                verify=context,
                transport=_direct(context) if is_direct else None,
                cookies=_no_cookies(),
            )
        except (ImportError, ValueError, OSError, httpx.InvalidURL) as error:
            if is_passing(error):
                raise ConnectionFailed(f"no connection to {endpoint.server} could be made: {error}") from error
            from agent.providers._variables import unusable_setting

            raise ConfigError(unusable_setting(error)) from None

    def _context(self, endpoint: Endpoint) -> ssl.SSLContext:
        """Return the process's SSL context. For plain HTTP it has no certificates, and is quick to make.

        For plain HTTP on this machine it is a placeholder, which costs no time. There, no proxy is used that might need TLS.
        """
        plain = endpoint.base_url.startswith("http:")
        key: Hashable = "plain" if plain else tuple(os.environ.get(name) for name in _TLS_VARIABLES)
        if plain and endpoint.is_loopback:
            return cast("ssl.SSLContext", _NO_TLS)
        if key not in self._contexts:
            import ssl

            import httpx

            self._contexts[key] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if plain else httpx.create_ssl_context()
        return self._contexts[key]


def _spare_searches() -> None:
    """Mark sniffio as absent if it is not installed: httpcore tries to import it for each connection and request.

    Each attempt would search all of sys.path.
    """
    if importlib.util.find_spec("sniffio") is None:
        sys.modules.setdefault("sniffio", cast("ModuleType", None))


def _no_cookies() -> Any:
    """Return a cookie jar that stores nothing: one session's cookies must not be sent with another's requests."""
    from http.cookiejar import CookieJar, DefaultCookiePolicy

    return CookieJar(DefaultCookiePolicy(allowed_domains=[]))


def _may_have_proxy(endpoint: Endpoint) -> bool:
    """Return whether the environment may set a proxy for a server, as httpx reads it; False for a server on this machine."""
    if endpoint.is_loopback:
        return False
    from urllib.request import getproxies

    return not getproxies().keys().isdisjoint(("http", "https", "all"))


def _direct(context: ssl.SSLContext) -> httpx.AsyncBaseTransport:
    from agent.providers._sockets import AsyncioTransport

    return AsyncioTransport(context)


def _server(endpoint: Endpoint) -> tuple[str, str]:
    parts = urlsplit(endpoint.base_url)
    return parts.scheme, parts.netloc


def _environment(endpoint: Endpoint) -> Hashable:
    """Return the values of the variables that a client reads when it is made."""
    if endpoint.is_loopback and endpoint.base_url.startswith("http:"):
        return ()
    names = (*_TLS_VARIABLES, *_PROXY_VARIABLES, *(name.lower() for name in _PROXY_VARIABLES))
    return tuple(os.environ.get(name) for name in names)


def _call(loop: asyncio.AbstractEventLoop, callback: Callable[[], None]) -> None:
    """Call ``callback`` on another thread's loop; do nothing if the loop is closed, because then its connections are too."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(callback)


_pools: dict[int, ClientPool] = {}


def shared_clients() -> ClientPool:
    """Return the process's pool; a forked process gets its own."""
    pool = _pools.get(os.getpid())
    return pool if pool is not None else _pools.setdefault(os.getpid(), ClientPool())
