"""Answers as data: the model is told the schema, its wire holds it to it where it can, and what comes is checked."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import jsonschema_rs

from agent.events import Event
from agent.fallback import say_to
from agent.loop import Loop, LoopError, LoopLimits, LoopResult
from agent.providers.abilities import steer
from toolcrib import ConfigError, Image, ProviderSession
from tools.arguments import check_schema

if TYPE_CHECKING:
    from agent.session import Session

_ASK = "\n\nYour final answer is one JSON value, without any words around it, that fits this JSON Schema:\n"
_AGAIN = "That answer does not fit: {why}. Give the whole answer again, as one JSON value that fits the schema and nothing else."
_FENCED = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?```", re.DOTALL)
_SHOWN = 3


class AnswerUnfit(LoopError):
    """The model's answer is not what the schema asks for, the second one neither. ``text`` is what it said last."""

    def __init__(self, message: str, text: str) -> None:
        super().__init__(message)
        self.text = text


class AnswerCheck:
    """A JSON Schema (Draft 2020-12 unless ``$schema`` differs), and texts that are to fit. Raises ConfigError for a bad one."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        fault = check_schema(schema)
        if fault is not None:
            raise ConfigError(f"the schema of the answer is no JSON Schema: {fault[0].replace('.parameters', '')}: {fault[1]}")
        self.schema = dict(schema)
        self._validator = jsonschema_rs.validator_for(self.schema)

    def read(self, text: str) -> Any:
        """The value. Raises ValueError, with words for the model."""
        text = text.strip()
        fenced = _FENCED.findall(text)
        try:
            value = json.loads(fenced[0] if len(fenced) == 1 else text, parse_constant=_no_number)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"it is no JSON ({error})") from None
        faults = []
        for fault in self._validator.iter_errors(value):
            faults.append(f"at {'/'.join(map(str, fault.instance_path)) or 'the top'}: {fault.message[:300]}")
            if len(faults) == _SHOWN:
                break
        if faults:
            raise ValueError("; ".join(faults))
        return value


def _no_number(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


async def ask_structured(
    provider: ProviderSession,
    session: Session,
    text: str,
    check: AnswerCheck,
    emit: Callable[[Event], None],
    limits: LoopLimits,
    *,
    images: Sequence[Image] = (),
) -> LoopResult:
    """A run whose answer is ``LoopResult.data``; one more turn, without tools, mends an answer that does not fit.

    Raises what Loop raises, and AnswerUnfit. A run that was interrupted or waits has no data.
    """
    _say(provider, session, text + _ASK + json.dumps(check.schema, ensure_ascii=False), images)
    try:
        if not session.names:  # else some servers would hold the calls to the schema too
            steer(provider, "auto", check.schema)
        result = await Loop(provider, session, emit, limits, schema=check.schema).run()
        if result.stopped not in ("done", "max_turns"):
            return result
        try:
            return replace(result, data=check.read(result.text))
        except ValueError as error:
            _say(provider, session, _AGAIN.format(why=error))
        steer(provider, "none", check.schema)
        again = await Loop(provider, session, emit, _left(limits, result), schema=check.schema).run()
    finally:
        steer(provider)
    both = _sum(result, again)
    if again.stopped not in ("done", "max_turns"):
        return both
    try:
        return replace(both, data=check.read(again.text))
    except ValueError as error:
        raise AnswerUnfit(f"the answer does not fit the schema, asked for twice: {error}", again.text) from None


def _say(provider: ProviderSession, session: Session, text: str, images: Sequence[Image] = ()) -> None:
    session.say(text, images)
    say_to(provider, text, images)


def _left(limits: LoopLimits, used: LoopResult) -> LoopLimits:
    """One turn, and what the first run left of the caps."""
    spent = used.usage.get("input", 0) + used.usage.get("output", 0)
    tokens = None if limits.max_tokens is None else max(1, limits.max_tokens - spent)
    cost = None if limits.max_cost is None else max(0.0, limits.max_cost - (used.cost or 0.0))
    return replace(limits, max_turns=1, max_tokens=tokens, max_cost=cost)


def _sum(one: LoopResult, other: LoopResult) -> LoopResult:
    usage = dict(Counter(one.usage) + Counter(other.usage))
    cost = None if one.cost is None and other.cost is None else (one.cost or 0.0) + (other.cost or 0.0)
    images = (*one.images, *other.images)
    return LoopResult(other.text, other.stopped, one.turns + other.turns, usage, cost, images=images)
