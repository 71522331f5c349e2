"""``/init`` in the chat: the model or the project's files write AGENTS.md through the usual gate, never over an existing file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

DRAFT = ("write_file", {"path": "AGENTS.md", "content": "# Rules\n"})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "go.mod").write_text("module x\n")
    return tmp_path


def test_the_model_drafts_it_in_an_ordinary_run(run: Any, project: Path) -> None:
    with ChatServer(ChatServer.calls(DRAFT), ChatServer.text("Written.")) as server:
        done = run("chat", "--base-url", server.base_url, "--model", "m", stdin=b"/init mention the CI\n")
    asked = server.requests[0]["messages"][-1]["content"]
    assert asked.startswith("Draft AGENTS.md for this project.")
    assert "- Test: go test ./..." in asked
    assert asked.endswith("Besides: mention the CI")
    assert (project / "AGENTS.md").read_text() == "# Rules\n"
    assert "AGENTS.md: new sessions read it; to start one: /new" in done.err


def test_a_write_that_is_not_agreed_to_is_not_made(run: Any, project: Path) -> None:
    """Plan mode applies as to any call: the gate decides, not the command."""
    with ChatServer(ChatServer.calls(DRAFT), ChatServer.text("I can't.")) as server:
        run("chat", "--base-url", server.base_url, "--model", "m", "--mode", "plan", stdin=b"/init\n")
    assert not (project / "AGENTS.md").exists()
    run("chat", "--provider", "manual", "--mode", "plan", stdin=b"/init\n")
    assert not (project / "AGENTS.md").exists()


def test_of_one_that_is_there_changes_are_proposed(run: Any, project: Path) -> None:
    (project / "AGENTS.md").write_text("# Mine\n")
    with ChatServer(ChatServer.text("```diff\n+ more\n```")) as server:
        done = run("chat", "--base-url", server.base_url, "--model", "m", stdin=b"/init\n")
    assert server.requests[0]["messages"][-1]["content"].startswith("Propose improvements to AGENTS.md.")
    assert (project / "AGENTS.md").read_text() == "# Mine\n"
    assert "the next session" not in done.err


def test_without_a_model_it_is_made_of_what_is_found(run: Any, project: Path) -> None:
    done = run("chat", "--provider", "manual", stdin=b"/init\n")
    assert "- Test: `go test ./...`\n" in (project / "AGENTS.md").read_text()
    assert "AGENTS.md: new sessions read it" in done.err


def test_without_a_model_a_diff_shows_what_is_lacking(run: Any, project: Path) -> None:
    (project / "AGENTS.md").write_text("# Mine\n\nRun `go test ./...`.\n")
    done = run("chat", "--provider", "manual", stdin=b"/init\n")
    assert "+- Build: `go build ./...`\n" in done.out
    assert "+- Test" not in done.out
    assert (project / "AGENTS.md").read_text() == "# Mine\n\nRun `go test ./...`.\n"
    (project / "AGENTS.md").write_text("go test ./... go build ./... gofmt -w .")
    assert "lists every command" in run("chat", "--provider", "manual", stdin=b"/init\n").err


def test_without_write_file_the_draft_is_shown(run: Any, project: Path) -> None:
    done = run("chat", "--provider", "manual", "--disable", "file", stdin=b"/init\n")
    assert "- Test: `go test ./...`\n" in done.out
    assert not (project / "AGENTS.md").exists()


@pytest.mark.parametrize(("line", "shown"), [("/init", "> /init"), ("/init mention the CI", "> /init mention the CI")])
def test_a_resumed_session_shows_the_command_and_not_its_request(run: Any, project: Path, line: str, shown: str) -> None:
    for _ in ("the first time", "when it exists"):
        with ChatServer(ChatServer.calls(DRAFT), ChatServer.text("Written.")) as server:
            run("chat", "--base-url", server.base_url, "--model", "m", stdin=f"{line}\n".encode())
        lines = run("chat", "--continue", "--provider", "manual").err.splitlines()
        assert [one for one in lines if one.startswith("> ")] == [shown]
        assert "Coding agents read it" not in "".join(lines[1:])


def test_a_message_like_the_request_is_shown(run: Any, project: Path) -> None:
    with ChatServer(ChatServer.text("Yes.")) as server:
        run("chat", "--base-url", server.base_url, "--model", "m", stdin=b"Draft AGENTS.md for this project.\n")
    assert "> Draft AGENTS.md for this project." in run("chat", "--continue", "--provider", "manual").err.splitlines()
