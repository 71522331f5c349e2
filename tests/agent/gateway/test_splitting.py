"""Answers that are split into messages."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from agent.gateway.splitting import split

CODE = "```python\n" + "\n".join(f"print({n})  # {'x' * 40}" for n in range(20)) + "\n```"


def test_a_short_answer_is_one_message() -> None:
    assert split("Hello.\n\nWorld.", 4000) == ["Hello.\n\nWorld."]
    assert split("", 4000) == []
    assert split("\n \n", 4000) == []


def test_paragraphs_stay_whole() -> None:
    first, second, third = ("a" * 150, "b" * 100, "c" * 120)
    assert split(f"{first}\n\n{second}\n\n{third}", 260) == [f"{first}\n\n{second}"[:260], third]


def test_a_block_of_code_that_fits_is_never_cut() -> None:
    text = f"{'words ' * 40}\n\n{CODE}\n\nend"
    parts = split(text, len(CODE) + 10)
    assert CODE in parts[1]
    assert [part.count("```") % 2 for part in parts] == [0] * len(parts)


def test_a_block_of_code_that_is_too_long_is_closed_and_opened_again() -> None:
    parts = split(CODE, 300)
    assert len(parts) > 3
    for part in parts:
        assert (part[:10], part[-4:]) == ("```python\n", "\n```")
        assert len(part) <= 300
    inside = "\n".join(part.removeprefix("```python\n").removesuffix("\n```") for part in parts)
    assert inside == CODE.removeprefix("```python\n").removesuffix("\n```")


def test_blank_lines_in_code_are_no_place_to_cut() -> None:
    code = "~~~\n" + "a\n\nb\n\n" * 20 + "~~~"
    assert split(f"{'x' * 180}\n\n{code}", 200)[1] == code


@given(st.text(alphabet="ab `~\n", max_size=3000), st.integers(200, 600))
def test_nothing_is_lost_and_every_part_fits(text: str, most: int) -> None:
    parts = split(text, most)
    assert all(0 < len(part) <= most for part in parts)
    letters = [one for one in text if one in "ab"]
    assert [one for part in parts for one in part if one in "ab"] == letters or "`" in text or "~" in text


def test_the_work_grows_with_the_length_alone() -> None:
    """Ten times as many lines take far less than a hundred times as long."""

    def seconds(lines: int) -> float:
        text = ("x" * 10_000 + "\n") * lines
        begun = time.process_time()
        assert len(split(text, 200)) == lines * 50
        return time.process_time() - begun

    assert seconds(1_000) < 40 * max(seconds(100), 0.002)
