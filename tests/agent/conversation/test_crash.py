"""A process that is killed at any moment: what is on disk then, and what the model reads when the conversation is resumed."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent, Crib, assemble
from agent.conversation.session import Session
from agent.conversation.state import RunState
from agent.events import Event, SessionBusy
from agent.store._database import Database
from agent.store.sqlite import SqliteStore
from tests.forks import Forks
from toolcrib import (
    Answer,
    Block,
    ProviderTurn,
    StoreFailed,
    SuspendTicket,
    ToolCall,
    ToolCallContext,
    ToolcribError,
    hookimpl,
)
from toolcrib.testing import ChatServer, ScriptedSession
from tools.dispatch.bridge import run_async

FORKS = '''
import contextlib, importlib, json, os, signal, sys, traceback
from pathlib import Path
from agent.api import Agent
from agent.store._database import Database

def die_at(number, after):
    """SIGKILL before or after the write of that number: before, earlier writes may or may not be on disk."""
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
            if not job["number"]:
                Path(job["state"], "imported").write_text("\\n".join(sys.modules))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if not job["number"]:
        for name in Path(job["state"], "imported").read_text().split():
            with contextlib.suppress(ImportError):  # some names in it are no modules
                importlib.import_module(name)
    print(status, flush=True)
'''
"""Job number 0 survives, and its imports are loaded before the next forks, so that the other jobs need not load them."""


def responses() -> list[Any]:
    """Return two turns with calls that have the same ids: some servers count from 0 in each reply."""
    write = [[("write_file", {"path": f"{turn}{place}.txt", "content": "x"}) for place in "12"] for turn in "ab"]
    return [*(ChatServer.calls(*calls, ids=["call_0", "call_1"]) for calls in write), ChatServer.text("done")]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., int]]:
    """Run the conversation in a process that dies at that number of writes; return the exit code, 0 if it survived."""
    folder = tmp_path_factory.mktemp("lives")
    with subprocess.Popen(
        [sys.executable, "-c", FORKS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder), "XDG_DATA_HOME": str(folder)},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def run(**job: Any) -> int:
            process.stdin.write(json.dumps(job) + "\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        with ChatServer(*responses()) as server:
            assert run(url=server.base_url, project=str(folder), state=str(folder / "state"), number=0, after=False) == 0
        yield run
        process.stdin.close()


def resumed(project: Path) -> list[dict[str, Any]] | None:
    """Return the messages that the model receives when the conversation is resumed, or None if it has none yet."""
    with ChatServer(ChatServer.text("ok")) as server:
        with assemble(project_dir=project) as crib:
            last = run_async(crib.store.sessions.latest(platform="api"))
        if last is None:
            return None
        with Agent(model="m", base_url=server.base_url, project_dir=project, resume=last.id) as agent:
            agent.ask("go on")
            roles = [record["role"] for record in run_async(agent.session.records())]
        assert all(after == "results" for role, after in pairwise(roles) if role == "assistant" and after != "user")
        messages: list[dict[str, Any]] = server.requests[0]["messages"]
        return messages


UNSURE = ("may have run", "before it finished", "StoreFailed")


def check(messages: list[dict[str, Any]], project: Path) -> None:
    """Check that each call has exactly one result right after it, and that the result is true for the file."""
    at = 0
    while at < len(messages):
        calls = messages[at].get("tool_calls", [])
        results = messages[at + 1 : at + 1 + len(calls)]
        assert [one.get("tool_call_id") for one in results] == [call["id"] for call in calls]
        for call, result in zip(calls, results, strict=True):
            path = json.loads(call["function"]["arguments"])["path"]
            text = result["content"]
            if "error" not in json.loads(text):
                assert path in text
                assert (project / path).exists()
            elif not any(words in text for words in UNSURE):
                assert not (project / path).exists(), text
        at += 1 + len(calls)
        assert at == len(messages) or messages[at]["role"] != "tool"


@pytest.mark.full
@pytest.mark.parametrize("after", [pytest.param(False, id="before"), pytest.param(True, id="after", marks=pytest.mark.untraced)])
def test_killed_at_any_write(killed: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: bool) -> None:
    """X-1: a turn and its calls are on disk before a handler starts, and results before the next request. At whatever write the
    process dies, the resumed conversation has one true result for each call.
    """
    for number in range(1, 200):
        project, state = tmp_path / f"p{number}", tmp_path / f"s{number}"
        project.mkdir()
        with ChatServer(*responses()) as server:
            code = killed(url=server.base_url, project=str(project), state=str(state), number=number, after=after)
            sent = len(server.requests)
        assert code in (0, -9)
        monkeypatch.setenv("XDG_STATE_HOME", str(state))
        messages = resumed(project)
        if messages is not None:
            check(messages, project)
            answered = sum(message["role"] == "tool" for message in messages)
            assert answered >= 2 * (sent - 1), "a request went out before the results it carries were on disk"
        else:
            assert sent == 0
        if code == 0:
            break
    assert number > 15


WAITS = """
import sys, signal
from agent.api import Agent
def asker(ticket, ctx):
    print("asked", flush=True)
    sys.stdin.readline()
