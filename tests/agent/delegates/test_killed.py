"""A process that is killed while delegates work: they continue or are reported lost, and nothing that they did is repeated."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent, assemble
from agent.conversation import lineage
from toolcrib.testing import ChatServer
from tools.dispatch.bridge import run_async
from tools.environments import leftovers

FORKS = '''
import json, os, signal, sys, traceback
from agent.api import Agent
from agent.store._database import Database
import agent.model_choice.models, agent.providers.openai_chat, agent.store.sqlite, agent.delegates.delegate, httpx  # once

def die_at(number, after):
    """SIGKILL before or after the write of that number."""
    left, write = [number], Database.write
    async def counted(self, work):
        left[0] -= 1
        last = left[0] == 0
        if last and not after:
            os.kill(os.getpid(), signal.SIGKILL)
        done = await write(self, work)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)
        return done
    Database.write = counted

for line in sys.stdin:
    job = json.loads(line)
    pid = os.fork()
    if pid == 0:
        try:
            os.environ["XDG_STATE_HOME"] = job["state"]
            die_at(job["number"], job["after"])
            with Agent(model="m", base_url=job["url"], project_dir=job["project"]) as agent:
                agent.ask("go")
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
'''
TASKS = ("first", "second", "third")


@pytest.fixture(scope="module")
def killed() -> Iterator[Callable[..., int]]:
    """Run the conversation in a process that dies at that number of writes; return the exit code, 0 if it survived."""
    with subprocess.Popen([sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def run(**job: Any) -> int:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        yield run
        process.stdin.close()
    for folder in leftovers.left_behind([tempfile.gettempdir()]):
        leftovers.remove(folder)


class Scripts(dict[str, Any]):
    """Scripts that reply to each conversation by its content, however often it is requested."""

    def __init__(self) -> None:
        super().__init__({"go": [_parent] * 20, **{task: [_delegate] * 20 for task in TASKS}})


def _results(request: Any) -> int:
    return sum(message["role"] == "tool" for message in request["messages"])


def _parent(request: Any) -> Any:
    if _results(request):
        return ChatServer.text("done")
    orders = [("delegate_task", {"task": task, "background": task == "third"}) for task in TASKS]
    return ChatServer.calls(*orders, ids=["call_0", "call_1", "call_2"])


def _delegate(request: Any) -> Any:
    task = request["messages"][1]["content"]
    if _results(request):
        return ChatServer.text(f"did {task}")
    return ChatServer.calls(("terminal", {"command": f"echo {task} >> log"}), ids=["call_0"])


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("number", range(2, 50, 4))
def test_each_call_has_one_outcome_and_one_effect(
    tmp_path: Path, task_server: Any, killed: Callable[..., int], monkeypatch: pytest.MonkeyPatch, number: int, after: bool
) -> None:
    """003-31"""
    state, project = tmp_path / "state", tmp_path / "project"
    project.mkdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(state))
    with task_server(Scripts()) as server:
        died = killed(state=str(state), project=str(project), url=server.base_url, number=number, after=after)
        assert died in (0, -9)
        with assemble(project_dir=project) as crib:
            found = run_async(crib.store.sessions.list(20))
        parents = [info for info in found if not lineage.is_delegate(info)]
        if not parents:
            return
        with Agent(model="m", base_url=server.base_url, project_dir=project, resume=parents[0].id) as agent:
            lost = number % 8 == 2  # the interrupted run is over then: its calls are reported lost
            agent_said = agent.ask("go on").text if lost else getattr(run_async(agent.resume_run()), "text", "done")
            run_async(_at_rest(agent))
            _check(agent, project)
        assert agent_said == "done"


async def _at_rest(agent: Agent) -> None:
    give_up = time.monotonic() + 60
    while agent.session.delegates.at_work and time.monotonic() < give_up:
        await asyncio.sleep(0.02)
    assert not agent.session.delegates.at_work


def _check(agent: Agent, project: Path) -> None:
    log = project / "log"
    lines = Counter(log.read_text().split()) if log.exists() else Counter()
    assert max(lines.values(), default=0) <= 1, f"done twice: {lines}"
    records = run_async(agent.session.records())
    calls = [call["id"] for record in records for call in record.get("calls", ())]
    results = [one["call_id"] for record in records for one in record.get("results", ())]
    assert calls == results
    store = agent.crib.store
    for info in run_async(store.sessions.list(20)):
        assert run_async(store.runs.current(info.id)) is None, f"{info.title} was left"
        for call in run_async(store.ledger.calls(info.id)):
            assert call.status.is_terminal
            assert call.result is not None
    told = run_async(store.inbox.waiting(agent.session.id))
    said = [record["text"] for record in records if record["role"] == "user" and "Your delegate" in record["text"]]
    began = run_async(store.sessions.list(20))
    third = [info for info in began if info.title.startswith("third")]
    went_off = any("works on" in one["text"] for record in records for one in record.get("results", ()))
    assert len(told) + len(said) <= 1, "its end is reported at most once"
    if third and went_off:
        assert len(told) + len(said) == 1, "its end is reported"
