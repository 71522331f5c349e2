"""The loop: stream a turn, run its calls, give the results back, until a turn has no calls."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from agent.config import Config
from agent.events import (
    Event,
    ImageMade,
    Retrying,
    TextDelta,
    ThinkingDelta,
    ToolCallDelta,
    ToolFinished,
    ToolStarted,
    TurnFinished,
    TurnStarted,
)
from agent.prices import Prices
from agent.retry import RetryPolicy, with_retry
from toolcrib import (
    ConfigError,
    ExecutedCall,
    Image,
    ProviderError,
    ProviderSession,
    ProviderTurn,
    StreamEvent,
    ToolCall,
    ToolcribError,
)

if TYPE_CHECKING:
    from agent.session import Session

FINAL_ANSWER = "You have reached the maximum number of turns. Please provide your final answer now."
"""The specification's words (000-41)."""

Stopped: TypeAlias = Literal["done", "max_turns", "interrupted", "ended", "pending"]


class LoopError(ToolcribError):
    """The run can't go on; the session can."""


class MaxTurnsReached(LoopError):
    """The model went on calling tools for as many turns as it had."""


class TokenCapReached(LoopError):
    """The run used as many tokens as it may."""


class CostCapReached(LoopError):
    """The run cost as much as it may."""


class NoProgress(LoopError):
    """The model repeats itself: the same failing call, or calls that can't be read."""


@dataclass(frozen=True, slots=True)
class LoopLimits:
    """``max_turns`` turns with calls; then one more for a final answer, or an error (000-41, 004-6).

    ``max_tokens`` is a hard cap on input and output of one run together, as the server counts them; ``max_cost`` one on what
    they cost by ``prices``. ``repeats`` is how often the same call may fail in a row, ``repairs`` how many turns in a row may
    have unreadable calls only.
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
    def of(cls, config: Config, *, max_turns: int | None = None, max_tokens: int | None = None) -> LoopLimits:
        """Those of the configuration; what is given stands before it. Raises ConfigError for a cap on cost without prices."""
        retry, prices = config.retry, Prices.of(config.model.prices)
        if config.run.max_cost is not None and prices is None:
            raise ConfigError("run.max_cost can't be kept without model.prices: set model.prices.input and model.prices.output")
        return cls(
            max_turns=config.max_turns if max_turns is None else max_turns,
            on_max_turns=config.run.on_max_turns,
            max_tokens=config.run.max_tokens if max_tokens is None else max_tokens,
            retry=RetryPolicy(retry.attempts, retry.first, retry.longest, retry.patience),
            prices=prices,
            max_cost=config.run.max_cost,
        )


@dataclass(frozen=True, slots=True)
class LoopResult:
    """How a run came out. ``usage`` sums the server's counts over its turns; ``cost`` is by the prices, None without."""

    text: str
    stopped: Stopped
    turns: int
    usage: Mapping[str, int] = field(default_factory=dict)
    cost: float | None = None
    data: Any = None
    """The answer as JSON, where a schema was asked for."""
    images: Sequence[Image] = ()
    """All that the model drew in the run, in order."""


