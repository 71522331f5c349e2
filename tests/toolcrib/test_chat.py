"""Functions of the platforms' contract."""

from __future__ import annotations

import pytest

from toolcrib.chat import without_controls


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("two\r\n\tlines, é 👍🏽 汉", "two\n\tlines, é 👍🏽 汉"),
        ("\x1b[31mred\x00\x7f\x9b", "�[31mred���"),
        ("rm \u202egpj.x\u2066\u200f", "rm �gpj.x��"),
        ("half \ud83d", "half �"),
    ],
)
def test_nothing_that_is_shown_moves_or_turns(text: str, shown: str) -> None:
    assert without_controls(text) == shown
