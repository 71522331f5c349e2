"""A user at a terminal: the program under pexpect with a screen of pyte, or in tmux, which can be resized."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pyte
import pytest

from tests.forks import COMMAND, Forks, heeds_interrupts
from toolcrib.testing import ChatServer

FORKED = {
    *(
        "test_attached.py",
        "test_chat.py",
        "test_delegates.py",
        "test_golden.py",
        "test_input.py",
        "test_model.py",
        "test_parked.py",
    ),
    *("test_planning.py", "test_progress.py", "test_resume.py", "test_screen.py", "test_sessions.py", "test_setup.py"),
    *("test_tools_picker.py", "test_undo.py"),
}
"""Files about conversations, sessions, screens and keys. In all others, ``sit_down`` starts a new program each time."""
PATIENCE = 60.0
"""Seconds that each step may take on a busy machine. No test here measures time."""
CURSOR_QUERY = b"\x1b[6n"
BEGINS, ENDS = b"\x1b[?2026h", b"\x1b[?2026l"
"""Marks around a frame that terminals show as a whole."""
VARIANT = "\ufe0f".encode()
"""A mark that requests an emoji's wide form; pyte drops the text after it."""


class Person:
    """A user who types and reads. ``sees`` waits until the screen shows something; text that scrolled away does not count.

    ``forks`` starts the program; without it, it is started like a user's.
    """

    def __init__(
        self, args: list[str], cwd: Path, env: dict[str, str], columns: int = 100, rows: int = 60, forks: Forks | None = None
    ) -> None:
        self._screen = pyte.HistoryScreen(columns, rows, history=1000)
        self._stream = pyte.ByteStream(self._screen)
        self._text: str | None = ""
        self._held = b""
        self.written = b""
        options: dict[str, Any] = {"dimensions": (rows, columns), "timeout": PATIENCE, "echo": False}
        if forks is not None:
            self.process = forks.spawn(*args, cwd=cwd, env=env, **options)
        else:
            self.process = pexpect.spawn(str(COMMAND), args, cwd=str(cwd), env=env, preexec_fn=heeds_interrupts, **options)
        self.process.delaybeforesend = None
        self.process.delayafterclose = self.process.ptyproc.delayafterclose = 0.01

    def looks(self) -> bool:
        """Read new output, and answer the cursor query. Return False at the end."""
        try:
            data = self.process.read_nonblocking(65536, timeout=0.05)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            self._shows(self._held)
            return False
        self.written += data
        data = self._held + data
        begun = data.rfind(BEGINS)
        if begun <= data.rfind(ENDS):
            begun = next((len(data) - n for n in range(len(BEGINS) - 1, 0, -1) if data.endswith(BEGINS[:n])), len(data))
        data, self._held = data[:begun], data[begun:]
        self._shows(data)
        return True

    def _shows(self, data: bytes) -> None:
        self._stream.feed(data.replace(VARIANT, b""))
        self._text = None
        for _ in range(data.count(CURSOR_QUERY)):
            self.process.send(f"\x1b[{self._screen.cursor.y + 1};{self._screen.cursor.x + 1}R")

    @property
    def text(self) -> str:
        if self._text is None:  # a read without output costs nothing
            self._text = "\n".join(line.rstrip() for line in self._screen.display).rstrip()
        return self._text

    def colours(self, text: str) -> set[str]:
        """Return the colours of a text's characters, at its last place on the screen."""
        rows = self.text.split("\n")
        row = max(number for number, line in enumerate(rows) if text in line)
        begin = rows[row].index(text)
        return {self._screen.buffer[row][column].fg for column in range(begin, begin + len(text.rstrip()))}

    @property
    def scrolled(self) -> str:
        """Return the text that scrolled away, and the screen."""
        lines = ["".join(row[x].data for x in range(self._screen.columns)) for row in self._screen.history.top]
        return "\n".join([*(line.rstrip() for line in lines), self.text])

    def sees(self, pattern: str) -> str:
        """Wait for a regular expression on the screen, and return the whole screen."""
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, self.text, re.MULTILINE):
            alive = self.looks()
            assert time.monotonic() < end, f"never saw {pattern!r}; the screen:\n{self.text}"
            assert alive or re.search(pattern, self.text, re.MULTILINE), f"it ended before {pattern!r}; the screen:\n{self.text}"
        return self.text

    def at_prompt(self) -> str:
        """Wait until the chat is at its prompt and nothing runs."""
        return self.sees(r"^(?:│ )?>\n[^\n]*/help\Z")

    def types(self, line: str) -> None:
        self.process.send(line + "\r")

    def chooses(self, key: str, row: str = r"\? help\b") -> None:
        """Press a key in a row of keys, when the screen has been quiet long enough for the key to count."""
        self.sees(row)
        end = time.monotonic() + PATIENCE
        while re.search(row, self.text):
            assert time.monotonic() < end, f"{key!r} did not answer; the screen:\n{self.text}"
            quiet = time.monotonic() + 1  # longer than the quiet that a key needs
            while time.monotonic() < quiet:
                if not self.looks():
                    return
            if re.search(row, self.text):
                self.process.send(key)

    def denies(self, reason: str = "") -> None:
        """Deny the chat's question."""
        self.sees(r"\? help$")
        self.process.send("d")
        self.sees(r"why not \(Enter: no reason\) >$")
        self.types(reason)

    def clears(self) -> None:
        """Clear the screen for later checks, as after a long scroll. Only at a prompt."""
        self.process.send("\x0c")
        self.sees(r"\A╭─\n│ >\n[^\n]*/help\Z")

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
def cautious(config: Callable[[str], Path]) -> None:
    """Ask also about effects that the sandbox or a snapshot covers, for tests about questions."""
    config("approval: {mode: cautious}\n")


