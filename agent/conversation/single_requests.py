"""Single requests to a session's model, beside its conversation: an MCP server that a call reaches may ask for one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from toolcrib.contract.errors import Denied
from toolcrib.contract.image import Image
from toolcrib.contract.namedtuple import NamedTuple

if TYPE_CHECKING:
    from agent.conversation.core import SessionCore
    from agent.conversation.limits import RunLimits
    from agent.conversation.state import RunState
    from toolcrib.contract.session import ProviderTurn, TokenPrices


class ModelMessage(NamedTuple):
    """A message of the conversation that the model answers. ``role`` is user or assistant."""

    role: str
    text: str
    images: Sequence[Image] = ()


class SingleRequests:
    """Requests to a session's model without tools. They count against the limits of its run. Callable from any thread."""

    def __init__(self, session: SessionCore) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._turn = ""
        self._usage: Counter[str] = Counter()
        self._cost = 0.0
        self._reserved = 0

    async def ask(self, system: str, messages: Sequence[ModelMessage], most: int) -> ProviderTurn:
        """Return the model's reply of at most ``most`` tokens to the messages; the last one is the user's.

        Raises Denied if no model is connected, or if the run has reached a limit; ConfigError and ProviderError.
        """
        from agent.model_choice.models import environment
        from agent.model_choice.retry import with_retry
        from agent.providers.endpoint import Endpoint
        from agent.providers.factory import ModelTarget, ProviderOpening, open_session

        session, via = self._session, self._session.via
        if session.link.is_given or not via:
            raise Denied("no model is connected")
        run = session.run if session.turnstile.is_taken else None
        limits = session.limits if run is None else run.limits
        prices = await self._prices(limits, via)
        endpoint = Endpoint(str(via.get("base_url", "")), str(via.get("model", "")), via.get("key_env") or None)
        with self._reserve(run, limits, most) as allowed:
            before = [{**one._asdict(), "images": [image.to_json() for image in one.images]} for one in messages[:-1]]
            opening = ProviderOpening(system, records=before, stream=session.config.model.stream, max_tokens=allowed)
            target = ModelTarget(str(via["provider"]), endpoint)
            provider = open_session(target, opening, environment(session.config), plugins=session.providers)
            try:
                provider.say(messages[-1].text, messages[-1].images)
                turn = await with_retry(lambda: provider.stream_turn(lambda event: None), limits.retry, lambda *about: None)
            finally:
                await provider.close()
            if run is not None:
                self._spent(run.turn_id, turn.usage, prices.cost(turn.usage) if prices is not None and turn.usage else 0.0)
        return turn

    def charged(self, state: RunState) -> RunState:
        """Return the run with the usage of the requests in its current turn, which is counted once."""
        if not self._turn:
            return state
        from agent.delegates.budget import charge

        with self._lock:
            if self._turn != state.turn_id:
                return state
            usage, cost = dict(self._usage), self._cost
            self._turn, self._usage, self._cost = "", Counter(), 0.0
        return charge(state, {"usage": usage, "cost": cost})

    async def _prices(self, limits: RunLimits, via: Mapping[str, object]) -> TokenPrices | None:
        from agent.model_choice.list_prices import list_prices
        from agent.providers.abilities import prices_of

        provider = self._session.link.provider
        known = (None if provider is None else prices_of(provider)) or limits.prices or await list_prices(via)
        if known is None and limits.max_cost is not None:
            raise Denied("no price of the model is known, so run.max_cost can't be enforced")
        return known

    @contextmanager
    def _reserve(self, run: RunState | None, limits: RunLimits, most: int) -> Iterator[int]:
        """Set tokens of a reply aside, and yield their number. Raises Denied if the run has nothing left."""
        from agent.delegates.budget import tokens_in

        with self._lock:
            is_same = run is not None and run.turn_id == self._turn
            if limits.max_tokens is not None:
                used = self._reserved + (tokens_in(self._usage) if is_same else 0) + (tokens_in(run.usage) if run else 0)
                most = min(most, limits.max_tokens - used)
                if most <= 0:
                    raise Denied("the run has reached run.max_tokens")
            cost = (self._cost if is_same else 0.0) + (run.cost if run else 0.0)
            if limits.max_cost is not None and cost >= limits.max_cost:
                raise Denied("the run has reached run.max_cost")
            self._reserved += most
        try:
            yield most
        finally:
            with self._lock:
                self._reserved -= most

    def _spent(self, turn: str, usage: Mapping[str, int], cost: float) -> None:
        with self._lock:
            if turn != self._turn:
                self._turn, self._usage, self._cost = turn, Counter(), 0.0
            self._usage.update(usage)
            self._cost += cost
