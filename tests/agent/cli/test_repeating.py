"""`run --json` of a continued run: events that an earlier process may have printed are marked."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.forks import Forks
from toolcrib.testing import ChatServer


def events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def kinds(found: list[dict[str, Any]], *, repeated: bool) -> set[str]:
    return {one["type"] for one in found if one.get("repeated", False) is repeated}


def killed(forks: Forks, server: ChatServer, folder: Path, when: Callable[[str], object]) -> list[dict[str, Any]]:
    """Run a task in another process, kill it when its output fulfils the condition, and return its events."""
    out = folder / "out.jsonl"
    words = ["run", "go", "--json", "--no-stdin", "--base-url", server.base_url, "--model", "m"]
    with out.open("w") as file, forks.popen(*words, cwd=folder, stdout=file, stderr=subprocess.DEVNULL) as process:
        ends = time.monotonic() + 120
        while not when(out.read_text()):
            assert process.poll() is None, "it ended"
            assert time.monotonic() < ends, "it did not come true"
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)
    return events(out.read_text())


@pytest.fixture(autouse=True)
def without_docker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere")


def test_a_turn_that_is_asked_again_is_marked_up_to_its_end(forks: Forks, run: Any, tmp_path: Path) -> None:
    speaks = ChatServer.text("word " * 60, piece=5, pieces=1_000, pause=0.1)
    read = ChatServer.calls(("todo", {"todos": [{"content": "write", "status": "pending"}]}))
    with ChatServer(read, speaks, ChatServer.text("I see")) as server:
        before = killed(forks, server, tmp_path, lambda text: text.count("text_delta") > 3)
        model = ("--base-url", server.base_url, "--model", "m")
        after = events(run("run", "--json", "--resume", before[0]["session"], *model).out)
    assert after[0]["resumed"] is True
    assert kinds(after, repeated=True) == {"turn_started", "text_delta"}
    assert {one["turn"] for one in after if one["type"] == "turn_started"} == {2}
    assert kinds(after, repeated=False) == {"run_started", "turn_finished", "run_finished"}
    assert after[-1]["exit_code"] == 0


def test_calls_that_had_begun_are_marked(forks: Forks, run: Any, tmp_path: Path) -> None:
    """Each event of the continued stream that the killed process had printed has the mark."""
    calls = ChatServer.calls(
        ("write_file", {"path": "a", "content": "a\n"}),
        ("terminal", {"command": "touch b; sleep 300"}),
        ("terminal", {"command": "echo c"}),
    )
    with ChatServer(calls, ChatServer.text("I see")) as server:
        before = killed(forks, server, tmp_path, lambda text: (tmp_path / "b").exists())
        model = ("--base-url", server.base_url, "--model", "m")
        after = events(run("run", "--json", "--resume", before[0]["session"], *model).out)
    printed = {(one["type"], one.get("id")) for one in before if one["type"].startswith("tool_")}
    for one in after:
        if one["type"] in ("tool_started", "tool_finished"):
            assert one.get("repeated", False) == ((one["type"], one["id"]) in printed), one
    assert {one["name"] for one in after if one["type"] == "tool_finished"} >= {"terminal"}
    assert "repeated" not in after[-1]


def test_a_parked_call_starts_again_and_ends_once(run: Any, tmp_path: Path) -> None:
    (tmp_path / "build").mkdir()
    calls = ChatServer.calls(("terminal", {"command": "git push --force origin main"}))
    with ChatServer(calls, ChatServer.text("I see")) as server:
        model = ("--base-url", server.base_url, "--model", "m")
        before = events(run("run", "push", "--json", "--park", *model).out)
        assert before[-1]["exit_code"] == 7
        again = events(run("run", "--json", "--resume", before[0]["session"], "--park", *model).out)
        assert [one.get("repeated") for one in again if one["type"] == "tool_started"] in ([], [True])
        assert run("approvals", "deny", before[-2]["tickets"][0]["id"]).code == 0
        after = events(run("run", "--json", "--resume", before[0]["session"], *model).out)
    assert [one.get("repeated", False) for one in after if one["type"] == "tool_started"] in ([], [True])
    assert [one.get("repeated", False) for one in after if one["type"] == "tool_finished"] == [False]


def test_a_finished_run_has_nothing_to_continue(run: Any) -> None:
    """Exit code 8, also when no line of JSON was asked for."""
    with ChatServer(*[ChatServer.text("done")] * 2) as server:
        model = ("--base-url", server.base_url, "--model", "m")
        session = events(run("run", "go", "--json", *model).out)[0]["session"]
        for words in (("--resume", session), ("--continue",)):
            done = run("run", *words, *model)
            assert (done.code, done.out) == (8, "")
            assert "this session has no run to continue; give a task" in done.err
            found = events(run("run", "--json", *words, *model).out)
            assert (found[-1]["type"], found[-1]["stopped"], found[-1]["exit_code"]) == ("run_finished", "error", 8)
        found = events(run("run", "and now?", "--json", "--resume", session, *model).out)
    assert "resumed" not in found[0]
    assert kinds(found, repeated=True) == set()
    assert found[-1]["exit_code"] == 0
