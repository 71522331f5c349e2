"""Detect that a run makes no progress, or has reached its limit of tokens or cost."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence

from agent.conversation.limits import CostCapReached, NoProgress, RunError, TokenCapReached
from agent.conversation.state import RunState, tokens_used
from toolcrib.contract.dataclass import replace
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.types import ToolCall

_KEY_CHARS = 200


def check_progress(
    state: RunState, executed: Sequence[ExecutedCall], texts: Sequence[str], polls: Callable[[ToolCall], bool]
) -> tuple[RunState, RunError | None]:
    """Return the state with its counters updated by a turn's results, and the error if the run has reached a limit.

    ``texts`` are the results as the model reads them. Calls that wait for a change may be repeated: ``polls`` returns True for
    them.
    """
    limits, calls = state.limits, [one.call for one in executed]
    unreadable = state.unreadable + 1 if all(call.fault is not None for call in calls) else 0
    fault: RunError | None = None
    if unreadable > limits.repairs:
        fault = NoProgress(f"the model's calls were unreadable {unreadable} turns in a row: {calls[-1].fault}")
    failed, counted = state.failed, ""
    for one in executed:
        key = _key(one.call) if one.result.is_error and not polls(one.call) else ""
        if key and key == counted:  # repeats of a call in one turn count as one try
            continue
        counted = key
        failed = (key, failed[1] + 1 if key and key == failed[0] else 1)
        if key and failed[1] >= limits.repeats and fault is None:
            fault = NoProgress(f"the same call failed {failed[1]} times in a row: {key[:_KEY_CHARS]}: {one.result.message}")
    turn = "" if any(map(polls, calls)) else _turn_key(calls, texts)
    repeated = (turn, state.repeated[1] + 1 if turn and turn == state.repeated[0] else 1)
    if turn and repeated[1] >= limits.repeats and fault is None:
        made = ", ".join(dict.fromkeys(_key(call)[:_KEY_CHARS] for call in calls))
        fault = NoProgress(f"the same call returned the same result {repeated[1]} times in a row: {made}")
    return replace(state, unreadable=unreadable, failed=failed, repeated=repeated), fault or _over(state)


def _key(call: ToolCall) -> str:
    """Return a key for the call: its name and arguments, or their beginning and digest if they are long."""
    text = f"{call.name} {json.dumps(call.args, sort_keys=True, default=str)}"
    if len(text) <= 2 * _KEY_CHARS:
        return text
    return f"{text[:_KEY_CHARS]} {_digest(text)}"


def _turn_key(calls: Sequence[ToolCall], texts: Sequence[str]) -> str:
    """Return a key for a turn's calls and their results, regardless of their order and number."""
    return _digest("\n".join(sorted({f"{_key(call)} {_digest(text)}" for call, text in zip(calls, texts, strict=True)})))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _over(state: RunState) -> RunError | None:
    used, limits = tokens_used(state.usage), state.limits
    if limits.max_tokens is not None and used >= limits.max_tokens:
        return TokenCapReached(f"{used:,} tokens used of {limits.max_tokens:,}; raise max_tokens, or continue in a new run")
    if limits.max_cost is not None and state.cost >= limits.max_cost:
        return CostCapReached(f"{state.cost:.4f} spent of {limits.max_cost:.4f}; raise max_cost, or continue in a new run")
    return None
