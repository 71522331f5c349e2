"""Git's folders under other names: files that git runs are asked about wherever they are, and whatever writes them."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.approval.explain import Judge
from tools.environments.local import LocalEnvironment
from tools.judge.setting import Setting

Floors = Callable[..., Any]

HOOKS = "persist.git-hooks"


def git(folder: Path, *words: str) -> None:
    environment = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1"}
    who = ("-c", "user.name=a", "-c", "user.email=a@b.test")
    subprocess.run(["git", *who, *words], cwd=folder, env=environment, check=True, capture_output=True)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A repository with a second working tree, one with a separate git folder, a bare one, and ordinary folders."""
    work = (tmp_path / "work").resolve()
    work.mkdir()
    git(work, "init", "-q", "-b", "main")
    git(work, "commit", "-q", "--allow-empty", "-m", "a")
    git(work, "worktree", "add", "-q", "second")
    git(work, "init", "-q", "--bare", "embedded")
    git(work, "init", "-q", "--separate-git-dir", str(work / "kept"), "apart")
    for folder in ("src/hooks", "plain/objects", "plain/refs", "half/objects", "half/refs"):
        (work / folder).mkdir(parents=True)
    (work / "plain/config").write_text("x = 1\n")
    (work / "archive.tar").write_bytes(b"")
    return work


@pytest.fixture
def floor(floors: Floors, work: Path) -> Any:
    return floors(LocalEnvironment(str(work)), setting=Setting(home=str(work.parent)), project_root=str(work))


@pytest.mark.parametrize(
    "path",
    [
        "embedded/hooks/post-update",
        "embedded/config",
        "embedded/info/attributes",
        "kept/hooks/post-commit",
        "kept/config",
        ".git/hooks/post-commit",
        ".git/worktrees/second/commondir",
        ".git/worktrees/second/config.worktree",
        "second/.git",
        "apart/.git",
        "src/.git",
        "half/HEAD",
    ],
)
def test_tools_and_the_shell_are_asked_alike(floor: Any, path: str) -> None:
    """003-24"""
    assert floor.call("write_file", {"path": path, "content": "x"}) == {HOOKS}
    assert floor.do(f"echo x > {path}") == {HOOKS}
    assert floor.do(f"cp archive.tar {path}") == {HOOKS}
    assert floor.do(f"python3 -c \"open('{path}', 'w').write('x')\"") == {HOOKS}


@pytest.mark.parametrize(
    "path",
    [
        "src/hooks/useState.ts",
        "src/hooks/post-commit",
        "plain/config",
        "plain/hooks/post-commit",
        "embedded/hooks/post-update.sample",
        "embedded/description",
        "src/HEAD",
        "config",
        "pre-commit",
        ".gitignore",
        ".githooks/pre-commit",
    ],
)
def test_folders_that_only_look_alike_are_free(floor: Any, path: str) -> None:
    assert floor.call("write_file", {"path": path, "content": "x"}) == "ran"
    assert floor.do(f"mkdir -p $(dirname {path}); echo x > {path}") == "ran"


@pytest.mark.parametrize(
    "command",
    [
        "mv .git g; echo x > g/hooks/post-commit",
        "mv .git g && mkdir -p g/hooks && tee g/hooks/post-commit < a",
        "cp -r .git g; echo x > g/config",
        "mv g .git",
        "cp -r g/. .git",
        "ln -s g .git",
        "ln -sfn ../evil second/.git",
        "rsync -a g/ .git",
        "git init --bare n; echo x > n/hooks/update",
        "git init --separate-git-dir n sub; echo x > n/hooks/update",
        "git clone --bare . n && echo x >> n/config",
        "mkdir -p n/objects n/refs n/hooks; echo x > n/hooks/update; echo 'ref: refs/heads/main' > n/HEAD",
        "cp .git/HEAD half/",
        "mv archive.tar half/HEAD",
        "cp -r src/. embedded",
        "rsync -a src/ kept/",
        "tar xf archive.tar -C embedded",
        "cd embedded && tar xf ../archive.tar",
        "cd kept && unzip ../archive.zip",
        "cd embedded/hooks && echo x > update",
        "chmod +x kept/hooks/post-commit",
        "echo 'gitdir: ../g' > second/.git",
        "mv src/hooks embedded/hooks",
        "mkdir d; cd d; mv ../embedded e; echo x > e/config",
        "mv .g?t g; echo x > g/hooks/post-commit",
        "mkdir d; mv e* d; echo x > d/embedded/config",
        'mv "$(git rev-parse --git-dir)" g; echo x > g/config',
        "echo x > $(git rev-parse --git-dir)/hooks/pre-commit",
        "cp archive.tar $(git rev-parse --git-path hooks)/pre-push",
        "python3 -c \"import os; os.rename('.git', 'g'); open('g/hooks/update', 'w').write('x')\"",
        "python3 -c \"import shutil; shutil.move('g', '.git')\"",
        "python3 -c \"import os; os.symlink('g', '.git')\"",
    ],
)
def test_git_s_folder_is_known_whatever_it_is_called(floor: Any, command: str) -> None:
    outcome = floor.do(command)
    assert isinstance(outcome, set), command
    assert HOOKS in outcome


