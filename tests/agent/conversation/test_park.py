"""A run that waits for a person, and is answered and continued from other processes."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from agent.conversation.answers import hosted, record_answer
from agent.conversation.manager import SessionManager
from agent.conversation.session import Session
from agent.conversation.state import RunResult, RunState
from agent.store.postgres.store import PostgresStore
from agent.store.sqlite import SqliteStore
from tests.forks import Forks
from toolcrib import (
    Answer,
    Denied,
    InvalidArguments,
    LeaseLost,
    Principal,
    SuspendTicket,
    ToolCall,
    ToolCallContext,
    ToolCallStatus,
    ToolResult,
)
from toolcrib.contract.store import Store
from toolcrib.testing import ScriptedSession
from tools.dispatch.bridge import run_async

SESSION = "0123456789abcdef0123456789abcdef"
YES = {"approved": True, "scope": "once"}


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest) -> str:
    """Return the URL of an empty PostgreSQL database, or "" for SQLite in the project's folder."""
    if request.param == "sqlite":
        return ""
    url: str = request.getfixturevalue("postgres").new_database()
    return url


@pytest.fixture
def worker(forks: Forks, tmp_path: Path, store_url: str) -> Callable[..., Any]:
    """Return a function that starts a process which drives the session; see tests/fuzz/run_worker.py."""

    def start(*words: object, lease: float = 20.0) -> Any:
        more = ["--lease", str(lease), *(["--store", store_url] if store_url else [])]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        code = "from tests.fuzz.run_worker import main; main()"
        return forks.popen(str(tmp_path), SESSION, *map(str, words), *more, code=code, cwd=tmp_path, text=True, **pipes)

    return start


@pytest.fixture
def kept(tmp_path: Path, store_url: str) -> Iterator[Store]:
    store = PostgresStore(store_url) if store_url else SqliteStore(tmp_path / "store.db")
    yield store
    store.close()


def does(started: Any) -> dict[str, Any]:
    with started as process:
        out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    answer: dict[str, Any] = json.loads(out.splitlines()[-1])
    return answer


def log(project: Path) -> list[str]:
    file = project / "log"
    return file.read_text().split() if file.exists() else []


def results(store: Store) -> list[list[tuple[str, str]]]:
    """Return (call id, text) of every record of results."""
    records = run_async(store.sessions.messages(SESSION))
    return [[(one["call_id"], one["text"]) for one in record["results"]] for record in records if record["role"] == "results"]


def test_four_processes_and_each_effect_happens_once(tmp_path: Path, worker: Callable[..., Any], kept: Store) -> None:
    """002-24, 002-31: A parks two calls beside a finished one and is killed; B answers one, C the other, D continues."""
    (tmp_path / "plan.json").write_text(json.dumps([[["mark", "one"], ["note", "two"], ["mark", "three"]]]))
    with worker("begin", "--linger") as process:
        assert process.stdout.readline() == "up\n"
        parked = json.loads(process.stdout.readline())
        process.kill()
    assert (parked["stopped"], len(parked["tickets"]), log(tmp_path)) == ("parked", 2, ["two"])
    assert [record["role"] for record in run_async(kept.sessions.messages(SESSION))] == ["user", "assistant"]

    second = does(worker("answer", 1))
    assert (second["stopped"], second["tickets"], log(tmp_path)) == ("parked", parked["tickets"][:1], ["two", "three"])
    third = does(worker("answer", 0))
    assert (third["stopped"], third["tickets"], log(tmp_path)) == ("parked", [], ["two", "three", "one"])
    assert [record["role"] for record in run_async(kept.sessions.messages(SESSION))] == ["user", "assistant"]

    last = does(worker("continue"))
    assert (last["stopped"], last["text"]) == ("done", "done")
    assert log(tmp_path) == ["two", "three", "one"]
    assert results(kept) == [[("call_0", '"one"'), ("call_1", '"two"'), ("call_2", '"three"')]]


