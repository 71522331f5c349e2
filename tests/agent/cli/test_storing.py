"""The store's files in `toolcrib doctor`: it checks their content, and does not hang on special files."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.config import state_dir
from tests.forks import Forks
from toolcrib.testing import ChatServer

MAIN = "import sys; from agent.cli import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def said(run: Any) -> Path:
    """A store with a conversation, and a backup of it."""
    with ChatServer(ChatServer.text("done")) as server:
        assert run("run", "write it", "--model", "m", "--base-url", server.base_url).code == 0
    with assemble() as crib:
        return crib.config.store_path


def findings(run: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run("doctor", "--json", "--offline").out)
    return [one for one in found if one["id"].startswith("store.")]


@pytest.mark.parametrize("content", [os.urandom(9_000), b""], ids=["random", "empty"])
def test_a_file_that_is_no_backup_does_not_count_as_one(run: Any, said: Path, content: bytes) -> None:
    backup = said.with_name("toolcrib.db-backup")
    assert "backup of 2" in findings(run)[0]["text"]
    backup.write_bytes(content)
    sound, damaged = findings(run)
    assert (sound["level"], "no backup yet" in sound["text"]) == ("ok", True)
    assert (damaged["id"], damaged["level"]) == ("store.backup-damaged", "wrong")
    assert damaged["text"].startswith(f"{backup} is no usable backup: ")
    os.truncate(said, 100)
    assert "data that cannot be read is lost, since there is no backup" in run("doctor", "--offline", "--fix", "--yes").out


@pytest.mark.parametrize(
    "name", ["toolcrib.db", "toolcrib.db-backup", "toolcrib.db-artifacts", "toolcrib.db-search", "confirmed.json"]
)
def test_a_pipe_in_place_of_a_file_is_reported(said: Path, forks: Forks, tmp_path: Path, name: str) -> None:
    path = said.with_name(name)
    path.unlink(missing_ok=True)
    os.mkfifo(path, 0o600)
    done = forks.run("doctor", "--offline", cwd=tmp_path, timeout=120)
    assert done.returncode == 1
    assert str(path) in done.stdout


def elsewhere(run: Any, config: Any, disk: Path) -> Any:
    """Use a store on another disk, and return a function that runs a task."""
    config(f"store: {{path: {disk}/store.db}}\n")

    def task() -> Any:
        with ChatServer(ChatServer.text("done")) as server:
            return run("run", "write it", "--model", "m", "--base-url", server.base_url)

    disk.mkdir()
    assert task().code == 0
    return task


def test_a_disk_that_is_not_mounted_begins_no_store(run: Any, config: Any, tmp_path: Path) -> None:
    disk, away = tmp_path / "disk", tmp_path / "away"
    task = elsewhere(run, config, disk)
    disk.rename(away)
    for stays in (True, False):
        if stays:
            disk.mkdir()  # the empty mount point
        for done in (task(), run("sessions"), run("doctor", "--offline")):
            assert done.code in (1, 2)
            assert f"{disk}/store.db is missing, but it was used before. Mount its disk" in done.out + done.err
        shutil.rmtree(disk, ignore_errors=True)
    away.rename(disk)
    assert "1 message" in run("sessions").out or "write it" in run("sessions").out
    shutil.rmtree(disk)
    [record] = (state_dir() / "stores").iterdir()
    record.unlink()
    assert task().code == 0


def test_a_link_to_a_store_that_is_gone_begins_none(run: Any, said: Path, tmp_path: Path) -> None:
    """No store is created behind a link of the file or of its folder. An empty file that the user makes becomes a new store."""
    there = tmp_path / "there"
    there.mkdir()
    for end in ("", "-backup"):
        said.with_name(f"{said.name}{end}").rename(there / f"{said.name}{end}")
    said.symlink_to(there / said.name)
    assert "write it" in run("sessions").out
    there.rename(tmp_path / "gone")
    for done in (run("sessions"), run("doctor", "--offline")):
        assert done.code in (1, 2)
        assert f"{said} is a link to {there / said.name}, which does not exist. Mount its disk" in done.out + done.err
    assert not there.exists()
    folder = said.parent
    folder.rename(tmp_path / "kept")
    folder.symlink_to(tmp_path / "nowhere")
    done = run("sessions")
    assert (done.code > 0, f"{folder} is a link whose target does not exist" in done.err) == (True, True)
    assert not (tmp_path / "nowhere").exists()


MOUNTED = 'mount --bind "$1" "$1" && mount -o remount,ro,bind "$1" && shift && exec "$@"'


def test_a_state_folder_that_is_read_only_can_be_read(run: Any, said: Path) -> None:
    folder = str(said.parent)
    mounts = ["unshare", "-m", "--propagation", "private", "sh", "-c", MOUNTED, "sh", folder]
    if subprocess.run([*mounts, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this account can't mount a folder read-only")

    def reads(*words: str) -> subprocess.CompletedProcess[str]:
        argv = [*mounts, sys.executable, "-c", MAIN, *words]
        return subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)

    [session] = (line.split()[0] for line in run("sessions").out.splitlines()[1:])
    for words, seen in (
        (("sessions",), "write it"),
        (("sessions", "show", session), "done"),
        (("sessions", "search", "write"), "write it"),
        (("usage",), "m"),
        (("approvals", "pending"), "no request is pending"),
        (("undo", "--list"), ""),
        (("sessions", "export", session), "write it"),
    ):
        done = reads(*words)
        assert (done.returncode, seen in done.stdout) == (0, True), (words, done.stdout, done.stderr)
    assert "can't be written: its file system is read-only" in reads("doctor", "--offline").stdout
    done = reads("sessions", "rename", session, "another title")
    assert (
        done.returncode > 0,
        "can't be written: its file system is read-only; make it and its folder writable" in done.stderr,
    ) == (True, True)
    assert "write it" in run("sessions").out
