"""The lines that a person typed, kept for the next chat."""

from __future__ import annotations

import os
from pathlib import Path

from prompt_toolkit.history import FileHistory

from agent.cli.commands.chat import _history_file


def test_the_newest_lines_stay_where_there_are_too_many() -> None:
    file = Path(os.environ["XDG_STATE_HOME"]) / "toolcrib" / "chat_history"
    file.parent.mkdir(parents=True)
    kept = FileHistory(str(file))
    pasted = "# no beginning of an entry\n" * 10_000
    for text in (pasted, *(f"old {number} " + "x" * 10_000 for number in range(150)), "two\n# lines", "last"):
        kept.store_string(text)
    assert _history_file() == file
    assert file.stat().st_size <= 1 << 20
    assert file.stat().st_mode & 0o077 == 0
    found = list(FileHistory(str(file)).load_history_strings())
    assert found[:2] == ["last", "two\n# lines"]
    assert [text.split()[1] for text in found[2:]] == [str(number) for number in range(149, 149 - len(found[2:]), -1)]
    before = file.read_bytes()
    assert _history_file() == file
    assert file.read_bytes() == before
    assert [path.name for path in file.parent.iterdir()] == ["chat_history"]
