"""A small web server that strangers may reach: it closes connections that are idle, don't read responses, or exceed a limit."""

from __future__ import annotations

import errno
import resource
import socket
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from toolcrib.contract.errors import ConfigError

if TYPE_CHECKING:
    import uvicorn

HEADER_SECONDS = 10.0
"""Seconds for the client to send a request's headers; uvicorn itself sets no limit."""
ANSWER_SECONDS = 30.0
"""Seconds for the client to read a response; uvicorn itself sets no limit."""
SHARE = 0.25
"""Share of this process's file descriptors that the connections of one server may use."""
_MOST = 10_000
_LEAST_AT_ONCE, _MOST_AT_ONCE = 16, 512
"""Minimum and maximum of the backlog. asyncio accepts a whole backlog of connections before it handles the first of them."""


def server_of(routes: list[Any], share: float = SHARE) -> uvicorn.Server:
    """Return a web server for Starlette routes that does not handle signals itself. Raises ConfigError without the extra.

    It closes connections that do not send complete headers in time, or do not read a response.
    """
    try:
        import uvicorn
        from starlette.applications import Starlette

        from agent.http_server.connection import BoundedConnection
    except ImportError as error:
        raise ConfigError("listening needs the extra: pip install 'toolcrib[gateway]'") from error

    class Server(uvicorn.Server):
        def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # a generator in uvicorn
            return nullcontext()

    class Bounded(BoundedConnection):
        most, header_seconds, answer_seconds = _most(share), HEADER_SECONDS, ANSWER_SECONDS

    app = Starlette(routes=routes)
    config = uvicorn.Config(
        app,
        http=Bounded,
        ws="none",
        log_config=None,
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=5,
        backlog=max(_LEAST_AT_ONCE, min(_MOST_AT_ONCE, Bounded.most // 2)),
    )
    return Server(config)


def listening_at(host: str, port: int, setting: str, *, backlog: int | None = None) -> socket.socket:
    """Return a socket that listens at the address. Raises OSError with the setting and a fix."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=backlog)
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        fix = "another gateway or program uses it: stop that one, or choose another port" if is_taken else "set another address"
        what = (error.strerror or str(error)).partition(" (while ")[0]  # asyncio's and socket's messages repeat the address
        raise OSError(f"{setting}: {host}:{port} is not available for listening ({what}); {fix}") from error


def _most(share: float) -> int:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if files == resource.RLIM_INFINITY else min(_MOST, int(files * share))
