"""Figures and health on a port, for Prometheus and for the service manager that restarts the gateway."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from agent.gateway.platform_runner import ChatLine
from agent.http_server import server_of
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    import uvicorn
    from starlette.requests import Request
    from starlette.responses import Response

_JSON = "application/json"
_SHARE = 0.05
"""Share of this process's file descriptors that the server's connections may use; the platforms need the rest."""


class Watch:
    """An HTTP server with ``/metrics`` and ``/healthz``, started and stopped once."""

    def __init__(self, host: str, port: int, lines: Callable[[], Sequence[ChatLine]], is_ending: Callable[[], bool]) -> None:
        self.address = host, port
        self._lines = lines
        self._is_ending = is_ending
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. Raises ConfigError if the extra is not installed or the address is unavailable."""
        try:
            from starlette.routing import Route

            from agent.gateway.metrics import CONTENT_TYPE_LATEST, LineCollector, exposition
        except ImportError as error:
            raise ConfigError("gateway.port needs the extra: pip install 'toolcrib[gateway]'") from error

        collector = LineCollector(self._lines)
        pages: dict[str, Callable[[], tuple[int, str, bytes]]] = {
            "/metrics": lambda: (200, CONTENT_TYPE_LATEST, exposition(collector)),
            "/healthz": self._health,
        }
        listening = _listening(*self.address)
        server = self._server = server_of([Route(path, _answering(page)) for path, page in pages.items()], _SHARE)
        server.config.timeout_graceful_shutdown = 1
        self._serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started and not self._serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Finish open requests, and close. May be called twice."""
        server, self._server = self._server, None
        if server is not None and self._serving is not None:
            server.should_exit = True
            await asyncio.gather(self._serving, return_exceptions=True)

    def _health(self) -> tuple[int, str, bytes]:
        platforms: dict[str, Json] = {line.name: line.state for line in self._lines()}
        keeps = all(line.keeps for line in self._lines())
        is_well = keeps and not self._is_ending() and all(state == "running" for state in platforms.values())
        store = "running" if keeps else "failed"
        told = {"ok": is_well, "draining": self._is_ending(), "platforms": platforms, "store": store}
        return 200 if is_well else 503, _JSON, f"{json.dumps(told)}\n".encode()


def _answering(page: Callable[[], tuple[int, str, bytes]]) -> Callable[[Request], Awaitable[Response]]:
    from starlette.responses import Response

    async def answer(request: Request) -> Response:
        status, kind, body = page()
        return Response(body, status, {"content-type": kind, "cache-control": "no-store"})

    return answer


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at the address. Raises ConfigError."""
    from agent.http_server import listening_at

    try:
        return listening_at(host, port, "gateway.port")
    except OSError as error:
        raise ConfigError(str(error)) from error