with Agent(model="m", base_url=sys.argv[1], project_dir=sys.argv[2], asker=asker) as agent:
    print(agent.ask("go").text, flush=True)
"""


@pytest.fixture
def asking(tmp_path: Path, forks: Forks, config: Callable[[str], Path]) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start a process that waits for a person's answer in the middle of a turn."""
    config("sandbox: {mode: none}\nsnapshots: {enabled: false}\n")  # without undo it asks about the deletion
    (tmp_path / "build").mkdir()
    calls = ChatServer.calls(("terminal", {"command": "rm -rf build"}), ("todo", {}), ids=["call_0", "call_1"])
    with (
        ChatServer(calls, ChatServer.text("done")) as server,
        forks.popen(
            server.base_url, str(tmp_path), code=WAITS, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process,
    ):
        try:
            assert process.stdout.readline() == "asked\n"
            yield process, tmp_path
        finally:
            process.kill()


def last_session(project: Path) -> str:
    with assemble(project_dir=project) as crib:
        last = run_async(crib.store.sessions.latest(platform="api"))
        assert last is not None
        return last.id


def test_killed_while_somebody_was_asked(asking: tuple[subprocess.Popen[str], Path]) -> None:
    """X-1: if no person can be asked, the call is cancelled, and a late answer no longer runs it."""
    process, project = asking
    process.kill()
    process.wait()
    messages = resumed(project)
    assert messages is not None
    results = [message["content"] for message in messages if message["role"] == "tool"]
    assert ["not run: it was not approved" in result for result in results] == [True, False]
    assert "interrupted before it ran" in results[1]
    assert (project / "build").exists()
    with assemble(project_dir=project) as crib:
        session = last_session(project)
        assert not run_async(crib.store.tickets.pending(session))
        assert [record.status.value for record in run_async(crib.store.ledger.calls(session))] == ["cancelled"]


def test_killed_while_somebody_was_asked_and_asked_again(asking: tuple[subprocess.Popen[str], Path]) -> None:
    """002-24: the resumed session asks about the same ticket, and the run continues."""
    process, project = asking
    process.kill()
    process.wait()
    session_id, asked = last_session(project), []

    def agree(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        asked.append(ticket.id)
        return Answer(ticket.id, payload={"approved": True, "scope": "once"}, by="me", at=time.time())

    with ChatServer(ChatServer.text("done")) as server:
        with Agent(model="m", base_url=server.base_url, project_dir=project, resume=session_id, asker=agree) as agent:
            (pending,) = run_async(agent.crib.store.tickets.pending(session_id))
            result = run_async(agent.resume_run())
            assert result is not None
            assert result.text == "done"
            calls = run_async(agent.crib.store.ledger.calls(session_id))
        sent = [message for message in server.requests[0]["messages"] if message["role"] == "tool"]
    assert asked == [pending.ticket.id]
    assert [message["tool_call_id"] for message in sent] == ["call_0", "call_1"]
    assert [record.status.value for record in calls] == ["succeeded", "succeeded"]
    assert not (project / "build").exists()


def test_a_session_that_is_at_work_elsewhere_is_waited_for(asking: tuple[subprocess.Popen[str], Path]) -> None:
    """X-1: otherwise one call would get two results, and the model would be asked to repeat a call that still runs."""
    process, project = asking
    session_id, busy = last_session(project), threading.Event()

    def saw(event: Event) -> None:
        if isinstance(event, SessionBusy):
            busy.set()

    async def go_on(base_url: str) -> list[str]:
        agent = Agent(model="m", base_url=base_url, project_dir=project, resume=session_id, on_event=saw)
        async with agent:
            asked = asyncio.create_task(agent.aask("and now?"))
            await asyncio.to_thread(busy.wait)
            said = [record["role"] for record in await agent.session.records()]
            assert said == ["user", "assistant"]
            output = await asyncio.to_thread(process.communicate, "\n")
            assert output[0] == "done\n"
            assert (await asked).text == "here"
            return [record["role"] for record in await agent.session.records()]

    with ChatServer(ChatServer.text("here")) as server:
        roles = asyncio.run(go_on(server.base_url))
    assert roles == ["user", "assistant", "results", "assistant", "user", "assistant"]


def test_a_turn_that_is_cancelled_from_outside_is_answered_before_the_next(tmp_path: Path) -> None:
    """X-1: ``wait_for`` around ``aask``."""
    calls = ChatServer.calls(("terminal", {"command": "touch started; sleep 60"}), ("todo", {}), ids=["call_0", "call_1"])
    with ChatServer(calls, ChatServer.text("here")) as server:

        async def go() -> list[Any]:
            async with Agent(model="m", base_url=server.base_url, project_dir=tmp_path) as agent:
                asked = asyncio.create_task(agent.aask("go"))
                while not (tmp_path / "started").exists():
                    await asyncio.sleep(0.01)
                asked.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asked
                assert (await agent.aask("and now?")).text == "here"
                return list(await agent.session.records())

        records = asyncio.run(go())
    assert [record["role"] for record in records] == ["user", "assistant", "results", "user", "assistant"]
    assert [one["call_id"] for one in records[2]["results"]] == ["call_0", "call_1"]
    assert "may have done part" in records[2]["results"][0]["text"]


@pytest.mark.full
@pytest.mark.parametrize("failures", [1, pytest.param(3, marks=pytest.mark.untraced)])
def test_a_disk_that_is_full_at_any_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failures: int) -> None:
    """X-1: a call that can't be recorded does not run, one that ran has its true result, and the conversation can continue."""
    write = Database.write
    left = 1_000

    async def counted(self: Database, *args: Any, **options: Any) -> Any:
        nonlocal left
        left -= 1
        if -failures < left <= 0:
            raise StoreFailed("the disk is full")
        return await write(self, *args, **options)

    monkeypatch.setattr(Database, "write", counted)
    for number in range(1, 200):
        project = tmp_path / f"p{number}"
        project.mkdir()
        with (
            ChatServer(*responses(), ChatServer.text("ok"), ChatServer.text("ok")) as server,
            Agent(model="m", base_url=server.base_url, project_dir=project) as agent,
        ):
            left = number
            with suppress(ToolcribError):
                agent.ask("go")
            whole = left > 0
            left = 1_000
            agent.ask("go on")
            for request in server.requests:
                check(request["messages"], project)
        messages = resumed(project)
        assert messages is not None
        check(messages, project)
        if whole:
            break
    assert number > 15


SEND = {"description": "d", "parameters": {"type": "object", "properties": {"tag": {"type": "string"}}}}


def replying(*tags: str) -> list[ProviderTurn]:
    """Return replies with one call each, all with the same id."""
    return [ProviderTurn("", (ToolCall("call_0", "send", {"tag": tag}),)) for tag in tags]


async def sending(crib: Crib, sent: list[str], **options: Any) -> Session:
    def send(args: Any) -> str:
        sent.append(args["tag"])
        return f"sent {args['tag']}"

    crib.registry.register("send", "terminal", SEND, send)
    session = await crib.open(suspends=True, **options)
    session.scope.granted = None
    return session


@pytest.mark.parametrize(("skew", "named"), [(-60.0, True), (0.0, True), (60.0, True), (0.0, False)])
@pytest.mark.parametrize("died", ["before the call", "after the call"])
@pytest.mark.parametrize("then", ["advance", "ask"])
def test_whose_a_call_is_does_not_depend_on_clocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, skew: float, died: str, then: str, named: bool
) -> None:
    """The store's clock may be another machine's. ``named``: False for an older toolcrib's records, which have only times."""
    if not named:
        monkeypatch.setattr(RunState, "turn_id", "")
    sent: list[str] = []

    async def die(crib: Crib) -> str:
        session = await sending(crib, sent)
        session.link.use(ScriptedSession(*replying("a", "b")))
        keep = session.keep

        async def kept(state: RunState, messages: Any = (), taken: Any = ()) -> RunState:
            if state.turn == 2 and state.phase == "asking" and died == "after the call":
                raise StoreFailed("killed")
            state = await keep(state, messages, taken)
            if state.turn == 2 and state.phase == "calling" and died == "before the call":
                raise StoreFailed("killed")
            return state

        monkeypatch.setattr(session, "keep", kept)
        with pytest.raises(StoreFailed):
            await session.ask("go")
        await session.close()
        return session.id

    async def go_on(crib: Crib, session_id: str) -> list[str]:
        session = await sending(crib, sent, resume=session_id)
        session.link.use(ScriptedSession("done"))
        await (session.advance() if then == "advance" else session.ask("and now?"))
        results = [one["text"] for record in await session.records() for one in record.get("results", ())]
        await session.close()
        return results

    def store() -> SqliteStore:
        return SqliteStore(tmp_path / "store.db", clock=lambda: time.time() + skew)

    with assemble(project_dir=tmp_path, store=store()) as crib:
        session_id = asyncio.run(die(crib))
    monkeypatch.undo()
    with assemble(project_dir=tmp_path, store=store()) as crib:
        first, second = asyncio.run(go_on(crib, session_id))
    assert "sent a" in first
    if died == "after the call" or then == "advance":
        assert sent == ["a", "b"]
        assert "sent b" in second
    else:
        assert sent == ["a"]
        assert "interrupted before it ran" in second


