"""Aliases of git are judged as their expansions, wherever they were set."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tools.judge.detect import examine
from tools.judge.meaning import Seen
from tools.judge.setting import Setting

HOME, PROJECT = "/home/dev", "/home/dev/p"


class Files:
    """A snapshot of files, by absolute path."""

    def __init__(self, files: Mapping[str, str]) -> None:
        self.files = files

    def inspect_path(self, path: str) -> Seen:
        if path in self.files:
            return Seen("file", self.files[path])
        return Seen("dir" if any(name.startswith(f"{path}/") for name in self.files) else "missing")


def keys(command: str, files: Mapping[str, str] | None = None) -> set[str]:
    findings = examine(command, PROJECT, None, Files(files or {}), Setting(home=HOME)).findings
    return {finding.key.partition("@")[0] for finding in findings}


@pytest.mark.parametrize(
    ("command", "file", "text", "key"),
    [
        ("git x", f"{PROJECT}/.git/config", "[alias]\n\tx = push --force\n", "git.push-force"),
        ("git X", f"{PROJECT}/.git/config", "[Alias] x = !rm -rf d\n", "fs.recursive-delete"),
        ("git -C .. x", f"{HOME}/.gitconfig", '[alias]\n\tx = "!f() { rm -rf \\"$1\\"; }; f" # tidy\n', "fs.recursive-delete"),
        ("git x d", f"{HOME}/.config/git/config", "[alias]\n\tx = !rm \\\n-rf\n", "fs.recursive-delete"),
        ("git x", f"{HOME}/.gitconfig", '[alias "x"]\n\tcommand = push -f\n', "git.push-force"),
        ("git x", f"{HOME}/.gitconfig", "[alias]\n\tx = y\n\ty = push -f\n", "git.push-force"),
        ("git x", f"{HOME}/.gitconfig", "[alias]\n\tx = y\n\ty = x\n", "opaque.depth"),
    ],
)
def test_an_alias_in_a_file_of_settings_is_followed(command: str, file: str, text: str, key: str) -> None:
    assert key in keys(command, {f"{PROJECT}/.git/HEAD": "ref: refs/heads/main\n", file: text})


def test_an_alias_in_an_included_file_is_followed() -> None:
    files = {f"{HOME}/.gitconfig": "[include]\n\tpath = more\n", f"{HOME}/more": "[alias]\n\tx = !rm -rf d\n"}
    assert "fs.recursive-delete" in keys("git x", files)
    assert not keys("git x", {f"{HOME}/.gitconfig": "[include]\n\tpath = .gitconfig\n"})


def test_an_alias_of_a_second_working_tree_is_followed() -> None:
    files = {f"{PROJECT}/.git": "gitdir: /srv/a/.git/worktrees/p\n", "/srv/a/.git/config": "[alias]\n\tx = push -f\n"}
    assert "git.push-force" in keys("git x", files)


@pytest.mark.parametrize(
    "command",
    [
        "git -c alias.p='push --force' p origin main",
        "git -c alias.q='!true' -c core.pager=cat -c alias.p='push --force' p origin main",
        "git config alias.p 'push --force' && git p origin main",
        "git config --global --add alias.p 'push --force' && git p origin main",
        "git config -f .git/config set alias.p 'push --force'; git p",
        "A='push --force' git --config-env=alias.p=A p",
        "export A='push --force'; git --config-env alias.p=A p",
    ],
)
def test_an_alias_that_the_line_sets_is_followed(command: str) -> None:
    assert "git.push-force" in keys(command)


def test_programs_called_like_a_subcommand_are_followed() -> None:
    files = {f"{PROJECT}/bin/git-x": "#!/bin/sh\nrm -rf d\n"}
    assert "fs.recursive-delete" in keys("PATH=$PWD/bin:$PATH git x", files)
    assert "git.runs-code" in keys("git --exec-path=bin x", files)


@pytest.mark.parametrize(
    "command",
    ["git st", "git lg -5", "git lfs pull", "git config alias.p 'push --force'", "git status", "git config --get alias.x"],
)
def test_harmless_aliases_are_free(command: str) -> None:
    text = "[alias]\n\tst = status -sb\n\tlg = log --graph --pretty=format:'%h %s'\n"
    assert not keys(command, {f"{HOME}/.gitconfig": text})
