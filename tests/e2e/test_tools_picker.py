"""``toolcrib tools`` at a terminal: a full-screen picker."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from agent.config import config_path

pytestmark = pytest.mark.e2e


def test_a_person_searches_a_tool_and_switches_it_off_and_on(sit_down: Any, project: Path) -> None:
    person = sit_down("tools", columns=60, rows=24)
    person.sees("12 of 13 on, [0-9,]+ tokens per request")
    person.process.send("interaction")  # no tool has this name
    person.sees("no tool matches")
    person.process.send("\x15bash")
    person.sees(r"^> \[x\]  terminal")
    assert "read_file" not in person.text
    person.process.send(" ")
    person.sees(r"^> \[ \]\* terminal +[0-9,]+  switched off$")
    person.process.send("\r")
    person.sees(r"^cli: - terminal \(")
    assert not config_path().exists()
    person.process.send("\r")
    person.sees(r"terminal on cli: off: disabled in the configuration")
    assert person.waits_for_the_end() == 0
    assert "terminal" in config_path().read_text()

    person = sit_down("tools", columns=60, rows=24)
    person.sees(r"^> \[ \]  terminal")
    person.process.send(" \r")
    person.sees(r"^cli: \+ terminal")
    person.process.send("\r")
    person.sees(r"terminal on cli: on")
    assert person.waits_for_the_end() == 0
    assert "terminal" not in config_path().read_text()


@pytest.mark.parametrize("ends", ["\x1b", "\x03"])
def test_who_leaves_writes_nothing(sit_down: Any, config: Any, ends: str) -> None:
    file = config("platforms: {telegram: {allow_local: true}}\n")
    before = file.read_text()
    person = sit_down("tools", "--platform", "telegram", "--user", "42", columns=40, rows=20)
    person.sees("Tools of a session on telegram, user 42")
    person.process.send(" ")
    person.sees(r"\[ \]\* terminal")
    person.sees(r"switched off by\n *platforms.telegram.disabled_tools")
    person.process.send("\r")
    person.sees(r"^telegram, user 42: - terminal")
    person.sees(r"^not only for the user 42; for")
    person.process.send(ends)
    if ends == "\x1b":  # the first Escape returns to the list
        person.sees(r"^> \[ \]\* terminal")
        person.process.send(ends)
    person.sees("nothing was changed")
    assert person.waits_for_the_end() == 0
    assert file.read_text() == before


def test_a_kill_leaves_the_terminal_as_it_was(sit_down: Any) -> None:
    import termios

    person = sit_down("tools")
    descriptor = person.process.child_fd
    before = termios.tcgetattr(descriptor)
    person.sees("tokens per request")
    assert termios.tcgetattr(descriptor)[3] != before[3]
    person.process.kill(signal.SIGTERM)
    assert person.waits_for_the_end() == 128 + signal.SIGTERM
    assert b"\x1b[?1049l" in person.written
    assert b"\x1b[?25h" in person.written


def test_below_a_session_it_switches_nothing(sit_down: Any, config: Any) -> None:
    """The picker refuses changes in the same cases as other commands that write the configuration."""
    about = config("tools: {timeout: 60}\n").parent.stat()
    person = sit_down("tools", TOOLCRIB_BELOW=f"{about.st_dev}:{about.st_ino}")
    person.sees("tokens per request")
    person.process.send(" ")
    person.sees("only a user may switch tools, not a command of a session")
    assert "[ ]" not in person.text
    person.process.send("\x03")
    assert person.waits_for_the_end() == 0


@pytest.mark.parametrize("how", ["--plain", "list", "dumb", "screen reader", "--json"])
def test_where_nobody_wants_a_picker_it_is_the_list(sit_down: Any, config: Any, how: str) -> None:
    if how == "screen reader":
        config("display: {screen_reader: true}\n")
    words = [how] if how in ("--plain", "list", "--json") else []
    person = sit_down("tools", *words, columns=40, rows=400, **({"TERM": "dumb"} if how == "dumb" else {}))
    assert person.waits_for_the_end() == 0
    assert b"\x1b[?1049h" not in person.written
    if how == "--json":
        found = json.loads(person.written)
        assert all(one["cost"] > 0 for one in found)
        return
    assert "tokens per request, for 12 tools" in person.text
    assert ("on:  terminal" in person.text) == (how == "screen reader")
    assert max(map(len, person.text.splitlines())) <= 40


def test_what_can_not_be_previewed_ends_it_with_the_reason(sit_down: Any, config: Any) -> None:
    file = config("tools: {timeout: 60}\n")
    person = sit_down("tools")
    person.sees("tokens per request")
    file.write_text("tools: [\n")
    person.process.send(" \r")
    person.sees(r"toolcrib: .*config.yaml")
    assert person.waits_for_the_end() == 2
    assert file.read_text() == "tools: [\n"
