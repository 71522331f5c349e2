"""A disk that gets full under the state folder: what was shown holds, and what is said is a line that says what to do."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

_SIZE = 1200
"""KiB of the disk."""
_MAIN = "import sys; from agent.cli import main; sys.exit(main(sys.argv[1:]))"
_PRINTS = "head -c 11000 /dev/urandom | base64 | head -c 14000"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    if os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("needs root to mount a file system")
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}k", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if made.returncode:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


class SmallDisk:
    """``toolcrib`` in processes of its own, with its state on the disk."""

    def __init__(self, disk: Path, project: Path) -> None:
        self._disk = disk
        self._project = project
        self._filler = disk / "filler"

    def start(self, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-c", _MAIN, *args], cwd=self._project, capture_output=True, text=True, timeout=120, check=False,
            env={**os.environ, "XDG_STATE_HOME": str(self._disk), "PYTHONPATH": str(Path(__file__).parents[3])}, input=stdin,
        )  # fmt: skip
        assert "Traceback" not in done.stderr + done.stdout
        return done

    def fill(self, left: int) -> None:
        """Fill the disk but for so many KiB."""
        found = os.statvfs(self._disk)
        self._filler.write_bytes(bytes(max(0, found.f_bavail * found.f_frsize - left * 1024)))

    def make_room(self) -> None:
        self._filler.unlink()


@pytest.fixture
def small(disk: Path, tmp_path: Path) -> SmallDisk:
    project = tmp_path / "project"
    project.mkdir()
    return SmallDisk(disk, project)


def called(number: int) -> Any:
    return ChatServer.calls(("terminal", {"command": f"echo {number} >> ran; {_PRINTS}"}), ids=[f"call_{number}"])


@pytest.mark.full
@pytest.mark.parametrize("left", range(130, 340, 28))
def test_what_was_shown_as_succeeded_is_never_told_as_unsure(small: SmallDisk, left: int) -> None:
    """Wherever the disk gets full."""
    answers = [ChatServer.text("hi"), *map(called, range(4)), ChatServer.text("done"), ChatServer.text("ok")]
    with ChatServer(*answers) as server:
        model = ["--model", "m", "--base-url", server.base_url]
        assert small.start("run", *model, "begin").returncode == 0
        small.fill(left)
        done = small.start("run", *model, "--continue", "--json", "go")
        assert done.returncode == 1
        events = [json.loads(line) for line in done.stdout.splitlines()]
        shown = {event["id"]: event["status"] for event in events if event["type"] == "tool_finished"}
        assert [event["kind"] for event in events if event["type"] == "error"] == ["StoreFailed"]
        lines = done.stderr.splitlines()
        assert lines[-1].startswith("toolcrib: StoreFailed: ")
        assert "make room and try again" in lines[-1]
        assert len(lines) <= 2, done.stderr
        small.make_room()
        small.start("run", *model, "--continue", "go on")
        told = {one["tool_call_id"]: one["content"] for one in server.requests[-1]["messages"] if one["role"] == "tool"}
    for call, status in shown.items():
        if status == "succeeded":
            assert "error" not in told[call], (call, told[call])
        else:
            assert "error" in told[call]


@pytest.mark.full
@pytest.mark.parametrize("left", [0, 60, 140, 200])
def test_a_chat_goes_on_and_every_command_ends_in_a_line(small: SmallDisk, left: int) -> None:
    answers = [ChatServer.text("hi"), called(1), ChatServer.text("done"), called(2), ChatServer.text("done")]
    with ChatServer(*answers) as server:
        model = ["--model", "m", "--base-url", server.base_url]
        assert small.start("run", *model, "begin").returncode == 0
        small.fill(left)
        typed = 'hello\n@terminal {"command": "true"}\nagain\n@terminal {"command": "true"}\n/quit\n'
        done = small.start("chat", *model, "--continue", stdin=typed)
        assert done.returncode in (1, 2)
        assert "the disk is full; make room" in done.stderr
        assert "another process is at work" not in done.stderr
        if left:
            assert done.stderr.count("The session is kept: type on") >= 2
    for args in (
        ["sessions"],
        ["undo", "--yes"],
        ["approvals"],
        ["trace"],
        ["doctor"],
        ["sessions", "prune", "--older-than", "1d", "--yes"],
    ):
        small.start(*args)
    small.make_room()
    assert small.start("sessions").returncode == 0


def test_a_line_that_cannot_be_remembered_ends_no_chat(capsys: pytest.CaptureFixture[str]) -> None:
    from agent.cli.commands.chat import _history

    history = _history(Path("/dev/full"))
    history.append_string("hello")
    assert history.get_strings() == ["hello"]
    assert "this line is not remembered: /dev/full: No space left on device" in capsys.readouterr().err
