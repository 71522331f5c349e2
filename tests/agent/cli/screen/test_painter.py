"""Frames, replayed into a terminal: final rows appear once and in order, live rows below them."""

from __future__ import annotations

import re
from typing import Any, get_args, get_type_hints

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.cli.screen.cells import Row
from agent.cli.screen.painter import BEGIN, END, Painter
from agent.cli.screen.themes import NAMES, THEMES, Theme, theme_for
from agent.config import DisplayConfig


class Glass:
    """A painter, and its terminal."""

    def __init__(self, columns: int = 40, rows: int = 10, theme: str = "dark") -> None:
        self.size = (columns, rows)
        self.screen = pyte.HistoryScreen(columns, rows, history=10_000, ratio=0.5)
        self._stream = pyte.Stream(self.screen)
        self.frames: list[str] = []
        self.now = 0.0
        self.painter = Painter(self._wrote, lambda: self.size, Theme(theme), told=1.0, clock=lambda: self.now)

    def _wrote(self, frame: str) -> None:
        self.frames.append(frame)
        self._stream.feed(frame)

    @property
    def lines(self) -> list[str]:
        """Return the scrollback and the screen."""
        history = ["".join(line[x].data for x in range(self.size[0])) for line in self.screen.history.top]
        lines = [line.rstrip() for line in [*history, *self.screen.display]]
        while lines and not lines[-1]:
            lines.pop()
        return lines


def row(text: str, style: str = "") -> Row:
    return ((text, style),) if text else ()


def rows(spans: list[tuple[str, str]]) -> Row:
    return tuple((text, style) for text, style in spans if text)


TEXTS = st.text(st.sampled_from("ab 漢é👩"), max_size=60)
SPANS = st.lists(st.tuples(st.text(st.sampled_from("ab 漢é"), max_size=6), st.sampled_from(["", "dim", "ok"])), max_size=5)
STEPS = st.lists(st.tuples(st.lists(TEXTS, max_size=4), st.lists(TEXTS, max_size=14)), max_size=8)


@settings(max_examples=40, deadline=None)
@given(STEPS)
def test_final_rows_stand_once_and_in_order_above_the_live_ones(steps: list[tuple[list[str], list[str]]]) -> None:
    glass, twin = Glass(), Glass(rows=120)
    final: list[Row] = []
    for number, (finished, live) in enumerate(steps):
        marked = [row(f"{number}.{place} {text[:15]}") for place, text in enumerate(finished)]
        rows = [row(f"live {text}", "dim") for text in live] + [row("> typed")]
        final += marked
        glass.painter.paint(marked, rows, (len(rows) - 1, 2))
        shown = rows[-glass.painter.height :]
        twin = Glass(rows=120)
        twin.painter.paint([], [*final, *shown])
        assert glass.lines == twin.lines
        assert (glass.screen.cursor.x, glass.screen.display[glass.screen.cursor.y].rstrip()) == (2, "> typed")


@settings(max_examples=200, deadline=None)
@given(SPANS, SPANS)
def test_a_row_becomes_another_one(before: list[tuple[str, str]], after: list[tuple[str, str]]) -> None:
    glass, twin = Glass(), Glass()
    glass.painter.paint([], [rows(before), row("> ")], (1, 2))
    glass.painter.paint([], [rows(after), row("> ")], (1, 2))
    twin.painter.paint([], [rows(after), row("> ")], (1, 2))
    assert glass.lines == twin.lines
    first, second = (dict(one.screen.buffer[0]) for one in (glass, twin))
    assert [first.get(x) for x in range(30) if x in second] == [second[x] for x in range(30) if x in second]


