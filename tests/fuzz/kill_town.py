"""Servers around a gateway that is killed: a model, and a service that shows messages, with its users' view."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_MARK = re.compile(r"<(\w+)>")
_ANSWER, _COMMAND = re.compile(r"\[(\w+)\]"), re.compile(r"rm -rf \S*/(\w+) ")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore errors: connections end when processes are killed."""


@contextlib.contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """Serve on a free port of this machine until the end."""
    server = _Server(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield int(server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Answers(BaseHTTPRequestHandler):
    """Base class of both servers."""

    protocol_version = "HTTP/1.1"

    def body(self) -> Any:
        return json.loads(self.rfile.read(int(self.headers["content-length"])))

    def reply(self, data: Any, kind: str = "application/json") -> None:
        body = data if isinstance(data, bytes) else json.dumps(data).encode()
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        return


@dataclass
class Town:
    """The users' view of the chats, and the model's requests."""

    shown: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Messages by their keys, in their newest form: the service shows a key once."""
    answered: set[str] = field(default_factory=set)
    """Marks of the messages with a visible answer."""
    questions: dict[str, str] = field(default_factory=dict)
    """Keys of the questions by the marks of their commands."""
    happened: Counter[str] = field(default_factory=Counter)
    """Number of events by kind: ``taken`` (a message was acknowledged), ``asked`` (the model got a request), ``replied`` (it
    answered), and ``pressed`` (a button will be pressed next).
    """
    lock: threading.Lock = field(default_factory=threading.Lock)
    moved_at: float = 0.0
    """Time of the last event, by the monotonic clock."""

    def count(self, kind: str) -> None:
        """Count an event."""
        with self.lock:
            self.happened[kind] += 1
            self.moved_at = time.monotonic()

    def show(self, message: Mapping[str, Any]) -> str:
        """Show or change a message, and return its id."""
        with self.lock:
            known = str(message["edits"] or message["key"])
            self.shown[known] = dict(message)
            self.moved_at = time.monotonic()
            self.answered.update(_ANSWER.findall(message["text"]))
            if known.startswith("ticket:"):
                self.questions.update(dict.fromkeys(_COMMAND.findall(message["text"]), known))
            return known

    def with_text(self, text: str) -> list[str]:
        """Return the keys of the messages whose text contains this."""
        with self.lock:
            return [key for key, one in self.shown.items() if text in one["text"]]


def model_of(town: Town) -> type[BaseHTTPRequestHandler]:
    """Return a model that answers each message with its mark, and runs requested commands."""

    class Model(Answers):
        def do_POST(self) -> None:
            messages = self.body()["messages"]
            town.count("asked")
            said = next(str(one["content"]) for one in reversed(messages) if one["role"] == "user")
            mark = (_MARK.findall(said) or ["none"])[-1]
            command = said.partition("run: ")[2]
            if command and messages[-1]["role"] == "user":
                call = {"name": "terminal", "arguments": json.dumps({"command": command})}
                delta: Any = {"tool_calls": [{"index": 0, "id": f"call-{mark}", "type": "function", "function": call}]}
                pieces = [delta]
            else:
                pieces = [{"content": word} for word in ("answer ", "to ", f"[{mark}]")]
            time.sleep(0.03)
            events = [{"choices": [{"index": 0, "delta": piece, "finish_reason": None}]} for piece in pieces]
            end = "tool_calls" if "tool_calls" in pieces[0] else "stop"
            events.append({"choices": [{"index": 0, "delta": {}, "finish_reason": end}]})
            text = "".join(f"data: {json.dumps(one)}\n\n" for one in events) + "data: [DONE]\n\n"
            with contextlib.suppress(OSError):
                self.reply(text.encode(), "text/event-stream")
                town.count("replied")

        def do_GET(self) -> None:
            self.reply({"data": [{"id": "toy"}]})

    return Model


def receiver_of(town: Town) -> type[BaseHTTPRequestHandler]:
    """Return the service that shows messages."""

    class Receiver(Answers):
        def do_POST(self) -> None:
            number = town.show(self.body())
            with contextlib.suppress(OSError):
                self.reply({"id": number})

    return Receiver
