"""Sessions in the sandbox of this machine: what they are offered, what runs outside, and what they leave behind."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.config import config_path
from agent.later import later_note
from agent.store.memory import MemoryStore
from agent.workspace import Workspace
from toolcrib import Answer, SuspendTicket, ToolCallContext
from tools.dispatch.bridge import close_loop, run_async


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path.resolve() / "project"
    made.mkdir()
    return made


def workspace(folder: Path, settings: str) -> Iterator[Workspace]:
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text(f"sandbox: {settings}\n")
    with assemble(project_dir=folder, store=MemoryStore()) as crib:
        yield crib.workspace(folder)
    close_loop()


@pytest.fixture
def sandboxed(folder: Path) -> Iterator[Workspace]:
    yield from workspace(folder, "{mode: workspace, outside: ask, caches: shared}")


def approve(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
    return Answer(ticket.id, payload={"approved": True, "scope": "once"}, by="me")


def parameters(session: Any) -> list[str]:
    shown = next(one["function"] for one in session.definitions if one["function"]["name"] == "terminal")
    return list(shown["parameters"]["properties"])


def test_a_session_in_the_sandbox(sandboxed: Workspace, folder: Path, tmp_path: Path) -> None:
    """The model may run commands outside, a blocked command's result mentions that, a command outside does its work, and the end
    lists running commands.
    """
    session = sandboxed.open_session(asker=approve)
    try:
        if session.backend.held != "workspace":
            pytest.skip("this machine holds no sandbox of the mode workspace")
        assert "outside" in parameters(session)
        stopped: Any = session.call("terminal", {"command": "touch /usr/made-by-a-test"}).result.data
        assert "outside: true" in stopped["stopped"]
        assert "/usr/made-by-a-test" in stopped["stopped"]
        outside = session.call("terminal", {"command": f"touch {tmp_path}/made", "outside": True}).result
        assert outside.is_success, outside.message
        assert (tmp_path / "made").exists()
        for name in ("Makefile", "notes.txt"):
            assert session.call("write_file", {"path": name, "content": "all:\n"}).result.is_success
        note = run_async(later_note(session))
        assert f"{folder}/Makefile (make)" in note
        assert "notes" not in note
    finally:
        session.close_sync()


@pytest.mark.parametrize("settings", ["{mode: none, outside: ask}", "{mode: workspace, outside: never}"])
def test_without_a_sandbox_or_the_setting_nothing_is_offered(folder: Path, settings: str) -> None:
    """The default is never: no command runs outside the sandbox."""
    for made in workspace(folder, settings):
        session = made.open_session(asker=approve)
        try:
            assert "outside" not in parameters(session)
            if session.backend.held == "none":
                assert session.call("write_file", {"path": "Makefile", "content": "all:\n"}).result.is_success
                assert run_async(later_note(session)) == ""
            else:
                assert "never" in str(session.call("terminal", {"command": "true", "outside": True}).result.message)
        finally:
            session.close_sync()
