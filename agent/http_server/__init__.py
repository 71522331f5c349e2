"""A small web server that strangers may reach: connections that ask for nothing, or don't read what is answered, are closed, and
so are those too many.
"""

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
"""Seconds for the headers of a request: uvicorn would wait for ever."""
ANSWER_SECONDS = 30.0
"""Seconds for whoever asked to read what they are answered: uvicorn would wait for ever."""
SHARE = 0.25
"""Part of the files that this process may open which the connections of one server may take."""
_MOST = 10_000
_LEAST_AT_ONCE, _MOST_AT_ONCE = 16, 512
"""Connections that are taken at once: asyncio takes as many as it lets wait, before it looks at the first of them."""


def server_of(routes: list[Any], share: float = SHARE) -> uvicorn.Server:
    """Return a web server of Starlette's routes, which leaves signals to the program, and closes connections that send no whole
    headers in time, or read no answer. Raises ConfigError without the extra.
    """
    try:
        import uvicorn
        from starlette.applications import Starlette

        from agent.http_server.connection import BoundedConnection
    except ImportError as error:
        raise ConfigError("to listen for requests it needs the extra: pip install 'toolcrib[gateway]'") from error

    class Server(uvicorn.Server):
        def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # a generator there
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
    """Return a socket that listens there. Raises OSError that names the setting, and says what to do."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET, backlog=backlog)
    except OSError as error:
        is_taken = error.errno == errno.EADDRINUSE
        fix = "another gateway or program has it: end that one, or choose another port" if is_taken else "choose another"
        what = (error.strerror or str(error)).partition(" (while ")[0]  # asyncio's and socket's own words repeat the address
        raise OSError(f"{setting}: {host}:{port} can't be listened at ({what}); {fix}") from error


def _most(share: float) -> int:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if files == resource.RLIM_INFINITY else min(_MOST, int(files * share))