@pytest.fixture
def plain(config: Callable[[str], Path]) -> Callable[[str], Path]:
    """Configure no sandbox and no snapshots, for tests of other things. Call it with further configuration."""

    def write(text: str) -> Path:
        return config(f"sandbox: {{mode: none}}\nsnapshots: {{enabled: false}}\n{text}")

    write("")
    return write


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def sit_down(project: Path, forks: Forks, request: pytest.FixtureRequest) -> Iterator[Callable[..., Person]]:
    """Return ``sit_down("chat")``, which starts the program in the project's folder: by a fork in the files of FORKED, elsewhere
    like a user's.
    """
    people: list[Person] = []
    used = forks if request.path.name in FORKED else None

    def start(*args: str, columns: int = 100, rows: int = 60, **env: str) -> Person:
        env = {**os.environ, "TERM": "xterm-256color", "NO_COLOR": "1", **env}
        person = Person([*args], project, env, columns, rows, used)
        people.append(person)
        return person

    yield start
    for person in people:
        person.goes_away()


@pytest.fixture
def chatting(sit_down: Any) -> Person:
    """A user at the chat's first prompt."""
    person: Person = sit_down("chat")
    person.at_prompt()
    return person


@pytest.fixture
def server() -> Iterator[ChatServer]:
    """A model's server; ``server.responses`` are its replies."""
    with ChatServer() as server:
        yield server


@pytest.fixture
def talking(sit_down: Any, server: ChatServer) -> Person:
    """A user in a chat with that model, at the first prompt."""
    person: Person = sit_down("chat", "--base-url", server.base_url, "--model", "test-model")
    person.sees(r"test-model answers")
    person.at_prompt()
    return person


class Tmux:
    """A chat in its own terminal multiplexer."""

    def __init__(self, folder: Path, command: list[str], cwd: Path, size: tuple[int, int]) -> None:
        self.socket = str(folder / "tmux")
        keep = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(("XDG_", "PYTHON", "HOME", "PATH"))]
        self.run(
            "-f", "/dev/null", "new-session", "-d", "-x", str(size[0]), "-y", str(size[1]), "-c", str(cwd),
            "env", *keep, "NO_COLOR=1", *command,
        )  # fmt: skip

    def run(self, *words: str) -> str:
        command = ["tmux", "-S", self.socket, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout

    def resize(self, columns: int, rows: int) -> None:
        self.run("resize-window", "-x", str(columns), "-y", str(rows))

    def all_of(self) -> str:
        """Return the history and the screen, without blanks at the ends of lines."""
        return re.sub(r" +$", "", self.run("capture-pane", "-p", "-J", "-S", "-"), flags=re.MULTILINE)

    def is_alive(self) -> bool:
        """Return True until the chat has ended, and its window with it."""
        command = ["tmux", "-S", self.socket, "list-windows"]
        return subprocess.run(command, capture_output=True, check=False, timeout=30).returncode == 0

    def close(self) -> None:
        """Hang up, and wait until the chat has ended too: it closes its own resources first."""
        command = ["tmux", "-S", self.socket]
        listed = subprocess.run([*command, "list-panes", "-a", "-F", "#{pane_pid}"], capture_output=True, text=True, check=False)
        subprocess.run([*command, "kill-server"], capture_output=True, check=False)
        end = time.monotonic() + PATIENCE
        for chat in listed.stdout.split():
            while Path("/proc", chat).exists() and time.monotonic() < end:
                time.sleep(0.02)

    def sees(self, pattern: str) -> str:
        end = time.monotonic() + PATIENCE
        while not re.search(pattern, text := self.all_of(), re.MULTILINE):
            assert time.monotonic() < end, f"never saw {pattern!r}; the screen:\n{text}"
            time.sleep(0.05)
        return text


@pytest.fixture
def tmux(tmp_path: Path, project: Path) -> Iterator[Callable[..., Tmux]]:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    opened: list[Tmux] = []

    def start(*command: str, size: tuple[int, int] = (80, 24)) -> Tmux:
        opened.append(Tmux(tmp_path, [str(COMMAND), *command], project, size))
        return opened[-1]

    yield start
    for one in opened:
        one.close()
