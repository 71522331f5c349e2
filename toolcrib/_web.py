"""A small web server that strangers may reach: connections that ask for nothing are closed, and so are those too many."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from toolcrib._errors import ConfigError

if TYPE_CHECKING:
    import uvicorn

HEADER_SECONDS = 10.0
"""Seconds for the headers of a request: uvicorn would wait for ever."""
SHARE = 0.5
"""Part of the files that this process may open which connections may take."""
_MOST = 10_000


def server_of(routes: list[Any]) -> uvicorn.Server:
    """Return a web server of Starlette's routes, which leaves signals to the program, and closes connections that send no whole
    headers in time. Raises ConfigError without the extra.
    """
    try:
        import uvicorn
        from starlette.applications import Starlette
        from uvicorn.protocols.http.h11_impl import H11Protocol
    except ImportError as error:
        raise ConfigError("to listen for requests it needs the extra: pip install 'toolcrib[gateway]'") from error

    class Server(uvicorn.Server):
        def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # a generator there
            return nullcontext()

    class Bounded(H11Protocol):
        _due: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as there
            super().connection_made(transport)
            self._look()
            if len(self.connections) > _most():  # one that waits for headers gives way, else a stranger would keep others out
                waiting = {one._due.when(): one for one in self.connections if isinstance(one, Bounded) and one._due is not None}
                waiting[min(waiting)].transport.abort()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._look()

        def connection_lost(self, exc: Exception | None) -> None:
            self._stop()
            super().connection_lost(exc)

        def _look(self) -> None:
            """Set the time while headers are waited for: at the beginning, and once more has come behind an answer."""
            if self.cycle is not None and not self.cycle.response_complete:
                self._stop()
            elif self._due is None:
                self._due = self.loop.call_later(HEADER_SECONDS, self.transport.abort)

        def _stop(self) -> None:
            if self._due is not None:
                self._due.cancel()
                self._due = None

    app = Starlette(routes=routes)
    config = uvicorn.Config(
        app, http=Bounded, ws="none", log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=5
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


def _most() -> int:
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return _MOST if files == resource.RLIM_INFINITY else min(_MOST, int(files * SHARE))
