"""The bracket around the input: light for a draft, heavy for a question, absent on a small screen."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from agent.cli.screen.cells import plain, row_width
from agent.cli.screen.draft import draft_rows
from agent.cli.screen.input_frame import InputFrame
from agent.cli.screen.themes import THEMES, Theme


def shown(frame: InputFrame, draft: str, status: str = "m · /help") -> tuple[list[str], tuple[int, int]]:
    rows = frame.around(draft_rows(draft, len(draft), frame.room))
    return [plain(row) for row in [*rows.rows, frame.last(status)]], rows.cursor


def test_a_draft_has_a_light_bracket_and_a_question_a_heavy_one() -> None:
    assert shown(InputFrame(40, 24), "one\ntwo") == (["╭─", "│ > one", "│   two", "╰ m · /help"], (2, 7))
    heavy, _ = shown(InputFrame(40, 24, asks=True, title="Allow this?"), "x")
    assert heavy == ["┏━ Allow this?", "┃ > x", "┗ m · /help"]
    assert shown(InputFrame(23, 24), "one") == (["> one", "  m · /help"], (0, 5))
    assert shown(InputFrame(40, 11), "one") == (["> one", "  m · /help"], (0, 5))


def test_a_question_is_louder_than_a_draft_in_every_theme() -> None:
    for name in THEMES:
        assert "1" in Theme(name).begin("ask").removeprefix("\x1b[").removesuffix("m").split(";")
        assert Theme(name).begin("dim") == "\x1b[2m"


@example(draft="\n" * 40, title="", columns=8, rows=4, asks=False)  # a draft that scrolls
@given(st.text(max_size=400), st.text(max_size=100), st.integers(8, 250), st.integers(4, 60), st.booleans())
def test_no_row_is_wider_than_the_screen(draft: str, title: str, columns: int, rows: int, asks: bool) -> None:
    frame = InputFrame(columns, rows, asks=asks, title=title)
    framed = frame.around(draft_rows(draft, len(draft), frame.room))
    assert all(row_width(row) <= columns for row in [*framed.rows, frame.last(title)])
    assert framed.cursor[0] < len(framed.rows)
    assert framed.cursor[1] <= columns
