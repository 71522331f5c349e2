"""Commands that discard uncommitted work: they are asked about unless the working tree is known to have none."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ExecRequest
from tools.approval.explain import Judge
from tools.approval.uncommitted import ask_git, ask_git_here, read_status
from tools.environments.local import LocalEnvironment
from tools.judge.file_view import UNSEEN, WorkTree
from tools.judge.setting import Setting

Floors = Callable[..., Any]

LOSES = {"git.discard"}
CHANGED = [
    "git reset --hard",
    "git reset -q --hard HEAD",
    "git checkout -- a.py",
    "git checkout a.py",
    "git checkout .",
    "git checkout HEAD a.py",
    "git restore a.py",
    "git restore -SW src",
    "git checkout -f",
    "git switch --discard-changes -",
    "git -C src checkout -- ../a.py",
    "cd src && git checkout -- b.py",
    "git status && git checkout .",
]
CLEANS = ["git clean -fd", "git clean -fdx", "git clean --force -d"]


def git(folder: Path, *words: str) -> str:
    """Run git as the folder's user would, without this machine's settings."""
    named = {f"GIT_{who}_{what}": "a@b.test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GIT_CONFIG_NOSYSTEM": "1", **named}
    return subprocess.run(["git", *words], cwd=folder, env=environment, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="session")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clean repository with a commit and two branches, which tests copy."""
    folder = tmp_path_factory.mktemp("committed") / "tree"
    (folder / "src").mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for name, text in (("a.py", "a = 1\n"), ("src/b.py", "b = 1\n"), (".gitignore", "*.log\nbuild/\n")):
        (folder / name).write_text(text)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    git(folder, "branch", "topic")
    return folder


@pytest.fixture
def tree(committed: Path, tmp_path: Path) -> Path:
    folder = (tmp_path / "tree").resolve()
    shutil.copytree(committed, folder, copy_function=shutil.copy)  # new files, as if they had just been committed
    git(folder, "update-index", "--refresh")  # git takes a copied file for a changed one until it reads it
    return folder


@pytest.fixture
def floor(floors: Floors, tree: Path) -> Any:
    return floors(LocalEnvironment(str(tree)), setting=Setting(home=str(tree.parent)), project_root=str(tree))


@pytest.mark.parametrize("command", [*CHANGED, *CLEANS, "git clean -fdX"])
def test_in_a_clean_tree_nothing_is_asked(floor: Any, command: str) -> None:
    assert floor.do(command) == "ran"


@pytest.mark.parametrize("command", CHANGED)
@pytest.mark.parametrize("staged", [False, True])
def test_changed_files_are_asked_about(floor: Any, tree: Path, command: str, staged: bool) -> None:
    (tree / "a.py").write_text("a = 2\n")
    if staged:
        git(tree, "add", "a.py")
    assert floor.do(command) == LOSES
    assert (tree / "a.py").read_text() == "a = 2\n"


WIDER = {"git clean -fdx": "git.clean@ignored files"}
"""Keys of the commands that delete more than untracked files."""


@pytest.mark.parametrize("command", CLEANS)
def test_untracked_files_are_asked_about_by_what_deletes_them(floor: Any, tree: Path, command: str) -> None:
    (tree / "new.py").write_text("new = 1\n")
    assert floor.do(command) == {WIDER.get(command, "git.clean")}
    assert floor.do("git reset --hard") == "ran"
    assert (tree / "new.py").exists()


@pytest.mark.parametrize("command", ["git clean -fdx", "git clean -fX", "git clean -xf build"])
def test_ignored_files_are_asked_about_where_they_would_go(floor: Any, tree: Path, command: str) -> None:
    (tree / "build").mkdir()
    (tree / "build/out").write_text("x")
    assert floor.do(command) == {"git.clean@ignored files"}
    assert floor.do("git clean -fd") == "ran"
    assert (tree / "build/out").exists()


