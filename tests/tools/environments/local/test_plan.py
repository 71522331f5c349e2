"""The files of a project that the sandbox makes read-only, seen by a command."""

from __future__ import annotations

import asyncio
import subprocess
from pathlib import Path

import pytest

from toolcrib import ExecRequest
from tools.environments import open_environment
from tools.environments.local.holding import sandbox_here


def test_settings_that_git_includes_from_the_project_are_closed(tmp_path: Path) -> None:
    """An editor's git, which reads the project all the time, would run a program that a command configures there."""
    if sandbox_here("workspace").by != "namespaces":
        pytest.skip("this machine can make no namespaces")
    project = tmp_path.resolve() / "project"
    (project / "tools").mkdir(parents=True)
    settings = project / "tools" / "shared.gitconfig"
    settings.write_text("[alias]\n\ts = status\n")
    script = "git init -q . && git config include.path ../tools/shared.gitconfig && git config --add include.path ../none"
    subprocess.run(["sh", "-c", script], cwd=project, check=True)

    async def run(command: str) -> str:
        environment = open_environment("local", cwd=str(project), sandbox="workspace")
        try:
            done = await environment.execute(ExecRequest(command, timeout=60))
            return (done.stdout.head + done.stderr.head).decode()
        finally:
            await environment.close()

    text = asyncio.run(run("echo x >> tools/shared.gitconfig; mv tools t; rm tools/shared.gitconfig; touch tools/new; git s"))
    assert "Read-only file system" in text
    assert text.count("Device or resource busy") == 2
    assert settings.read_text() == "[alias]\n\ts = status\n"
    assert (project / "tools" / "new").exists()
