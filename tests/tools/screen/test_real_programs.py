"""Screens of real programs are the same as in tmux, cell by cell, with styles, cursor and alternate screen."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.full

Step = tuple[str, Sequence[str]]
"""Text that the screen shows after these keys."""
MENU = "--title Tools --menu 'Choose one' 15 40 5 a Alpha b Beta c 日本語"
PROGRAMS: dict[str, tuple[str, Sequence[Step]]] = {
    "vim": (
        "vim -u NONE -N -n -c 'syntax on' -c 'set number hlsearch' lines.py",
        (
            ("def function_7", ()),
            ("function_298", ("G",)),
            ("hello wörld 日本語", ("o", "hello wörld 日本語", "Escape", "5kddP")),
            ("function_1():", ("gg", "/function", "Enter", "n", "C-e", "C-y", "zz")),
            ("[No Name]", (":new", "Enter")),
            ("-- INSERT --", (":q", "Enter", "i")),
        ),
    ),
    "less": (
        "less lines.py",
        (("function_7", ()), ("function_19", ("Space", "Space", "k", "b", "j", "Space")), ("(END)", ("/298", "Enter", "G"))),
    ),
    "top": ("top -d 1000 -w 80", (("load average", ()),)),
    "htop": ("htop -d 1000", (("Tasks", ()), ("F10", ("Down", "Down")))),
    "dialog": (f"dialog {MENU}", (("Choose one", ()), ("Beta", ("Down", "Tab")))),
    "whiptail": (f"whiptail {MENU}", (("Choose one", ()), ("Beta", ("Down", "Tab")))),
    "git add -p": (
        "git add -p",
        (("+changed", ()), ("? - print help", ("?", "Enter")), ("(2/2)", ("n", "Enter")), ("? - print help", ("?", "Enter"))),
    ),
    "python3": (
        "python3 -q",
        (
            (">>>", ()),
            ("done", ("print('x' * 200, 'do' + 'ne')", "Enter")),
            ("abcx", ("abcd", "BSpace", "x")),
        ),
    ),
    "bash": (
        "bash --norc -i",
        (
            ("bash", ()),
            ("xy", ("seq 100; echo x", "y", "Enter")),
            ("本日本", ("echo ", "y" * 62, "日本x", "C-a", "C-e", "BSpace", "日本")),
        ),
    ),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a repository with a changed file."""
    lines = [
        f"def function_{number}():\n    return '{number % 60 * 'é'}'  # {'long ' * (number % 30)}\n" for number in range(300)
    ]
    (tmp_path / "lines.py").write_text("".join(lines), "utf-8")
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "begin"]):
        subprocess.run([*git, *command], check=True, capture_output=True)
    (tmp_path / "lines.py").write_text("".join(["changed\n", *lines[:-1]]), "utf-8")
    return tmp_path


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_screen_is_the_same_as_in_tmux(name: str, folder: Path, pane: Callable[..., Any]) -> None:
    program, steps = PROGRAMS[name]
    shown = pane(program, cwd=folder)
    for shows, keys in steps:
        if keys:
            shown.keys(*keys)
        shown.agrees(shows)


def test_the_history_is_the_same_as_in_tmux(folder: Path, pane: Callable[..., Any]) -> None:
    shown = pane("cat lines.py && echo en''d", cwd=folder)
    screen = shown.agrees("end")
    lines = shown.tmux("capture-pane", "-p", "-S", "-").split("\n")
    assert len(screen.history) > 600
    assert screen.history == lines[: len(screen.history)]


def test_other_heights_take_lines_from_the_history_and_return_them(folder: Path, pane: Callable[..., Any]) -> None:
    shown = pane("bash -c 'seq 60; echo end; exec cat'", cwd=folder)
    shown.agrees("end")
    before = shown.recorded.read_bytes()
    screen = shown.screen()
    for rows in (40, 10, 24):
        shown.tmux("resize-window", "-x", "80", "-y", str(rows))
        screen.resize(80, rows)
        shown.rows = rows
        ours, theirs = shown.ours(screen), shown.theirs()
        assert ours == theirs
    assert shown.recorded.read_bytes() == before
