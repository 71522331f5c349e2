"""Budget of a delegate: its own turns and seconds, and a share of the tokens and money that its parent's run has left."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agent.conversation.limits import RunLimits
from agent.delegates import CHARGED, SEARCH
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import Denied
from toolcrib.contract.namedtuple import NamedTuple

if TYPE_CHECKING:
    from agent.config._model import DelegatesConfig
    from agent.conversation.state import RunState
    from agent.delegates.task import Order
    from toolcrib.contract.session import ExecutedCall


class Share(NamedTuple):
    """Tokens and money set aside for one delegate, None for no limit."""

    tokens: int | None = None
    cost: float | None = None


def share_of(run: RunState | None, limits: RunLimits, taken: Sequence[Share], slots: int, used_up: Sequence[Share] = ()) -> Share:
    """Return the share of a delegate that begins now. Raises Denied if nothing is left.

    ``taken`` are the shares of the running delegates, at most ``slots``. All shares together never exceed what the run has left.
    ``limits`` apply if no run is in progress. ``used_up``: usage of delegates that the run does not count yet.
    """
    limits = limits if run is None else run.limits
    free = max(slots - len(taken), 1)
    tokens, cost = limits.max_tokens, limits.max_cost
    if tokens is not None:
        used = (0 if run is None else tokens_in(run.usage)) + sum(one.tokens or 0 for one in used_up)
        _check(tokens - used, "run.max_tokens")
        tokens = max((tokens - used - sum(one.tokens or 0 for one in taken)) // free, 1)
    if cost is not None:
        spent = (0.0 if run is None else run.cost) + sum(one.cost or 0.0 for one in used_up)
        _check(cost - spent, "run.max_cost")
        cost = max((cost - spent - sum(one.cost or 0.0 for one in taken)) / free, 1e-9)
    return Share(tokens, cost)


class RunBudget:
    """Shares of one session's delegates, and the usage of delegates that ended in the current turn of its run."""

    def __init__(self) -> None:
        self._taken: list[Share] = []
        self._used: dict[str, tuple[str, Share]] = {}

    @contextmanager
    def share(self, run: RunState | None, limits: RunLimits, slots: int) -> Iterator[Share]:
        """Set a delegate's share aside, see ``share_of``. Raises Denied."""
        used_up = [used for turn, used in self._used.values() if run is not None and turn == run.turn_id]
        share = share_of(run, limits, self._taken, slots, used_up)
        self._taken.append(share)
        try:
            yield share
        finally:
            self._taken.remove(share)

    def used(self, delegate: str, turn: str, usage: Mapping[str, Any], cost: float | None) -> None:
        """Record a delegate's total usage: the run counts it only when this turn has ended."""
        self._used[delegate] = turn, Share(tokens_in(usage), cost)


def tokens_in(usage: Mapping[str, Any]) -> int:
    """Return how many tokens count against ``max_tokens``."""
    return int(usage.get("input", 0)) + int(usage.get("output", 0))


def _check(left: float, limit: str) -> None:
    if left <= 0:
        raise Denied(f"the run has reached {limit}; answer with the results so far, without a delegate")


def limits_of(order: Order, settings: DelegatesConfig, parent: RunLimits, share: Share) -> RunLimits:
    """Return the limits of the delegate's run. After its last turn, a delegate is always asked for a final answer."""
    turns = settings.max_turns if order.turns is None else min(order.turns, settings.max_turns)
    return replace(parent, max_turns=turns, on_max_turns="final_answer", max_tokens=share.tokens, max_cost=share.cost)


class Allowance:
    """Seconds that a delegate has, not counting the time that a user takes to answer. ``clock`` counts seconds."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._left = seconds
        self._clock = clock
        self._since = clock()
        self._asking = 0

    @property
    def left(self) -> float:
        """Seconds that are left now."""
        return self._left if self._asking else self._left - (self._clock() - self._since)

    def stop(self) -> None:
        """Stop the clock while a user is asked; several questions may be open at once."""
        self._left, self._asking = self.left, self._asking + 1

    def go_on(self) -> None:
        """Restart the clock once the last question is answered."""
        self._asking -= 1
        self._since = self._clock()


def charged(state: RunState, executed: Sequence[ExecutedCall]) -> RunState:
    """Return the run plus the usage of these calls: that of delegates, and of models that summarised search results."""
    for one in executed:
        data = one.result.data
        used = data.get("summary") if one.call.name == SEARCH and isinstance(data, Mapping) else data
        if one.call.name in CHARGED and isinstance(used, Mapping):
            state = charge(state, used)
    return state


def charge(state: RunState, spent: Mapping[str, Any]) -> RunState:
    """Return the run with ``usage`` and ``cost`` of a delegate or a summarising model added to its own."""
    used, cost = spent.get("usage"), spent.get("cost")
    if isinstance(used, Mapping):
        total = Counter(state.usage)
        total.update({name: count for name, count in used.items() if isinstance(count, int)})
        state = replace(state, usage=dict(total))
    return replace(state, cost=state.cost + cost) if isinstance(cost, int | float) else state
