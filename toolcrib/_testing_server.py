"""A Chat Completions server for tests: it answers over real HTTP with what the test wrote, framed, cut and delayed as it says."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from toolcrib._types import Json


@dataclass(frozen=True, slots=True)
class Response:
    """One answer. ``body`` goes out after ``delay`` seconds in ``pieces`` of that many bytes (0: in one), ``pause`` s apart.

    ``cut`` closes the connection after that many bytes, in the middle of the chunked transfer.
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
    """A context manager: a server on a free loopback port that gives one response a request, in order.

    ``requests`` keeps each request's JSON body, ``headers`` its headers (names in lower case). A request beyond the last response
    is answered 500. ``GET /v1/models`` lists ``models``.
    """

    def __init__(self, *responses: Response, models: Sequence[str] = ("test-model",), port: int = 0) -> None:
        self.responses = list(responses)
        self.models = list(models)
        self.requests: list[Json] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self._stopping = threading.Event()
        self._server = _QuietServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def __enter__(self) -> ChatServer:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._stopping.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    # -- what a test writes --------------------------------------------------------------------------------------

    @staticmethod
    def stream(*chunks: Json, done: bool = True, newline: str = "\n", **how: Any) -> Response:
        """Chunks as server-sent events; ``how`` are fields of Response."""
        lines = [json.dumps(chunk) for chunk in chunks] + (["[DONE]"] if done else [])
        return Response("".join(f"data: {line}{newline}{newline}" for line in lines).encode(), **how)

    @classmethod
    def text(cls, text: str, *, piece: int = 8, **how: Any) -> Response:
        """A streamed reply of text, ``piece`` characters a delta."""
        parts = [text[at : at + piece] for at in range(0, len(text), piece)]
        return cls.stream(*(_delta({"content": part}) for part in parts), _delta({}, "stop"), _USAGE, **how)

    @classmethod
    def calls(cls, *calls: tuple[str, Json], text: str = "", ids: Iterable[str] = (), **how: Any) -> Response:
        """A streamed reply with tool calls, as (name, arguments); arguments that are a str go out as they are."""
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
        """One JSON answer: a whole reply, or an error with its status."""
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
            """Quiet."""

        def do_GET(self) -> None:
            listed = {"object": "list", "data": [{"id": name, "object": "model"} for name in server.models]}
            self._answer(ChatServer.body(listed) if self.path.endswith("/models") else ChatServer.body({}, 404))

        def do_POST(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            server.requests.append(json.loads(sent))
            server.headers.append({name.lower(): value for name, value in self.headers.items()})
            server.paths.append(self.path)
            missing = ChatServer.body({"error": {"message": "the test wrote no more responses"}}, 500)
            self._answer(server.responses.pop(0) if server.responses else missing)

        def _answer(self, response: Response) -> None:
            try:
                self._send(response)
            except OSError:
                self.close_connection = True  # the client left, which tests do on purpose

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


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: object, client_address: object) -> None:
        """A client that left in the middle, which tests do on purpose, is no news; anything else is."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)  # type: ignore[arg-type]  # whatever it was given