def test_one_call_after_the_other_too(floor: Any, work: Path) -> None:
    assert floor.do("mv .git g") == "ran"
    assert floor.call("write_file", {"path": "g/hooks/post-commit", "content": "x"}) == {HOOKS}
    assert floor.do("mv g .git") == {HOOKS}
    assert floor.do("mkdir -p b/objects b/refs b/hooks; echo x > b/hooks/update") == "ran"
    assert floor.call("write_file", {"path": "b/HEAD", "content": "ref: refs/heads/main\n"}) == {HOOKS}


@pytest.mark.parametrize(
    "command",
    [
        "git clone . ../other && mv ../other/.git ../kept.git",
        "mkdir -p tmp && mv second/.git tmp/",
        "mv tmp/.git second/",
        "cp -a . ../copy",
        "git init fresh && echo x > fresh/a.py",
        "git worktree add ../third",
        "mkdir refs; mkdir objects; echo x > objects/a",
        "tar xf archive.tar -C src",
        "rsync -a src/ plain/",
        "mkdir out; mv src/* out; echo x > out/a.py",
        "echo x > $(mktemp -d)/config",
        "cp archive.tar $(mktemp -d)/update",
    ],
)
def test_ordinary_work_on_repositories_is_free(floor: Any, command: str) -> None:
    assert floor.do(command) == "ran"


@pytest.mark.parametrize("command", ["rm -f embedded/HEAD", "rm kept/packed-refs", "rm -f embedded/refs/heads/x"])
def test_what_git_keeps_is_not_deleted_unasked(floor: Any, command: str) -> None:
    assert floor.do(command) == {"git.damage"}
    assert floor.do(command.replace("embedded", "src").replace("kept", "src")) == "ran"


@pytest.mark.parametrize("value", ["tools/hooks", "tools/hooks/_", "./tools/hooks/"])
@pytest.mark.parametrize("top", ["", "second/"])
def test_hooks_are_where_the_settings_say(floor: Any, work: Path, value: str, top: str) -> None:
    (work / "tools/hooks").mkdir(parents=True)
    assert floor.call("write_file", {"path": f"{top}tools/hooks/pre-commit", "content": "x"}) == "ran"
    git(work, "config", "core.hooksPath", value)
    assert floor.call("write_file", {"path": f"{top}tools/hooks/pre-commit", "content": "x"}) == {HOOKS}
    assert floor.do(f"echo x > {top}tools/hooks/pre-commit") == {HOOKS}
    assert floor.do(f"echo x > {top}tools/hooks/other") == "ran"


def test_hooks_of_the_whole_account(floor: Any, work: Path) -> None:
    (work.parent / ".gitconfig").write_text("[core]\n\thooksPath = ~/h\n")
    assert floor.do("echo x > ../h/pre-commit") == {HOOKS}


@pytest.mark.parametrize(
    "command",
    [
        "git --git-dir=embedded --work-tree=. status",
        "git --git-dir embedded log",
        "GIT_DIR=embedded git status",
        "(export GIT_DIR=$PWD/embedded; git diff)",
        "git -C embedded log",
        "(cd embedded; git log)",
        "(cd embedded && git fetch)",
    ],
)
@pytest.mark.parametrize("setting", ["core.fsmonitor=./x.sh", "filter.f.clean=./x.sh", "core.sshCommand=./x.sh", "hook"])
def test_git_in_a_folder_that_names_programs_is_asked_about(floor: Any, work: Path, command: str, setting: str) -> None:
    assert floor.do(command) == "ran"
    if setting == "hook":
        (work / "embedded/hooks/post-index-change").write_text("x")
    else:
        git(work / "embedded", "config", *setting.split("="))
    assert floor.do(command) == {"git.runs-code"}
    assert floor.do(command.replace("embedded", "plain")) == "ran"


def test_explain_sees_the_same(work: Path) -> None:
    judge = Judge(Setting(home=str(work.parent)))
    assert [one.key for one in judge.examine("echo x > embedded/config", str(work)).findings] == [HOOKS]
    assert not judge.examine("echo x > plain/config", str(work)).findings
    assert not judge.examine("echo x > embedded/config", str(work), files=False).findings
