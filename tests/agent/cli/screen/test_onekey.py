"""Single keys that choose, among text that the user types."""

from __future__ import annotations

import asyncio

import pytest

from agent.cli.screen.onekey import ALONE, OneKey


def pressed(*keys: str, letters: str = "osdv?", at_once: str = "v?") -> tuple[list[str], str]:
    """Return the answers, and the keys that counted as text; a key ``""`` is a pause."""
    answered: list[str] = []
    typed: list[str] = []

    async def press() -> None:
        one = OneKey(letters, at_once, answered.append, typed.append)
        for key in keys:
            if key:
                one.pressed(key)
            else:
                await asyncio.sleep(2 * ALONE)
        one.end()

    asyncio.run(press())
    return answered, "".join(typed)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        (["o", ""], (["o"], "")),
        (["O", ""], (["O"], "")),
        (["d", ""], (["d"], "")),
        (["?"], (["?"], "")),
        (["v", ""], (["v"], "")),
        (["v", "v"], (["v"], "")),
        (["o"], ([], "o")),  # the input ended before a pause showed that no text follows
        (["o", "n", "", "l", "y"], ([], "only")),
        (["n", "o", "enter"], ([], "no")),
        (["o", "o", ""], ([], "oo")),
        (["o", "enter"], (["o"], "")),
        (["enter"], (["enter"], "")),
        (["right", "o"], (["right"], "o")),
        (["d", "o", ""], ([], "do")),  # a message that begins with the letter
        (["v", "i", ""], ([], "vi")),
        (["d", "d", ""], ([], "dd")),
    ],
)
def test_a_letter_answers_where_it_stands_alone(keys: list[str], expected: tuple[list[str], str]) -> None:
    assert pressed(*keys) == expected
