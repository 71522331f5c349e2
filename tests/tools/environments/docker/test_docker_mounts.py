"""Folders of this machine that a container may see: none that would give it control of the machine. Needs no engine (003-29)."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import EnvironmentFailed
from tools.environments import open_environment


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home with the sockets of an engine and an agent in separate folders."""
    home = tmp_path.resolve() / "home"
    for name in (".ssh", ".config/app", "work/.aws", "other", "run", "agent", "own"):
        (home / name).mkdir(parents=True)
    (home / "link").symlink_to(home / ".ssh")
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("SSH_AUTH_SOCK", str(home / "agent" / "socket"))
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    with socket.socket(socket.AF_UNIX) as engine:
        monkeypatch.chdir(home / "run")
        engine.bind("docker.sock")
        yield home


def opened(home: Path, **options: Any) -> None:
    given = {"image": "x", "host": f"unix://{home}/run/docker.sock"}
    asyncio.run(open_environment("docker", **{**given, "cwd": str(home / "work"), **options}).close())


@pytest.mark.parametrize(
    ("mount", "why"),
    [
        ("/", "the whole machine"),
        ("/:/host:ro", "the whole machine"),
        ("/etc", "belongs to the system"),
        ("/etc/passwd:/x:ro", "belongs to the system"),
        ("/var/lib:/x", "belongs to the system"),
        ("/proc", "belongs to the system"),
        ("/dev/null", "neither a folder nor a file"),
        ("/usr:/usr:rw", "only be mounted read-only"),
        ("/tmp:/tmp:rw", "files of all programs"),
        ("/dev/shm", "files of all programs"),
        ("HOME", "your home"),
        ("HOME/..", "your home"),
        ("HOME/.ssh", "keys"),
        ("HOME/.ssh/..", "your home"),
        ("HOME/link:/keys", "keys"),
        ("HOME/work/.aws", "keys"),
        ("HOME/.config", "settings"),
        ("HOME/.config/app", "settings"),
        ("HOME/run/docker.sock:/var/run/docker.sock", "is a socket"),
        ("HOME/run:/r", "docker.sock of the engine"),
        ("HOME/agent", "socket"),
        ("HOME/own", "toolcrib's own"),
        ("HOME/other:relative", "absolute folder"),
        ("HOME/other:/", "absolute folder"),
        ("HOME/other:/a:/b", "not of the form"),
        (":/x", "not of the form"),
    ],
)
def test_what_is_never_mounted(home: Path, mount: str, why: str) -> None:
    """003-29"""
    with pytest.raises(EnvironmentFailed, match=why):
        opened(home, mounts=[mount.replace("HOME", str(home))], protected=[str(home / "own" / "config.yaml")] * ("own" in mount))


@pytest.mark.parametrize("cwd", ["/", "/etc", "/tmp", "HOME", "HOME/.ssh", "HOME/run", "HOME/own"])
def test_nor_is_it_as_the_project(home: Path, cwd: str) -> None:
    cwd = cwd.replace("HOME", str(home))
    with pytest.raises(EnvironmentFailed, match="is not mounted into a container"):
        opened(home, cwd=cwd, protected=[str(home / "own")])
    opened(home, cwd=cwd, project="none")


def test_folders_that_people_made_may_be(home: Path) -> None:
    opened(home, mounts=[f"{home}/other:/data:rw", "/usr:/usr:ro", f"{home}/other:/more"])
