"""An approval by a model in place of a person is shown wherever the run is shown."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

CALL = ("terminal", {"command": "rm -rf node_modules/"})
APPROVE = ChatServer.text('{"decision": "approve", "why": "npm install makes it \\u001b[2J again"}')
ASK = ChatServer.text('{"decision": "ask", "why": "it is not plain"}')


@pytest.fixture
def aux(config: Any, tmp_path: Path) -> Iterator[ChatServer]:
    (tmp_path / "node_modules").mkdir()
    with ChatServer() as server:
        config(f"approval: {{smart: {{enabled: true, model: aux, base_url: '{server.base_url}'}}}}\n")
        yield server


def main_server() -> ChatServer:
    return ChatServer(ChatServer.calls(CALL, ids=["c9"]), ChatServer.text("Done."))


def test_in_a_run(run: Any, aux: ChatServer, tmp_path: Path) -> None:
    """003-25"""
    aux.responses = [APPROVE]
    with main_server() as server:
        done = run("run", "tidy up", "--base-url", server.base_url, "--model", "m", "--trace")
    assert (done.code, done.out) == (0, "Done.\n")
    assert done.err.count("aux approved terminal: npm install makes it ^[[2J again") == 2  # in the view's line and in the trace
    assert not (tmp_path / "node_modules").exists()


def test_as_json_lines(run: Any, aux: ChatServer) -> None:
    """003-25; docs/events.md"""
    aux.responses = [APPROVE]
    with main_server() as server:
        done = run("run", "tidy up", "--json", "--base-url", server.base_url, "--model", "m")
    told = [json.loads(line) for line in done.out.splitlines()]
    (event,) = [one for one in told if one["type"] == "model_answered"]
    assert event == {
        "v": 2, "type": "model_answered", "id": "c9", "name": "terminal", "model": "aux", "approved": True,
        "why": "npm install makes it ^[[2J again",
    }  # fmt: skip
    kinds = [one["type"] for one in told if one.get("id") == "c9"]
    assert kinds[-3:] == ["tool_started", "model_answered", "tool_finished"]
    assert told[-1]["exit_code"] == 0


def test_what_it_leaves_to_a_person_is_denied_where_nobody_is_asked(run: Any, aux: ChatServer, tmp_path: Path) -> None:
    """003-28: the exit code is the same as that of `run` without such a model."""
    aux.responses = [ASK]
    with main_server() as server:
        done = run("run", "tidy up", "--base-url", server.base_url, "--model", "m")
    assert done.code == 4
    assert "aux did not approve terminal, so a user is asked: it is not plain" in done.err
    assert (tmp_path / "node_modules").exists()


def test_in_a_chat_for_calls_typed_by_hand_too(run: Any, aux: ChatServer, tmp_path: Path) -> None:
    aux.responses = [APPROVE]
    line = f"@terminal {json.dumps(CALL[1])}\n"
    done = run("chat", "--provider", "manual", stdin=line.encode())
    assert "aux approved terminal" in done.err
    assert not (tmp_path / "node_modules").exists()
