"""The decision that wins among several (002-21, 002-22)."""

from __future__ import annotations

import itertools
import logging

import pytest

from toolcrib import Block, Decision, SetResult, Suspend, SuspendTicket, ToolResult, strongest

SET = SetResult(ToolResult.success("t", 1))
SUSPEND = Suspend(SuspendTicket("ask", "May I?"))
BLOCK = Block("no")


def test_nobody_spoke() -> None:
    assert strongest([]) is None


@pytest.mark.parametrize("order", list(itertools.permutations([SET, SUSPEND, BLOCK])))
def test_block_beats_suspend_beats_set_result_in_any_order(order: tuple[Decision, ...]) -> None:
    """002-22"""
    named = [(f"gate{index}", decision) for index, decision in enumerate(order)]
    assert strongest(named) is BLOCK
    assert strongest([pair for pair in named if pair[1] is not BLOCK]) is SUSPEND
    assert strongest([pair for pair in named if pair[1] is SET]) is SET


def test_at_the_same_rank_the_first_stands_and_the_conflict_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """002-22"""
    first, second = Block("one"), Block("two")
    with caplog.at_level(logging.ERROR):
        assert strongest([("alpha", first), ("beta", second)]) is first
    assert "'alpha'" in caplog.text
    assert "'beta'" in caplog.text
    assert "Block" in caplog.text


def test_a_block_may_end_the_run() -> None:
    assert not BLOCK.end_run
    assert Block("stop", end_run=True).end_run
