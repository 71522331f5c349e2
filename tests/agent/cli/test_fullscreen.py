"""Tests of detecting a user's commands that take over the whole terminal."""

from __future__ import annotations

import pytest

from agent.cli.fullscreen import drawing


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("vi a.py", "vi"),
        ("cd src && sudo -E /usr/bin/vim a.py", "vim"),
        ("LANG=C git log | less", "less"),
        ("top", "top"),
        ("top -b -n 1", ""),
        ("less a.txt | cat", ""),
        ("man ls > ls.txt", ""),
        ("vim --version", ""),
        ("echo vi; ls more", ""),
        ("echo 'vi", ""),
        ("", ""),
    ],
)
def test_programs_that_draw_are_known(command: str, program: str) -> None:
    assert drawing(command) == program
