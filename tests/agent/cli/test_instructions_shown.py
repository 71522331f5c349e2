"""Tests of the views that show which project instructions the model receives."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / ".git").mkdir(parents=True)
    (folder / "AGENTS.md").write_text("Use tabs.\n")
    return folder


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer(*[ChatServer.text("Yes.") for _ in range(3)]) as server:
        yield server


def test_run_names_the_files_once(run: Any, server: ChatServer, project: Path) -> None:
    (project / "sub").mkdir()
    (project / "sub" / "CLAUDE.md").write_text("Sub.\n")
    words = ("run", "go", "--cwd", str(project / "sub"), "--base-url", server.base_url, "--model", "test-model")
    done = run(*words)
    assert done.err == "toolcrib: 2 instruction files: AGENTS.md, sub/CLAUDE.md\n"
    assert "Sub." in server.requests[-1]["messages"][0]["content"]
    assert '"instructions": ["AGENTS.md", "sub/CLAUDE.md"]' in run(*words, "--json").out


def test_the_chat_names_the_files_once(run: Any, server: ChatServer, project: Path) -> None:
    words = ("--cwd", str(project), "--base-url", server.base_url, "--model", "test-model")
    done = run("chat", *words, stdin=b"one\n/new\ntwo\n")
    assert done.err.count("1 instruction file: AGENTS.md") == 1
    by_hand = run("chat", "--cwd", str(project), "--provider", "manual", stdin=b"/tools\n")
    assert "instruction" not in by_hand.err
