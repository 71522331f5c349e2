"""Git's configuration in a running sandbox: private copies, restored settings, and commands outside of the sandbox."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolcrib import EnvironmentFailed, ExecOutcome, ExecRequest
from tools.environments.local.contained import SandboxedEnvironment

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


def git(folder: Path, *args: str) -> str:
    """Run the user's git."""
    return subprocess.run(["git", *args], cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "project"
    folder.mkdir()
    git(folder, "init", "-q", "-b", "main")
    return folder


@pytest.fixture
def sandbox(project: Path) -> Iterator[SandboxedEnvironment]:
    environment = SandboxedEnvironment(str(project), masked=(), caches="shared")
    try:
        asyncio.run(environment.resolve("."))
    except EnvironmentFailed as error:
        pytest.skip(f"no sandbox here: {error}")
    yield environment
    asyncio.run(environment.close())


def run(environment: SandboxedEnvironment, command: str) -> ExecOutcome:
    return asyncio.run(environment.execute(ExecRequest(command)))


def test_a_configuration_is_a_private_copy_until_the_command_ends(sandbox: SandboxedEnvironment, project: Path) -> None:
    before = (project / ".git" / "config").read_bytes()
    outcome = run(sandbox, "readlink .git/config; git config user.name me; git config core.pager evil; cat .git/config")
    lines = outcome.stdout.head.decode().splitlines()
    if not lines[0].startswith("/dev/"):
        pytest.skip("links can't be mounted here: only what is put back afterwards holds")
    assert "\tpager = evil" in lines
    assert ".git/config: core.pager" in outcome.notice
    assert "outside the sandbox" in outcome.notice
    now = (project / ".git" / "config").read_bytes()
    assert now.startswith(before)
    assert b"name = me" in now
    assert b"evil" not in now
    again = run(sandbox, "git config --list; mv .git/config x")
    assert b"core.pager" not in again.stdout.head
    assert b"busy" in again.stderr.head
    assert not again.notice


def test_a_configuration_leads_to_the_same_path_in_every_sandbox(sandbox: SandboxedEnvironment, project: Path) -> None:
    """An approval in one process is bound to the targets of paths, and may be used in another process."""
    other = SandboxedEnvironment(str(project), masked=(), caches="shared")
    try:
        paths = [asyncio.run(one.resolve(str(project / ".git/config"))) for one in (sandbox, other)]
    finally:
        asyncio.run(other.close())
    assert paths[0] == paths[1]


def test_a_background_job_does_not_reach_the_users_git(sandbox: SandboxedEnvironment, project: Path) -> None:
    """The job writes after its command has ended; the next command does not treat that as the user's change."""
    job = "until [ -e go ]; do sleep 0.02; done; git config core.pager evil; touch done; exec sleep 60"
    linked = run(sandbox, f"({job}) >/dev/null 2>&1 & readlink .git/config").stdout.head.startswith(b"/dev/")
    (project / "go").touch()
    give_up = time.monotonic() + 60
    while not (project / "done").exists() and time.monotonic() < give_up:
        time.sleep(0.02)
    if linked:
        assert "evil" not in git(project, "config", "--list")
    assert ".git/config: core.pager" in run(sandbox, "true").notice
    assert "evil" not in git(project, "config", "--list")


def test_what_the_user_changes_between_commands_stays(sandbox: SandboxedEnvironment, project: Path) -> None:
    run(sandbox, "true")
    git(project, "config", "core.pager", "less")  # git renames a new file over the old one
    hook = project / ".git" / "hooks" / "pre-push"
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    outcome = run(sandbox, "git config user.name me; git config --get core.pager")
    assert outcome.stdout.head == b"less\n"
    assert not outcome.notice
    assert hook.stat().st_mode & 0o111
    assert "core.pager=less" in git(project, "config", "--list")


def test_a_new_repository_is_guarded_too(sandbox: SandboxedEnvironment, project: Path) -> None:
    outcome = run(sandbox, "git init -q n; git -C n config core.fsmonitor evil; git -C n config user.name me")
    assert "n/.git/config: core.fsmonitor" in outcome.notice
    listed = git(project / "n", "config", "--local", "--list")
    assert "user.name=me" in listed
    assert "fsmonitor" not in listed


def test_closing_puts_back_what_a_job_left(project: Path) -> None:
    environment = SandboxedEnvironment(str(project), masked=(), caches="shared")

    async def job() -> None:
        process = await environment.spawn(ExecRequest("git config core.pager evil; echo done; sleep 60"))
        assert await process.read() == ("stdout", b"done\n")
        await environment.close()

    try:
        asyncio.run(job())
    except EnvironmentFailed as error:
        pytest.skip(f"no sandbox here: {error}")
    assert "evil" not in git(project, "config", "--list")


def test_outside_is_the_machine_itself(sandbox: SandboxedEnvironment, project: Path, tmp_path: Path) -> None:
    run(sandbox, f"touch {tmp_path}/made")
    assert not (tmp_path / "made").exists()
    outside = sandbox.outside()
    assert sandbox.outside() is outside
    outcome = asyncio.run(outside.execute(ExecRequest(f"touch {tmp_path}/made; x=1", cwd=str(project))))
    assert (outcome.exit_code, outcome.where) == (0, "local")
    assert (tmp_path / "made").exists()
    assert run(sandbox, "echo $x").stdout.head == b"\n"
    asyncio.run(sandbox.close())
    with pytest.raises(EnvironmentFailed, match="closed"):
        sandbox.outside()


def test_a_command_that_takes_the_copy_away_gains_nothing(sandbox: SandboxedEnvironment, project: Path, tmp_path: Path) -> None:
    """The guard does not follow a link to a file of the user, still checks the other files, and makes a new copy."""
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "config").write_text("mine")
    before = (project / ".git" / "config").read_bytes()
    swap = f'd=$(dirname "$(readlink .git/config)"); [ -d "$d" ] && mv "$d" "$d.x" && ln -s {mine} "$d"'
    outcome = run(sandbox, f"{swap}; echo ../evil > .git/commondir")
    assert ".git/commondir" in outcome.notice
    assert (mine / "config").read_text() == "mine"
    assert (project / ".git" / "config").read_bytes() == before
    assert run(sandbox, "git config user.name me; git config --get user.name").stdout.head == b"me\n"
    assert "user.name=me" in git(project, "config", "--list")
