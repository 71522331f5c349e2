"""Ask the model for a reply: stream it, retry after a fault, stop when the user interrupts."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from agent.conversation.limits import RunLimits
from agent.events import Emit, Retrying, TextDelta, ThinkingDelta, ToolCallDelta
from agent.model_choice.retry import with_retry
from agent.providers._calls import MAX_CALLS, TOO_MANY, held_back
from agent.providers._faults import OversizedReply
from agent.providers.abilities import fall_back
from agent.reply_ends import end_of_finish, fault_of_end
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ProviderError
from toolcrib.contract.session import ProviderSession, ProviderTurn, StreamEvent

if TYPE_CHECKING:
    from agent.conversation.core import SessionCore
    from tools.dispatch.scope import CallScope

T = TypeVar("T")
_CHARS_A_TOKEN = 10
"""Characters per token: more than any text has on average."""


async def ask_model(
    session: SessionCore, provider: ProviderSession, stream: str, limits: RunLimits, emit: Emit
) -> ProviderTurn | None:
    """Return the reply, or None if the user interrupted it. ``stream`` is the prefix of its events' ids (``new_stream``).

    This calls the plugins' hooks before and after, retries after a fault, and falls back to the next model of the chain. Raises
    the last ProviderError.
    """
    return await interruptible(session.scope, _with_hooks(session, provider, stream, limits, emit))


async def interruptible(scope: CallScope, work: Coroutine[Any, Any, T]) -> T | None:
    """Await ``work`` and return its result, or None if ``scope.interrupt`` ended it."""
    task = asyncio.ensure_future(work)
    scope.running.add(task)
    try:
        if scope.cancelled:
            task.cancel()
        return await task
    except asyncio.CancelledError:
        if not scope.cancelled or not task.cancelled():
            task.cancel()
            raise
        return None
    finally:
        scope.running.discard(task)


async def _with_hooks(
    session: SessionCore, provider: ProviderSession, stream: str, limits: RunLimits, emit: Emit
) -> ProviderTurn:
    model = str(session.via.get("model", "")) or session.model
    await session.call_hook("pre_llm_call", model=model, provider=str(session.via.get("provider", "")))
    try:
        turn = _bounded(await _ask(provider, limits, emit, _forwarder(emit, stream, session.link.window)))
    except BaseException as error:
        name = "Cancelled" if isinstance(error, asyncio.CancelledError) else type(error).__name__
        await session.call_hook("on_llm_error", error=name)
        raise
    told = {"text": turn.assistant_text, "calls": len(turn.tool_calls), "usage": dict(turn.usage), "finish": turn.finish}
    await session.call_hook("post_llm_call", model=turn.model or model, **told)
    return turn


def _bounded(turn: ProviderTurn) -> ProviderTurn:
    """Return the reply with a fault on each call that must not run, so that every call has a result (X-1).

    A call must not run if it exceeds MAX_CALLS, or if the reply ended in a way that makes its calls unreliable.
    """
    if turn.finish not in ("", "other"):  # for plugins' providers: toolcrib's own mark such calls themselves
        turn = replace(turn, tool_calls=held_back(turn.tool_calls, fault_of_end(end_of_finish(turn.finish), turn.finish)))
    calls = turn.tool_calls
    if len(calls) <= MAX_CALLS:
        return turn
    rest = (call if call.fault is not None else replace(call, fault=TOO_MANY) for call in calls[MAX_CALLS:])
    return replace(turn, tool_calls=(*calls[:MAX_CALLS], *rest))


async def _ask(provider: ProviderSession, limits: RunLimits, emit: Emit, forward: Callable[[StreamEvent], None]) -> ProviderTurn:
    while True:
        try:
            return await with_retry(
                lambda: provider.stream_turn(forward),
                limits.retry,
                lambda attempt, seconds, error: emit(Retrying(attempt, seconds, str(error))),
            )
        except ProviderError as error:
            following = await fall_back(provider, error)
            if following is None:
                raise
            emit(Retrying(1, 0.0, f"{error}; {following} continues"))


def new_stream() -> str:
    """Return a random prefix for the ids of a reply's events.

    It is random because no stored value of a run distinguishes a reply from one that a killed process had begun (004-2).
    """
    return secrets.token_hex(8)


def text_id(stream: str) -> str:
    """Return the id of a reply's text."""
    return f"{stream}-assistant"


def _forwarder(emit: Emit, stream: str, window: int | None) -> Callable[[StreamEvent], None]:
    """Return a function that emits a reply's events. It raises OversizedReply if the reply does not fit the model's window."""
    said, thought = text_id(stream), f"{stream}-thinking"
    room = math.inf if window is None else window * _CHARS_A_TOKEN

    def forward(event: StreamEvent) -> None:
        nonlocal room
        room -= len(event.text)
        if room < 0:
            words = f"the reply exceeds the model's context window of {window:,} tokens, so it was stopped"
            raise OversizedReply(f"{words}. Ask for less, or correct model.context_window if the model reads more")
        if event.kind == "assistant_delta":
            emit(TextDelta(event.text, said))
        elif event.kind == "thinking_delta":
            emit(ThinkingDelta(event.text, thought))
        else:
            emit(ToolCallDelta(event.call_id, event.name, event.text))

    return forward
