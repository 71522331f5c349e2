"""A compression on the chat's screen while it runs, and on a screen that only appends lines."""

from __future__ import annotations

from typing import Any, cast

import pytest

from agent.cli.liveview import LiveView
from agent.cli.render import Screen
from agent.cli.screen.frame import Board
from agent.cli.view import View
from agent.events import ContextCompressed, ContextCompressing, TurnStarted


class KeptRows:
    """A board of 80 columns that records the added rows."""

    columns, rows, is_painting = 80, 24, False

    def __init__(self) -> None:
        self.text = ""

    def add(self, rows: Any, speaker: str = "note") -> None:
        self.text += "".join(f"{''.join(span[0] for span in row)}\n" for row in rows)

    def changed(self) -> None:
        """Paint nothing."""


def live(view: LiveView) -> str:
    return "\n".join("".join(span[0] for span in row) for row in view.rows(80))


def test_the_screen_moves_while_the_context_is_compressed() -> None:
    now, board = [100.0], KeptRows()
    view = LiveView(cast("Board", board), markdown=True, thinking=False, clock=lambda: now[0])
    view(ContextCompressing("threshold"))
    assert view.is_moving
    assert "compressing the context ..." in live(view)
    now[0] += 7.3
    assert "compressing the context ... 7 s" in live(view)
    view(ContextCompressed(15_000, 7_000, "threshold"))
    view(TurnStarted(1))
    assert "compressing" not in live(view)
    assert "context compressed, 15,000 → about 7,000 tokens" in board.text


def test_a_screen_that_only_adds_lines_says_that_it_begins(capsys: pytest.CaptureFixture[str]) -> None:
    View(Screen(interactive=True))(ContextCompressing("threshold"))
    assert "compressing the context ..." in capsys.readouterr().out
