"""The loop: stream a turn, run its calls, give the results back, until a turn has no calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.events import Event, TextDelta, ThinkingDelta, ToolFinished, ToolStarted
from toolcrib import ExecutedCall, ProviderSession, StreamEvent, ToolCall, ToolcribError

if TYPE_CHECKING:
    from agent.run import Session


class MaxTurnsReached(ToolcribError):
    """The model went on calling tools for as many turns as it had."""


async def run_loop(provider: ProviderSession, session: Session, emit: Callable[[Event], None], *, max_turns: int = 10) -> str:
    """Drive the provider until it answers without calls, and return that text.

    Stops after a call that ended the run, or whose answer is still to come, or an interrupt: the text so far is returned. Raises
    MaxTurnsReached after ``max_turns`` turns with calls, and whatever the provider raises.
    """

    def forward(event: StreamEvent) -> None:
        if event.kind == "assistant_delta":
            emit(TextDelta(event.text))
        elif event.kind == "thinking_delta":
            emit(ThinkingDelta(event.text))

    def started(call: ToolCall) -> None:
        emit(ToolStarted(call, session.emoji(call.name)))

    def finished(executed: ExecutedCall) -> None:
        emit(ToolFinished(executed, session.emoji(executed.call.name)))

    session.scope.clear_interrupt()
    for _ in range(max_turns):
        turn = await provider.stream_turn(forward)
        if not turn.tool_calls:
            return turn.assistant_text
        executed = await session.turn(turn.tool_calls, on_start=started, on_done=finished)
        await provider.append_tool_results(turn, executed)
        if session.scope.cancelled or any(one.end_run or one.result.is_pending for one in executed):
            return turn.assistant_text
    raise MaxTurnsReached(f"no answer after {max_turns} turns; raise max_turns in the configuration if the task needs more")