@pytest.mark.parametrize("command", ["git checkout -f topic", "git switch --force topic", "git checkout topic -- ."])
def test_untracked_files_may_be_overwritten_by_another_commit(floor: Any, tree: Path, command: str) -> None:
    (tree / "new.py").write_text("new = 1\n")
    assert floor.do(command) == LOSES


def _tracks_ignored(tree: Path) -> None:
    """Make a branch, ``w``, whose tracked files are ignored on this branch, and exist in it."""
    (tree / "build").mkdir()
    (tree / "build/out").write_text("in w\n")
    git(tree, "checkout", "-qb", "w")
    git(tree, "add", "-f", "build/out")
    git(tree, "commit", "-qm", "w")
    git(tree, "checkout", "-q", "-")
    (tree / "build").mkdir(exist_ok=True)
    (tree / "build/out").write_text("mine\n")


@pytest.mark.parametrize(
    "command",
    [
        "git restore -s w build/out",
        "git restore --source=w -- build",
        "git restore -s w .",
        "git checkout w build/out",
        "git checkout w -- .",
        "git checkout w -- 'buil*'",
        "cd src && git checkout w -- ../build",
        "git checkout w",
        "git checkout -q -",
        "git switch w",
        "git checkout -b new w",
        "git merge -q w",
        "git rebase w",
    ],
)
def test_ignored_files_that_a_commit_has_are_asked_about(floor: Any, tree: Path, command: str) -> None:
    _tracks_ignored(tree)
    assert floor.do(command) == LOSES


@pytest.mark.parametrize(
    "command", ["git restore -s w a.py", "git checkout w -- src", "git checkout topic", "git checkout -b new", "git switch topic"]
)
def test_what_spares_them_is_free(floor: Any, tree: Path, command: str) -> None:
    _tracks_ignored(tree)
    assert floor.do(command) == "ran"


def _conflict(tree: Path) -> None:
    """Make a merge with conflicts: git has stopped for a.py, and has merged src/b.py."""
    git(tree, "checkout", "-qb", "w")
    for name in ("a.py", "src/b.py"):
        (tree / name).write_text("w = 1\n")
    git(tree, "commit", "-qam", "w")
    git(tree, "checkout", "-q", "-")
    (tree / "a.py").write_text("here = 1\n")
    git(tree, "commit", "-qam", "here")
    with pytest.raises(subprocess.CalledProcessError):
        git(tree, "merge", "-q", "w")
    assert "<<<<<<<" in (tree / "a.py").read_text()


ABORTS = ["git merge --abort", "git -C . merge --abort", "git rebase --abort", "git cherry-pick --skip"]


@pytest.mark.parametrize("command", ABORTS)
def test_an_abort_of_what_git_left_is_free(floor: Any, tree: Path, command: str) -> None:
    _conflict(tree)
    assert not floor.asks(command)


@pytest.mark.parametrize("command", ABORTS)
@pytest.mark.parametrize("way", ["resolved", "resolved and added", "another file", "removed"])
def test_an_abort_of_a_conflict_resolved_by_hand_is_asked_about(floor: Any, tree: Path, command: str, way: str) -> None:
    _conflict(tree)
    (tree / ("src/b.py" if way == "another file" else "a.py")).write_text("both = 1\n")
    if way == "resolved and added":
        git(tree, "add", "a.py")
    if way == "removed":
        (tree / "a.py").unlink()
    assert floor.do(command) == LOSES


@pytest.mark.parametrize("command", ["git stash", "git checkout topic", "git switch topic", "git restore --staged a.py"])
def test_what_loses_nothing_is_free_in_a_dirty_tree(floor: Any, tree: Path, command: str) -> None:
    (tree / "a.py").write_text("a = 2\n")
    assert floor.do(command) == "ran"


@pytest.mark.parametrize("command", ["git stash drop", "git stash clear", "git stash drop stash@{0}"])
def test_dropping_a_stash_is_asked_about_in_a_clean_tree_too(floor: Any, command: str) -> None:
    assert floor.do(command) == {"git.stash-delete"}


