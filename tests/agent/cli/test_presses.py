"""Presses of Ctrl-C, distinguished by the time between them."""

from __future__ import annotations

from agent.cli.presses import STUBBORN, TWICE, Presses


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_turn_is_interrupted_once_and_left_where_it_does_not_end() -> None:
    clock = Clock()
    presses = Presses(clock)
    presses.begin()
    assert presses.at_work() == "interrupt"
    assert presses.at_work() == ""
    clock.now = STUBBORN
    assert presses.at_work() == "leave"
    presses.begin()
    assert presses.at_work() == "interrupt"


def test_a_press_for_a_turn_that_just_ended_takes_no_draft_away() -> None:
    clock = Clock()
    presses = Presses(clock)
    presses.begin()
    presses.at_work()
    discarded: list[bool] = []

    def discard() -> bool:
        discarded.append(True)
        return True

    assert presses.idle(discard) == ""
    assert not discarded
    clock.now = TWICE
    assert presses.idle(discard) == ""
    assert discarded


def test_two_presses_leave_where_nothing_runs() -> None:
    clock = Clock()
    presses = Presses(clock)
    assert presses.idle(lambda: False) == "ask"
    assert presses.idle(lambda: True) == ""
    clock.now = TWICE
    assert presses.idle(lambda: False) == "ask"
    clock.now += TWICE / 2
    assert presses.idle(lambda: False) == "leave"
