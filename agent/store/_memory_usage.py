"""Usage of sessions for one process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from agent.store._memory_room import MemoryMember, Room
from agent.store._usage import Used, used
from toolcrib.contract.dataclass import replace
from toolcrib.contract.types import Json
from toolcrib.contract.usage import UsageSum


class MemoryUsage(MemoryMember):
    def __init__(self, room: Room | None = None) -> None:
        super().__init__(room)
        self._rows: list[tuple[str, float, Used]] = []

    def add(self, session_id: str, messages: Sequence[Mapping[str, Json]], at: float | None = None) -> None:
        """Note the usage of messages, of now without ``at``. For who holds the lock."""
        now = self._room.clock() if at is None else at
        self._rows += [(session_id, now, row) for message in messages for row in used(message)]

    def forget_sessions(self, session_ids: Collection[str]) -> None:
        """Forget the usage of these sessions. For who holds the lock."""
        self._rows[:] = [row for row in self._rows if row[0] not in session_ids]

    async def sums(self, *, since: float = 0.0, session_id: str | None = None) -> Sequence[UsageSum]:
        with self._reading:
            rows = [(name, row) for name, at, row in self._rows if at >= since and session_id in (None, name)]
        sums: dict[tuple[str, ...], UsageSum] = {}
        for name, row in rows:
            key, one = (row[0], name, *row[1:4]), _sum(name, row)
            sums[key] = _joined(sums[key], one) if key in sums else one
        return sorted(sums.values(), key=lambda one: one.day)


def _sum(session_id: str, row: Used) -> UsageSum:
    day, model, provider, tool, read, written, cached, reasoning, cost, seconds, failed = row
    return UsageSum(session_id, day, model, provider, tool, 1, int(failed), read, written, cached, reasoning, cost, seconds)


def _joined(one: UsageSum, other: UsageSum) -> UsageSum:
    costs = [cost for cost in (one.cost, other.cost) if cost is not None]
    return replace(
        one,
        count=one.count + other.count,
        failed=one.failed + other.failed,
        input=one.input + other.input,
        output=one.output + other.output,
        cached=one.cached + other.cached,
        reasoning=one.reasoning + other.reasoning,
        cost=sum(costs) if costs else None,
        seconds=one.seconds + other.seconds,
    )