@pytest.mark.parametrize(
    "command",
    [
        "git stash pop && git reset --hard",
        "mv ../notes . && git clean -fd",
        "git reset --soft HEAD~1 && git reset --hard",
        "git --git-dir=../other/.git --work-tree=. checkout -f",
        "GIT_DIR=../other/.git git checkout -f",
        "GIT_WORK_TREE=.. git checkout -f",
        "export GIT_WORK_TREE=..; git checkout -f",
        "git -c core.worktree=.. checkout -f",
        "git -C $somewhere checkout -f",
        "git -C .. checkout -f",
        "ssh host git reset --hard",
        "cd ..; git checkout -- x",
    ],
)
def test_a_tree_that_was_not_seen_as_it_will_be_counts_as_dirty(floor: Any, command: str) -> None:
    assert floor.asks(command)


@pytest.mark.parametrize("line", ["export GIT_WORK_TREE=..", "trap 'echo x' DEBUG", "function /usr/bin/env { echo; }"])
def test_what_the_session_s_shell_may_make_up_is_not_believed(floor: Any, line: str) -> None:
    asyncio.run(floor.environment.execute(ExecRequest(line)))
    assert floor.asks("git reset --hard")


def test_a_program_of_the_session_s_own_does_not_answer(floor: Any, tree: Path) -> None:
    (tree / "git").write_text("#!/bin/sh\nexit 0\n")
    (tree / "git").chmod(0o755)
    git(tree, "add", "git")
    asyncio.run(floor.environment.execute(ExecRequest("PATH=$PWD:$PATH; git() { :; }; alias git=true")))
    assert floor.asks("command git reset --hard; /usr/bin/git reset --hard")


def test_where_explain_is_asked_it_says_the_same(tree: Path) -> None:
    judge = Judge(Setting())
    assert not judge.examine("git reset --hard", str(tree)).findings
    assert judge.examine("git reset --hard", str(tree.parent)).findings
    (tree / "a.py").write_text("a = 2\n")
    assert [one.key for one in judge.examine("git reset --hard", str(tree)).findings] == ["git.discard"]


def test_an_answer_is_for_the_work_that_was_there(floor: Any, tree: Path) -> None:
    (tree / "a.py").write_text("a = 2\n")
    assert floor.asks("git reset --hard")
    (tree / "src/b.py").write_text("b = 2\n")
    assert floor.answer().result.is_pending
    assert (tree / "src/b.py").read_text() == "b = 2\n"
    assert floor.asks("git reset --hard")
    assert floor.answer().result.is_success
    assert (tree / "src/b.py").read_text() == "b = 1\n"


# -- questions to git --------------------------------------------------------------------------------------------------


def seen(tree: Path) -> WorkTree:
    return read_status(ask_git_here(str(tree)))


def test_each_kind_of_work_is_told(tree: Path) -> None:
    assert seen(tree) == seen(tree / "src") == WorkTree(False, False, False, False)
    (tree / "x y\n.log").write_text("x")
    assert seen(tree) == WorkTree(changed=False, untracked=False, ignored=True, resolved=False)
    (tree / "src/new").write_text("x")
    assert seen(tree) == WorkTree(changed=False, untracked=True, ignored=True, resolved=False)
    (tree / "src/b.py").unlink()
    assert seen(tree) == WorkTree(changed=True, untracked=True, ignored=True)


