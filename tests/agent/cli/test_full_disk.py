"""A full or read-only disk under the state folder: what the screen showed stays true, and a line names the fix."""

from __future__ import annotations

import json
import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.kill_checks import databases
from tests.fuzz.kill_processes import ForkServer, Progress, Starter
from tests.fuzz.small_disk import NoDiskError, SmallDisk, mounted
from tests.fuzz.window_server import WindowServer
from toolcrib.testing import ChatServer

_SIZE = 4096
"""Size of the disk in KiB."""
_PRINTS = "head -c 11000 /dev/urandom | base64 | head -c 14000"


pytestmark = pytest.mark.xdist_group("full_disk")  # so that one process loads toolcrib for all of them


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Yield a small file system."""
    try:
        with mounted(tmp_path / "disk", _SIZE) as disk:
            yield disk
    except NoDiskError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def forks() -> Iterator[ForkServer]:
    """Start processes from one that has loaded toolcrib already: these tests start two hundred."""
    server = ForkServer()
    yield server
    server.close()


class OnDisk:
    """Runs ``toolcrib`` in its own processes, with its state on the disk. ``forks`` starts them; None starts new programs."""

    def __init__(self, disk: SmallDisk, project: Path, forks: ForkServer | None = None) -> None:
        self._disk = disk
        self._project = project
        self._forks = forks
        self.fill, self.make_room, self.refuse_writes = disk.fill, disk.make_room, disk.refuse_writes

    def start(self, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "XDG_STATE_HOME": str(self._disk.folder)}
        ended = Starter(self._project, env, Progress(), forks=self._forks).run(*args, typed=stdin)
        assert ended.code is not None, f"it hung: {ended.errors}"
        done = subprocess.CompletedProcess(args, ended.code, "".join(ended.lines), ended.errors)
        assert "Traceback" not in done.stderr + done.stdout
        return done

    def unsound(self) -> list[str]:
        return databases(self._disk.folder)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


@pytest.fixture
def small(disk: SmallDisk, forks: ForkServer, project: Path) -> OnDisk:
    return OnDisk(disk, project, forks)


@pytest.fixture
def started(disk: SmallDisk, project: Path) -> OnDisk:
    return OnDisk(disk, project)


def called(number: int) -> Any:
    return ChatServer.calls(("terminal", {"command": f"echo {number} >> ran; {_PRINTS}"}), ids=[f"call_{number}"])


def untraced(*left: int) -> Iterator[Any]:
    """Yield cases that run without coverage: similar cases run the same lines in another order."""
    for one in left:
        yield pytest.param(one, marks=pytest.mark.untraced)


@pytest.mark.full
@pytest.mark.parametrize("left", [130, 242, *untraced(158, 186, 214, 270, 298, 326)])
def test_what_was_shown_as_succeeded_is_never_told_as_unsure(small: OnDisk, left: int) -> None:
    """The disk becomes full at different moments."""
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
        assert "free space and try again" in lines[-1]
        assert len([line for line in lines if "the snapshot after" not in line]) <= 2, done.stderr
        small.make_room()
        small.start("run", *model, "--continue", "go on")
        told = {one["tool_call_id"]: one["content"] for one in server.requests[-1]["messages"] if one["role"] == "tool"}
    for call, status in shown.items():
        if status == "succeeded":
            assert "error" not in told[call], (call, told[call])
        else:
            assert "error" in told[call]


@pytest.mark.full
@pytest.mark.parametrize("left", [0, 140, *untraced(60, 200)])
def test_a_chat_goes_on_and_every_command_ends_in_a_line(small: OnDisk, left: int) -> None:
    answers = [ChatServer.text("hi"), called(1), ChatServer.text("done"), called(2), ChatServer.text("done")]
    with ChatServer(*answers) as server:
        model = ["--model", "m", "--base-url", server.base_url]
        assert small.start("run", *model, "begin").returncode == 0
        small.fill(left)
        typed = 'hello\n@terminal {"command": "true"}\nagain\n@terminal {"command": "true"}\n/quit\n'
        done = small.start("chat", *model, "--continue", stdin=typed)
        assert done.returncode in (1, 2)
        assert "the disk is full; free space" in done.stderr
        assert "another process is using" not in done.stderr
        if left:
            assert done.stderr.count("The session continues") >= 2
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


def test_a_first_start_there_is_none(started: OnDisk, config: Any) -> None:
    """If the first start could not store its state, the next one would have to ask a person to confirm everything."""
    with ChatServer(ChatServer.text("hi")) as server:
        config(f"model: {{name: m, base_url: '{server.base_url}'}}\n")
        started.fill(0)
        done = started.start("run", "go")
        assert done.returncode == 2
        assert "confirmed.json" in done.stderr
        assert "; free some space in " in done.stderr
        started.make_room()
        done = started.start("run", "go")
        assert (done.returncode, done.stdout) == (0, "hi\n"), done.stderr


_ORDERS = (
    ("memory", {"action": "add", "target": "memory", "content": "They like tea."}),
    ("delegate_task", {"task": "count"}),
    ("session_search", {"query": "amber"}),
    ("terminal", {"command": "echo parent >> ran"}),
)


class Busy(WindowServer):
    """A model and its delegate. The model uses every kind of stored data until its context is full."""

    def __init__(self) -> None:
        super().__init__(9_000, self._busy)
        self._results = 0

    def _busy(self, sent: Any) -> Any:
        messages = sent["messages"]
        done = sum(bool(one.get("tool_calls")) for one in messages)
        if "You are a delegate" in str(messages[0]["content"]):
            return "counted" if done else [("terminal", {"command": "echo delegate >> ran"})]
        if messages[-1]["role"] != "tool":
            return "hi" if "begin" in str(messages[-1]["content"]) else list(_ORDERS)
        self._results += 1
        return "done" if self._results % 4 == 0 else [("terminal", {"command": _PRINTS})]


@pytest.mark.full
@pytest.mark.parametrize("left", [0, 40, 90, 130, 160, 190, 230, 300])
def test_memory_search_delegates_and_compressions_fail_in_words(small: OnDisk, config: Any, tmp_path: Path, left: int) -> None:
    """Each call has one result, each effect happens at most once, and everything continues once there is room again."""
    with Busy() as server:
        config(f"model: {{name: m, base_url: '{server.base_url}', context_window: 9000}}\ninstructions: {{enabled: false}}\n")
        assert small.start("run", "begin with amber").returncode == 0
        before = len(server.requests)
        small.fill(left)
        done = small.start("run", "--continue", "--json", "go")
        found = small.start("sessions", "search", "amber")
        assert found.returncode == 0 or "free space" in found.stderr, found
        forgot = small.start("memory", "forget", "tea", "--yes")
        nothing = "no note contains this text" in forgot.stdout
        assert forgot.returncode == 0 or nothing or "No space left" in forgot.stderr or "free space" in forgot.stderr, forgot
        small.make_room()
        assert small.unsound() == []
        assert done.returncode == 0 or "free space" in done.stderr, done.stderr
        ran = tmp_path / "project" / "ran"
        once = Counter(ran.read_text().split() if ran.exists() else [])
        assert max(once.values(), default=1) == 1, once
        assert small.start("run", "--continue", "go on").returncode == 0
        assert small.unsound() == []
        assert small.start("sessions", "search", "amber").returncode == 0
        assert "no problems found" in small.start("doctor").stdout
        for sent in server.requests[before:]:
            asked = [call["id"] for one in sent["messages"] for call in one.get("tool_calls") or ()]
            assert [one["tool_call_id"] for one in sent["messages"] if one["role"] == "tool"] == asked


@pytest.mark.full
def test_a_disk_that_is_read_only_is_told_as_such(started: OnDisk) -> None:
    """Reading works. Every command that writes ends with a line that names the fix; nothing is changed, and later all data is
    there.
    """
    with ChatServer(ChatServer.text("hi"), ChatServer.text("again")) as server:
        model = ["--model", "m", "--base-url", server.base_url]
        assert started.start("run", *model, "begin with amber").returncode == 0
        started.refuse_writes(refuse=True)
        try:
            for args in (
                ["run", *model, "--continue", "go"],
                ["run", *model, "go"],
                ["call", "terminal", '{"command": "true"}'],
            ):
                done = started.start(*args)
                assert done.returncode in (1, 2), args
                assert "its file system is read-only" in done.stderr, done.stderr
                assert len(done.stderr.splitlines()) == 1
            for args, shown in (
                (["sessions"], "amber"),
                (["sessions", "search", "amber"], "amber"),
                (["approvals"], ""),
                (["undo", "--list"], ""),
                (["usage"], "m"),
            ):
                done = started.start(*args)
                assert (done.returncode, shown in done.stdout) == (0, True), (args, done.stderr)
            assert "its file system is read-only" in started.start("doctor").stdout
            assert len(server.requests) == 1, "the model gets no request that could not be stored"
        finally:
            started.refuse_writes(refuse=False)
        done = started.start("run", *model, "--continue", "go")
        assert (done.returncode, done.stdout) == (0, "again\n")
        assert [one["role"] for one in server.requests[-1]["messages"]] == ["system", "user", "assistant", "user"]
        assert started.unsound() == []


def test_a_line_that_cannot_be_remembered_ends_no_chat(capsys: pytest.CaptureFixture[str]) -> None:
    from agent.cli.commands.chat import _history

    history = _history(Path("/dev/full"))
    history.append_string("hello")
    assert history.get_strings() == ["hello"]
    assert "cannot save this line in the history: /dev/full: No space left on device" in capsys.readouterr().err
