"""Sandboxes whose background processes outlive a killed toolcrib (003-30): found again, or ended, by the next one."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import ExecRequest
from tools.environments import leftovers, open_environment
from tools.environments.local.survivor import SandboxRecord, left_sandboxes
from tools.processes.table import ProcessTable

STARTS = """
import asyncio, json, sys
from toolcrib import ExecRequest
from tools.environments import open_environment
from tools.processes.table import ProcessTable

async def main(options, commands, foreground):
    environment = open_environment("local", **options)
    table = ProcessTable(environment, options["session"])
    await environment.execute(ExecRequest("true"))
    for number, command in enumerate(commands):
        await table.start(str(number), command, options["cwd"])
    while commands == ["true"] and (await table.look())["0"].runs:
        await asyncio.sleep(0.01)
    print(environment._sandbox.keeper, environment._root, flush=True)
    await environment.execute(ExecRequest(foreground))

asyncio.run(main(*json.loads(sys.argv[1])))
"""
LOOP = "echo begun; while :; do sleep 1; done"
SERVER = "exec python3 -m http.server 8123 --bind 127.0.0.1"
GET = (
    """python3 -c 'import urllib.request as u; print(u.build_opener(u.ProxyHandler({})).open("http://127.0.0.1:8123").status)'"""
)
FOREGROUND = f"sleep 300.{os.getpid():09}"


class KilledSession:
    """A session whose process can be killed while background processes run in its sandbox."""

    def __init__(self, folder: Path) -> None:
        self.records = folder / "state" / "sandboxes"
        self.options = {"cwd": str(folder / "work"), "sandbox": "workspace", "session": "s1", "records": str(self.records)}
        self._process: subprocess.Popen[str] | None = None

    def start(self, commands: list[str], **options: Any) -> None:
        self.options |= options
        given = json.dumps([self.options, commands, FOREGROUND])
        self._process = subprocess.Popen([sys.executable, "-c", STARTS, given], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        keeper, root = self._process.stdout.readline().split()
        self.keeper, self.root, self.view = os.pidfd_open(int(keeper)), Path(root), f"/proc/{keeper}/root"

    def kill(self) -> None:
        if self._process is not None:
            process, self._process = self._process, None
            os.kill(process.pid, signal.SIGKILL)
            process.communicate()

    def lives(self) -> bool:
        try:
            signal.pidfd_send_signal(self.keeper, 0)
        except ProcessLookupError:
            return False
        return True

    def again(self, work: Callable[[Any, ProcessTable], Awaitable[None]], **options: Any) -> None:
        """Run ``work`` in the session's next environment, then close the session."""

        async def go() -> None:
            environment = open_environment("local", **{**self.options, **options})
            table = ProcessTable(environment, "s1")
            try:
                await work(environment, table)
            finally:
                await table.close()
                await environment.close()

        asyncio.run(go())

    def is_gone(self) -> bool:
        return not (self.lives() or self.root.exists() or list(self.records.glob("*")))


@pytest.fixture
def session(tmp_path: Path) -> Iterator[KilledSession]:
    (tmp_path / "work").mkdir()
    session = KilledSession(tmp_path)
    yield session
    session.kill()
    for record in left_sandboxes(session.records).values():
        record.end()


def is_running(command: str) -> bool:
    wanted = command.replace(" ", "\0").encode() + b"\0"
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended
            if (process / "cmdline").read_bytes() == wanted:
                return True
    return False


async def printed(environment: Any, command: str) -> str:
    outcome = await environment.execute(ExecRequest(command, timeout=60))
    return str((outcome.stdout.head + outcome.stderr.head).decode())


async def notice_of(environment: Any) -> str:
    return str((await environment.execute(ExecRequest("true", timeout=60))).notice)


@pytest.mark.parametrize("options", [{}, {"hosts": []}], ids=["no network", "hosts"])
def test_the_next_process_continues_with_them(session: KilledSession, eventually: Any, options: dict[str, Any]) -> None:
    session.start([SERVER, LOOP, LOOP, LOOP, "echo said; exit 4"], **options)
    eventually(lambda: is_running(FOREGROUND))
    session.kill()
    eventually(lambda: not is_running(FOREGROUND))

    async def work(environment: Any, table: ProcessTable) -> None:
        found = await table.look()
        assert sorted(found) == ["0", "1", "2", "3", "4"]
        assert [found[name].state for name in "01234"] == ["running"] * 4 + ["exited"]
        assert (found["4"].exit_code, await table.read(found["4"], 0, 5)) == (4, b"said\n")
        assert session.lives()
        while not await table.ports("0"):
            await asyncio.sleep(0.02)
        assert await printed(environment, f"kept=1; {GET}") == "200\n"
        assert await printed(environment, "echo $kept; (exec 3<>/dev/tcp/127.0.0.1/3128) 2>/dev/null && echo guarded") == (
            "1\nguarded\n" if options else "1\n"
        )
        for name in found:
            await table.end(name)
        assert not any(one.runs for one in (await table.look()).values())
        assert not list(session.records.glob("*"))

    session.again(work)
    eventually(session.is_gone)


