"""``!command`` without a terminal; tests/e2e/test_input.py has the rest."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from toolcrib.testing import ChatServer


def test_piped_lines_run_no_command_of_ones_own(run: Any, tmp_path: Path) -> None:
    """Piped lines are not typed by a person, so a ``!`` before a command must not run it without approval."""
    with ChatServer(ChatServer.text("Yes.")) as server:
        done = run("chat", "--base-url", server.base_url, "--model", "m", stdin=b"!touch made\n!!touch made\nis it there?\n")
        assert len(server.requests) == 1
    assert "!COMMAND works only at a terminal" in done.err
    assert not (tmp_path / "made").exists()
