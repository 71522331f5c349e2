"""The guard of git's configuration, with real git: a command changes it, and then the user's git runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.environments.local import gitconfig
from tools.environments.local.gitguard import GitGuard

if shutil.which("git") is None:
    pytest.skip("git is not installed", allow_module_level=True)


def run(command: str, cwd: Path) -> str:
    """Run a command as a session does, without the user's configuration."""
    env = {
        "PATH": "/usr/bin:/bin:/usr/local/bin",
        "HOME": str(cwd),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": "/dev/null",
        **{f"GIT_{who}_{what}": "me@here.test" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    ran = subprocess.run(["bash", "-c", command], cwd=cwd, env=env, capture_output=True, text=True, check=False)
    return ran.stdout + ran.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    run("git init -q -b main . && git commit -q --allow-empty -m first && git config alias.st status", folder)
    return folder


@pytest.fixture
def guarded(project: Path) -> Callable[[str], list[str]]:
    """Run a command between ``accept_current`` and ``put_back``; return the restored parts, relative to the project."""
    guard = GitGuard([str(project)])

    def guarded(command: str) -> list[str]:
        guard.accept_current()
        run(command, project)
        return [one.removeprefix(f"{project}/") for one in guard.put_back()]

    return guarded


def proves(project: Path, folder: str = ".") -> bool:
    """Return whether the user's ordinary commands in this folder ran the program that leaves the file ``ran``."""
    run("git status; git st; git commit -q --allow-empty -m second", project / folder)
    return (project / "ran").exists()


HARMLESS = [
    "git config user.name me && git config user.email me@here.test",
    "git remote add origin https://files.test/x.git",
    "git remote set-url origin git@files.test:x.git && git remote rename origin up",
    "git branch --track topic main",
    "git config pull.rebase true; git config core.autocrlf input; git config advice.detachedHead false",
    "git worktree add -q ../project/wt -b wt",
    "git init -q nested && git -C nested commit -q --allow-empty -m x",
    "git clone -q . copy",
    "git init -q --bare store.git",
]


def test_another_process_continues_from_the_recorded_state(project: Path) -> None:
    (project / "empty").mkdir()
    run("git init -q empty && : >empty/.git/config", project)
    first = GitGuard([str(project)])
    first.accept_current()
    state = json.loads(json.dumps(first.state()))
    run("git config user.name me; git config core.pager evil; git -C empty config core.pager evil", project)
    second = GitGuard([str(project)])
    second.restore(state, links=True)
    assert second.put_back(last=True) == [f"{project}/.git/config: core.pager", f"{project}/empty/.git/config: core.pager"]
    assert (run("git config user.name", project), run("git -C empty config core.pager", project)) == ("me\n", "")
    assert second.put_back() == []


def test_settings_that_run_nothing_are_kept(project: Path, guarded: Callable[[str], list[str]]) -> None:
    for command in HARMLESS:
        assert guarded(command) == [], command
    listed = run("git config --list", project)
    assert "user.name=me" in listed
    assert "remote.up.url=git@files.test:x.git" in listed
    assert "branch.topic.merge=refs/heads/main" in listed
    assert "wt" in run("git worktree list", project)
    assert "first" in run("git log", project / "copy")


HOSTILE = [
    ("git config core.fsmonitor '%s'", ".git/config: core.fsmonitor"),
    ("git config alias.st '!%s'", ".git/config: alias.st"),
    ("git config diff.external '%s'", ".git/config: diff.external"),
    ("git config core.hooksPath hooks2; mkdir hooks2; cp evil.sh hooks2/pre-commit", ".git/config: core.hookspath"),
    ("git config core.pager '%s'; git config core.editor '%s'", ".git/config: core.pager"),
    ("git config filter.x.clean '%s'; echo '* filter=x' > .gitattributes", ".git/config: filter.x.clean"),
    ("printf '[core]\\nfsmonitor=%s\\n' > inc; git config include.path ../inc", ".git/config: include.path"),
    ("git config gpg.program '%s'; git config commit.gpgsign true", ".git/config: gpg.program"),
    ("git config remote.origin.url 'ext::%s'", ".git/config: remote.origin.url"),
    ("git config remote.origin.uploadpack '%s'", ".git/config: remote.origin.uploadpack"),
    ("git config credential.helper '!%s'", ".git/config: credential.helper"),
    ("git config submodule.x.update '!%s'", ".git/config: submodule.x.update"),
    ("git config core.worktree /", ".git/config: core.worktree"),
    ("mkdir w; git config core.worktree ../w", ".git/config: core.worktree"),
    ("git config core.sshCommand '%s'", ".git/config: core.sshcommand"),
    ("git config url.evil:.insteadOf https://", ".git/config: url.evil:.insteadof"),
    ("cp -r .git evil; git config --file evil/config core.fsmonitor '%s'; echo ../evil > .git/commondir", ".git/commondir"),
    ("cp evil.sh .git/hooks/pre-commit", ".git/hooks/pre-commit"),
    ("rm -r .git/hooks; mkdir h; cp evil.sh h/pre-commit; ln -s ../h .git/hooks", ".git/hooks"),
    ("mkdir -p .git/hooks; ln -sf ../../evil.sh .git/hooks/pre-commit", ".git/hooks/pre-commit"),
    ("printf '[core]\\nfsmonitor=%s\\n' > c; ln -sf ../c .git/config", ".git/config: all of it, because it is not a plain file"),
    (
        "git config extensions.worktreeConfig true; git config --worktree core.fsmonitor '%s'",
        ".git/config: extensions.worktreeconfig",
    ),
    ("echo '[' >> .git/config", ".git/config: all of it, because git can't read it"),
    ("rm .git/config", ".git/config: its removal"),
]


def evil_in(project: Path) -> Path:
    """Make a program that leaves the file ``ran`` in the project."""
    evil = project / "evil.sh"
    evil.write_text(f"#!/bin/sh\ntouch {project}/ran\n")
    evil.chmod(0o755)
    return evil


def test_settings_that_run_programs_are_put_back(project: Path, guarded: Callable[[str], list[str]]) -> None:
    evil = evil_in(project)
    for command, what in HOSTILE:
        before = (project / ".git" / "config").read_bytes()
        assert what in guarded(command.replace("%s", str(evil))), command
        assert (project / ".git" / "config").read_bytes() == before, command
        assert not (project / ".git" / "commondir").exists(), command
        assert not proves(project), command


@pytest.mark.parametrize("number", [0, 1, 16, 17])
def test_without_the_guard_they_run(project: Path, number: int) -> None:
    run(HOSTILE[number][0].replace("%s", str(evil_in(project))), project)
    assert proves(project)


BARE = "git -C b config core.fsmonitor '%s'"
NEW = [
    ("git init -q n; git -C n config core.fsmonitor '%s'", "n"),
    ("git init -q n2; cp evil.sh n2/.git/hooks/pre-commit", "n2"),
    (
        f"git worktree add -q wt; git init -q --bare b; {BARE}; echo ../../../b > .git/worktrees/wt/commondir",
        "wt",
    ),
    (
        f"git init -q --bare b; {BARE}; git -C b config core.bare false; mkdir n3; echo 'gitdir: ../b' > n3/.git",
        "n3",
    ),
    (
        f"cd .git/objects; git init -q --bare b; {BARE}; mkdir ../../n4; echo gitdir: $PWD/b > ../../n4/.git",
        "n4",
    ),
]  # fmt: skip


def test_new_repositories_run_nothing_either(project: Path, guarded: Callable[[str], list[str]]) -> None:
    evil = evil_in(project)
    for command, folder in NEW:
        assert guarded(command.replace("%s", str(evil))), command
        assert not proves(project, folder), command


def test_what_a_command_changes_besides_is_kept(project: Path, guarded: Callable[[str], list[str]]) -> None:
    told = guarded("git config core.pager evil; git config user.name me; git remote add o ../o; git config --unset alias.st")
    assert told == [".git/config: alias.st", ".git/config: core.pager"]
    listed = run("git config --list", project)
    assert "user.name=me" in listed
    assert "remote.o.url=../o" in listed
    assert "alias.st=status" in listed
    assert "core.pager" not in listed


def test_submodules_work(project: Path, guarded: Callable[[str], list[str]], tmp_path: Path) -> None:
    run("git init -q -b main lib && cd lib && git commit -q --allow-empty -m x", tmp_path)
    assert guarded(f"git -c protocol.file.allow=always submodule add -q {tmp_path}/lib lib && git commit -qm lib") == []
    assert "lib" in run("git submodule status", project)
    assert (project / ".git" / "modules" / "lib" / "config").is_file()


def test_a_change_of_the_user_between_commands_stays(project: Path, guarded: Callable[[str], list[str]]) -> None:
    guarded("true")
    run("git config core.pager less; echo x > .git/hooks/pre-push; chmod +x .git/hooks/pre-push", project)
    assert guarded("git config user.name me") == []
    assert "core.pager=less" in run("git config --list", project)
    assert (project / ".git" / "hooks" / "pre-push").stat().st_mode & 0o111


def test_nothing_outside_is_written_through_a_link(project: Path, tmp_path: Path) -> None:
    """A background job may replace a git folder with a link while the guard works; the guard does not follow it."""
    outside = tmp_path / "outside"
    run(f"git init -q n && git init -q {outside}", project)
    guard = GitGuard([str(project)])
    guard.accept_current()
    run("git -C n config core.pager evil", project)
    guard._git_folders = lambda: [f"{project}/n/.git"]  # type: ignore[method-assign]  # as found before the link was made
    run(f"rm -r n && ln -s {outside} n && git -C {outside} config core.pager mine", project)
    assert guard.put_back() == []
    assert "mine" in (outside / ".git" / "config").read_text()


def test_without_git_a_changed_configuration_is_put_back(
    project: Path, guarded: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(project / "none"))
    assert guarded("git config user.name me") == [".git/config: all of it, because git can't read it"]
    assert b"user" not in (project / ".git" / "config").read_bytes()


def test_a_git_that_a_command_made_is_not_run(
    project: Path, guarded: Callable[[str], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A user starts toolcrib with the project's virtual environment first in PATH."""
    evil_in(project)
    monkeypatch.setenv("PATH", f"{project}/.venv/bin:{os.environ['PATH']}")
    assert guarded("mkdir -p .venv/bin; cp evil.sh .venv/bin/git; git config user.name me; git config core.pager x") == [
        ".git/config: core.pager"
    ]
    assert not (project / "ran").exists()


def test_many_changes_beside_a_refused_one_are_all_put_back(project: Path, guarded: Callable[[str], list[str]]) -> None:
    many = "; ".join(f"git config branch.b{number}.rebase true" for number in range(50))
    told = guarded(f"{many}; git config core.pager evil")
    assert told[0].endswith("core.pager")
    assert "50 others" in told[1]
    assert "branch" not in run("git config --list", project)


def test_values_with_odd_characters_survive(project: Path) -> None:
    config = project / ".git" / "config"
    base, value = config.read_bytes(), 'a "b" \\ #c ;d\n\te '
    subprocess.run(["git", "config", "branch.main.description", value], cwd=project, check=True)
    place = gitconfig.GitPlace(str(project), str(project), "git")
    text, refused = gitconfig.merge(b"[user]\n\tname = x\n", base, config.read_bytes(), place)
    assert refused == []
    assert gitconfig.read(text, "git") == {"user.name": ["x"], "branch.main.description": [value]}


# -- private copies ----------------------------------------------------------------------------------------------------

LINK = """
import ctypes, os, subprocess, sys
config, copy, command = sys.argv[1:]
call = ctypes.CDLL(None, use_errno=True).syscall
tree = call(428, -100, (os.path.dirname(copy) + "/link").encode(), 0x80101)  # open_tree: clone, do not follow the link
if tree < 0 or call(429, tree, b"", -100, config.encode(), 4) < 0:  # move_mount
    sys.exit(99)
sys.exit(subprocess.run(["bash", "-c", command]).returncode)
"""


def test_with_a_private_copy_the_users_git_reads_only_what_was_merged(project: Path, tmp_path: Path) -> None:
    """A link that is mounted over the configuration redirects git's own lock and rename to the copy."""
    guard = GitGuard([str(project)], str(tmp_path))
    guard.accept_current()
    ((config, copy),) = guard.links()
    before = Path(config).read_bytes()
    command = "git config user.name me && git remote add o ../o && git config core.pager evil && git config --get core.pager"
    refuse = "&& ! mv .git/config x 2>/dev/null && ! rm -f .git/config 2>/dev/null"
    argv = ["unshare", "-Urm", "--propagation", "private", sys.executable, "-I", "-c", LINK, config, copy, command + refuse]
    ran = subprocess.run(argv, cwd=project, capture_output=True, text=True, check=False)
    if ran.returncode in (1, 99) and "evil" not in ran.stdout:
        pytest.skip(f"no such mount here: {ran.stderr[:200]}")
    assert ran.returncode == 0, ran.stderr
    assert Path(config).read_bytes() == before
    guard.mounted(config)
    inode = Path(config).stat().st_ino
    assert guard.put_back() == [f"{config}: core.pager"]
    assert "user.name=me" in run("git config --list", project)
    assert "pager" not in Path(copy).read_text() + Path(config).read_text()
    assert Path(config).stat().st_ino == inode  # otherwise the kernel unmounts the link


def test_what_the_user_changes_meanwhile_is_merged(project: Path, tmp_path: Path) -> None:
    guard = GitGuard([str(project)], str(tmp_path))
    guard.accept_current()
    ((config, copy),) = guard.links()
    guard.mounted(config)
    with Path(config).open("a") as file:  # in place, so that the link stays mounted
        file.write("[core]\n\tpager = less\n")
    run(f"git config --file {copy} user.name me", project)
    assert guard.put_back() == []
    assert "core.pager=less\nuser.name=me" in run("git config --list", project)
    assert Path(copy).read_bytes() == Path(config).read_bytes()


def test_a_configuration_that_was_replaced_needs_a_new_link(project: Path, tmp_path: Path) -> None:
    """The user's git renames a new file over the old one, and the kernel then unmounts the link."""
    guard = GitGuard([str(project)], str(tmp_path))
    guard.accept_current()
    guard.mounted(guard.links()[0][0])
    assert guard.links() == []
    run("git config user.name me", project)
    assert guard.put_back() == []  # it counts as a change of the command
    guard.accept_current()
    assert [config for config, _ in guard.links()] == [f"{project}/.git/config"]


def test_a_name_that_a_command_took_is_not_used(project: Path, tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    guards = [GitGuard([str(project)], str(copies)) for _ in range(2)]
    for guard in guards:
        guard.accept_current()
    [(config, one)], [(same, other)] = (guard.links() for guard in guards)
    assert config == same
    assert one != other
