"""The README's code runs as written, its figures are those of the benchmarks and the suite, and its links are valid."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from toolcrib.testing import ChatServer

pytestmark = pytest.mark.e2e
COMMAND = str(Path(sys.executable).with_name("toolcrib"))


def block(root: Path, heading: str) -> str:
    """Return the Python code under a heading."""
    text = (root / "README.md").read_text(encoding="utf-8")
    match = re.search(rf"^## {heading}\n.*?^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert match is not None, f"no Python block under {heading!r}"
    return match[1]


@pytest.fixture
def plugins(user_plugin: Callable[[str, str], Path]) -> Path:
    """Return the user's plugin folder, with the plugin ``mine`` enabled."""
    return user_plugin("mine", "").parent


def toolcrib(*args: str, cwd: Path, text: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *args], cwd=cwd, input=text, capture_output=True, text=True, timeout=60, check=False)


def test_the_tool_in_ten_lines(root: Path, plugins: Path, tmp_path: Path) -> None:
    (plugins / "mine.py").write_text(block(root, "A tool in ten lines"))
    done = toolcrib("call", "forecast", '{"city": "Oslo", "days": "2"}', cwd=tmp_path)
    assert json.loads(done.stdout) == {"city": "Oslo", "days": ["sunny", "sunny"]}, done.stderr
    wrong = json.loads(toolcrib("call", "forecast", '{"days": "many"}', cwd=tmp_path).stdout)
    assert "city" in wrong["error"]


def test_the_plugin_in_ten_lines(root: Path, plugins: Path, tmp_path: Path) -> None:
    (plugins / "mine.py").write_text(block(root, "A plugin in ten lines"))
    assert json.loads(toolcrib("call", "ping", cwd=tmp_path).stdout) == "pong"
    denied = json.loads(toolcrib("call", "terminal", '{"command": "deploy prod"}', cwd=tmp_path).stdout)
    assert "not on prod" in denied["error"]
    assert json.loads(toolcrib("call", "terminal", '{"command": "echo dev"}', cwd=tmp_path).stdout)["output"] == "dev\n"


def test_the_agent_in_ten_lines(root: Path, tmp_path: Path) -> None:
    (Path.home() / "project").mkdir()
    with ChatServer(ChatServer.text("test_b fails."), ChatServer.text("Fixed.")) as server:
        code = block(root, "An agent in ten lines").replace("http://127.0.0.1:11434/v1", server.base_url)
        done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert [message["content"] for message in server.requests[-1]["messages"][-2:]] == ["test_b fails.", "Fix it."]
    assert done.stdout.splitlines()[-1] == "Fixed.", done.stderr


def test_a_piped_chat_prints_the_kernel_s_name(tmp_path: Path) -> None:
    done = toolcrib("chat", cwd=tmp_path, text='@tool terminal {"command": "uname -a"}\n')
    assert done.returncode == 0
    assert os.uname().sysname in done.stdout


def test_the_call_from_a_script(root: Path) -> None:
    """``toolcrib call read_file '{"path": "README.md"}'``"""
    assert "a language model runs commands" in toolcrib("call", "read_file", '{"path": "README.md"}', cwd=root).stdout


def test_what_is_linked_is_there(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#:]+)[)#]|(?:src|srcset)=\"([^\":]+)\"", text)
    assert len(targets) > 10
    for target in targets:
        assert (root / "".join(target)).exists(), target


def test_the_commands_that_are_named_exist(root: Path, tmp_path: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    for name in sorted(set(re.findall(r"`toolcrib ([a-z]+)", text))):
        assert toolcrib(name, "--help", cwd=tmp_path).returncode == 0, name
