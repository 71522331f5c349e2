"""Usage by session, day, model or tool: the store's sums, put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolcrib._dataclass import dataclass
from toolcrib._usage import UsageSum

if TYPE_CHECKING:
    from toolcrib._store import Store

By: TypeAlias = Literal["day", "session", "model", "tool"]
BY: Sequence[By] = ("day", "session", "model", "tool")


@dataclass(slots=True)
class UsageTotal:
    """Total of a day, session, model or tool, whose ``name`` it has.

    ``turns`` counts replies of models, ``calls`` those of tools, ``failed`` calls that ended with an error, ``seconds`` how long
    calls took. Tokens are as servers counted them: ``cached`` are a part of ``input``, ``reasoning`` of ``output``. ``cost`` is
    None where nothing had a price; ``unpriced`` counts the turns that had none.
    """

    name: str
    turns: int = 0
    calls: int = 0
    failed: int = 0
    seconds: float = 0.0
    input: int = 0
    output: int = 0
    cached: int = 0
    reasoning: int = 0
    cost: float | None = None
    unpriced: int = 0

    @property
    def tokens(self) -> int:
        """Tokens in and out."""
        return self.input + self.output

    def add(self, one: UsageSum) -> None:
        """Add one of the store's sums."""
        if one.tool:
            self.calls += one.count
            self.failed += one.failed
            self.seconds += one.seconds
            return
        self.turns += one.count
        self.input += one.input
        self.output += one.output
        self.cached += one.cached
        self.reasoning += one.reasoning
        if one.cost is None:
            self.unpriced += one.count
        else:
            self.cost = (self.cost or 0.0) + one.cost

    def to_json(self) -> dict[str, Any]:
        """Return the total as JSON."""
        return asdict(self)


def totals(sums: Sequence[UsageSum], by: By) -> list[UsageTotal]:
    """Return a total for each day or session (the oldest first), model (the most tokens first) or tool (the most calls first)."""
    found: dict[str, UsageTotal] = {}
    for one in sums:
        name = {"day": one.day, "session": one.session_id, "model": _model(one), "tool": one.tool}[by]
        if name:
            found.setdefault(name, UsageTotal(name)).add(one)
    made = list(found.values())
    if by == "model":
        made.sort(key=lambda total: -total.tokens)
    elif by == "tool":
        made.sort(key=lambda total: -total.calls)
    return made


def total(sums: Sequence[UsageSum]) -> UsageTotal:
    """Return the total of all of them."""
    made = UsageTotal("total")
    for one in sums:
        made.add(one)
    return made


async def delegates_of(store: Store, session_id: str) -> list[str]:
    """Return the ids of the sessions of a session's delegates, and of theirs, as far as they are stored. Raises StoreFailed."""
    from agent.delegates.of_session import TOOL
    from agent.delegates.orders import delegate_id

    found: list[str] = []
    for record in await store.sessions.messages(session_id):
        for call in record.get("calls") or ():
            below = delegate_id(session_id, str(record.get("turn", "")), call["id"]) if call["name"] == TOOL else ""
            if below and await store.sessions.get(below) is not None:
                found += [below, *await delegates_of(store, below)]
    return found


async def with_delegates(store: Store, session_id: str, since: float = 0.0) -> tuple[int, UsageTotal]:
    """Return how many delegates a session had, and the total of it with them. Raises StoreFailed."""
    ids = await delegates_of(store, session_id)
    sums = [one for name in (session_id, *ids) for one in await store.usage.sums(since=since, session_id=name)]
    return len(ids), total(sums)


def _model(one: UsageSum) -> str:
    if one.tool:
        return ""
    return f"{one.model or 'unknown'} ({one.provider})" if one.provider else one.model or "unknown"
