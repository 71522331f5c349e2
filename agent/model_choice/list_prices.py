"""List prices and context windows of vendors' models, from the library genai-prices (the extra ``prices``).

The library's data is used as it was installed; nothing is downloaded. A model is looked up by the address of its server: a model
of another server has no list price, even if it has the same name.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Mapping
from datetime import date
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from agent.providers.endpoint import Endpoint
from toolcrib.contract.dataclass import dataclass
from tools.dispatch.threads import in_daemon_thread

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

    from toolcrib.contract.session import TokenPrices

_log = logging.getLogger(__name__)
_UNIT = 1_000_000
_SHORT = 1_000
"""Number of tokens of a short request, which has the base price even if long requests have another."""


@dataclass(frozen=True, slots=True)
class ListPrices:
    """List prices of a ``model`` at the server ``base_url``, in US dollars: an estimate, since a vendor may bill otherwise.

    ``source`` names the library's version and the date of its newest price. ``window`` is the model's context window.
    """

    base_url: str
    model: str
    source: str
    window: int | None = None

    @property
    def input(self) -> float:
        """Price of a million tokens of input, in short requests."""
        return self.cost({"input": _SHORT}) * _UNIT / _SHORT

    @property
    def output(self) -> float:
        """Price of a million tokens of output, in short requests."""
        return self.cost({"output": _SHORT}) * _UNIT / _SHORT

    def cost(self, usage: Mapping[str, int]) -> float:
        """Return the cost of one reply now, by the vendor's prices for cached tokens and for long requests."""
        total = usage.get("input", 0)
        cached = min(usage.get("cached", 0), total)
        written = min(usage.get("cache_written", 0), total - cached)
        return float(_calculated(self.base_url, self.model, total, cached, written, usage.get("output", 0)).total_price)


def is_installed() -> bool:
    """Return whether the library is installed."""
    return find_spec("genai_prices") is not None


async def list_prices(via: Mapping[str, Any]) -> ListPrices | None:
    """Return the list prices of a session's model, or None if the library is not installed or does not have them.

    ``via`` is the session's record of its model.
    """
    base_url, model = str(via.get("base_url", "")), str(via.get("model", ""))
    if not base_url or not model or Endpoint(base_url).is_loopback or not is_installed():
        return None
    return await in_daemon_thread(_found, base_url, model)  # loading the library takes up to half a second


def estimate_source(prices: TokenPrices | None) -> str:
    """Return the source of estimated prices, "" for other prices."""
    return prices.source if isinstance(prices, ListPrices) else ""


@functools.lru_cache(maxsize=64)
def _found(base_url: str, model: str) -> ListPrices | None:
    try:
        from genai_prices import __version__

        known = _calculated(base_url, model)
    except LookupError:
        return None
    except ImportError as error:
        _log.warning("no list prices: genai-prices can't be loaded: %s", error)
        return None
    if known.model_price.input_mtok is None or known.model_price.output_mtok is None:
        return None
    return ListPrices(base_url, model, f"genai-prices {__version__}, data up to {_newest()}", known.model.context_window)


def _calculated(
    base_url: str, model: str, total: int = 0, cached: int = 0, written: int = 0, output: int = 0
) -> PriceCalculation:
    from genai_prices import Usage, calc_price

    usage = Usage(input_tokens=total, cache_read_tokens=cached, cache_write_tokens=written, output_tokens=output)
    return calc_price(usage, model, provider_api_url=base_url)


@functools.cache
def _newest() -> date:
    """Return the date of the library's newest price that applies already."""
    from genai_prices.data import providers

    lists = [model.prices for provider in providers for model in provider.models if isinstance(model.prices, list)]
    begins = [getattr(price.constraint, "start_date", date.min) for prices in lists for price in prices]
    return max(one for one in begins if one <= date.today())
