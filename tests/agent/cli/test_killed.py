"""toolcrib killed while a command runs: what remains, and what the next start reports."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from tests.forks import Forks
from toolcrib.testing import ChatServer
from tools.dispatch.bridge import run_async

UNSEEN = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)


@pytest.fixture(autouse=True)
def _own_temporary_folder(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A prune of another test doesn't remove what a killed toolcrib leaves here."""
    folder = str(tmp_path_factory.mktemp("temporary"))
    monkeypatch.setenv("TMPDIR", folder)
    monkeypatch.setattr(tempfile, "tempdir", folder)


def until(condition: Callable[[], object], process: subprocess.Popen[bytes] | None = None) -> None:
    give_up = time.monotonic() + 120
    while not condition():
        assert process is None or process.poll() is None, "it ended by itself"
        assert time.monotonic() < give_up, "it did not come true"
        time.sleep(0.02)


def running(seconds: str) -> bool:
    found = False
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found |= line.read_bytes() == f"sleep\0{seconds}\0".encode()
        except OSError:  # the process ended meanwhile
            continue
    return found


def at_work(folder: Path) -> Iterator[int]:
    """Yield the other processes whose working folder is this one."""
    for place in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):  # the process ended meanwhile
            if place.readlink() == folder and int(place.parent.name) != os.getpid():
                yield int(place.parent.name)


def test_killed_while_a_command_runs(run: Any, forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-1: the command is killed, the call is FAILED and may have run, nothing runs twice, and the conversation can continue."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")  # ignore the engine of this machine
    seconds = f"300.{secrets.randbelow(10**9):09}"
    command = f"echo ran >>started; sleep {seconds}"
    with ChatServer(ChatServer.calls(("terminal", {"command": command})), ChatServer.text("I see")) as server:
        model = ("--base-url", server.base_url, "--model", "m")
        with forks.popen("run", "go", *model, cwd=tmp_path, **UNSEEN) as process:
            until(lambda: running(seconds), process)
            process.send_signal(signal.SIGKILL)
        until(lambda: not any(at_work(tmp_path)))
        assert not running(seconds)
        listed = run("sessions")
        assert listed.out.splitlines()[1:], listed
        row = listed.out.splitlines()[1]
        told = run("sessions", "show", row.split()[0]).out
        assert "✗ terminal  failed: " in told
        assert "interrupted; it may have run, or may still be running" in told
        done = run("run", "and now?", "--continue", *model)
        assert (done.code, done.out) == (0, "I see\n")
        last = server.requests[-1]["messages"]
        assert [one["role"] for one in last[-4:]] == ["user", "assistant", "tool", "user"]
        assert "may have run" in last[-2]["content"]
    assert (tmp_path / "started").read_text() == "ran\n"
    left = list(Path(tempfile.gettempdir()).glob(f"toolcrib-{process.pid}-*"))
    assert f"removed: {left[0]}" in run("env", "prune", "--yes").out
    assert not left[0].exists()


def test_killed_while_a_command_runs_the_chat_says_which(
    run: Any, forks: Forks, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`chat --continue` shows the call as the live chat does, and that it may have run."""
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")
    with ChatServer(ChatServer.calls(("terminal", {"command": "touch started; sleep 300"}))) as server:
        model = ("--base-url", server.base_url, "--model", "m")
        with forks.popen("chat", "go", *model, cwd=tmp_path, **UNSEEN) as process:
            until((tmp_path / "started").exists, process)
            process.send_signal(signal.SIGKILL)
        until(lambda: not any(at_work(tmp_path)))
        done = run("chat", "--continue", "--provider", "manual")
    assert "  💻 terminal runs touch started; sleep 300  interrupted; it may have run, or may still be running\n" in done.err
    assert "removed: " in run("env", "prune", "--yes").out


def test_killed_while_the_model_speaks(run: Any, forks: Forks, tmp_path: Path) -> None:
    """The text that the model had sent a second before is in the next request, marked."""
    speaks = ChatServer.text("word " * 60, piece=5, pieces=1_000, pause=0.15)
    with ChatServer(speaks, ChatServer.text("I see")) as server, assemble(project_dir=tmp_path) as crib:
        model = ("--base-url", server.base_url, "--model", "m")

        def stored() -> bool:
            last = run_async(crib.store.sessions.latest())
            record = None if last is None else run_async(crib.store.runs.current(last.id))
            return record is not None and "word" in record.state.get("said", "")

        with forks.popen("run", "go", *model, cwd=tmp_path, **UNSEEN) as process:
            until(stored, process)
            process.send_signal(signal.SIGKILL)
        done = run("run", "and now?", "--continue", *model)
        assert (done.code, done.out) == (0, "I see\n")
        told = server.requests[-1]["messages"]
    assert [one["role"] for one in told] == ["system", "user", "assistant", "user"]
    assert told[2]["content"].startswith("word ")
    assert told[2]["content"].endswith("\n\n[interrupted here, before it was complete]")


DIES_AS_IT_TELLS = """
import os, sys
from agent.cli import main
from agent.cli.jsonl import JsonLines
started = JsonLines.started
JsonLines.started = lambda *given: (started(*given), os._exit(9))
main(sys.argv[1:])
"""


def test_killed_right_after_the_session_was_told(run: Any, forks: Forks, tmp_path: Path) -> None:
    """A reader of the session's id can continue the task: the session is stored by then."""
    with ChatServer(ChatServer.text("Here I am.")) as server:
        model = ("--base-url", server.base_url, "--model", "m")
        died = forks.run("run", "--json", "where are you?", *model, code=DIES_AS_IT_TELLS, cwd=tmp_path)
        assert died.returncode == 9
        told = json.loads(died.stdout)
        assert told["type"] == "run_started"
        assert server.requests == []
        done = run("run", "--resume", told["session"])
        assert (done.code, done.out) == (0, "Here I am.\n")
        assert server.requests[0]["messages"][-1]["content"] == "where are you?"
