"""A command that was judged harmless is not judged again while the data of its judgement stays the same."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import model_tools
from toolcrib import RunIdentity
from tools.dispatch.bridge import run_async
from tools.dispatch.scope import CallScope
from tools.environments import open_environment

Terminal = Callable[..., dict[str, Any]]


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """Return a function that runs a command in a real shell through the dispatcher.

    No user can be asked, so a question is an error.
    """
    folder = tmp_path.resolve()
    scope = CallScope(identity=RunIdentity(str(tmp_path)), open_environment=lambda: open_environment("local", cwd=str(folder)))

    def terminal(command: str) -> dict[str, Any]:
        return dict(json.loads(model_tools.handle_function_call("terminal", {"command": command}, scope=scope)))

    yield terminal
    run_async(scope.close())


def runs(answer: dict[str, Any]) -> bool:
    return "error" not in answer


@pytest.mark.parametrize(
    ("command", "change"),
    [
        ("ls", "ls() { command rm -rf /tmp/never-there; }"),
        ("ls", "alias ls='rm -rf never-there'"),
        ("command -p true $WHAT", "WHAT='; rm'; shopt -s expand_aliases; alias command='rm -rf'"),
        ("echo $WHAT", "WHAT='>x'; echo() { rm -rf never-there; }"),
        ("$WHAT -rf never-there", "WHAT=rm"),
    ],
)
def test_another_state_of_the_shell_is_judged_anew(terminal: Terminal, command: str, change: str) -> None:
    terminal("WHAT=echo")
    assert runs(terminal(command))
    assert runs(terminal(command))
    assert runs(terminal(change))
    assert not runs(terminal(command)), "what the shell has become was not looked at"


def test_another_folder_is_judged_anew(terminal: Terminal) -> None:
    assert runs(terminal("mkdir a; printf 'echo fine\\n' >run.sh; printf 'rm -rf ~\\n' >a/run.sh"))
    assert runs(terminal("bash run.sh"))
    assert runs(terminal("cd a"))
    assert not runs(terminal("bash run.sh"))


def test_another_file_or_link_is_judged_anew(terminal: Terminal, tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("x")
    (tmp_path / "run.sh").write_text("echo fine\n")
    for _ in range(2):
        assert runs(terminal("bash run.sh"))
        assert runs(terminal("cp notes copy"))
    (tmp_path / "run.sh").write_text("rm -rf never-there\n")
    (tmp_path / "copy").unlink()
    (tmp_path / "copy").symlink_to(Path.home() / ".ssh" / "authorized_keys")
    assert not runs(terminal("bash run.sh"))
    assert not runs(terminal("cp notes copy"))
