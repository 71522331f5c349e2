"""Optional abilities of a provider's session: ``toolcrib.Named``, ``Steerable``, ``Priced``, ``FallsBack``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from toolcrib.contract.errors import ProviderError
from toolcrib.contract.session import FallsBack, Named, Priced, ProviderSession, Steerable, TokenPrices


def model_of(provider: ProviderSession) -> str:
    """Return the name of the model, "" where the session does not know it."""
    return str(provider.model) if isinstance(provider, Named) else ""


def steer(provider: ProviderSession, tool_choice: str = "auto", schema: Mapping[str, Any] | None = None) -> None:
    """Steer the replies from now on; a session that can't be steered goes by what it is told."""
    if isinstance(provider, Steerable):
        provider.steer(tool_choice, schema)


def prices_of(provider: ProviderSession) -> TokenPrices | None:
    """Return the prices of the model that answers now; None where the configured ones count."""
    return provider.prices if isinstance(provider, Priced) else None


async def fall_back(provider: ProviderSession, error: ProviderError) -> str | None:
    """Continue with the next model of a chain and return its name; None where there is none, or it would not help."""
    return await provider.fall_back(error) if isinstance(provider, FallsBack) else None