class Loop:
    """One run: from what the person said to the model's answer. ``emit`` is told of everything, and must not raise."""

    def __init__(
        self,
        provider: ProviderSession,
        session: Session,
        emit: Callable[[Event], None],
        limits: LoopLimits | None = None,
        *,
        schema: Mapping[str, Any] | None = None,
    ) -> None:
        """``schema`` is what a last answer, after all turns, is held to where the model's wire can."""
        self._schema = schema
        self._provider = provider
        self._session = session
        self._emit = emit
        self._limits = limits or LoopLimits()
        self._usage: Counter[str] = Counter()
        self._cost = 0.0
        self._failed: tuple[str, int] = ("", 0)
        self._unreadable = 0
        self._turns = 0
        self._images: list[Image] = []

    async def run(self) -> LoopResult:
        """Until a turn has no calls, an interrupt, a call that ended the run or waits for an answer, or a limit.

        Raises MaxTurnsReached, TokenCapReached, CostCapReached, NoProgress, and the ProviderError that retrying could not help.
        """
        self._session.scope.clear_interrupt()
        self._session.watch = self._emit
        await self._session.start()
        for _ in range(self._limits.max_turns):
            turn = await self._turn()
            if turn is None:
                return self._result("", "interrupted")
            if not turn.tool_calls:
                return self._result(turn.assistant_text, "done")
            executed = await self._session.turn(turn.tool_calls, on_start=self._started, on_done=self._finished)
            await self._provider.append_tool_results(turn, executed)
            self._session.record_results(executed)
            if (stopped := self._stops(executed)) is not None:
                return self._result(turn.assistant_text, stopped)
            self._check_progress(turn.tool_calls, executed)
            self._check_tokens()
            self._check_cost()
        return await self._last_answer()

    async def _turn(self, *, last: bool = False) -> ProviderTurn | None:
        """One reply, on record before anything of it runs. None where it was interrupted."""
        self._turns += 1
        self._emit(TurnStarted(self._turns))
        forward = _forwarder(self._emit, f"turn-{self._turns}")
        task = asyncio.ensure_future(self._told(forward))
        self._session.scope.running.add(task)
        try:
            if self._session.scope.cancelled:
                task.cancel()
            turn = await task
        except asyncio.CancelledError:
            if not self._session.scope.cancelled or not task.cancelled():
                task.cancel()
                raise
            return None
        finally:
            self._session.scope.running.discard(task)
        self._usage.update(turn.usage)
        self._session.record_turn(turn, without_calls=last)
        self._images += turn.images
        for image in turn.images:
            self._emit(ImageMade(image, f"turn-{self._turns}-assistant"))
        self._emit(TurnFinished(self._turns, turn.assistant_text, len(turn.tool_calls), turn.usage))
        self._count_cost(turn.usage)
        return turn

    async def _told(self, forward: Callable[[StreamEvent], None]) -> ProviderTurn:
        """One reply, with the plugins told before and after; asking again after a fault is part of it."""
        await self._session.tell("pre_llm_call")
        turn = await self._ask(forward)
        await self._session.tell("post_llm_call", text=turn.assistant_text, calls=len(turn.tool_calls))
        return turn

    async def _ask(self, forward: Callable[[StreamEvent], None]) -> ProviderTurn:
        """One reply; of the next model, where the provider is a chain of them and this one could not be had."""
        while True:
            try:
                return await with_retry(lambda: self._provider.stream_turn(forward), self._limits.retry, self._waits)
            except ProviderError as error:
                fall_back = getattr(self._provider, "fall_back", None)
                following = None if fall_back is None else await fall_back(error)
                if following is None:
                    raise
                self._emit(Retrying(1, 0.0, f"{error}; {following} goes on"))

    async def _last_answer(self) -> LoopResult:
        if self._limits.on_max_turns == "error":
            raise MaxTurnsReached(
                f"no answer after {self._limits.max_turns} turns; raise max_turns if the task needs more, or ask for less"
            )
        self._session.say(FINAL_ANSWER)
        self._provider.say(FINAL_ANSWER)
        steer = getattr(self._provider, "steer", None)  # a plugin's provider, or a person, may have none
        if steer is not None:
            steer("none", self._schema)
        try:
            turn = await self._turn(last=True)
        finally:
            if steer is not None:
                steer()
        return self._result("", "interrupted") if turn is None else self._result(turn.assistant_text, "max_turns")

    def _stops(self, executed: Sequence[ExecutedCall]) -> Stopped | None:
        if self._session.scope.cancelled:
            return "interrupted"
        if any(one.end_run for one in executed):
            return "ended"
        return "pending" if any(one.result.is_pending for one in executed) else None

    # -- limits --------------------------------------------------------------------------------------------------

    def _check_progress(self, calls: Sequence[ToolCall], executed: Sequence[ExecutedCall]) -> None:
        self._unreadable = self._unreadable + 1 if all(call.fault is not None for call in calls) else 0
        if self._unreadable > self._limits.repairs:
            raise NoProgress(f"the model's calls could not be read {self._unreadable} turns in a row: {calls[-1].fault}")
        counted = ""
        for one in executed:
            key = f"{one.call.name} {json.dumps(one.call.args, sort_keys=True, default=str)}" if one.result.is_error else ""
            if key and key == counted:  # the same call several times in one turn is one try
                continue
            counted = key
            self._failed = (key, self._failed[1] + 1 if key and key == self._failed[0] else 1)
            if key and self._failed[1] >= self._limits.repeats:
                raise NoProgress(f"the same call failed {self._failed[1]} times in a row: {key[:200]}: {one.result.message}")

    def _check_tokens(self) -> None:
        used = self._usage["input"] + self._usage["output"]
        if self._limits.max_tokens is not None and used >= self._limits.max_tokens:
            raise TokenCapReached(f"{used:,} tokens used of {self._limits.max_tokens:,}; raise max_tokens, or go on in a new run")

    def _count_cost(self, usage: Mapping[str, int]) -> None:
        prices = self._prices
        if prices is None:
            return
        if self._limits.max_cost is not None and not usage and (prices.input or prices.output):
            raise CostCapReached(
                "the server does not count its tokens, so max_cost can't be kept; set it to null, or use another"
            )
        self._cost += prices.cost(usage)

    @property
    def _prices(self) -> Prices | None:
        """Those of the model that a chain has come to, else the configured ones."""
        return getattr(self._provider, "prices", None) or self._limits.prices

    def _check_cost(self) -> None:
        if self._limits.max_cost is not None and self._cost >= self._limits.max_cost:
            raise CostCapReached(f"{self._cost:.4f} spent of {self._limits.max_cost:.4f}; raise max_cost, or go on in a new run")

    # -- events --------------------------------------------------------------------------------------------------

    def _started(self, call: ToolCall) -> None:
        self._emit(ToolStarted(call, self._session.emoji(call.name)))

    def _finished(self, executed: ExecutedCall) -> None:
        self._emit(ToolFinished(executed, self._session.emoji(executed.call.name)))

    def _waits(self, attempt: int, seconds: float, error: ProviderError) -> None:
        self._emit(Retrying(attempt, seconds, str(error)))

    def _result(self, text: str, stopped: Stopped) -> LoopResult:
        cost = None if self._prices is None else self._cost
        return LoopResult(text, stopped, self._turns, dict(self._usage), cost, images=tuple(self._images))


def _forwarder(emit: Callable[[Event], None], turn_id: str) -> Callable[[StreamEvent], None]:
    text_id, thinking_id = f"{turn_id}-assistant", f"{turn_id}-thinking"

    def forward(event: StreamEvent) -> None:
        if event.kind == "assistant_delta":
            emit(TextDelta(event.text, text_id))
        elif event.kind == "thinking_delta":
            emit(ThinkingDelta(event.text, thinking_id))
        else:
            emit(ToolCallDelta(event.call_id, event.name, event.text))

    return forward


async def run_loop(provider: ProviderSession, session: Session, emit: Callable[[Event], None], *, max_turns: int = 10) -> str:
    """The loop with its usual limits, for what its text: see Loop."""
    return (await Loop(provider, session, emit, LoopLimits(max_turns=max_turns, on_max_turns="error")).run()).text
