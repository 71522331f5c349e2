"""Time limits of a reply: for its beginning, between two pieces, and in total."""

from __future__ import annotations

from collections.abc import Callable

from agent.providers._faults import EndlessReply, NoReply
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ProviderError

TRAILER = 3.0
"""Seconds that the token counts and the end of the stream may take after the end of a reply."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits in seconds, in bytes of a decoded body, and in characters of its content.

    ``first_byte`` limits the wait for the first content of a reply, and later for more content. Comments, empty events, white
    space and pieces of an incomplete event do not count: they only keep the connection alive. The default is five minutes, as a
    slow machine may read a long prompt for minutes before the first token. ``between`` is the longest silence within a reply
    that has begun. Its default is the same, because some servers send nothing while they write a whole tool call. ``total``
    limits the whole reply. Its default is an hour, enough for such a slow machine to write ten thousand tokens.
    """

    connect: float = 10.0
    first_byte: float = 300.0
    between: float = 300.0
    max_body: int = 64 * 1024 * 1024
    max_text: int = 2_000_000
    """Maximum characters of text, thinking and calls (some wires send each text twice), several times more than any model writes.

    Pictures do not count; ``max_body`` has room for them.
    """
    total: float = 3600.0


def no_reply(limits: HttpLimits, server: str) -> ProviderError:
    """Return the error for a reply that did not begin in time."""
    return NoReply(
        f"{server} did not start its answer in {limits.first_byte:g} s; it may be loading the model: try again, or raise"
        " model.first_byte_timeout"
    )


class Pace:
    """Watches the pace of one reply of ``server``. ``asked`` is the time of the request by the clock ``time``.

    The reply is checked when a piece arrives: at every piece until the reply has begun, later a few times in ``first_byte``
    seconds.
    """

    def __init__(self, limits: HttpLimits, server: str, asked: float, time: Callable[[], float]) -> None:
        self._limits = limits
        self._server = server
        self._time = time
        self._now = time()
        self._due = asked + limits.first_byte
        self._end = asked + limits.total
        self._look = 0.0
        self._known = 0
        self._is_ending = False

    def wait(self) -> float:
        """Return the seconds until the next piece must arrive."""
        longest = self._limits.between if self._known else self._due - self._now
        return min(longest, self._end - self._now)

    def record_piece(self, came: Callable[[], int]) -> None:
        """Record a piece; ``came`` counts the content that has arrived.

        Raises a subclass of ProviderError that is not retried: a retry would take as long.
        """
        self._now = now = self._time()
        if now < self._look:
            return
        count = came()
        if count > self._known:
            self._known = count
            self._due = now + self._limits.first_byte
        if now >= min(self._due, self._end):
            raise self._stalled()
        self._look = min(now + self._limits.first_byte / 4, self._due, self._end) if self._known else 0.0

    def end_soon(self) -> None:
        """Shorten the rest of the wait: the reply is complete, and only the server's trailer may follow."""
        if not self._is_ending:
            self._is_ending = True
            self._end = min(self._end, self._time() + TRAILER)
            self._look = min(self._look, self._end)

    def late(self) -> ProviderError:
        """Return the error for a piece that did not arrive in time."""
        limits, server = self._limits, self._server
        if not self._known or self._time() >= self._end:
            return self._stalled()
        return EndlessReply(
            f"{server} sent nothing for {limits.between:g} s in the middle of its answer; try again, or raise"
            " model.between_bytes_timeout"
        )

    def _stalled(self) -> ProviderError:
        limits, server = self._limits, self._server
        if self._time() >= self._end:
            return EndlessReply(
                f"{server} did not finish its answer in {limits.total:g} s; ask for less, or raise model.reply_timeout"
            )
        if not self._known:
            return no_reply(limits, server)
        return EndlessReply(
            f"{server} sent nothing more of its answer in {limits.first_byte:g} s, though the connection is alive; try again, or"
            " raise model.first_byte_timeout"
        )
