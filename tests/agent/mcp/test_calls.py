"""Calls of a server's tools, with a server that misbehaves (003-5)."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib
from agent.mcp.asking import ACTION
from tests.agent.mcp.conftest import RAW, Asked, configure, lock
from toolcrib.contract.types import ToolCallStatus


@pytest.fixture
def session(raw: dict[str, Any], opened: Callable[[], Crib], asked: Asked) -> Any:
    configure({"raw": {**raw, "timeout": 20}})
    lock("raw")
    return opened().open_session(platform="api", asker=asked, enabled=["mcp-raw", "terminal"])


def starts(tmp_path: Path) -> int:
    return len((tmp_path / "raw/starts").read_text().split())


def said(session: Any, tool: str, **args: Any) -> Any:
    executed = session.call(tool, args)
    return executed.result.data if executed.status is ToolCallStatus.SUCCEEDED else executed.result.message


def test_a_call_starts_the_server_and_later_ones_use_it(session: Any, tmp_path: Path) -> None:
    """003-5, 001-17"""
    before = starts(tmp_path)
    assert said(session, "echo", text="one") == "one"
    assert said(session, "echo", text="two") == "two"
    assert starts(tmp_path) == before + 1


def test_a_tool_never_replaces_another(session: Any) -> None:
    names = [one["function"]["name"] for one in session.definitions]
    assert "terminal" in names
    assert "raw.terminal" in names
    assert said(session, "raw.terminal", text="not a command") == "not a command"


def test_a_call_asks_once_for_the_session(session: Any, asked: Asked) -> None:
    said(session, "echo", text="one")
    said(session, "echo", text="two")
    [ticket] = asked.tickets
    assert "the MCP server raw (a program, in local) does this" in ticket.message


def test_a_rule_may_name_the_servers_toolset(
    raw: dict[str, Any], opened: Callable[[], Crib], asked: Asked, tmp_path: Path
) -> None:
    rules = [
        {"toolset": "mcp-raw", "decision": "allow", "why": "my own server"},
        {"toolset": "mcp-*", "tool": "e*", "decision": "deny", "why": "not here"},
    ]
    configure({"raw": raw}, approval={"tools": rules})
    lock("raw")
    session = opened().open_session(platform="api", asker=asked, enabled=["mcp-raw", "todo"])
    assert said(session, "hidden").startswith("a")
    assert asked.tickets == []
    assert "Denied by the operator's rule for 'e* of the toolset mcp-*': not here." in said(session, "echo", text="x")


def test_its_program_gets_only_listed_variables(session: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "sk-not-for-servers")
    assert "sk-not-for-servers" not in said(session, "env")


def test_a_server_that_ends_fails_the_call_and_starts_again(session: Any, tmp_path: Path) -> None:
    before = starts(tmp_path)
    assert "the MCP server raw ended during the call (a fatal fault); its effects are unknown" in said(session, "die")
    assert "ended during the call" in said(session, "half")
    assert said(session, "echo", text="again") == "again"
    assert starts(tmp_path) == before + 3


def test_a_killed_server_fails_the_call_at_once(session: Any, tmp_path: Path) -> None:
    said(session, "echo", text="it runs")
    pid = int((tmp_path / "raw/starts").read_text().split()[-1])
    threading.Timer(0.3, os.kill, (pid, signal.SIGKILL)).start()
    began = time.monotonic()
    assert "ended during the call" in said(session, "hang")
    assert time.monotonic() - began < 15
    assert said(session, "echo", text="again") == "again"


@pytest.mark.parametrize("tool", ["flood", "long_line"])
def test_a_server_that_floods_is_stopped(session: Any, tool: str) -> None:
    assert "it sent more than 64 MiB without an answer" in said(session, tool)
    assert said(session, "echo", text="again") == "again"


@pytest.mark.parametrize(("tool", "answer"), [("noise", "still here"), ("wrong_id", "mine")])
def test_messages_that_belong_to_no_call_are_ignored(session: Any, tool: str, answer: str) -> None:
    assert said(session, tool) == answer


def test_a_call_ends_at_its_time_limit(raw: dict[str, Any], opened: Callable[[], Crib], asked: Asked) -> None:
    configure({"raw": {**raw, "timeout": 0.5}})
    lock("raw")
    session = opened().open_session(platform="api", asker=asked, enabled=["mcp-raw"])
    assert "no result within 0.5 s" in said(session, "hang")


def test_errors_of_the_server_are_errors_of_the_call(session: Any) -> None:
    assert said(session, "error") == "no such mail"
    assert "the MCP server raw: it failed" in said(session, "fails")


def test_hidden_characters_of_a_result_are_escaped(session: Any) -> None:
    assert said(session, "hidden") == "a\\u202eb\\U000e0041c"


def test_all_kinds_of_content_arrive(session: Any) -> None:
    executed = session.call("picture", {})
    assert [image.media_type for image in executed.result.images] == ["image/png"]
    lines = executed.result.data.split("\n")
    assert lines[:3] == ["[mem://a (a)]", "[mem://b]", "the text"]
    assert lines[3].startswith("[audio: ")
    assert lines[3].endswith(", audio/wav, 3 bytes]")


def test_a_question_of_the_server_reaches_the_user(session: Any, asked: Asked) -> None:
    asked.replies = ["large", "42"]
    assert json.loads(said(session, "asks")) == {"action": "accept", "content": {"size": 42}}
    asked.replies = ["decline"]
    assert json.loads(said(session, "asks")) == {"action": "decline"}
    questions = [ticket for ticket in asked.tickets if ticket.action == ACTION]
    assert questions[0].message == "The MCP server raw asks: Which size?"


def test_the_server_may_ask_for_the_project(session: Any) -> None:
    [root] = json.loads(said(session, "roots"))["roots"]
    assert root["uri"].startswith("file:///")


def test_a_tool_that_changes_is_no_longer_offered(raw: dict[str, Any], opened: Callable[[], Crib], asked: Asked) -> None:
    configure({"raw": raw})
    lock("raw")
    crib = opened()
    session = crib.open_session(platform="api", asker=asked, enabled=["mcp-raw"])
    assert said(session, "changes") == "changed"
    give_up = time.monotonic() + 30
    while "Unknown tool: echo" not in said(session, "echo", text="x"):
        assert time.monotonic() < give_up
        time.sleep(0.05)
    assert [(one.subject, one.reason) for one in crib.registry.problems] == [
        ("MCP server raw", "its tool echo has changed since it was locked")
    ]
    assert said(session, "hidden").startswith("a")


def test_a_tool_that_differs_at_the_start_is_not_called(
    raw: dict[str, Any], opened: Callable[[], Crib], asked: Asked, tmp_path: Path
) -> None:
    configure({"raw": raw})
    lock("raw")
    session = opened().open_session(platform="api", asker=asked, enabled=["mcp-raw"])
    (tmp_path / "raw/tools.json").write_text(
        json.dumps([{"name": "echo", "description": "New.", "inputSchema": {"type": "object"}}])
    )
    assert "the tool echo of the MCP server raw differs from the locked one" in said(session, "echo", text="x")
    assert '"tools/call"' not in (tmp_path / "raw/read").read_text()


def test_an_idle_server_is_stopped(raw: dict[str, Any], opened: Callable[[], Crib], asked: Asked, tmp_path: Path) -> None:
    configure({"raw": {**raw, "idle": 0.1}})
    lock("raw")
    session = opened().open_session(platform="api", asker=asked, enabled=["mcp-raw"])
    said(session, "echo", text="x")
    pid = int((tmp_path / "raw/starts").read_text().split()[-1])
    give_up = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < give_up
        time.sleep(0.02)
    assert said(session, "echo", text="y") == "y"


def test_a_server_that_is_not_locked_is_not_offered(raw: dict[str, Any], opened: Callable[[], Crib]) -> None:
    configure({"raw": raw})
    crib = opened()
    assert not any(one.toolset == "mcp-raw" for one in crib.registry.entries())
    [problem] = crib.registry.problems
    assert (problem.reason, problem.fix) == ("its tools are not locked", "check and lock them: toolcrib mcp lock raw")


def test_a_changed_program_must_be_locked_again(raw: dict[str, Any], opened: Callable[[], Crib], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(f"import runpy, sys\nrunpy.run_path({str(RAW)!r}, run_name='__main__')\n")
    configure({"raw": {**raw, "command": [sys.executable, "-S", str(program), str(tmp_path / "raw")]}})
    lock("raw")
    assert any(one.toolset == "mcp-raw" for one in opened().registry.entries())
    program.write_text(program.read_text() + "# changed\n")
    crib = opened()
    assert not any(one.toolset == "mcp-raw" for one in crib.registry.entries())
    assert "a file in its command has changed since it was locked" in crib.registry.problems[0].reason


def test_servers_are_not_shared_by_two_users(
    raw: dict[str, Any], opened: Callable[[], Crib], asked: Asked, tmp_path: Path
) -> None:
    configure({"raw": raw})
    lock("raw")
    before = starts(tmp_path)
    crib = opened()
    for user in ("anna", "ben", "anna"):
        session = crib.open_session(platform="telegram", user=user, asker=asked, enabled=["mcp-raw"])
        assert said(session, "echo", text=user) == user
    assert starts(tmp_path) == before + 2
