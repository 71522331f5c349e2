"""toolcrib run killed before the model's first reply: --continue resumes the conversation without the model's options."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

FORKS = '''
import json, os, signal, sys
from agent.cli import main
from agent.store._database import Database
import agent.model_choice.models, agent.providers.openai_chat, agent.store.sqlite, httpx  # before the forks: once is enough

def die_after(number):
    """SIGKILL after the write of that number."""
    left, write = [number], Database.write
    async def counted(self, work):
        done = await write(self, work)
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    Database.write = counted

for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if pid == 0:
        os.environ["XDG_STATE_HOME"] = job["state"]
        os.chdir(job["project"])
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        die_after(job["number"])
        os._exit(main(["run", "go", *job["options"]]))
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
'''


@pytest.fixture
def killed() -> Iterator[Callable[..., int]]:
    """Run a task in a process that dies after that number of writes; return the exit code, 0 if it survived."""
    with subprocess.Popen([sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def start(**job: Any) -> int:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        yield start
        process.stdin.close()


def sessions(state: Path) -> list[str]:
    with sqlite3.connect(state / "toolcrib" / "toolcrib.db") as connection:
        return [row[0] for row in connection.execute("SELECT id FROM sessions")]


@pytest.mark.full
@pytest.mark.parametrize("task", [("and now?",), ()], ids=["with another task", "without"])
def test_it_goes_on_without_its_options(
    run: Any, killed: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task: tuple[str, ...]
) -> None:
    """The process is killed at each moment: from the session's first write on, its model and server are stored."""
    asked = 0
    for number in range(1, 60):
        state = tmp_path / f"s{number}"
        with ChatServer(*[ChatServer.text("Here I am.")] * 3) as server:
            options = ["--model", "m", "--base-url", server.base_url, "--no-stdin"]  # stdin is the pipe for all jobs
            code = killed(state=str(state), project=str(tmp_path), number=number, options=options)
            assert code in (0, -9)
            found = sessions(state)
            sent = len(server.requests)
            if found and code:
                monkeypatch.setenv("XDG_STATE_HOME", str(state))
                done = run("run", *task, "--resume", found[0])
                nothing_was_said = not task and "no run to continue" in done.err
                assert nothing_was_said or (done.code, done.out.endswith("Here I am.\n")) == (0, True), (number, done.err)
            asked += len(server.requests) - sent
            assert {request["model"] for request in server.requests} <= {"m"}
        if code == 0:
            break
    assert number > 4
    assert asked > 3
