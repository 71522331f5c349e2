"""``/plan``: plan mode ends with a plan that the user accepts, edits or rejects; only the user leaves the mode."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

HINT = "plan mode: /plan accept carries this out, /plan edit changes it first, /plan reject TEXT asks for another"
WRITE = ChatServer.calls(("write_file", {"path": "new.txt", "content": "x"}))
PLAN, OTHER, DONE = ChatServer.text("1. Write new.txt"), ChatServer.text("1. Write nothing"), ChatServer.text("Written.")


@pytest.fixture(autouse=True)
def plain(config: Callable[[str], Path]) -> Callable[[str], Path]:
    """Configure no sandbox and no snapshots. Call it with further configuration."""

    def write(text: str) -> Path:
        return config(f"sandbox: {{mode: none}}\nsnapshots: {{enabled: false}}\n{text}")

    write("")
    return write


def chat(run: Any, server: ChatServer, *lines: str) -> Any:
    done = run("chat", "--base-url", server.base_url, "--model", "m", stdin="".join(f"{line}\n" for line in lines).encode())
    assert done.code == 0, done.err
    return done


def said(server: ChatServer) -> list[str]:
    return [one["content"] for one in server.requests[-1]["messages"] if one["role"] == "user"]


def test_an_accepted_plan_is_carried_out_in_the_configured_mode(run: Any, tmp_path: Path) -> None:
    with ChatServer(WRITE, PLAN, WRITE, DONE) as server:
        done = chat(run, server, "/plan", "write it", "/plan accept", "/mode")
    assert said(server) == ["write it", "I accept your plan. Carry it out."]
    assert "plan mode" in str(server.requests[1]["messages"][-1]["content"])
    assert (tmp_path / "new.txt").read_text() == "x"
    assert done.err.count(HINT) == 1
    assert "mode default: the model carries out the plan" in done.err


def test_edits_can_be_confirmed_after_the_plan(run: Any, tmp_path: Path) -> None:
    with ChatServer(PLAN, WRITE, DONE) as server:
        done = chat(run, server, "/plan", "write it", "/plan accept confirm-edits")
    assert "mode confirm-edits: the model carries out the plan" in done.err
    assert not (tmp_path / "new.txt").exists()  # standard input answers no request


def test_a_configured_stricter_mode_returns(run: Any, plain: Any, tmp_path: Path) -> None:
    plain("approval: {mode: confirm-edits}\n")
    with ChatServer(PLAN, WRITE, DONE) as server:
        done = chat(run, server, "/plan", "write it", "/plan accept")
    assert "mode confirm-edits: the model carries out the plan" in done.err
    assert not (tmp_path / "new.txt").exists()


def test_a_rejected_plan_leaves_the_mode_and_asks_for_another(run: Any, tmp_path: Path) -> None:
    with ChatServer(PLAN, OTHER, WRITE, DONE) as server:
        done = chat(run, server, "/plan", "write it", "/plan reject no new files", "/plan reject", "go on")
    assert said(server) == ["write it", "I reject your plan: no new files", "go on"]
    assert "rejected; the session stays in plan mode" in done.err
    assert not (tmp_path / "new.txt").exists()


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (["/plan accept"], "this session is not in plan mode; to switch to it: /plan"),
        (["/plan", "/plan accept"], "there is no plan yet"),
        (["/plan", "go", "/plan accept plan"], "use /plan accept with one of these modes: default, cautious, confirm-edits"),
        (["/plan", "/plan later"], "use /plan, /plan accept [MODE], /plan edit or /plan reject [TEXT]"),
        (["/plan", "go", "/plan edit"], "no editor can be started here; write what to change as a message"),
    ],
)
def test_what_can_not_be_done_is_told_and_keeps_the_mode(run: Any, lines: list[str], expected: str) -> None:
    with ChatServer(PLAN) as server:
        done = chat(run, server, *lines)
    assert expected in done.err
    assert "carries out the plan" not in done.err


def test_the_hint_is_for_plan_mode_alone(run: Any) -> None:
    with ChatServer(PLAN) as server:
        assert HINT not in chat(run, server, "go").err
