"""Optional abilities of a provider's session: ``toolcrib.Named``, ``Steerable``, ``Priced``, ``FallsBack``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.contract.errors import ProviderError
from toolcrib.contract.session import FallsBack, Named, Priced, ProviderSession, Steerable, TokenPrices


def model_of(provider: ProviderSession) -> str:
    """Return the name of the model, "" if the session does not know it."""
    return str(provider.model) if isinstance(provider, Named) else ""


def steer(provider: ProviderSession, tool_choice: str = "auto", schema: Mapping[str, Any] | None = None) -> None:
    """Steer the replies from now on; a session without this ability relies on the prompt."""
    if isinstance(provider, Steerable):
        provider.steer(tool_choice, schema)


def prices_of(provider: ProviderSession) -> TokenPrices | None:
    """Return the prices of the current model; None if the configured ones apply."""
    return provider.prices if isinstance(provider, Priced) else None


async def fall_back(provider: ProviderSession, error: ProviderError) -> str | None:
    """Switch to the next model of a chain and return its name; None if there is none, or it would not help."""
    return await provider.fall_back(error) if isinstance(provider, FallsBack) else None
