"""``:unlock`` at a terminal: the passphrase is not shown, and is sent only to a gateway that no session's command imitates."""

from __future__ import annotations

import asyncio
import getpass
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.policy import passphrase
from tests.plugins.console.test_console_hostile import ConsoleHouse
from tests.plugins.console.test_console_hostile import house as house
from toolcrib import ExecRequest
from tools.environments.local.environment import LocalEnvironment

pytestmark = pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux is not installed")
WORDS = "four cranes lift paper"
_CLIENT = (
    "import argparse; from plugins.console import client; p = argparse.ArgumentParser(); client.configure(p);"
    "client.run(p.parse_args())"
)
_PLAYED = """
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
link, _ = s.accept()
while data := link.recv(65536):
    with open(sys.argv[2], "ab") as file:
        file.write(data)
"""


class Window:
    """A user's terminal in the user's own tmux: not a child of the gateway."""

    def __init__(self, folder: Path, root: Path, socket: Path) -> None:
        self._tmux = ["tmux", "-S", str(folder / "tmux")]
        line = shlex.join(["env", f"PYTHONPATH={root}", sys.executable, "-c", _CLIENT, "--socket", str(socket)])
        keep = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(("XDG_", "TOOLCRIB_", "HOME"))]
        self._run("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40", shlex.join(["env", *keep]) + " " + line)

    def _run(self, *words: str) -> str:
        return subprocess.run([*self._tmux, *words], capture_output=True, text=True, check=True, timeout=60).stdout

    def types(self, line: str) -> None:
        self._run("send-keys", "-l", line)
        self._run("send-keys", "Enter")

    async def sees(self, words: str) -> str:
        async with asyncio.timeout(60):
            while words not in (screen := " ".join(self._run("capture-pane", "-p", "-J", "-S", "-").split())):
                await asyncio.sleep(0.05)
        return screen

    def close(self) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True, check=False, timeout=60)


@pytest.fixture
def open_window(tmp_path: Path, root: Path) -> Iterator[list[Window]]:
    opened: list[Window] = []
    yield opened
    for window in opened:
        window.close()


async def test_a_person_at_a_terminal_unlocks_and_decides(
    house: ConsoleHouse, open_window: list[Window], tmp_path: Path, root: Path
) -> None:
    passphrase.set_passphrase(WORDS)
    folder = house.folder / "build"
    folder.mkdir()
    async with house.running(getpass.getuser()):
        window = Window(tmp_path, root, house.path)
        open_window.append(window)
        window.types(f"rm -rf {folder}")
        await window.sees(":1 ")
        window.types(":1")
        await window.sees("To decide here, type :unlock and your passphrase")
        window.types(f":unlock {WORDS}")
        await window.sees("not sent: type :unlock alone")
        window.types(":unlock")
        await window.sees("Passphrase (not shown):")
        window.types(WORDS)
        await window.sees("unlocked: this terminal can decide")
        assert folder.is_dir()
        window.types(":1")
        screen = await window.sees("ran it")
        assert not folder.exists()
        assert screen.count(WORDS) == 1  # only the line that was typed visibly
    assert WORDS not in " ".join(house.asked)


async def test_a_gateway_that_a_session_plays_is_told_no_passphrase(
    open_window: list[Window], tmp_path: Path, root: Path
) -> None:
    path, heard = tmp_path / "socket", tmp_path / "heard"
    environment = LocalEnvironment(str(tmp_path))
    play = shlex.join([sys.executable, "-c", _PLAYED, str(path), str(heard)])
    await environment.execute(ExecRequest(f"env -i setsid -f {play}; until [ -S {path} ]; do sleep 0.02; done", timeout=60))
    window = Window(tmp_path, root, path)
    open_window.append(window)
    await window.sees("may be a session's command")
    window.types("hello there")
    window.types(":unlock")
    await window.sees("the passphrase is not sent")
    window.close()
    async with asyncio.timeout(60):
        while b"hello there" not in (heard.read_bytes() if heard.exists() else b""):
            await asyncio.sleep(0.05)
    assert b"unlock" not in heard.read_bytes()
    await environment.close()
