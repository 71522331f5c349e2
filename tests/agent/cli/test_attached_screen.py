"""The last row of an attached terminal."""

from __future__ import annotations

import pytest

from agent.background.attached import NO_ONE
from agent.cli.attached_screen import AttachedScreen
from agent.cli.screen import tty
from agent.cli.screen.themes import theme_for
from toolcrib.contract.terminal import TerminalSize
from tools.screen.terminal import ScreenCursor
from tools.terminals.terminal import TerminalView


def test_an_approval_request_is_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    """003-30: it waits until the user gives the window back to the chat."""
    written: list[str] = []
    waits = False
    monkeypatch.setattr(tty, "write", written.append)
    screen = AttachedScreen("job", theme_for("none", "never"), TerminalSize(100, 10), lambda: waits)
    screen.paint(TerminalView(("one",), 100, ScreenCursor(0, 3, True), False, False, NO_ONE))
    screen.look_for_requests()
    assert "request" not in "".join(written)
    waits = True
    for _ in range(2):
        screen.look_for_requests()
    assert written.count("\a") == 1
    assert "job · an approval request waits · watching" in written[-1]
    waits = False
    screen.look_for_requests()
    assert "job · watching" in written[-1]
