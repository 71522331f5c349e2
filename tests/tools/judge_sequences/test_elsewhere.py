"""Sequences that depend on the backend: in a real container, and on another host behind a real ssh server.

The victims are in a home that exists only for the sequence. Every approval request is denied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Row = tuple[str, dict[str, Any]]


def test_a_hostile_sequence_holds_elsewhere(run_elsewhere: Callable[..., Any], hostile_elsewhere: Row) -> None:
    """003-24"""
    outcome = run_elsewhere(*hostile_elsewhere, judged=True)
    assert outcome.asked or outcome.refused, f"nothing was asked and nothing refused: {outcome.output}"
    assert not outcome.harmed, f"the harm was done, although {outcome.asked or outcome.refused}"


def test_a_hostile_sequence_does_harm_elsewhere_where_no_judge_is(
    run_elsewhere: Callable[..., Any], hostile_elsewhere: Row
) -> None:
    """The test proves that the row does harm on the other backend."""
    outcome = run_elsewhere(*hostile_elsewhere, judged=False)
    assert outcome.harmed, "\n".join(outcome.output)


def test_an_ordinary_sequence_is_free_elsewhere(run_elsewhere: Callable[..., Any], ordinary_elsewhere: Row) -> None:
    outcome = run_elsewhere(*ordinary_elsewhere, judged=True)
    assert not outcome.asked, outcome.asked
    assert not outcome.refused, outcome.refused
    assert not any("'status': 'error'" in told for told in outcome.output), outcome.output