def test_a_sandbox_with_other_settings_is_not_used(session: KilledSession, eventually: Any) -> None:
    session.start([LOOP])
    session.kill()

    async def work(environment: Any, table: ProcessTable) -> None:
        assert "the settings of the sandbox have changed" in await notice_of(environment)
        assert await printed(environment, "ls -d /tmp/.toolcrib-processes-* 2>/dev/null") == ""
        assert session.is_gone()

    session.again(work, processes=500)


def test_a_sandbox_without_its_folder_is_not_used(session: KilledSession, eventually: Any, tmp_path: Path) -> None:
    session.start([LOOP])
    session.kill()
    moved = session.root.rename(f"{session.root}-moved")
    session.root.symlink_to(tmp_path)

    async def work(environment: Any, table: ProcessTable) -> None:
        assert "background processes" in await notice_of(environment)

    try:
        session.again(work)
        assert (tmp_path / "work").is_dir()
        eventually(lambda: not session.lives())
    finally:
        session.root.unlink(missing_ok=True)
        leftovers.remove(moved)


@pytest.mark.parametrize("commands", [[], ["true"]], ids=["none was started", "it had ended"])
def test_nothing_outlives_toolcrib_if_no_process_runs(session: KilledSession, eventually: Any, commands: list[str]) -> None:
    session.start(commands)
    assert not list(session.records.glob("*"))
    session.kill()
    eventually(session.is_gone)


@pytest.mark.parametrize("is_old", [False, True])
def test_an_exit_code_is_kept_for_a_day(session: KilledSession, eventually: Any, is_old: bool) -> None:
    session.start(["sleep 0.3; echo said; exit 3"])
    (folder,) = Path(session.view, f"tmp/.toolcrib-processes-{os.geteuid()}").glob("s1-*")
    status = folder / "0/status"
    session.kill()
    eventually(status.exists)
    if is_old:
        status.write_text("3 1000000\n")
        eventually(lambda: not session.lives())

    async def work(environment: Any, table: ProcessTable) -> None:
        found = await table.look()
        notice = await notice_of(environment)
        if is_old:
            assert "they ended while toolcrib did not run" in notice
            assert not found
            assert session.is_gone()
        else:
            assert (found["0"].exit_code, await table.read(found["0"], 0, 5), notice) == (3, b"said\n", "")

    session.again(work)
    assert session.is_gone()


def test_those_of_dead_processes_are_listed_and_ended(session: KilledSession, eventually: Any) -> None:
    session.start([LOOP])
    assert not left_sandboxes(session.records)
    session.kill()
    (record,) = left_sandboxes(session.records).values()
    assert session.root not in leftovers.left_behind()
    assert record.end()
    assert session.is_gone()
    assert not record.end()


def test_a_living_process_keeps_its_sandbox(session: KilledSession) -> None:
    session.start([LOOP])

    async def work(environment: Any, table: ProcessTable) -> None:
        assert not await table.look()
        await table.start("other", LOOP, str(session.options["cwd"]))

    session.again(work)
    assert session.lives()
    session.kill()
    assert session.lives()

    async def find(environment: Any, table: ProcessTable) -> None:
        assert list(await table.look()) == ["0"]

    session.again(find)
    assert session.is_gone()


def test_a_record_that_commands_could_write_is_not_used(session: KilledSession, eventually: Any) -> None:
    session.start([LOOP], records=str(Path(str(session.options["cwd"]), "records")))
    session.kill()
    eventually(lambda: not session.lives())
    assert not Path(str(session.options["records"])).exists()


PLANTS = """
git init -q nested; printf '#!/bin/sh\\n' >nested/.git/hooks/post-commit; chmod +x nested/.git/hooks/post-commit
git config core.pager evil; git config user.name me; touch planted; sleep 600
"""


@pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")
@pytest.mark.parametrize("options", [{}, {"processes": 500}], ids=["continued", "ended"])
def test_git_settings_that_they_changed_meanwhile_are_reverted(
    session: KilledSession, eventually: Any, options: dict[str, Any]
) -> None:
    work = Path(str(session.options["cwd"]))
    subprocess.run(["git", "init", "-q", str(work)], check=True)
    session.start([f"while [ ! -e go ]; do sleep 0.05; done{PLANTS}"])
    session.kill()
    (work / "go").touch()
    eventually((work / "planted").exists)
    hook = work / "nested" / ".git" / "hooks" / "post-commit"
    assert os.access(hook, os.X_OK)

    async def look(environment: Any, table: ProcessTable) -> None:
        assert "nested/.git/hooks/post-commit" in await notice_of(environment)
        assert not os.access(hook, os.X_OK)
        config = (work / ".git" / "config").read_text()
        assert ("name = me" in config, "evil" in config) == (not options, False)
        assert await printed(environment, "git config user.email it && git config user.email") == "it\n"
        assert "email = it" in (work / ".git" / "config").read_text()

    session.again(look, **options)
    assert session.is_gone()


def test_an_unreadable_record_is_deleted(tmp_path: Path) -> None:
    record = SandboxRecord.of(str(tmp_path), "s1")
    assert record.take() is None
    path = Path(record._path)
    path.write_text('{"session": "s1", "boot"')
    assert record.take() is None
    assert not path.exists()
