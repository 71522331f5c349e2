"""Optional abilities of a provider's session, found by protocol and not by name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from agent.model_choice.fallback import Fallback, FallbackSession
from agent.model_choice.prices import Prices
from agent.providers.abilities import fall_back, model_of, prices_of, steer
from agent.providers.endpoint import Endpoint
from agent.providers.factory import ModelTarget, ProviderOpening, open_session
from toolcrib import (
    ConnectionFailed,
    FallsBack,
    Named,
    Priced,
    ProviderError,
    ProviderSession,
    Steerable,
)
from toolcrib.testing import ScriptedSession


class Able(ScriptedSession):
    """A session with every ability."""

    model = "able-1"
    prices = Prices(1.0, 2.0)

    def __init__(self) -> None:
        super().__init__()
        self.steered: list[tuple[str, Mapping[str, Any] | None]] = []

    def steer(self, tool_choice: str = "auto", schema: Mapping[str, Any] | None = None) -> None:
        self.steered.append((tool_choice, schema))

    async def fall_back(self, error: ProviderError) -> str | None:
        return f"the other, after: {error}"


def through_plugin(session: ProviderSession) -> ProviderSession:
    return open_session(
        ModelTarget("mine", Endpoint("", "m", None)), ProviderOpening(), {}, plugins={"mine": lambda **fields: session}
    )


def test_a_session_with_every_ability_is_known_by_protocol() -> None:
    able: ProviderSession = Able()
    assert all(isinstance(able, ability) for ability in (Named, Steerable, Priced, FallsBack))


@pytest.mark.parametrize("wrap", [lambda session: session, through_plugin], ids=["ours", "a plugin's"])
def test_every_ability_is_used(wrap: Any) -> None:
    able = Able()
    provider: ProviderSession = wrap(able)
    steer(provider, "none", {"type": "object"})
    assert able.steered == [("none", {"type": "object"})]
    assert model_of(provider) == "able-1"
    assert prices_of(provider) == Prices(1.0, 2.0)
    assert asyncio.run(fall_back(provider, ConnectionFailed("gone"))) == "the other, after: gone"


@pytest.mark.parametrize("wrap", [lambda session: session, through_plugin], ids=["ours", "a plugin's"])
def test_a_session_without_any_ability_goes_by_what_it_is_told(wrap: Any) -> None:
    provider: ProviderSession = wrap(ScriptedSession())
    steer(provider, "none")
    assert model_of(provider) == ""
    assert prices_of(provider) is None
    assert asyncio.run(fall_back(provider, ConnectionFailed("gone"))) is None


def test_a_chain_of_models_has_every_ability_and_passes_steering_on() -> None:
    second = Able()

    async def open_second() -> ProviderSession:
        return second

    chain = FallbackSession(ScriptedSession(), [Fallback("second", open_second, Prices(3.0, 4.0))])
    provider: ProviderSession = chain
    steer(provider, "required")
    assert (model_of(provider), prices_of(provider)) == ("", None)
    assert asyncio.run(fall_back(provider, ConnectionFailed("gone"))) == "second"
    assert second.steered == [("required", None)]
    assert (model_of(provider), prices_of(provider)) == ("able-1", Prices(3.0, 4.0))


def test_what_a_plugin_raises_as_it_is_steered_names_the_plugin() -> None:
    class Faulty(Able):
        def steer(self, tool_choice: str = "auto", schema: Mapping[str, Any] | None = None) -> None:
            raise KeyError("no such field")

    with pytest.raises(ProviderError, match="the plugin's provider 'mine' failed: KeyError: 'no such field'"):
        steer(through_plugin(Faulty()), "none")
