"""Shares of a run's budget, and a delegate's time limit."""

from __future__ import annotations

import pytest

from agent.config import Config
from agent.conversation.limits import RunLimits
from agent.conversation.state import RunState
from agent.delegates.budget import Allowance, RunBudget, Share, charge, limits_of, share_of
from agent.delegates.task import Order
from toolcrib import Denied, Principal


def test_shares_of_all_who_work_never_exceed_what_is_left() -> None:
    run = RunState(
        id="r", session_id="s", limits=RunLimits(max_tokens=1_000, max_cost=3.0), usage={"input": 80, "output": 20}, cost=0.0
    )
    taken: list[Share] = []
    for _ in range(3):
        taken.append(share_of(run, RunLimits(), taken, 3))
    assert [share.tokens for share in taken] == [300, 300, 300]
    assert [round(share.cost or 0, 6) for share in taken] == [1.0, 1.0, 1.0]
    assert share_of(None, RunLimits(), [], 3) == Share(None, None)


@pytest.mark.parametrize(("limits", "name"), [(RunLimits(max_tokens=100), "max_tokens"), (RunLimits(max_cost=1.0), "max_cost")])
def test_a_spent_budget_leaves_nothing(limits: RunLimits, name: str) -> None:
    run = RunState(id="r", session_id="s", limits=limits, usage={"input": 150}, cost=2.0)
    with pytest.raises(Denied, match=f"has reached run.{name}"):
        share_of(run, RunLimits(), [], 3)


def test_who_ended_in_this_turn_counts_before_the_run_is_charged() -> None:
    run = RunState(id="r", session_id="s", limits=RunLimits(max_tokens=1_000), turn=1)
    budget = RunBudget()
    for number, left in enumerate((1_000, 700, 400, 100)):
        with budget.share(run, RunLimits(), 1) as share:
            assert share.tokens == left
            budget.used(f"d{number}", run.turn_id, {"input": 200, "output": 100}, None)
    with pytest.raises(Denied), budget.share(run, RunLimits(), 1):
        raise AssertionError
    with budget.share(run.next(turn=2), RunLimits(), 1) as share:  # by then it is counted for the run
        assert share.tokens == 1_000


def test_turns_are_at_most_what_is_configured() -> None:
    settings = Config().delegates
    order = Order("n", "t", Principal())
    assert limits_of(order, settings, RunLimits(on_max_turns="error"), Share()).max_turns == settings.max_turns
    assert limits_of(order._replace(turns=2), settings, RunLimits(), Share()).max_turns == 2
    assert limits_of(order._replace(turns=10**6), settings, RunLimits(), Share()).max_turns == settings.max_turns


def test_the_clock_stands_still_while_somebody_is_asked() -> None:
    now = 0.0
    allowance = Allowance(10, lambda: now)
    now = 4.0
    assert allowance.left == 6
    allowance.stop()
    now = 100.0
    allowance.stop()
    allowance.go_on()
    assert allowance.left == 6
    allowance.go_on()
    now = 101.0
    assert allowance.left == 5


def test_what_a_delegate_used_is_added() -> None:
    run = RunState(id="r", session_id="s", usage={"input": 1}, cost=0.5)
    after = charge(run, {"usage": {"input": 2, "output": 3, "odd": "x"}, "cost": 0.25})
    assert (dict(after.usage), after.cost) == ({"input": 3, "output": 3}, 0.75)
    assert charge(run, {"usage": None, "cost": None}) == run
