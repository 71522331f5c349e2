"""The Python code of the documents runs as written, except for the server's address."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tests.forks import Forks
from toolcrib.testing import ChatServer

ROOT = Path(__file__).parent.parent
_ADDRESS = "http://127.0.0.1:11434/v1"


def _blocks(document: str) -> list[str]:
    return re.findall(r"(?ms)^```python\n(.*?)^```", (ROOT / document).read_text("utf-8"))


def _run(forks: Forks, code: str, folder: Path, *replies: object) -> str:
    """Run a block in its own folder, against a server that gives these replies."""
    with ChatServer(*replies) as server:  # type: ignore[arg-type]  # what ChatServer makes
        done = forks.run(code=code.replace(_ADDRESS, server.base_url), cwd=folder, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


PUSHES = ("terminal", {"command": "git push --force origin main"})


def _git(folder: Path, *args: str) -> str:
    who = ("-c", "user.name=ann", "-c", "user.email=ann@example.org")
    return subprocess.run(["git", *who, *args], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("number", range(6))
def test_programs_of_ones_own_run_as_they_are_written(forks: Forks, number: int, tmp_path: Path) -> None:
    blocks = _blocks("docs/embedding.md")
    assert len(blocks) == 6
    _git(tmp_path, "init", "-q", "-b", "main")
    _git(tmp_path, "init", "-q", "--bare", "origin.git")
    _git(tmp_path, "remote", "add", "origin", "./origin.git")
    _git(tmp_path, "commit", "-q", "--allow-empty", "-m", "first")
    text, calls = ChatServer.text, ChatServer.calls
    replies = [
        [calls(("terminal", {"command": "ls"}), ids=["a"]), text("A folder.")],
        [text("A folder.")],
        [calls(("stock", {"item": "lamp"}), ids=["a"]), text("Seven.")],
        [calls(PUSHES, ids=["a"]), text("It is pushed.")],
        [text('{"city": "Oslo", "sunny": true}')],
        [calls(PUSHES, ids=["a"]), text("It is pushed.")],
    ]
    said = _run(forks, blocks[number], tmp_path, *replies[number])
    expected = [
        "[terminal succeeded, ",
        "A folder.{'input': ",
        "Seven.",
        "rewrites shared history",
        "Oslo True",
        "It is pushed.",
    ]
    assert expected[number] in said
    assert bool(_git(tmp_path / "origin.git", "branch")) == (number in (3, 5))


def test_the_agent_of_the_readme_runs(forks: Forks, tmp_path: Path) -> None:
    (block,) = [block for block in _blocks("README.md") if "import Agent" in block]
    said = _run(
        forks,
        block.replace("~/project", str(tmp_path)),
        tmp_path,
        ChatServer.text("None fails."),
        ChatServer.text("Nothing to fix."),
    )
    assert "None fails." in said
    assert "Nothing to fix." in said
