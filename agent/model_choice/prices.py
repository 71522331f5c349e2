"""Prices of a model's tokens."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ConfigError

if TYPE_CHECKING:
    from agent.config._model import PricesConfig

_UNIT = 1_000_000


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices of a million input and output tokens, in any currency."""

    input: float
    output: float

    @classmethod
    def of(cls, configured: PricesConfig) -> Prices | None:
        """Return the configured prices, or None. Raises ConfigError if one of the two is missing."""
        if configured.input is None and configured.output is None:
            return None
        if configured.input is None or configured.output is None:
            raise ConfigError("prices need both input and output; set 0 if one of them is free")
        return cls(configured.input, configured.output)

    def cost(self, usage: Mapping[str, int]) -> float:
        """Return the cost of one reply. Tokens that the server read from its cache cost the full price."""
        return (self.input * usage.get("input", 0) + self.output * usage.get("output", 0)) / _UNIT