def test_a_spinner_turns_alone() -> None:
    glass = Glass()
    glass.painter.paint([], [(("⠋ ", "bullet"), ("a call that runs", ""), ("  1 s", "dim"))])
    glass.painter.paint([], [(("⠙ ", "bullet"), ("a call that runs", ""), ("  1 s", "dim"))])
    assert "call" not in glass.frames[-1]
    glass.painter.paint([], [(("⠙ ", "bullet"), ("a call that runs", ""), ("  12 s", "dim"))])
    assert "call" not in glass.frames[-1]
    assert glass.lines == ["⠙ a call that runs  12 s"]


def test_a_frame_is_one_write_between_the_marks_of_a_synchronized_update() -> None:
    glass = Glass()
    glass.painter.paint([row("a")], [row("b")])
    assert len(glass.frames) == 1
    assert glass.frames[0].startswith(BEGIN)
    assert glass.frames[0].endswith(END)
    glass.painter.paint([], [row("bc")])
    assert BEGIN not in glass.frames[1]  # a single changed row can't appear half drawn


def test_what_did_not_change_is_not_written() -> None:
    glass = Glass()
    live = [row("a tool that runs"), row("> hello"), row("status")]
    glass.painter.paint([], live, (1, 7))
    glass.painter.paint([], live, (1, 7))
    assert len(glass.frames) == 1
    glass.painter.paint([], [live[0], row("> hello!"), live[2]], (1, 8))
    assert "tool" not in glass.frames[-1]
    assert "hello" not in glass.frames[-1]
    assert "!" in glass.frames[-1]


def test_a_row_of_emoji_that_terminals_measure_differently_is_written_whole() -> None:
    glass = Glass()
    glass.painter.paint([], [row("👩\u200d🚀 a")])
    glass.painter.paint([], [row("👩\u200d🚀 ab")])
    assert "👩\u200d🚀 ab" in glass.frames[-1]


def test_no_row_reaches_the_last_column() -> None:
    glass = Glass(columns=20)
    glass.painter.paint([row("x" * 50)], [row("漢" * 30)])
    assert glass.lines == ["x" * 19, "x" * 19, "x" * 12, "漢" * 9]  # final text is wrapped, live text is cut
    assert len(glass.screen.display) == 10


def test_nothing_acts_on_the_terminal() -> None:
    glass = Glass()
    glass.painter.paint([row("a\x1b[2Jb\tc\x9b2Jd")], [])
    assert glass.lines == ["a\ufffd[2Jb\ufffdc\ufffd2Jd"]


def test_leaving_takes_the_live_rows_away() -> None:
    glass = Glass()
    glass.painter.paint([row("stays")], [row("goes"), row("> x")], (1, 3))
    glass.painter.leave()
    assert glass.lines == ["stays"]
    assert (glass.screen.cursor.x, glass.screen.cursor.y) == (0, 1)


def test_narrowing_moves_up_over_the_rows_that_the_terminal_broke() -> None:
    """Terminals wrap rows at the new width: the frame begins at the new position of the live rows."""
    glass = Glass(columns=40)
    glass.painter.paint([], [row("x" * 39), row("y" * 25), row("> ")], (2, 2))
    glass.size, glass.now = (20, 10), 5.0
    glass.painter.paint([], [row("x" * 19), row("> ")], (1, 2))
    assert "\x1b[4A" in glass.frames[-1]
    assert glass.frames[-1].count("\x1b[2K") == 2  # so that no terminal joins the rows when it is wider again
    assert "\x1b[J" in glass.frames[-1]  # the three remaining rows


def test_a_row_that_a_narrower_terminal_may_have_cut_counts_as_one_line() -> None:
    """The terminal was narrower when the row was written, but had not reported it: the rows above must not be overwritten."""
    glass = Glass(columns=20)
    glass.size = (40, 10)
    glass.painter.paint([row("finished")], [row("x" * 10), row("> ")], (1, 2))
    glass.now = 5.0
    glass.painter.paint([], [row("x" * 39), row("> ")], (1, 2))
    glass.size, glass.now = (20, 10), 5.3
    glass.painter.paint([], [row("x" * 19), row("> ")], (1, 2))
    assert glass.lines == ["finished", "x" * 19, ">"]
    glass.size = (30, 10)
    glass.painter.paint([], [row("x" * 29), row("> ")], (1, 2))
    assert "\x1b[1A" in glass.frames[-1]


