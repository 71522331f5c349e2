"""The pace of a reply: how long the server may take for its beginning, between two pieces, and for all of it."""

from __future__ import annotations

from collections.abc import Callable

from agent.providers._faults import EndlessReply, NoReply
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ProviderError

TRAILER = 3.0
"""Seconds that a server may take, after the end of a reply, for its token counts and for saying that nothing follows."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Limits in seconds, in bytes of a decoded body, and in characters of what it says.

    ``first_byte`` is the wait for a reply to begin, and then for more of it to come. Comments, empty events, white space and the
    pieces of an event that is not whole yet only keep the connection alive: they are no beginning, and no more of it. Five
    minutes, as a slow machine reads a long prompt for minutes before the first token. ``between`` is the longest silence within a
    reply that has begun: as long, since some servers send nothing while a whole tool call is written. ``total`` is what all of it
    may take: an hour, in which such a machine writes ten thousand tokens.
    """

    connect: float = 10.0
    first_byte: float = 300.0
    between: float = 300.0
    max_body: int = 64 * 1024 * 1024
    max_text: int = 4_000_000
    """Characters of text, thinking and calls together (some wires say each twice): several times of what any model writes in one
    reply. Pictures, which ``max_body`` has room for, are none.
    """
    total: float = 3600.0


def no_reply(limits: HttpLimits, server: str) -> ProviderError:
    """Return the error for a reply that did not begin in time."""
    return NoReply(
        f"{server} did not begin to answer in {limits.first_byte:g} s; it may be loading the model: try again, or raise"
        " model.first_byte_timeout"
    )


class Pace:
    """Watches one reply of ``server``, which was asked at ``asked`` by the clock ``time``.

    It is looked at when a piece has come: every one until the reply has begun, later a few times in ``first_byte`` seconds.
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
        """Return the seconds within which the next piece has to come."""
        longest = self._limits.between if self._known else self._due - self._now
        return min(longest, self._end - self._now)

    def record_piece(self, came: Callable[[], int]) -> None:
        """Note that a piece came; ``came`` counts what of the reply itself has come by now.

        Raises ProviderError kinds that are not worth another attempt: it would take as long.
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
        """Shorten what is left: the reply is whole, and only what servers add to it may follow."""
        if not self._is_ending:
            self._is_ending = True
            self._end = min(self._end, self._time() + TRAILER)
            self._look = min(self._look, self._end)

    def late(self) -> ProviderError:
        """Return the error for a piece that did not come in time."""
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
                f"{server} did not end its answer in {limits.total:g} s; ask for less, or raise model.reply_timeout"
            )
        if not self._known:
            return no_reply(limits, server)
        return EndlessReply(
            f"{server} sent nothing more of its answer in {limits.first_byte:g} s, though the connection is alive; try again, or"
            " raise model.first_byte_timeout"
        )
