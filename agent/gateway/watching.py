"""Figures and health on a port, for Prometheus and whatever starts the gateway again."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from agent.gateway.line import ChatLine
from toolcrib import ConfigError
from toolcrib._types import Json

if TYPE_CHECKING:
    import uvicorn

_JSON = "application/json"
_PLAIN = "text/plain; charset=utf-8"
Send = Callable[[Mapping[str, Any]], Awaitable[None]]


class Watch:
    """An HTTP server with ``/metrics`` and ``/healthz``, started and stopped once."""

    def __init__(self, host: str, port: int, lines: Callable[[], Sequence[ChatLine]], is_ending: Callable[[], bool]) -> None:
        self.address = host, port
        self._lines = lines
        self._is_ending = is_ending
        self._server: uvicorn.Server | None = None
        self._serving: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Listen. Raises ConfigError without the extra, and where the address can't be had."""
        try:
            import uvicorn

            from agent.gateway.metrics import CONTENT_TYPE_LATEST, LineCollector, exposition
        except ImportError as error:
            raise ConfigError("gateway.port needs the extra: pip install 'toolcrib[gateway]'") from error

        class WatchServer(uvicorn.Server):
            def capture_signals(self) -> AbstractContextManager[None]:  # type: ignore[override]  # a generator there
                return nullcontext()

        collector = LineCollector(self._lines)
        routes: dict[str, Callable[[], tuple[int, str, bytes]]] = {
            "/metrics": lambda: (200, CONTENT_TYPE_LATEST, exposition(collector)),
            "/healthz": self._health,
        }

        async def app(scope: Mapping[str, Any], receive: object, send: Send) -> None:
            if scope["type"] == "http":
                await _answer(scope, routes, send)

        listening = _listening(*self.address)
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1)
        server = self._server = WatchServer(config)
        self._serving = asyncio.create_task(server.serve(sockets=[listening]))
        while not server.started and not self._serving.done():  # noqa: ASYNC110 - uvicorn has no event for it
            await asyncio.sleep(0.01)

    async def stop(self) -> None:
        """Answer what is under way, and close. May be called twice."""
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


async def _answer(scope: Mapping[str, Any], routes: Mapping[str, Callable[[], tuple[int, str, bytes]]], send: Send) -> None:
    if scope["method"] not in ("GET", "HEAD"):
        status, kind, body = 405, _PLAIN, b"GET only\n"
    elif (found := routes.get(scope["path"])) is None:
        status, kind, body = 404, _PLAIN, b"there is /metrics and /healthz\n"
    else:
        status, kind, body = found()
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


def _listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens there. Raises ConfigError."""
    from toolcrib._web import listening_at

    try:
        return listening_at(host, port, "gateway.port")
    except OSError as error:
        raise ConfigError(str(error)) from error
