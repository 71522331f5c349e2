"""Usage by session, day, model or tool, from the store's sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.usage import UsageSum

if TYPE_CHECKING:
    from toolcrib.contract.store import Store

By: TypeAlias = Literal["day", "session", "model", "tool"]
BY: Sequence[By] = ("day", "session", "model", "tool")


@dataclass(slots=True)
class UsageTotal:
    """Total of a day, session, model or tool with this ``name``.

    ``turns`` counts replies of models, ``calls`` calls of tools, ``failed`` calls that ended with an error, ``seconds`` the
    time of calls. Tokens are the servers' counts: ``cached`` is a part of ``input``, ``reasoning`` of ``output``. ``cost`` is
    None if no turn had a price; ``unpriced`` counts the turns without one. ``estimated`` is the source of the list prices if a
    part of ``cost`` is based on them, else "".
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
    estimated: str = ""

    @property
    def tokens(self) -> int:
        """The sum of input and output tokens."""
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
            self.estimated = max(self.estimated, one.estimated)

    def to_json(self) -> dict[str, Any]:
        """Return the total as JSON."""
        return asdict(self)


def totals(sums: Sequence[UsageSum], by: By) -> list[UsageTotal]:
    """Return a total for each day or session (oldest first), model (most tokens first) or tool (most calls first)."""
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
    """Return the total of all sums."""
    made = UsageTotal("total")
    for one in sums:
        made.add(one)
    return made


@dataclass(slots=True)
class SessionUsage:
    """Total of a user's session with its delegates at all levels: ``below`` is the delegates' share."""

    whole: UsageTotal
    below: UsageTotal
    delegates: set[str] = field(default_factory=set)
    """Ids of the delegates' sessions."""

    def to_json(self) -> dict[str, Any]:
        """Return the usage as JSON: the total and, with delegates, their number and their share."""
        below = {key: value for key, value in self.below.to_json().items() if key != "name"}
        return self.whole.to_json() | ({"delegates": {"sessions": len(self.delegates), **below}} if self.delegates else {})


async def by_session(store: Store, sums: Sequence[UsageSum]) -> list[SessionUsage]:
    """Return the usage of sessions, oldest first. A delegate's usage counts for the user's session above it, as long as
    that session is stored.

    Raises StoreFailed.
    """
    from agent.conversation.answers import persons_session

    above = {name: await persons_session(store, name) for name in dict.fromkeys(one.session_id for one in sums)}
    found: dict[str, SessionUsage] = {}
    for one in sums:
        name = above[one.session_id]
        usage = found.setdefault(name, SessionUsage(UsageTotal(name), UsageTotal(name)))
        usage.whole.add(one)
        if one.session_id != name:
            usage.below.add(one)
            usage.delegates.add(one.session_id)
    return list(found.values())


async def sums_of(store: Store, session_id: str, since: float = 0.0) -> list[UsageSum]:
    """Return the store's sums of a session and of its delegates at all levels. Raises StoreFailed."""
    from agent.conversation.lineage import is_delegate

    names = [session_id]
    for name in names:
        names += [info.id for info in await store.sessions.children(name) if is_delegate(info) and info.id not in names]
    return [one for name in names for one in await store.usage.sums(since=since, session_id=name)]


def of_session(session_id: str, sums: Sequence[UsageSum]) -> SessionUsage:
    """Return the usage of a session from ``sums_of``."""
    below = [one for one in sums if one.session_id != session_id]
    return SessionUsage(replace(total(sums), name=session_id), total(below), {one.session_id for one in below})


def _model(one: UsageSum) -> str:
    if one.tool:
        return ""
    return f"{one.model or 'unknown'} ({one.provider})" if one.provider else one.model or "unknown"
