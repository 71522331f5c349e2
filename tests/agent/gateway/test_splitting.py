"""Answers that are split into messages."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

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


LEADS = [
    ("10. do:\n", "    "),
    ("- do:\n", "\t"),
    ("", "> "),
    ("", "> > "),
    ("> - do:\n", ">   "),
    ("", "\t"),
    ("* a\n  1. b\n", "     "),
]
"""Text before a code block, and the beginning of each of its lines."""


def codes(part: str) -> list[str]:
    """Return the contents of a message's code blocks, as a parser of CommonMark reads them. Each block must be closed."""
    found = []
    for token in MarkdownIt().parse(part):
        assert token.type != "code_block", part
        if token.type == "fence":
            last = part.split("\n")[token.map[1] - 1]
            assert last.lstrip("> \t") == token.markup, part
            found.append(token.content)
    return found


@given(
    st.sampled_from(LEADS),
    st.sampled_from(["```", "~~~~"]),
    st.lists(st.text("ab #", max_size=90), min_size=1),
    st.integers(200, 400),
)
def test_an_indented_or_quoted_block_of_code_is_closed_in_each_message(
    lead: tuple[str, str], mark: str, lines: list[str], most: int
) -> None:
    before, begin = lead
    lines = ["first", *lines, "last"]
    parts = split(before + "\n".join(f"{begin}{line}" for line in [f"{mark}python", *lines, mark]), most)
    assert all(len(part) <= most for part in parts)
    if len(parts) == 1:  # as it was written
        return
    assert [len(codes(part)) for part in parts[bool(before) :]] == [1] * (len(parts) - bool(before))
    kept = "".join(code for part in parts for code in codes(part))
    assert kept.split() == " ".join(lines).split()


@pytest.mark.parametrize("length", [520, 2_520])
def test_a_long_language_does_not_lose_the_fence(length: int) -> None:
    parts = split("```" + "x " * (length // 2) + "\n" + "line of code\n" * 360 + "```", 2000)
    assert len(parts) > 2
    for part in parts:
        assert len(part) <= 2000
        assert len(codes(part)) == 1
    assert "".join(parts).count("x") >= length // 2


def test_a_block_of_code_on_the_line_of_its_list_mark() -> None:
    parts = split("1. ```sh\n" + "   run\n" * 60 + "   ```\n2. next", 200)
    assert parts[0].startswith("1. ```sh\n   run\n")
    assert parts[1].startswith("```sh\nrun\n")
    assert [len(codes(part)) for part in parts] == [1] * len(parts)


def test_tabs_in_code_and_text_after_a_quote_stay() -> None:
    assert "\n\trun\n" in split("```make\n" + "all:\n\trun\n" * 60 + "```", 300)[1]
    text = "> ```\n> code\nplain\n\n" + "words " * 60
    assert split(text, 300)[0].endswith("> code\n\nplain")


def test_the_work_grows_with_the_length_alone() -> None:
    """Ten times as many lines take far less than a hundred times as long."""

    def seconds(lines: int) -> float:
        text = ("x" * 10_000 + "\n") * lines
        begun = time.process_time()
        assert len(split(text, 200)) == lines * 50
        return time.process_time() - begun

    assert seconds(1_000) < 40 * max(seconds(100), 0.002)
