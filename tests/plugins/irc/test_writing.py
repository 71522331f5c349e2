"""Texts converted to lines."""

from __future__ import annotations

from plugins.irc.writing import lines_of
from toolcrib.chat import Chat, Outbound


def test_each_line_of_a_quote_has_its_mark() -> None:
    text = f"> {'I agree. ' * 60}"
    lines = lines_of(Outbound(Chat("a"), f"somebody says:\n\n{text}\n\nand that is all", "k"), 100, [])
    assert (lines[0], lines[-1]) == ("somebody says:", "and that is all")
    assert len(lines) > 5
    assert all(line.startswith("> ") and len(line.encode()) <= 100 for line in lines[1:-1])
    assert " ".join(line.removeprefix("> ") for line in lines[1:-1]).split() == text.removeprefix("> ").split()


def test_a_command_that_is_long_gets_nothing_more() -> None:
    command = f"> out {'x ' * 100}".strip()
    assert " ".join(lines_of(Outbound(Chat("a"), command, "k", is_plain=True), 100, [])) == command
