"""The short form of the series ``processes`` of scripts/soak: toolcrib is killed at each kind of moment."""

from __future__ import annotations

import pytest

from tests.fuzz import kill_background

pytestmark = pytest.mark.full  # the processes print more than their logs may hold


def test_what_a_killed_toolcrib_left_is_found_used_and_ended() -> None:
    """003-30"""
    rows = kill_background.run(["local"], kills=len(kill_background.MOMENTS), starts=10, seed=35, minutes=10)
    assert [fault for row in rows for fault in row.faults] == []
    assert {row.what: row.tried for row in rows if row.what.startswith("killed")} == {
        f"killed {moment}": 1 for moment in kill_background.MOMENTS
    }
