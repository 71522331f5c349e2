"""A server that answers each address with what the test wrote for it."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest


@dataclass
class Served:
    """``asked`` has (path with query, headers in lower case, body) of each request."""

    port: int
    asked: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def paths(self) -> list[str]:
        return [path for path, _, _ in self.asked]


Serve = Callable[[dict[str, Any]], Served]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """``serve({"/v1/models": {...}, "/v1/messages": [first, second]})``

    A list gives one answer a request. An int is a status, bytes go out as an event stream, a callable is asked with the body.
    """
    open_: list[ThreadingHTTPServer] = []

    def start(routes: dict[str, Any]) -> Served:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(routes, served := Served(0)))
        server.daemon_threads = True
        served.port = int(server.server_address[1])
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        open_.append(server)
        return served

    yield start
    for server in open_:
        server.shutdown()
        server.server_close()


def _handler(routes: dict[str, Any], served: Served) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Quiet."""

        def do_GET(self) -> None:
            self._answer(None)

        def do_POST(self) -> None:
            self._answer(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0)))))

        def _answer(self, body: Any) -> None:
            served.asked.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            answer = routes.get(self.path, routes.get(self.path.partition("?")[0], 404))
            if isinstance(answer, list):
                answer = answer.pop(0) if answer else 500
            if callable(answer):
                answer = answer(body)
            status = answer if isinstance(answer, int) else 200
            sent = answer if isinstance(answer, bytes) else json.dumps({"error": "no"} if status != 200 else answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "text/event-stream" if isinstance(answer, bytes) else "application/json")
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

    return Handler
