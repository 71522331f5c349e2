"""A window that changes its size while an answer streams, in tmux: pyte does not wrap and join lines as terminals do."""

from __future__ import annotations

import itertools
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("plain")]
SLOW = {"command": "touch started; until [ -e go ]; do sleep 0.05; done; echo went"}
SIZES = [(100, 30), (60, 20), (120, 40), (50, 12), (72, 10), (40, 24), (100, 14), (60, 30), (80, 24), (44, 20), (100, 30)]
"""Sizes that become wider, narrower, taller, shorter, and several of these at once."""


def answer() -> tuple[str, list[str]]:
    """Return a text of lists, tables, code and wide characters, and its words, all different."""
    numbers = itertools.count()

    def words(count: int) -> str:
        return " ".join(f"w{next(numbers)}x" for _ in range(count))

    parts = []
    for part in range(6):
        parts.append(f"## {words(3)}\n\n{words(50)}")
        parts.append("\n".join(f"- {words(5 + 3 * item)}\n  - {words(4)}" for item in range(6)))
        rows = [f"| {words(1)} | {words(1 + row % 5)} | {words(1 + (row + part) % 7)} |" for row in range(9)]
        parts.append("\n".join([rows[0], "|---|---|---|", *rows[1:]]))
        parts.append("```python\n" + "\n".join(f"{words(1)} = {words(2)}" for _ in range(5)) + "\n```")
        parts.append(" ".join(f"{words(1)} 漢字かな" for _ in range(15)))
    text = "\n\n".join([*parts, "wLASTx"])
    return text, re.findall(r"w\w+?x", text)


def test_no_row_is_lost_or_doubled(tmux: Any, server: ChatServer) -> None:
    """Each resize leaves at most one row of the live part, and no part of the answer is missing, at any moment."""
    text, words = answer()
    server.responses.append(ChatServer.text(text, piece=5, pieces=700, pause=0.015))
    screen = tmux("chat", "--base-url", server.base_url, "--model", "test-model", size=SIZES[0])
    screen.sees(r"/help")
    screen.run("send-keys", "talk", "Enter")
    for number, size in enumerate(SIZES[1:], 1):  # at a word in each kind of block
        screen.sees(rf"w{number * len(words) // (len(SIZES) + 1)}x")
        screen.resize(*size)
        if number % 3 == 0:  # resize again before the terminal reports the first change
            screen.resize(size[0] + 7, size[1] + 3)
            screen.resize(*size)
    shown = screen.sees(r"wLASTx(.*\n)*│ > ?\n.*/help")
    seen = Counter(re.findall(r"w\w+?x", shown))
    assert [word for word in words if not seen[word]] == [], shown
    doubled = [line for line in shown.split("\n") if any(seen[word] > 1 for word in re.findall(r"w\w+?x", line))]
    assert len(doubled) <= 2 * len(SIZES), doubled  # once in the answer's own row, and once in the leftover row
    assert len(re.findall(r"^(?:│ )?>", shown, re.MULTILINE)) == 2  # the message, and the line for input


def test_a_resize_leaves_nothing_behind(tmux: Any, server: ChatServer, project: Path) -> None:
    """Each resize leaves at most one live row, and no line of the answer is lost or doubled."""
    lines = [f"- line {number} of the model's answer" for number in range(60)]
    server.responses += [ChatServer.calls(("terminal", SLOW)), ChatServer.text("\n".join(lines), pieces=250, pause=0.03)]
    screen = tmux("chat", "--base-url", server.base_url, "--model", "test-model")
    screen.sees(r"/help")
    screen.run("send-keys", "work", "Enter")
    screen.sees(r"terminal runs")
    screen.run("send-keys", "a draft that is kept")
    widths = (60, 100, 50, 80)
    for width in widths:
        screen.resize(width, 24)
        time.sleep(0.3)
    (project / "go").touch()
    screen.sees(r"line 5 of")
    for width in widths:
        screen.resize(width, 24)
        time.sleep(0.2)
    text = screen.sees(r"line 59 of(.*\n)*.*/help")
    counts = [len(re.findall(rf"^• line {number} of the model's answer$", text, re.MULTILINE)) for number in range(60)]
    assert counts == [1] * 60
    assert text.count("> work\n") == 1
    assert text.count("> a draft that is kept\n") == 1
    ghosts = [line for line in text.split("\n") if re.match(r"\S 💻|• line", line)]
    assert len(ghosts) <= len(lines) + 2 * len(widths)
    screen.run("send-keys", "C-u", "C-d")
    end = time.monotonic() + 60
    while screen.is_alive():
        assert time.monotonic() < end, screen.all_of()
        time.sleep(0.05)


def test_a_question_is_laid_out_anew(tmux: Any, server: ChatServer, project: Path) -> None:
    (project / "build").mkdir()
    server.responses += [ChatServer.calls(("terminal", {"command": "rm -rf build"})), ChatServer.text("Kept.")]
    screen = tmux("chat", "--base-url", server.base_url, "--model", "test-model", size=(90, 24))
    screen.sees(r"/help")
    screen.run("send-keys", "tidy up", "Enter")
    screen.sees(r"^┃   s  Allow in session  .*\n(?:┃ {20,}.*\n)*┃   d  Deny .*\n┃ +p this path · u uses · .* · \? help$")
    time.sleep(1.5)  # longer than tmux may take to report a size: no row counts as just written
    screen.resize(44, 24)
    screen.sees(r"^┃   s  Allow in session  .*\n(?:┃ {20,}.*\n)+┃   d  Deny .*\n┃ +p this path  u uses  m  a  \? help$")
    time.sleep(1.5)
    screen.resize(90, 24)
    text = screen.sees(r"^┃   s  Allow in session  .*\n(?:┃ {20,}.*\n)*┃   d  Deny .*\n┃ +p this path · u uses · .* · \? help$")
    assert text.count("Allow this?") == 1, text
