"""Progress of calls, in words, for output that can't be redrawn."""

from __future__ import annotations

from typing import Any

import pytest

from agent.cli.render import Screen
from agent.cli.view import View
from agent.events import Event, ToolActivity, ToolFinished, ToolProgressed, ToolStarted
from toolcrib import ExecutedCall, ToolCall, ToolCallStatus, ToolResult

CALL = ToolCall("c0", "build\x1b[2J", {})


def shown_lines(capsys: pytest.CaptureFixture[str], *happened: tuple[float, Event]) -> list[str]:
    """Return the lines that are written when events arrive at these seconds."""
    now = 0.0
    view = View(Screen(interactive=False), clock=lambda: now)
    for seconds, event in happened:
        now = seconds
        view(event)
    said = capsys.readouterr()
    assert said.out == ""
    return said.err.splitlines()


def half(message: str = "half of it", share: float | None = 0.5, **more: Any) -> ToolProgressed:
    return ToolProgressed("c0", "running", message, share, **more)


def test_progress_is_told_of_a_call_that_takes_its_time(capsys: pytest.CaptureFixture[str]) -> None:
    """002-17: progress is not shown for short calls, never twice the same, and at most every few seconds."""
    lines = shown_lines(
        capsys,
        (0.0, ToolStarted(CALL, "")),
        (0.1, half("too soon")),
        (2.0, half("a\x07b")),
        (2.1, half("too often")),
        (7.1, half("a\x07b")),
        (7.2, half("", 1.0)),
        (20.0, half("", None, reports=1_200)),
    )
    assert lines == ["build^[[2J: a^Gb, 50 %", "build^[[2J: 100 %", "build^[[2J: 1,200 reports of its work"]


def test_what_else_a_call_shows_is_not_told(capsys: pytest.CaptureFixture[str]) -> None:
    ended = ExecutedCall(CALL, ToolResult.success("build", "ok"), ToolCallStatus.SUCCEEDED, 30.0)
    lines = shown_lines(
        capsys,
        (0.0, ToolStarted(CALL, "")),
        (20.0, ToolActivity("c0", "plan", "x")),
        (30.0, ToolFinished(ended, "")),
        (31.0, half()),
        (31.0, ToolProgressed("other", "running", "of nobody")),
    )
    assert len(lines) == 1
    assert lines[0].endswith("ok")
