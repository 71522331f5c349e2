"""A person at a terminal: the installed program under pexpect, its screen kept by pyte."""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pyte
import pytest

COMMAND = Path(sys.executable).with_name("toolcrib")
PATIENCE = 60.0
"""Seconds that anything may take on a busy machine. Nothing here is fast or slow; it happens or it doesn't."""
CURSOR_QUERY = b"\x1b[6n"


class Person:
    """Types and reads. ``sees`` waits until the screen shows something; what scrolled away no longer counts."""

    def __init__(self, args: list[str], cwd: Path, env: dict[str, str], columns: int = 100, rows: int = 60) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=1000)
        self._stream = pyte.ByteStream(self._screen)
        self.written = b""
        self.process = pexpect.spawn(
            str(COMMAND), args, cwd=str(cwd), env=env, dimensions=(rows, columns), timeout=PATIENCE, echo=False
        )
        self.process.delaybeforesend = None
        self.process.delayafterclose = self.process.ptyproc.delayafterclose = 0.01

    def looks(self) -> bool:
        """Take in what has come, and answer the cursor query. False at the end."""
        try:
            data = self.process.read_nonblocking(65536, timeout=0.05)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self._stream.feed(data)
        self.written += data
        for _ in range(data.count(CURSOR_QUERY)):
            self.process.send(f"\x1b[{self._screen.cursor.y + 1};{self._screen.cursor.x + 1}R")
        return True

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self._screen.display).rstrip()

    def colours(self, text: str) -> set[str]:
        """Return the colours of a text's characters, where it stands last on the screen."""
        rows = self.text.split("\n")
        row = max(number for number, line in enumerate(rows) if text in line)
        begin = rows[row].index(text)
        return {self._screen.buffer[row][column].fg for column in range(begin, begin + len(text.rstrip()))}

    def sees(self, pattern: str) -> str:
        """Wait for a regular expression on the screen, and return the whole screen."""
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.text, re.MULTILINE):
            alive = self.looks()
            assert time.monotonic() < end, f"never saw {pattern!r}; the screen:\n{self.text}"
            assert alive or re.search(pattern, self.text, re.MULTILINE), f"it ended before {pattern!r}; the screen:\n{self.text}"
        return self.text

    def at_prompt(self) -> str:
        """Wait until the chat asks for the next line, and nothing is at work."""
        return self.sees(r"^>\n[^\n]*/help\Z")

    def types(self, line: str) -> None:
        self.process.send(line + "\r")

    def chooses(self, key: str, row: str = r"d deny  \? help") -> None:
        """Press a key in a row of keys, once it is quiet enough for it to count."""
        self.sees(row)
        end = time.monotonic() + PATIENCE
        while re.search(row, self.text):
            assert time.monotonic() < end, f"{key!r} did not answer; the screen:\n{self.text}"
            time.sleep(1)  # longer than the quiet that a key needs
            self.process.send(key)
            self.looks()
            if not self.looks():
                break

    def clears(self) -> None:
        """Look at an empty screen from here on, as after a long scroll. Only at a prompt."""
        self.process.send("\x0c")
        self.sees(r"\A>\n[^\n]*/help\Z")

    def presses(self, key: str) -> None:
        self.process.sendcontrol(key)

    def waits_for_the_end(self) -> int:
        end = time.monotonic() + PATIENCE
        while self.looks():
            assert time.monotonic() < end, f"it did not end; the screen:\n{self.text}"
        self.process.wait()
        status = self.process.exitstatus
        assert status is not None, f"ended by signal {self.process.signalstatus}"
        return int(status)

    def goes_away(self) -> None:
        """Close the terminal's window. The program must end by itself, and clean up."""
        if self.process.isalive():
            self.process.kill(signal.SIGHUP)
            end = time.monotonic() + PATIENCE
            while self.looks() and time.monotonic() < end:
                continue
        self.process.close(force=True)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def sit_down(project: Path) -> Iterator[Callable[..., Person]]:
    """``sit_down("chat")`` starts the program in the project's folder."""
    people: list[Person] = []

    def start(*args: str, columns: int = 100, rows: int = 60, **env: str) -> Person:
        person = Person([*args], project, {**os.environ, "TERM": "xterm-256color", "NO_COLOR": "1", **env}, columns, rows)
        people.append(person)
        return person

    yield start
    for person in people:
        person.goes_away()


@pytest.fixture
def chatting(sit_down: Any) -> Person:
    """At the chat's first prompt."""
    person: Person = sit_down("chat")
    person.at_prompt()
    return person
