"""Cribs and servers: one server answers each path as the test defines, others send a reply in pieces."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any, Self

import pytest

from agent.api import Agent, Crib, assemble
from toolcrib._testing_server import _QuietServer
from toolcrib.testing import ChatServer


@dataclass
class Served:
    """A running server. ``asked`` has (path with query, headers in lower case, body) of each request."""

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
    """Return ``serve({"/v1/models": {...}, "/v1/messages": [first, second]})``.

    A list has one answer per request. An int is a status, bytes are sent as an event stream, a callable is called with the body.
    """
    open_: list[_QuietServer] = []

    def start(routes: dict[str, Any]) -> Served:
        server = _QuietServer(("127.0.0.1", 0), _handler(routes, served := Served(0)))
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
            """Log nothing."""

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


@pytest.fixture
def crib(tmp_path: Path) -> Iterator[Crib]:
    """All objects of a session's process, in an empty project."""
    with assemble(project_dir=tmp_path) as made:
        yield made


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The path for the configuration that a test writes."""
    return tmp_path / "config.yaml"


class PieceServer:
    """A context manager: a server that answers each POST to a model with the bytes of ``pieces``, as they become available."""

    status, kind = 200, "text/event-stream"

    def __init__(self) -> None:
        self.requests = 0
        self.stopped = threading.Event()
        self._server = _QuietServer(("127.0.0.1", 0), _in_pieces(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stopped.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def pieces(self) -> Iterator[bytes]:
        """Yield the pieces of one reply."""
        raise NotImplementedError


def _in_pieces(server: PieceServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *args: object) -> None:
            """Log nothing."""

        def do_GET(self) -> None:
            self.send_error(404)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if not self.path.endswith(("/completions", "/responses", "/messages", "alt=sse")):
                self.send_error(404)  # a request for model information
                return
            server.requests += 1
            try:
                self.send_response(server.status)
                self.send_header("Content-Type", server.kind)
                self.end_headers()
                for piece in server.pieces():
                    self.wfile.write(piece)
                    self.wfile.flush()
            except OSError:
                self.close_connection = True  # the client has cancelled it

    return Handler


class OneByOne(PieceServer):
    """A server that answers each POST with a list of pieces. It sends the next piece when the test has called ``saw`` for the
    previous one.

    ``unseen`` has the numbers of the pieces that were not seen while the server waited.
    """

    patience = 20.0
    """Seconds after which the server continues anyway."""

    def __init__(self, *replies: list[bytes]) -> None:
        super().__init__()
        self.unseen: list[int] = []
        self._replies = list(replies)
        self._seen = threading.Semaphore(0)

    def saw(self) -> None:
        """Record that the observer has received the last piece."""
        self._seen.release()

    def pieces(self) -> Iterator[bytes]:
        reply = self._replies.pop(0)
        for number, piece in enumerate(reply):
            yield piece
            if number < len(reply) - 1 and not self._seen.acquire(timeout=self.patience):
                self.unseen.append(number)


class Dripping(PieceServer):
    """A server that sends ``first``, then each ``drip``, 30 ms apart, and at the end all of ``then``."""

    def __init__(
        self,
        first: bytes,
        drip: Sequence[bytes],
        then: bytes,
        *,
        kind: str = PieceServer.kind,
        times: int = 600,
        status: int = 200,
    ) -> None:
        super().__init__()
        self.kind, self.status = kind, status
        self._first, self._drip, self._then, self._times = first, drip, then, times

    def pieces(self) -> Iterator[bytes]:
        yield self._first
        for number in range(self._times):
            if self.stopped.wait(0.03):
                return
            if self._drip:
                yield self._drip[number % len(self._drip)]
        yield self._then


@pytest.fixture
def one_by_one() -> type[OneByOne]:
    """Return the class: ``with one_by_one([first, second], [another reply]) as server: ...``"""
    return OneByOne


@pytest.fixture
def dripping() -> type[Dripping]:
    """Return the class: ``with dripping(first, [piece, ...], then) as server: ...``"""
    return Dripping


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Agent]]:
    """Return a function that starts an agent whose server sends these responses."""
    with ExitStack() as stack:

        def begin(*responses: Any, **options: Any) -> Agent:
            server = stack.enter_context(ChatServer(*responses))
            return stack.enter_context(Agent(model="m", base_url=server.base_url, project_dir=tmp_path, **options))

        yield begin
