"""A short version of a week of conversations: many turns in several sessions with a small window; ``tests.fuzz.week`` is the long
one.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.week import Week
from tests.fuzz.week_facts import PLACES, facts


@pytest.mark.full
async def test_no_context_error_and_nothing_forgotten(tmp_path: Path) -> None:
    """003-18: messages, results, answers and notes are found later, in another session or after a compression."""
    report = await Week(turns=120, sessions=6, window=16_000, facts_count=12, seed=1).run(tmp_path)
    told = "\n".join(report.lines())
    assert report.is_good, told
    assert (report.turns >= 120, sum(report.found.values())) == (True, 12), told
    assert report.found["search"], told
    assert report.found["memory"], told
    assert report.compressions["threshold"], told
    assert report.compressions["refused"] == report.refused, told


def test_facts_are_of_every_kind_and_in_every_place() -> None:
    import random

    made = facts(50, random.Random(1))  # noqa: S311 - a test's dice
    assert len({fact.said for fact in made}) == len({fact.asked for fact in made}) == 50
    assert len({fact.kind for fact in made}) == 11
    assert {fact.where for fact in made} == set(PLACES)
    assert not [fact for fact in made if fact.value in fact.asked or fact.value not in fact.said]
    assert not [query for fact in made for query in fact.queries if fact.value in query]