def is_locked(file: Path) -> bool:
    """Return whether a process is in a transaction that writes to this SQLite file."""
    if not file.exists():
        return False
    with closing(sqlite3.connect(file, timeout=0.5, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return True
        connection.execute("ROLLBACK")
    return False


def test_a_holder_that_was_stopped_writes_nothing_more(tmp_path: Path, worker: Callable[..., Any], kept: Store) -> None:
    """SIGSTOP, takeover, SIGCONT: the process that lost the lease changes neither transcript nor ledger, and reports the loss."""
    (tmp_path / "plan.json").write_text(json.dumps([[["note", str(number)]] for number in range(400)]))
    with worker("begin", lease=1.0) as process:
        try:
            while len(log(tmp_path)) < 3:
                assert process.poll() is None, process.communicate()
                time.sleep(0.01)
            os.kill(process.pid, signal.SIGSTOP)
            while is_locked(tmp_path / "store.db"):  # in a transaction it would keep all others from writing
                os.kill(process.pid, signal.SIGCONT)
                time.sleep(0.01)  # without a pause it may never leave the transaction
                os.kill(process.pid, signal.SIGSTOP)
            (tmp_path / "plan.json").write_text("[]")  # the process that takes over ends the run at its next turn
            does(worker("continue"))
            records, calls = run_async(kept.sessions.messages(SESSION)), run_async(kept.ledger.calls(SESSION))
            audit = len(run_async(kept.audit.entries(SESSION)))
            os.kill(process.pid, signal.SIGCONT)
            _, said = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode != 0
    assert "LeaseLost" in said
    assert list(run_async(kept.sessions.messages(SESSION))) == list(records)
    assert list(run_async(kept.ledger.calls(SESSION))) == list(calls)
    assert len(run_async(kept.audit.entries(SESSION))) == audit
    assert [record["role"] for record in records][-1] == "assistant"


# -- in one process ----------------------------------------------------------------------------------------------------


def answered(ticket: str, payload: Any, **more: Any) -> Answer:
    return Answer(ticket, payload=payload, by="me", at=time.time(), **more)


async def parked(crib: Crib, *calls: tuple[str, Any], after: str = "done") -> tuple[Session, RunResult]:
    session = await crib.open(suspends=True)
    session.scope.granted = None
    session.link.use(ScriptedSession(list(calls), after))
    return session, await session.ask("go")


async def test_what_overlaps_a_parked_call_waits(crib: Crib, tmp_path: Path) -> None:
    """Neither `cp x out/` nor reading and searching in `out` overtakes a parked `rm -rf out`."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.txt").write_text("old")
    (tmp_path / "a.txt").write_text("A")
    session, result = await parked(
        crib,
        ("terminal", {"command": "rm -rf out"}),
        ("terminal", {"command": "mkdir out && cp a.txt out/"}),
        ("read_file", {"path": "out/a.txt"}),
        ("search_files", {"pattern": "old", "path": "out"}),
        ("todo", {}),
    )
    assert (result.stopped, len(result.tickets)) == ("parked", 1)
    record = await crib.store.runs.current(session.id)
    assert record is not None
    assert [one.status.value for one in RunState.of(record).batch] == ["suspended", "new", "new", "new", "succeeded"]
    await session.answer(answered(result.tickets[0], YES))
    last = await session.advance()
    assert last is not None
    assert last.text == "done"
    assert (tmp_path / "out" / "a.txt").read_text() == "A"
    texts = [one["text"] for record in await session.records() if record["role"] == "results" for one in record["results"]]
    assert len(texts) == 5
    assert "old" not in texts[2]
    assert "A" in texts[2]
    await session.close()


async def test_what_another_process_downloaded_is_asked_about_here(crib: Crib, tmp_path: Path) -> None:
    """After another process has used the session, the files' origins are read again, in runs and for manual calls."""
    for name in ("x.sh", "y.sh"):
        (tmp_path / name).write_text("echo hello\n")
    here = await crib.open(suspends=True)
    assert (await here.acall(ToolCall("c1", "terminal", {"command": "bash x.sh"}))).result.is_success
    with assemble(project_dir=tmp_path) as other:
        there = await other.open(resume=here.id)
        await there.acall(ToolCall("c2", "terminal", {"command": "curl -so x.sh file:///nowhere"}))
        by_hand = await here.acall(ToolCall("c3", "terminal", {"command": "bash x.sh"}))
        assert by_hand.status is ToolCallStatus.SUSPENDED
        await there.acall(ToolCall("c4", "terminal", {"command": "curl -so y.sh file:///nowhere"}))
        here.link.use(ScriptedSession([("terminal", {"command": "bash y.sh"})], "done"))
        assert (await here.ask("go")).stopped == "parked"
        await there.close()
    await here.close()


async def test_a_refusal_is_told_and_the_run_goes_on(crib: Crib, tmp_path: Path) -> None:
    """003-28"""
    (tmp_path / "out").mkdir()
    session, result = await parked(crib, ("terminal", {"command": "rm -rf out"}))
    await session.answer(answered(result.tickets[0], {"approved": False, "reason": "I need it"}))
    last = await session.advance()
    assert last is not None
    told = (await session.records())[-2]["results"][0]
    assert (last.stopped, told["is_error"], "I need it" in told["text"]) == ("done", True, True)
    assert (tmp_path / "out").exists()
    await session.close()


async def test_folder_and_exported_variables_are_there_again(crib: Crib, tmp_path: Path) -> None:
    """Without the folder and the variables the call would differ from the approved one, and need a new ticket."""
    (tmp_path / "sub" / "out").mkdir(parents=True)
    session = await crib.open(suspends=True)
    moves = [("terminal", {"command": "cd sub; export KIND=x"})]
    session.link.use(ScriptedSession(moves, [("terminal", {"command": "rm -rf out && echo $KIND > kind"})], "done"))
    result = await session.ask("go")
    assert result.stopped == "parked"
    record = await crib.store.runs.current(session.id)
    assert record is not None
    shell = RunState.of(record).shell
    assert shell is not None
    assert (shell.cwd, shell.variables.get("KIND")) == (str(tmp_path / "sub"), "x")
    await session.close()
    again = await crib.open(resume=session.id, suspends=True)
    again.link.use(ScriptedSession("done"))
    await again.answer(answered(result.tickets[0], YES))
    last = await again.advance()
    assert last is not None
    assert last.stopped == "done"
    assert (tmp_path / "sub" / "kind").read_text() == "x\n"
    assert not (tmp_path / "sub" / "out").exists()
    await again.close()


async def test_a_secret_is_not_stored_with_a_parked_run(crib: Crib, tmp_path: Path) -> None:
    """Without the secret the restored shell differs, so the person is asked again."""
    (tmp_path / "out").mkdir()
    session = await crib.open(suspends=True)
    exports = [("terminal", {"command": "export KIND=x SERVICE_API_KEY=sk-ant-REDACTED"})]
    session.link.use(ScriptedSession(exports, [("terminal", {"command": "rm -rf out"})], "done"))
    result = await session.ask("go")
    record = await crib.store.runs.current(session.id)
    assert record is not None
    shell = RunState.of(record).shell
    assert shell is not None
    assert shell.variables == {"KIND": "x"}
    await session.close()
    again = await crib.open(resume=session.id, suspends=True)
    await again.answer(answered(result.tickets[0], YES))
    last = await again.advance()
    assert last is not None
    assert last.stopped == "parked"
    assert list(last.tickets) != list(result.tickets)
    await again.close()


async def test_no_variable_that_looks_like_a_secret_is_stored_with_a_parked_run(crib: Crib, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    exported = (
        "KIND=x EDITOR=vi DB_PASSWORD=hunter-2-a AWS_SECRET_ACCESS_KEY=hunter-2-b PGPASSWORD=hunter-2-c KUBE_TOKEN=hunter-2-d"
        " DATABASE_URL=postgres://u:hunter-2-e@h/db CACHE=redis://:hunter-2-f@h DSN='host=h password=hunter-2-g'"
        " MYSQL_PWD=hunter-2-h"
    )
    session = await crib.open(suspends=True)
    asks = [("terminal", {"command": "rm -rf out"})]
    session.link.use(ScriptedSession([("terminal", {"command": f". ./env; cd {tmp_path}"})], asks, "done"))
    (tmp_path / "env").write_text(f"export {exported}\n")
    assert (await session.ask("go")).stopped == "parked"
    record = await crib.store.runs.current(session.id)
    assert record is not None
    shell = RunState.of(record).shell
    assert shell is not None
    assert shell.variables == {"KIND": "x", "EDITOR": "vi"}
    assert "hunter" not in repr(record)
    await session.close()


async def test_where_what_was_agreed_to_has_changed_there_is_a_new_ticket(crib: Crib, tmp_path: Path) -> None:
    """002-24: an answer covers exactly what was shown."""
    script = tmp_path / "x.sh"
    script.write_text("rm -rf out\n")
    session, result = await parked(crib, ("terminal", {"command": "sh x.sh"}))
    assert result.stopped == "parked"
    script.write_text("rm -rf out other\n")
    await session.answer(answered(result.tickets[0], YES))
    again = await session.advance()
    assert again is not None
    assert again.stopped == "parked"
    assert list(again.tickets) != list(result.tickets)
    await session.close()


async def test_the_same_decision_twice_is_nothing_and_another_is_refused(crib: Crib, tmp_path: Path) -> None:
    """002-31"""
    (tmp_path / "out").mkdir()
    session, result = await parked(crib, ("terminal", {"command": "rm -rf out"}))
    said = answered(result.tickets[0], YES, decision_id="click-1")
    assert [await session.answer(said) for _ in range(2)] == ["settled", "repeated"]
    with pytest.raises(Denied, match=r"already decided \(approved, by me\)"):
        await session.answer(answered(result.tickets[0], {"approved": False}))
    with pytest.raises(Denied, match="belongs to another user"):
        await session.answer(answered(result.tickets[0], YES), Principal("telegram", "7"))
    await session.close()


async def test_a_decision_that_says_something_else_does_not_count(crib: Crib, tmp_path: Path) -> None:
    """002-31: the same decision id with another answer, or for another ticket, is refused with the recorded decision."""
    for name in ("out", "old"):
        (tmp_path / name).mkdir()
    calls = [("terminal", {"command": f"rm -rf {name}"}) for name in ("out", "old")]
    session, result = await parked(crib, *calls)
    first, second = result.tickets
    no = answered(first, {"approved": False}, decision_id="click-1")
    assert [await session.answer(no) for _ in range(2)] == ["settled", "repeated"]
    with pytest.raises(Denied, match=r"already decided \(denied, by me\), by another answer with the same decision id"):
        await session.answer(answered(first, YES, decision_id="click-1"))
    with pytest.raises(Denied, match="already used for another request; this request still waits"):
        await session.answer(answered(second, YES, decision_id="click-1"))
    assert await session.answer(answered(second, YES, decision_id="click-2")) == "settled"
    await session.close()


async def test_an_answer_may_be_the_result_or_reach_the_tool(crib: Crib) -> None:
    """002-30, 002-31: an answer must fit the ticket's schema."""

    def ask(args: Any, ctx: ToolCallContext) -> Any:
        if ctx.resume_input is not None:
            return {"heard": ctx.resume_input}
        mode = args["mode"]
        return ToolResult.suspended_with(
            "ask", "How many?", SuspendTicket("ask", "How many?", resume_mode=mode, response_schema={"type": "integer"})
        )

    crib.registry.register("ask", "clarify", {"description": "d"}, ask, kind="read")
    session, result = await parked(crib, ("ask", {"mode": "use_as_result"}), ("ask", {"mode": "pass_to_tool"}))
    assert len(result.tickets) == 2
    with pytest.raises(InvalidArguments, match=r"\$: "):
        await session.answer(answered(result.tickets[0], "many"))
    for ticket, number in zip(result.tickets, (3, 4), strict=True):
        await session.answer(answered(ticket, number))
    last = await session.advance()
    assert last is not None
    assert last.stopped == "done"
    assert [json.loads(one["text"]) for one in (await session.records())[-2]["results"]] == [3, {"heard": 4}]
    await session.close()


async def test_giving_up_ends_a_parked_run(crib: Crib, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    session, result = await parked(crib, ("terminal", {"command": "rm -rf out"}), ("read_file", {"path": "none"}))
    last = await session.end_unfinished()
    assert last is not None
    assert last.stopped == "interrupted"
    with pytest.raises(Denied, match="expired"):
        await session.answer(answered(result.tickets[0], YES))
    assert (tmp_path / "out").exists()
    session.link.use(ScriptedSession("here"))
    assert (await session.ask("and now?")).text == "here"
    await session.close()


async def test_what_is_said_to_a_parked_session_waits(crib: Crib, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    session, result = await parked(crib, ("terminal", {"command": "rm -rf out"}))
    assert (await session.ask("and the tests?")).stopped == "parked"
    session.link.use(ScriptedSession("done", "the tests too"))
    await session.answer(answered(result.tickets[0], YES))
    last = await session.advance()
    assert last is not None
    assert last.text == "the tests too"
    said = [record["text"] for record in await session.records() if record["role"] == "user"]
    assert said == ["go", "and the tests?"]
    await session.close()


async def test_a_run_that_another_process_took_over_ends_here(crib: Crib) -> None:
    """A late write is refused, whichever caller tries it."""
    session = await crib.open()

    async def taken(args: Any) -> str:
        lease = await crib.store.leases.holder(session.id)
        assert lease is not None
        await crib.store.leases.release(session.holding.lease)
        assert await crib.store.leases.take(session.id, "another", 60) is not None
        return "ran"

    crib.registry.register("taken", "terminal", {"description": "d"}, taken)
    session.scope.granted = None
    session.link.use(ScriptedSession([("taken", {})], "done"))
    with pytest.raises(LeaseLost):
        await session.ask("go")
    assert [record["role"] for record in await session.records()] == ["user", "assistant"]


# -- many sessions -----------------------------------------------------------------------------------------------------


async def hosting(crib: Crib, *turns: Any) -> tuple[SessionManager, asyncio.Queue[Any]]:
    """Return a manager whose sessions' models say the next of these turns each time a session is opened."""
    came: asyncio.Queue[Any] = asyncio.Queue()
    script = list(turns)
    manager = SessionManager(
        crib,
        prepare=lambda session: session.link.use(ScriptedSession(script.pop(0))),
        done=lambda session_id, result: came.put_nowait(result),
    )
    await manager.start()
    return manager, came


async def test_an_answer_from_elsewhere_wakes_the_host(crib: Crib, tmp_path: Path) -> None:
    """002-31: another process records the answer, and the run continues in this one."""
    (tmp_path / "out").mkdir()
    manager, came = await hosting(crib, [("terminal", {"command": "rm -rf out"})], "understood")
    session_id = await manager.say("chat", "go")
    assert session_id is not None
    first = await asyncio.wait_for(came.get(), 60)
    assert first.stopped == "parked"
    while manager.open_sessions:
        await asyncio.sleep(0.01)
    with assemble(project_dir=tmp_path) as other:
        assert await hosted(other.store, session_id)
        await record_answer(other.store, answered(first.tickets[0], {"approved": False, "reason": "no"}))
    last = await asyncio.wait_for(came.get(), 60)
    assert (last.stopped, last.text) == ("done", "understood")
    await manager.close()
    assert not await hosted(crib.store, session_id)


@pytest.mark.parametrize("elsewhere", [False, True])
@pytest.mark.parametrize(
    ("who", "ends"), [(Principal("api", "bob"), False), (Principal("api", "ann"), True), (Principal(), True)]
)
async def test_only_whose_run_it_is_and_the_local_person_end_it(
    crib: Crib, tmp_path: Path, who: Principal, ends: bool, elsewhere: bool
) -> None:
    """An interrupt by any other user waits for the run's end, like queued messages."""
    running, over = asyncio.Event(), asyncio.Event()

    async def hold(args: Any) -> str:
        running.set()
        await over.wait()
        return "held"

    crib.registry.register("hold", "terminal", {"description": "d"}, hold)
    manager, came = await hosting(crib, [("hold", {})])
    session = await manager.session("chat")
    model = ScriptedSession([("hold", {})], "next", "last")
    session.outfit, session.scope.granted = None, None
    session.link.use(model)
    await manager.say("chat", "go", principal=Principal("api", "ann"))
    await asyncio.wait_for(running.wait(), 60)
    if elsewhere:
        with assemble(project_dir=tmp_path) as other:
            there = await other.open(resume=session.id)
            await there.say("stop", mode="interrupt", principal=who)
            await there.close()
    else:
        await manager.say("chat", "stop", mode="interrupt", principal=who)
    await asyncio.sleep(0.3)
    over.set()
    outcomes = [await asyncio.wait_for(came.get(), 60) for _ in range(2)]
    expected = [("interrupted", ""), ("done", "next")] if ends else [("done", "next"), ("done", "last")]
    assert [(one.stopped, one.text) for one in outcomes] == expected
    await manager.close()


async def test_messages_of_many_chats_are_answered_each_in_its_own(crib: Crib) -> None:
    keys = [f"chat{number}" for number in range(20)]
    manager, came = await hosting(crib, *(f"hello {key}" for key in keys))
    assert all([await manager.say(key, "hi", message_key="m1") for key in keys])
    assert not any([await manager.say(key, "hi", message_key="m1") for key in keys])
    texts = {(await asyncio.wait_for(came.get(), 60)).text for _ in keys}
    assert texts == {f"hello {key}" for key in keys}
    await manager.close()