def test_the_end_of_a_live_row_that_broke_is_erased_below_the_frame() -> None:
    """The row may have been cut instead, so it counts as one line; no finished row is below it."""
    glass = Glass()
    glass.painter.paint([row("final")], [row("> "), row("a last row with more than twenty cells")], (0, 2))
    glass.screen.reset()  # as a terminal that breaks the rows
    glass.size = (20, 10)
    glass.screen.resize(10, 20)
    glass._stream.feed("final\r\n> \r\na last row with more\r\n than twenty cells\x1b[2;3H")
    glass.painter.paint([], [row("> "), row("a short row")], (0, 2))
    assert glass.lines == ["final", ">", "a short row"]


def test_a_row_that_gets_shorter_is_erased_whole() -> None:
    """Some terminals count erased cells when they wrap a row."""
    glass = Glass()
    glass.painter.paint([], [(("⠋ ", "bullet"), ("a call that runs", "")), row("> a draft")], (1, 9))
    glass.painter.paint([], [(("⠋ ", "bullet"), ("a call", "")), row("> a")], (1, 3))
    assert glass.frames[-1].count("\x1b[2K") == 2
    assert "\x1b[K" not in glass.frames[-1]


def test_wide_characters_are_not_broken_in_two() -> None:
    """A terminal of 5 columns has room for two wide characters in a line."""
    glass = Glass(columns=40)
    glass.painter.paint([], [row("漢" * 12), row("> ")], (1, 2))
    glass.size, glass.now = (9, 10), 5.0
    glass.painter.paint([], [row("> ")], (0, 2))
    assert "\x1b[3A" in glass.frames[-1]


def test_a_frame_for_a_size_that_is_gone_is_not_written() -> None:
    glass = Glass()
    glass.painter.paint([row("a")], [row("> ")], (0, 2))
    sizes = iter(2 * [(40, 10)])
    painter = Painter(glass._wrote, lambda: next(sizes, (30, 8)), Theme("dark"))
    assert not painter.paint([row("b")], [row("> ")])
    assert len(glass.frames) == 1
    assert painter.paint([row("b")], [row("> ")])
    assert len(glass.frames) == 2


def test_a_smaller_screen_keeps_the_rows_that_it_has_room_for() -> None:
    glass = Glass(rows=10)
    glass.painter.paint([row("stays")], [row(f"live {number}") for number in range(8)], (7, 6))
    glass.size = (40, 5)
    glass.screen.resize(5, 40)
    glass.painter.paint([], [row("live 0"), row("> ")], (1, 2))
    assert "\x1b[4A" in glass.frames[-1]  # no further than the top row


def test_every_theme_can_be_chosen() -> None:
    assert set(NAMES) == {"auto", *THEMES}
    assert set(NAMES) == set(get_args(get_type_hints(DisplayConfig)["theme"]))


@pytest.mark.parametrize("name", THEMES)
def test_themes_know_every_style(name: str) -> None:
    theme = Theme(name)
    assert theme.begin("") == ""
    assert theme.begin("strong+em").startswith("\x1b[1;3")
    if name == "none":
        assert not [style for style in THEMES["dark"] if re.search(r"[\[;](?:3|9)[0-7]", theme.begin(style))]


def test_the_theme_that_is_meant(monkeypatch: Any) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("COLORFGBG", "0;15")
    assert theme_for("auto").name == "light"
    monkeypatch.delenv("COLORFGBG")
    assert [theme_for(name).name for name in ("auto", "light", "colorblind")] == ["dark", "light", "colorblind"]
    monkeypatch.setenv("NO_COLOR", "1")
    assert theme_for("light").name == "none"
    assert theme_for("light", "always").name == "light"
    assert theme_for("light", "never").name == "none"
