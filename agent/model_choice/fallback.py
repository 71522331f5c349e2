"""A chain of models: if one is unreachable, the next continues the conversation."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from agent.providers.abilities import model_of, steer
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ConfigError, ConnectionFailed, Overloaded, ProviderError, RateLimited
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall, OnEvent, ProviderSession, ProviderTurn, StreamEvent, TokenPrices

_log = logging.getLogger(__name__)
_ANOTHER_MAY = (ConnectionFailed, Overloaded, RateLimited)


@dataclass(frozen=True, slots=True)
class Fallback:
    """A model to fall back to. ``name`` is for users; ``open`` returns its session, which knows the conversation so far.

    ``prices`` are this model's own prices; None means the first model's.
    """

    name: str
    open: Callable[[], Awaitable[ProviderSession]]
    prices: TokenPrices | None = None


class FallbackSession:
    """The first model's session, and after ``fall_back`` the next model's. A model that failed is not used again."""

    def __init__(self, first: ProviderSession, others: Sequence[Fallback]) -> None:
        self._current = first
        self._others = list(others)
        self._shown = False
        self._steered: tuple[str, Mapping[str, Any] | None] = ("auto", None)
        self.prices: TokenPrices | None = None

    @property
    def model(self) -> str:
        """The name of the current model."""
        return model_of(self._current)

    def say(self, text: str, images: Sequence[Image] = ()) -> None:
        say_to(self._current, text, images)

    def steer(self, tool_choice: str = "auto", schema: Mapping[str, Any] | None = None) -> None:
        """Steer the current session if its provider supports it; see HttpSession."""
        self._steered = (tool_choice, schema)
        steer(self._current, *self._steered)

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        self._shown = False

        def watch(event: StreamEvent) -> None:
            self._shown = True
            on_event(event)

        return await self._current.stream_turn(watch)

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        await self._current.append_tool_results(turn, executed)

    async def fall_back(self, error: ProviderError) -> str | None:
        """Continue with the next model that can be opened, and return its name; None if there is none.

        Also returns None if another model can't help, or if a part of the failed reply was shown. All messages before the reply
        must be recorded.
        """
        if not isinstance(error, _ANOTHER_MAY) or self._shown:
            return None
        while self._others:
            other = self._others.pop(0)
            try:
                following = await other.open()
            except (ProviderError, ConfigError) as fault:
                _log.warning("can't fall back to %s: %s", other.name, fault)
                continue
            failed, self._current = self._current, following
            steer(following, *self._steered)
            self.prices = other.prices
            await failed.close()
            return other.name
        return None

    async def close(self) -> None:
        await self._current.close()


def say_to(provider: ProviderSession, text: str, images: Sequence[Image] = ()) -> None:
    """Add a message, with images only if there are any: a plugin's provider may not accept them."""
    if images:
        provider.say(text, images)
    else:
        provider.say(text)
