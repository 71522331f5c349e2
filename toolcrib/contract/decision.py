"""Decisions of a gate: ``SetResult < Suspend < Block``. They are ranked values, not flags (002-21, 002-22)."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import ClassVar, TypeAlias

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.types import SuspendTicket, ToolResult

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SetResult:
    """Do not run the call; use this result."""

    result: ToolResult
    rank: ClassVar[int] = 1


@dataclass(frozen=True, slots=True)
class Suspend:
    """Do not run the call yet; a user must answer the ticket."""

    ticket: SuspendTicket
    rank: ClassVar[int] = 2


@dataclass(frozen=True, slots=True)
class Block:
    """Do not run the call. The reason becomes the call's result; ``end_run`` also ends the whole run."""

    reason: str
    end_run: bool = False
    rank: ClassVar[int] = 3


Decision: TypeAlias = SetResult | Suspend | Block


def strongest(decisions: Iterable[tuple[str, Decision]]) -> Decision | None:
    """Return the decision with the highest rank, or None if there is no decision. ``decisions`` are pairs of a gate's name and
    its decision.

    Order matters only at the same rank: the first decision wins and the conflict is logged.
    """
    winner: Decision | None = None
    said_by = ""
    for name, decision in decisions:
        if winner is None or decision.rank > winner.rank:
            winner, said_by = decision, name
        elif decision.rank == winner.rank:
            _log.error("gates %r and %r both decided %s; the first is used", said_by, name, type(winner).__name__)
    return winner
