"""A connection to a web server that strangers may reach, which is closed if the client keeps the server waiting too long."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.h11_impl import H11Protocol


class BoundedConnection(H11Protocol):
    """Connection with limits.

    If a new client exceeds ``most`` connections, the server closes one that waits for its client: the one with the least
    time left.
    """

    most = 1_000
    header_seconds = 10.0
    answer_seconds = 30.0
    _due: asyncio.TimerHandle | None = None
    """Closes the connection. Set while the server waits for the client: for a request, or until a response is read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in H11Protocol
        super().connection_made(transport)
        transport.set_write_buffer_limits(0)  # writing pauses while a byte is unread
        self._look()
        if len(self.connections) > self.most:
            found = (one for one in self.connections if isinstance(one, BoundedConnection))
            waiting = {one._due.when(): one for one in found if one._due is not None}
            waiting[min(waiting)].transport.abort()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._wait(self.answer_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        super().connection_lost(exc)

    def _look(self) -> None:
        """Set the time limit if headers are expected (at the beginning and after each response); clear it during a response."""
        if self.flow.write_paused:
            return
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop()
        elif self._due is None:
            self._wait(self.header_seconds)

    def _wait(self, seconds: float) -> None:
        self._stop()
        self._due = self.loop.call_later(seconds, self.transport.abort)

    def _stop(self) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
