"""Links, made before or by the command itself: their targets are judged."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.approval.explain import Judge
from tools.environments.local import LocalEnvironment
from tools.judge.setting import Setting

Floors = Callable[..., Any]
HOME, PROJECT = "/home/dev", "/home/dev/project"


def found(command: str) -> set[tuple[str, str]]:
    setting = Setting(protected=(f"{HOME}/.config/toolcrib",), home=HOME)
    return {(one.key, one.level) for one in Judge(setting).examine(command, PROJECT, files=False).findings}


@pytest.mark.parametrize(
    "command",
    [
        "ln -s ~/.bashrc n; echo x >> n",
        "ln -s ~ h; echo x >> h/.bashrc",
        "ln -s ../.bashrc n && tee -a n < x",
        "ln ~/.bashrc n; echo x >> n",
        "ln -s ~/.bashrc; echo x >> .bashrc",
        "cp -s ~/.bashrc n; echo x >> n",
        "ln -s ~ a; ln -s a b; echo x >> b/.bashrc",
        "python3 -c \"import os; os.symlink('/home/dev/.bashrc', 'n')\"; echo x >> n",
    ],
)
def test_a_link_that_the_command_makes_is_followed(command: str) -> None:
    assert ("persist.start-file", "ask-once") in found(command)
    assert found("ln -s src/a.py n; echo x >> n; ln -s / root; ln -s n n; echo x > n/n") == set()


@pytest.mark.parametrize(
    "command", ["ln -s / r; rm -rf r/*", "ln -s ~ h && rm -rf h/", "rm -rf /proc/self/root/home/dev", "rm -rf /proc/1/root/*"]
)
def test_a_root_is_a_root_under_any_name(command: str) -> None:
    assert ("fs.recursive-delete-root", "block") in found(command)


def test_a_process_s_root_and_folder_are_what_they_are() -> None:
    assert ("self.settings", "block") in found("cat /proc/self/root/home/dev/.config/toolcrib/keys.env")
    assert ("self.settings", "block") in found("cat /proc/self/cwd/../.config/toolcrib/keys.env")
    assert ("system.accounts", "ask-once") in found("echo x > /proc/thread-self/root/etc/passwd")


@pytest.fixture
def linked(floors: Floors, tmp_path: Path) -> Any:
    """A project with links to a home's start file, to toolcrib's own folder, to a foreign folder and to the home."""
    home, work = tmp_path / "home", tmp_path / "home" / "work"
    for folder in (work / "build", home / ".own", home / "photos"):
        folder.mkdir(parents=True)
    for name, target in (("notes", home / ".bashrc"), ("own", home / ".own"), ("photos", home / "photos"), ("h", home)):
        (work / name).symlink_to(target)
    setting = Setting(protected=(str(home / ".own"),), home=str(home))
    return floors(LocalEnvironment(str(work)), setting=setting, project_root=str(work))


@pytest.mark.parametrize(
    "command", ["echo x >> notes", "tee notes < a", "cp a notes", "echo x > h/.profile", "cd h; echo x > .profile"]
)
def test_a_link_that_is_there_is_followed_as_the_file_tools_follow_it(linked: Any, command: str) -> None:
    """003-24"""
    assert linked.do(command) == {"persist.start-file"}
    assert linked.call("write_file", {"path": "notes", "content": "x"}) == {"persist.start-file"}


@pytest.mark.parametrize(
    "command", ["cat own/keys.env", "cp own/config.yaml x", "echo x > own/config.yaml", "ls | tee own/x", "cat h/.own/x"]
)
def test_toolcribs_own_files_are_closed_behind_links(linked: Any, command: str) -> None:
    assert linked.do(command) == "refused"


def test_a_home_behind_a_link_is_not_emptied(linked: Any) -> None:
    assert linked.do("rm -rf h/*") == "refused"


def test_a_granted_key_does_not_follow_a_link_out_of_the_project(linked: Any) -> None:
    """003-26"""
    linked.grant("rm -rf build/x")
    assert linked.do("rm -rf build/y") == "ran"
    for command in ("rm -rf photos/", "rm -rf photos/*", "rm -rf ./photos/2024", "cd photos && rm -rf 2024"):
        assert linked.asks(command), command


def test_a_link_that_is_changed_between_question_and_answer_is_asked_about_again(linked: Any, tmp_path: Path) -> None:
    assert linked.asks("rm -rf photos/x")
    link = tmp_path / "home" / "work" / "photos"
    link.unlink()
    link.symlink_to("/srv")
    assert linked.answer().result.is_pending
