"""Notifications about a question that waits: by the terminal if it is known to show them, and by the user's command."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from agent.cli.notifying import TEXT, notifier, sequence_for

OSC9, OSC777 = f"\x1b]9;{TEXT}\a", "\x1b]777;notify;toolcrib;a question waits for your answer\a"


@pytest.mark.parametrize(
    ("setting", "environ", "expected"),
    [
        ("auto", {"TERM": "xterm-256color"}, ""),
        ("auto", {"TERM": "linux"}, ""),
        ("auto", {}, ""),
        ("auto", {"TERM": "xterm-256color", "TERM_PROGRAM": "iTerm.app"}, OSC9),
        ("auto", {"TERM": "xterm-kitty"}, OSC9),
        ("auto", {"TERM": "foot"}, OSC777),
        ("auto", {"TERM": "tmux-256color", "TERM_PROGRAM": "WezTerm", "TMUX": "/tmp/x"}, ""),
        ("osc9", {"TERM": "xterm"}, OSC9),
        ("osc777", {"TERM": "xterm"}, OSC777),
        ("never", {"TERM": "foot"}, ""),
    ],
)
def test_a_terminal_gets_what_it_shows(setting: str, environ: dict[str, str], expected: str) -> None:
    assert sequence_for(setting, environ) == expected


def test_the_command_gets_the_text_and_a_missing_one_disturbs_nothing(tmp_path: Path) -> None:
    import threading

    told = tmp_path / "told"
    code = f"import sys; open({str(told)!r}, 'w').write(sys.argv[-1])"
    written: list[str] = []
    for command in ([sys.executable, "-c", code], [str(tmp_path / "missing")]):
        before = set(threading.enumerate())
        notifier("osc9", command, written.append)()
        for thread in set(threading.enumerate()) - before:
            thread.join()
    assert told.read_text() == TEXT
    assert written == [OSC9, OSC9]
