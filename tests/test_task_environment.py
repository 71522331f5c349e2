"""The environment and folder of a task of the synchronous interfaces (003-30)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import model_tools
from model_tools import end_task, handle_function_call, set_task_environment
from toolcrib import EnvironmentFailed, ToolcribError


@pytest.fixture(autouse=True)
def _ended() -> Iterator[None]:
    yield
    model_tools.close_tasks()


def answer(task: str, name: str, **args: Any) -> Any:
    return json.loads(handle_function_call(name, args, task))


def test_a_task_has_a_folder_of_its_own(tmp_path: Path) -> None:
    """003-30"""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        set_task_environment(name, cwd=str(tmp_path / name))
    for name in ("one", "two"):
        assert answer(name, "terminal", command="pwd; echo hi >file")["output"] == f"{tmp_path}/{name}\n"
        assert (tmp_path / name / "file").exists()
    answer("one", "terminal", command="cd /usr")
    assert answer("one", "terminal", command="pwd")["output"] == "/usr\n"
    assert "hi" in answer("two", "read_file", path="file")
    with pytest.raises(ToolcribError, match=r"'one' already runs in another environment"):
        set_task_environment("one", cwd="/")
    end_task("one")
    set_task_environment("one", cwd=str(tmp_path))
    assert answer("one", "terminal", command="pwd")["output"] == f"{tmp_path}\n"


def test_a_hard_link_of_an_own_file_is_closed_in_a_task(tmp_path: Path) -> None:
    own = Path(model_tools.own_paths()[0]) / "config.yaml"
    own.parent.mkdir(parents=True)
    own.write_text("display: {}\n")
    (tmp_path / "notes").hardlink_to(own)
    set_task_environment("t", cwd=str(tmp_path))
    for name, args in (
        ("write_file", {"path": "notes", "content": "x"}),
        ("terminal", {"command": "echo x > notes"}),
    ):
        said = answer("t", name, **args)
        assert "Denied, regardless of grants" in str(said), (name, said)
    assert own.read_text() == "display: {}\n"


@pytest.mark.xdist_group("bubblewrap")
def test_a_task_has_a_place_of_its_own(tmp_path: Path) -> None:
    """003-30, 003-29"""
    set_task_environment("boxed", cwd=str(tmp_path), sandbox="bubblewrap")
    told = answer("boxed", "terminal", command="pwd; test -w /usr || echo closed")
    assert told["output"] == f"{tmp_path}\nclosed\n"
    assert told["where"] == "local:bubblewrap"
    assert answer("plain", "terminal", command="true")["where"] == "local"


def test_a_place_that_cannot_be_had_is_no_other(tmp_path: Path) -> None:
    """003-30"""
    with pytest.raises(EnvironmentFailed, match=r"unknown environment 'mars'; known: docker, local, ssh"):
        set_task_environment("t", backend="mars")
    set_task_environment("t", backend="docker", cwd=str(tmp_path), image="x", host="unix:///nowhere")
    assert "does not answer" in answer("t", "terminal", command="touch here")["error"]
    set_task_environment("u", cwd=str(tmp_path), colour="red")
    assert "colour" in answer("u", "terminal", command="touch here")["error"]
    assert not list(tmp_path.iterdir())


@pytest.mark.xdist_group("docker")
def test_a_task_in_a_container(engine: Any, tmp_path: Path) -> None:
    """003-30: with a real engine"""
    set_task_environment("boxed", backend="docker", cwd=str(tmp_path), **engine.options)
    told = answer("boxed", "terminal", command="pwd; test -e /.dockerenv && echo contained")
    assert told["output"] == f"{tmp_path}\ncontained\n"
    assert told["where"].startswith("docker:toolcrib-boxed-")
    assert "[where: docker:" in handle_function_call("write_file", {"path": "a", "content": "b"}, "boxed")
    assert (tmp_path / "a").read_text() == "b"


@pytest.mark.xdist_group("ssh")
def test_a_task_on_another_host(root_sshd: Any) -> None:
    """003-30: real"""
    set_task_environment("far", backend="ssh", cwd="/usr", **root_sshd.options)
    told = answer("far", "terminal", command='pwd; test -n "$SSH_CONNECTION" && echo far')
    assert told["output"] == "/usr\nfar\n"
    assert told["where"].startswith("ssh:root@127.0.0.1:")
