"""A real program in tmux, whose screen is compared with ours."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.screen.terminal import TerminalScreen


class TmuxPane:
    """A program in tmux: the bytes that it writes, and the screen that tmux makes of them."""

    def __init__(self, folder: Path, columns: int, rows: int) -> None:
        self._argv = ["tmux", "-S", str(folder / "socket"), "-f", "/dev/null"]
        self.recorded, self._begin = folder / "recorded", folder / "begin"
        self.columns, self.rows = columns, rows

    def start(self, program: str, cwd: Path) -> None:
        """Run a program, and record what it writes from its first byte."""
        begin, columns, rows = self._begin, self.columns, self.rows
        os.mkfifo(begin)
        shell = f"read -r _ < {shlex.quote(str(begin))}; {program}; exec sleep 1000"
        size = ["-x", str(columns), "-y", str(rows)]
        options = ["set", "-g", "default-terminal", "xterm-256color", ";", "set", "-g", "status", "off", ";"]
        self.tmux(*options, "new-session", "-d", *size, "-c", str(cwd), "bash", "--norc", "-c", shell)
        self.tmux("pipe-pane", "-O", f"cat > {shlex.quote(str(self.recorded))}")
        begin.write_text("\n")

    def end(self) -> None:
        with contextlib.suppress(subprocess.CalledProcessError):
            self.tmux("kill-server")

    def tmux(self, *arguments: str) -> str:
        environment = {**os.environ, "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"}
        environment.pop("TMUX", None)
        done = subprocess.run([*self._argv, *arguments], capture_output=True, check=True, env=environment, timeout=30)
        return done.stdout.decode()

    def keys(self, *names: str) -> None:
        self.tmux("send-keys", *names)

    def theirs(self) -> tuple[list[str], tuple[int, int, bool], bool]:
        """Return tmux's cells with their styles, its cursor, and whether it shows the alternate screen."""
        state = self.tmux("display-message", "-p", "#{cursor_x} #{cursor_y} #{cursor_flag} #{alternate_on}").split()
        rows = self.tmux("capture-pane", "-e", "-p", "-N").split("\n")[: self.rows]
        screen = TerminalScreen(self.columns, self.rows)
        for number, row in enumerate(rows, 1):
            screen.feed(f"\x1b[{number}H\x1b[?7l\x1b)0{row}\x0f".encode())
        column = min(int(state[0]), self.columns - 1)  # tmux counts one more at the right edge
        return _trimmed(screen), (int(state[1]), column, state[2] == "1"), state[3] == "1"

    def ours(self, screen: TerminalScreen) -> tuple[list[str], tuple[int, int, bool], bool]:
        """Return our screen's cells, cursor and alternate screen."""
        return _trimmed(screen), tuple(screen.cursor), screen.alternate

    def screen(self) -> TerminalScreen:
        """Return our screen after the output of the program until now."""
        screen = TerminalScreen(self.columns, self.rows)
        screen.feed(self.recorded.read_bytes() if self.recorded.exists() else b"")
        return screen

    def agrees(self, shows: str) -> TerminalScreen:
        """Wait until the screen has a text, and both screens are the same, cell by cell; return ours."""
        end = time.monotonic() + 30
        while True:
            screen = self.screen()
            ours, theirs = self.ours(screen), self.theirs()
            if shows in screen.text() and ours == theirs:
                return screen
            if time.monotonic() > end:
                different = [pair for pair in zip(ours[0], theirs[0], strict=True) if pair[0] != pair[1]]
                raise AssertionError(f"{different}\n{ours[1:]} {theirs[1:]}\n{screen.text()}")
            time.sleep(0.02)


def _trimmed(screen: TerminalScreen) -> list[str]:
    """Return the cells with their styles, without blanks at the end: tmux does not print blanks that were erased in a colour."""
    return [re.sub(r"(?:\x1b\[[\d;]*m| )*$", "", row) for row in screen.rows_as_sgr()]


@pytest.fixture
def pane(tmp_path: Path) -> Iterator[Callable[..., TmuxPane]]:
    if not shutil.which("tmux"):
        pytest.skip("no tmux here")
    with contextlib.ExitStack() as stack:

        def start(program: str, columns: int = 80, rows: int = 24, *, cwd: Path = tmp_path) -> TmuxPane:
            if not shutil.which(shlex.split(program)[0]):
                pytest.skip(f"no {shlex.split(program)[0]} here")
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            pane = TmuxPane(folder, columns, rows)
            stack.callback(pane.end)
            pane.start(program, cwd)
            return pane

        yield start
