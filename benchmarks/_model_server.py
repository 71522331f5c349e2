"""A model server that answers at once and records when each request arrived."""

from __future__ import annotations

import bisect
import socketserver
import threading
import time
from collections.abc import Callable
from typing import BinaryIO, cast

Answerer = Callable[[str, int], bytes]
"""(path, number of earlier requests) -> the body of a streamed reply."""


class ModelServer:
    """A context manager that runs the server. It reads only as much of HTTP as it must, to add little to the measured time."""

    def __init__(self, answer: Answerer) -> None:
        self.arrivals: list[float] = []
        """Times when a request was complete, in seconds of time.monotonic(), which all processes of a machine share."""
        self._answer = answer
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def next_arrival(self, moment: float) -> float:
        """Return when the first request after ``moment`` arrived. Raises IndexError if none did."""
        return self.arrivals[bisect.bisect_right(self.arrivals, moment)]

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _handler(self) -> type[socketserver.StreamRequestHandler]:
        server = self

        class Handler(socketserver.StreamRequestHandler):
            disable_nagle_algorithm = True

            def handle(self) -> None:
                reading = cast(BinaryIO, self.rfile)
                while path := _read_request(reading):
                    server.arrivals.append(time.monotonic())
                    body = server._answer(path, len(server.arrivals) - 1)
                    head = f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: {len(body)}\r\n\r\n"
                    self.wfile.write(head.encode() + body)

        return Handler


def _read_request(reading: BinaryIO) -> str:
    """Return the path of a request after its body has arrived, or "" at the end of the connection."""
    try:
        first, size = reading.readline(), 0
        while (line := reading.readline()) not in (b"\r\n", b""):
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        reading.read(size)
    except OSError:
        return ""
    return first.decode().split(" ")[1] if first else ""
