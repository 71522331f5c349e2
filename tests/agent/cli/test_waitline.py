"""Tests of the line that a user sees while a run produces no output."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from agent.cli.waitline import WaitLine
from agent.events import TextDelta, ThinkingDelta, ToolStarted, TurnStarted
from toolcrib import ToolCall


def shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], term: str, *, waits: bool) -> str:
    monkeypatch.setenv("TERM", term)

    patience = 0.05 if waits else 1.0

    async def run() -> None:
        line = WaitLine(lambda: "big-model", patience=patience)
        line(TurnStarted(1))
        line(ThinkingDelta("hm"))
        await asyncio.sleep(0.08 if waits else 0)
        line(TextDelta("An answer"))
        line(ToolStarted(ToolCall("1", "terminal", {"command": "ls"}), "💻"))
        await asyncio.sleep(0.08 if waits else 0)
        line.end()
        await asyncio.sleep(2 * patience)

    asyncio.run(run())
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err


def test_a_line_says_what_is_waited_for_and_goes_away(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(monkeypatch, capsys, "xterm", waits=True).split("\r\x1b[K")
    assert [line for line, _ in itertools.groupby(lines)] == [  # a slow machine may show a line twice
        "",
        "waiting for big-model ... 0 s; Ctrl-C interrupts",
        "",
        "terminal is running ... 0 s; Ctrl-C interrupts",
        "",
    ]
    assert shown(monkeypatch, capsys, "dumb", waits=True).splitlines() == [
        "toolcrib: waiting for big-model ...",
        "toolcrib: terminal is running ...",
    ]


def test_what_comes_at_once_needs_none(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(monkeypatch, capsys, "xterm", waits=False) == ""