def test_a_run_that_a_gate_ended_stays_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The process dies before the results are stored: the reply's other calls do not run, and the model is not asked again."""
    ran: list[str] = []

    class Ends:
        @hookimpl
        def tool_gate(self, call: ToolCall) -> Block | None:
            return Block("the budget is used up", end_run=True) if call.name == "send" else None

    async def go(crib: Crib, *, dies: bool, session_id: str | None = None) -> tuple[str, Any]:
        crib.dispatcher.hooks.register(Ends(), "ends")
        for name in ("send", "later"):
            crib.registry.register(name, "terminal", SEND, lambda args: ran.append("x"))
        session = await crib.open(suspends=True, resume=session_id)
        session.scope.granted = None
        session.link.use(ScriptedSession([("send", {}), ("later", {})] if dies else "went on"))
        keep = session.keep

        async def kept(state: RunState, messages: Any = (), taken: Any = ()) -> RunState:
            if dies and state.is_over:
                raise StoreFailed("killed")
            return await keep(state, messages, taken)

        monkeypatch.setattr(session, "keep", kept)
        outcome: Any = None
        with suppress(StoreFailed):
            outcome = await (session.ask("go") if dies else session.advance())
        await session.close()
        return session.id, outcome

    with assemble(project_dir=tmp_path) as crib:
        session_id, _ = asyncio.run(go(crib, dies=True))
    with assemble(project_dir=tmp_path) as crib:
        _, outcome = asyncio.run(go(crib, dies=False, session_id=session_id))
    assert outcome.stopped == "ended"
    assert ran == []
