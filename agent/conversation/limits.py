"""Limits of a run, and the errors of a run that reaches a limit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Literal, TypeAlias

from agent.config import Config
from agent.model_choice.list_prices import is_installed
from agent.model_choice.prices import Prices
from agent.model_choice.retry import RetryPolicy
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import ConfigError, ToolcribError
from toolcrib.contract.types import Json

Stopped: TypeAlias = Literal["done", "max_turns", "interrupted", "ended", "parked"]
"""Reason for a run's outcome.

In this order: the model answered; the run used its last turn; the user interrupted the run; a gate ended it; it waits for an
answer.
"""


class RunError(ToolcribError):
    """The run can't continue; the session can."""


class MaxTurnsReached(RunError):
    """The model called tools in each of its turns and gave no answer."""


class TokenCapReached(RunError):
    """The run reached its token limit."""


class CostCapReached(RunError):
    """The run reached its cost limit."""


class NoProgress(RunError):
    """The model repeats itself: the same call with the same result, or calls that can't be read."""


class AnswerUnfit(RunError):
    """The model's answer does not match the schema, even after a retry. ``text`` is its last answer."""

    def __init__(self, message: str, text: str = "") -> None:
        super().__init__(message)
        self.text = text


ERRORS: Mapping[str, type[RunError]] = {
    kind.__name__: kind for kind in (MaxTurnsReached, TokenCapReached, CostCapReached, NoProgress, AnswerUnfit)
}
"""Error types by the name in a stored run."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """Limits of a run: ``max_turns`` turns with calls; then one more turn for a final answer, or an error (000-41, 004-6).

    ``max_tokens`` is a hard cap on input and output of one run together, as the server counts them; ``max_cost`` is a cap on
    its cost by ``prices``, or by list prices without them. ``repeats`` is how often the same call may fail or return the same
    result in a row, ``repairs`` how many turns in a row may have only unreadable calls. The limits are stored with the run, so a
    restart does not reset them.
    """

    max_turns: int = 10
    on_max_turns: Literal["final_answer", "error"] = "final_answer"
    max_tokens: int | None = None
    repeats: int = 4
    repairs: int = 3
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    prices: Prices | None = None
    max_cost: float | None = None

    @classmethod
    def of(cls, config: Config, *, max_turns: int | None = None, max_tokens: int | None = None) -> RunLimits:
        """Return the configured limits; arguments take precedence.

        Raises ConfigError for a cap on cost if no prices are configured and list prices are not installed.
        """
        retry, prices = config.retry, Prices.of(config.model.prices)
        if config.run.max_cost is not None and prices is None and not is_installed():
            raise ConfigError(
                "run.max_cost needs prices: set model.prices.input and model.prices.output, or install the vendors' list prices:"
                " pip install 'toolcrib[prices]'"
            )
        return cls(
            max_turns=config.max_turns if max_turns is None else max_turns,
            on_max_turns=config.run.on_max_turns,
            max_tokens=config.run.max_tokens if max_tokens is None else max_tokens,
            retry=RetryPolicy(retry.attempts, retry.first, retry.longest, retry.patience),
            prices=prices,
            max_cost=config.run.max_cost,
        )

    def to_json(self) -> dict[str, Json]:
        """Return the limits as JSON, for a stored run."""
        return {**_flat(self), "retry": _flat(self.retry), "prices": None if self.prices is None else _flat(self.prices)}

    @classmethod
    def from_json(cls, data: Mapping[str, Json]) -> RunLimits:
        """Return the limits that ``to_json`` wrote. Raises TypeError for a field that this version does not know."""
        limits = cls(**{key: value for key, value in data.items() if key not in ("retry", "prices")})
        prices = data.get("prices")
        return replace(limits, retry=RetryPolicy(**data["retry"]), prices=None if prices is None else Prices(**prices))


def _flat(value: RunLimits | RetryPolicy | Prices) -> dict[str, Json]:
    """Return the fields without copies: each step of a run stores them, and ``asdict`` copies deeply."""
    return {one.name: getattr(value, one.name) for one in fields(value)}
