"""A Chat Completions server for tests: it sends the test's responses over real HTTP, framed, cut and delayed as they specify."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from toolcrib.contract.types import Json


@dataclass(frozen=True, slots=True)
class Response:
    """A response. ``body`` is sent after ``delay`` seconds, in pieces of ``pieces`` bytes (0: in one piece), ``pause`` seconds
    apart.

    If ``cut`` is not None, the connection is closed after that many bytes, in the middle of the chunked transfer.
    """

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "text/event-stream"
    pieces: int = 0
    pause: float = 0.0
    delay: float = 0.0
    cut: int | None = None


class ChatServer:
    """A context manager: a server on a free loopback port that sends one response per request, in order.

    ``requests`` keeps each request's JSON body, ``headers`` its headers (names in lower case). A request beyond the last response
    gets status 500. ``GET /v1/models`` lists ``models``. ``answers`` are responses for other paths, as JSON or a Response, sent
    each time (``{"/props": {...}, "/api/show": {...}}``, or other data for ``/v1/models``); ``asides`` keeps the requests for
    them and for any GET, as (path with query, headers, body or None). Any other GET gets status 404.
    """

    def __init__(
        self,
        *responses: Response,
        models: Sequence[str] = ("test-model",),
        port: int = 0,
        answers: Mapping[str, Json | Response] | None = None,
    ) -> None:
        self.responses = list(responses)
        self.models = list(models)
        self.answers = dict(answers or {})
        self.asides: list[tuple[str, dict[str, str], Json]] = []
        self.requests: list[Json] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self._stopping = threading.Event()
        self._server = _QuietServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def port(self) -> int:
        """The server's port."""
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        """The base URL for a client."""
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _got(self, path: str, headers: dict[str, str]) -> Response:
        self.asides.append((path, headers, None))
        listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]}
        return self._beside(path) or (self.body(listed) if path.endswith("/models") else self.body({}, 404))

    def _posted(self, path: str, headers: dict[str, str], sent: Json) -> Response:
        if (beside := self._beside(path)) is not None:
            self.asides.append((path, headers, sent))
            return beside
        self.requests.append(sent)
        self.headers.append(headers)
        self.paths.append(path)
        missing = self.body({"error": {"message": "the test has no more responses"}}, 500)
        return self.responses.pop(0) if self.responses else missing

    def _beside(self, path: str) -> Response | None:
        answer = self.answers.get(path.partition("?")[0])
        return answer if answer is None or isinstance(answer, Response) else self.body(answer)

    # -- responses for a test ------------------------------------------------------------------------------------

    @staticmethod
    def stream(*chunks: Json, done: bool = True, newline: str = "\n", **how: Any) -> Response:
        """Return chunks as server-sent events; ``how`` are fields of Response."""
        lines = [json.dumps(chunk) for chunk in chunks] + (["[DONE]"] if done else [])
        return Response("".join(f"data: {line}{newline}{newline}" for line in lines).encode(), **how)

    @classmethod
    def text(cls, text: str, *, piece: int = 8, **how: Any) -> Response:
        """Return a streamed reply of text, with ``piece`` characters per delta."""
        parts = [text[at : at + piece] for at in range(0, len(text), piece)]
        return cls.stream(*(_delta({"content": part}) for part in parts), _delta({}, "stop"), _USAGE, **how)

    @classmethod
    def calls(cls, *calls: tuple[str, Json], text: str = "", ids: Iterable[str] = (), **how: Any) -> Response:
        """Return a streamed reply with tool calls, given as (name, arguments); arguments of type str are sent as they are."""
        named = list(ids) or [f"call_{place}" for place in range(len(calls))]
        chunks = [_delta({"content": text})] if text else []
        for place, (name, arguments) in enumerate(calls):
            raw = arguments if isinstance(arguments, str) else json.dumps(arguments)
            head = {"index": place, "id": named[place], "type": "function", "function": {"name": name, "arguments": ""}}
            pieces = [{"index": place, "function": {"arguments": raw[at : at + 10]}} for at in range(0, len(raw), 10)]
            chunks += [_delta({"tool_calls": [one]}) for one in (head, *pieces)]
        return cls.stream(*chunks, _delta({}, "tool_calls"), _USAGE, **how)

    @staticmethod
    def body(value: Json, status: int = 200, **how: Any) -> Response:
        """Return a JSON response: a whole reply, or an error with its status."""
        return Response(json.dumps(value).encode(), status, content_type="application/json", **how)


_USAGE = {"object": "chat.completion.chunk", "choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 5}}


def _delta(delta: Json, finish: str | None = None) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    return {"id": "chat-1", "object": "chat.completion.chunk", "model": "test-model", "choices": [choice]}


def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def log_message(self, *args: object) -> None:
            """Log nothing."""

        def do_GET(self) -> None:
            self._answer(server._got(self.path, _lower(self.headers)))

        def do_POST(self) -> None:
            self._answer(server._posted(self.path, _lower(self.headers), json.loads(_whole(self))))

        def _answer(self, response: Response) -> None:
            try:
                self._send(response)
            except OSError:
                self.close_connection = True  # the client disconnected, which tests do on purpose

        def _send(self, response: Response) -> None:
            if server._stopping.wait(response.delay):
                self.close_connection = True
                return
            self.send_response(response.status)
            for name, value in {"Content-Type": response.content_type, **response.headers}.items():
                self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            body = response.body if response.cut is None else response.body[: response.cut]
            size = response.pieces or len(body) or 1
            for at in range(0, len(body), size):
                piece = body[at : at + size]
                self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                self.wfile.flush()
                if at + size < len(body) and server._stopping.wait(response.pause):
                    break
            if response.cut is None:
                self.wfile.write(b"0\r\n\r\n")
            else:
                self.close_connection = True

    return Handler


def _whole(request: BaseHTTPRequestHandler) -> bytes:
    """Return a client's request body. Raises ConnectionError if the client left or was killed before it had sent all."""
    length = int(request.headers.get("Content-Length", 0))
    body = request.rfile.read(length)
    if len(body) < length:
        raise ConnectionError("the client left")
    return body


def _lower(headers: Message) -> dict[str, str]:
    return {name.lower(): value for name, value in headers.items()}


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """Ignore a client that disconnected, which tests do on purpose; report any other error."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # passed through unchanged
