"""``toolcrib docs PAGE`` at a user's terminal."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = pytest.mark.e2e


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_a_page_has_whole_words_and_its_tables_have_columns(sit_down: Any, columns: int) -> None:
    person = sit_down("docs", "gateway", columns=columns, PAGER="cat")
    assert person.waits_for_the_end() == 0
    lines = person.scrolled.split("\n")
    assert "# Start it" in lines
    assert "  $ toolcrib plugins enable console" in lines
    shown = " ".join(" ".join(lines).split())
    assert "A stranger's message is refused before any of it is stored or fetched; toolcrib approvals history shows" in shown
    assert not [line for line in lines if line.startswith("|")]
    assert any(line.startswith("console ") and line.endswith("a terminal of this machine") for line in lines)