def test_a_change_of_the_same_size_and_second_is_told(tree: Path) -> None:
    stamp = (tree / "a.py").stat()
    (tree / "a.py").write_text("a = 7\n")
    os.utime(tree / "a.py", ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert seen(tree).changed


@pytest.mark.parametrize(
    "setting",
    [
        ("core.fsmonitor", "{} #"),
        ("core.hooksPath", "hooks"),
        ("filter.f.clean", "{}"),
        ("filter.f.process", "{}"),
        ("filter.f.smudge", "{}"),
        ("diff.f.textconv", "{}"),
        ("diff.f.command", "{}"),
        ("diff.external", "{}"),
        ("core.sshCommand", "{}"),
        ("core.pager", "{}"),
        ("alias.status", "!{}"),
        ("alias.rev-parse", "!{}"),
        ("include.path", "../more"),
    ],
)
def test_no_program_that_the_repository_names_is_run(tree: Path, tmp_path: Path, setting: tuple[str, str]) -> None:
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {ran}\ncat\n")
    program.chmod(0o755)
    (tree / "hooks").mkdir()
    for hook in ("post-index-change", "post-checkout", "fsmonitor-watchman", "pre-commit", "reference-transaction"):
        (tree / "hooks" / hook).symlink_to(program)
        (tree / ".git/hooks" / hook).unlink(missing_ok=True)
        (tree / ".git/hooks" / hook).symlink_to(program)
    (tree / "more").write_text(f'[filter "f"]\nclean = {program}\n[core]\nfsmonitor = {program}\n')
    (tree / ".gitattributes").write_text("* filter=f diff=f\n")
    (tree / ".git/info").mkdir(exist_ok=True)
    (tree / ".git/info/attributes").write_text("* filter=f diff=f\n")
    git(tree, "config", setting[0], setting[1].format(program))
    (tree / "a.py").write_text("a = 2\n")  # git has to compare the contents
    assert seen(tree).changed
    assert not ran.exists()


def test_an_object_that_is_missing_is_not_fetched(tree: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    for key, value in (("extensions.partialClone", "o"), ("remote.o.promisor", "true"), ("remote.o.url", f"ext::touch {ran}")):
        git(tree, "config", key, value)
    git(tree, "config", "protocol.ext.allow", "always")
    tree_id = git(tree, "rev-parse", "HEAD^{tree}").strip()
    (tree / ".git/objects" / tree_id[:2] / tree_id[2:]).unlink()
    assert seen(tree) == UNSEEN
    assert not ran.exists()


@pytest.mark.parametrize("command", ["update-index --assume-unchanged a.py", "update-index --skip-worktree a.py"])
def test_files_that_git_was_told_to_overlook_count_as_work(tree: Path, command: str) -> None:
    git(tree, *command.split())
    assert seen(tree) == UNSEEN


def test_nothing_of_a_repository_s_own_is_changed(tree: Path) -> None:
    def facts() -> dict[str, tuple[int, bytes]]:
        return {str(p): (p.stat().st_mtime_ns, p.read_bytes()) for p in (tree / ".git").rglob("*") if p.is_file()}

    before = facts()
    (tree / "a.py").touch()
    seen(tree)
    assert facts() == before


def test_other_trees_of_a_repository_are_told_apart(tree: Path) -> None:
    git(tree, "worktree", "add", "-q", "../second", "topic")
    (tree.parent / "second/a.py").write_text("a = 2\n")
    assert seen(tree) == WorkTree(False, False, False, False)
    assert seen(tree.parent / "second").changed


def test_what_is_no_tree_counts_as_dirty(tree: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    git(tmp_path / "empty", "init", "-q")
    git(tmp_path, "clone", "-q", "--bare", str(tree), "bare")
    for folder in (tmp_path, tmp_path / "none", tmp_path / "empty", tmp_path / "bare", tree / ".git", tree / "a.py"):
        assert seen(folder) == UNSEEN, folder


@pytest.mark.parametrize("told", [b"", b"work tree\0end\n", b"work tree\0?? x\0", b"work tree\0" + b"?" * 300_000 + b"\0end\n"])
def test_half_an_answer_is_none(told: bytes) -> None:
    assert read_status(told) == UNSEEN


def test_an_environment_that_fails_tells_nothing(tree: Path) -> None:
    environment = LocalEnvironment(str(tree))
    asyncio.run(environment.close())
    assert read_status(asyncio.run(ask_git(environment, str(tree)))) == UNSEEN
