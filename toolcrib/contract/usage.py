"""Usage: tokens, costs and times of model replies and tool calls, summed. ``agent/store`` implements the protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from toolcrib.contract.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class UsageSum:
    """Sum over the replies of one model, or the calls of one tool, in one session on one day.

    ``tool`` is "" for replies. ``day`` is a date such as ``2026-11-23``, in the time zone of the process. Tokens are the server's
    counts; ``cached`` are a part of ``input``, ``reasoning`` of ``output``. ``cost`` uses the prices at that time, None if none
    were known. ``seconds`` is the total duration of the calls, ``failed`` the number of calls that ended with an error.
    ``estimated`` is the source of the list prices if they were used for a part of ``cost``, else "".
    """

    session_id: str
    day: str
    model: str
    provider: str
    tool: str
    count: int
    failed: int
    input: int
    output: int
    cached: int
    reasoning: int
    cost: float | None
    seconds: float
    estimated: str = ""


class UsageLog(Protocol):
    """Usage of sessions. It is stored with the messages that it belongs to, and deleted with their session."""

    async def sums(self, *, since: float = 0.0, session_id: str | None = None) -> Sequence[UsageSum]:
        """Return the sums from ``since`` (Unix seconds) on, of one session or of all, by day."""
        ...
