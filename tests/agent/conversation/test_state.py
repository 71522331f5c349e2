"""The state of a run, as it is stored."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agent.conversation.limits import AnswerUnfit, MaxTurnsReached, RunError
from agent.conversation.state import CallState, RunState
from toolcrib import Principal, ToolCall, ToolcribError


def state(**more: Any) -> RunState:
    return RunState(id="s-1", session_id="s", principal=Principal("chat", "ann"), **more)


def test_a_run_begins_with_nothing_done() -> None:
    begun = state()
    assert (begun.phase, begun.step, begun.turn, begun.first, begun.is_over) == ("asking", 0, 0, 0, False)
    assert (begun.turn_id, begun.next(turn=1).turn_id) == ("s-1/0", "s-1/1")
    assert CallState(ToolCall("c", "t", {})).end_run is False


def test_a_state_is_read_as_it_was_stored() -> None:
    calls = (CallState(ToolCall("c", "t", {"a": 1}), tickets=("k",)), CallState(ToolCall("d", "t", {}), end_run=True))
    kept = state(batch=calls, failed=("t", 2), items=(4,), usage={"input": 3}, cost=0.5).next(phase="parked")
    assert RunState.of(kept.record()) == kept
    assert kept.step == 1


@pytest.mark.parametrize(
    ("key", "value"),
    [("limits", None), ("principal", 3), ("failed", ["t"]), ("failed", ["t", "often"]), ("batch", [{}]), ("error", ["x"])],
)
def test_a_state_that_can_not_be_read_is_told(key: str, value: Any) -> None:
    record = state().next().record()
    broken = replace(record, state={**record.state, key: value})
    with pytest.raises(ToolcribError, match="the stored run s-1 can't be read"):
        RunState.of(broken)


@pytest.mark.parametrize("error", [MaxTurnsReached("enough"), AnswerUnfit("no number", "four"), RunError("else")])
def test_the_error_that_ended_a_run_is_raised_again(error: RunError) -> None:
    ended = RunState.of(state().failed_with(error).record())
    assert ended.is_over
    with pytest.raises(type(error), match=str(error)) as raised:
        ended.raise_error()
    assert getattr(raised.value, "text", "") == getattr(error, "text", "")
    state().raise_error()
