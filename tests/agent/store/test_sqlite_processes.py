"""Several processes and one file: kill -9, racing answers, calls of the dead and of the living."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent.store.sqlite import SqliteStore
from toolcrib import Answer, InvalidTransition, StoreFailed, SuspendTicket, ToolCall, ToolCallStatus, ToolResult
from toolcrib._store import TicketRecord

Open = Callable[..., SqliteStore]
S = ToolCallStatus

HEAD = """
import sys
from pathlib import Path
from agent.store.sqlite import SqliteStore
from toolcrib import Answer, InvalidTransition, SuspendTicket, ToolCall, ToolCallStatus as S, ToolResult
from toolcrib._store import TicketRecord
def wait():
    print("ready", flush=True)
    sys.stdin.readline()
def running(call_id, started=False):
    store.ledger.open(ToolCall(call_id, "terminal"), "s")
    store.ledger.move("s", call_id, S.RUNNING)
    if started:
        store.ledger.handler_started("s", call_id)
"""
OPEN = "store = SqliteStore(Path(sys.argv[1]))\n"


@contextmanager
def process(file: Path, root: Path, code: str) -> Iterator[subprocess.Popen[str]]:
    """Another process; it is killed at the end, if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-c", HEAD + code, str(file)], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def line(of: subprocess.Popen[str]) -> str:
    assert of.stdout is not None
    return of.stdout.readline().strip()


def go(*waiting: subprocess.Popen[str]) -> None:
    for one in waiting:
        assert one.stdin is not None
        one.stdin.write("\n")
    for one in waiting:
        assert one.stdin is not None
        one.stdin.flush()


def kill(running: subprocess.Popen[str]) -> str:
    """What it had still printed."""
    running.send_signal(signal.SIGKILL)
    rest = running.communicate()[0]
    assert running.returncode == -signal.SIGKILL
    return rest


def status(store: SqliteStore, call_id: str) -> ToolCallStatus:
    record = store.ledger.get("s", call_id)
    assert record is not None
    return record.status


def test_what_an_append_returned_for_survives_kill_9(open_file: Open, file: Path, root: Path) -> None:
    code = (
        OPEN
        + """
store.sessions.create("s", platform="cli", user="me")
number = 0
while True:
    store.sessions.append_many("s", [{"role": "user", "text": f"{number} {part}" + "x" * 500} for part in range(3)])
    print(number, flush=True)
    number += 1
"""
    )
    for turn in range(3):
        file.unlink(missing_ok=True)
        with process(file, root, code) as writer:
            for _ in range(10 + 150 * turn):
                last = int(line(writer))
            printed = [last, *map(int, kill(writer).split("\n")[:-1])]
        store = open_file()
        found = [message["text"].split("x")[0] for message in store.sessions.messages("s")]
        assert len(found) >= 3 * (printed[-1] + 1)
        assert found == [f"{number} {part}" for number in range(len(found) // 3) for part in range(3)]
        info = store.sessions.get("s")
        assert info is not None
        assert info.messages == len(found)
        store.close()


def test_two_processes_open_a_fresh_file_at_once(open_file: Open, file: Path, root: Path) -> None:
    code = f"wait()\n{OPEN}store.sessions.create('s', platform='cli', user='me')\n"
    code += "for _ in range(20): store.sessions.append('s', {'role': 'user', 'text': 'hi'})\nprint('done', flush=True)"
    for _ in range(3):
        with process(file, root, code) as first, process(file, root, code) as second:
            assert (line(first), line(second)) == ("ready", "ready")
            go(first, second)
            assert (line(first), line(second)) == ("done", "done")
        store = open_file()
        assert len(store.sessions.messages("s")) == 40
        store.close()
        file.unlink()


def test_of_two_processes_one_settles_a_ticket_and_one_moves_its_call(open_file: Open, file: Path, root: Path) -> None:
    """002-28, 002-31"""
    store, rounds = open_file(), 30
    for number in range(rounds):
        call = ToolCall(f"c{number}", "terminal")
        store.ledger.open(call, "s")
        store.ledger.move("s", call.id, S.RUNNING)
        store.ledger.move("s", call.id, S.SUSPENDED)
        store.tickets.put(TicketRecord(SuspendTicket("approve", "?", call, id=f"t{number}"), "s"))
    code = (
        OPEN
        + f"""
wait()
for number in range({rounds}):
    won = store.tickets.settle(Answer(f"t{{number}}", payload={{"approved": True}}, by=sys.argv[0]), "approved")
    try:
        store.ledger.move("s", f"c{{number}}", S.RESUMING)
        moved = True
    except InvalidTransition:
        moved = False
    print(int(won), int(moved), flush=True)
"""
    )
    with process(file, root, code) as first, process(file, root, code) as second:
        assert (line(first), line(second)) == ("ready", "ready")
        go(first, second)
        said = [(line(first).split(), line(second).split()) for _ in range(rounds)]
    for one, other in said:
        assert sorted([one[0], other[0]]) == ["0", "1"]
        assert sorted([one[1], other[1]]) == ["0", "1"]
    assert store.tickets.pending("s") == []


def test_two_processes_spend_a_counted_grant(open_file: Open, file: Path, root: Path) -> None:
    from toolcrib._store import Grant

    store = open_file()
    store.grants.add(Grant("g", "uses", "k", "/", session_id="s", uses_left=50))
    code = OPEN + "wait()\nprint(sum(store.grants.spend('g') for _ in range(40)), flush=True)"
    with process(file, root, code) as first, process(file, root, code) as second:
        assert (line(first), line(second)) == ("ready", "ready")
        go(first, second)
        assert int(line(first)) + int(line(second)) == 50


def test_calls_of_a_dead_process_are_ended_and_those_of_a_living_one_left_alone(open_file: Open, file: Path, root: Path) -> None:
    code = (
        OPEN
        + """
running("waits"); running("works", started=True); running("asks", started=True); running("told"); running("done", started=True)
store.ledger.open(ToolCall("new", "terminal"), "s")
store.ledger.finish("s", "done", S.SUCCEEDED, ToolResult.success("terminal", 1))
for name in ("asks", "told"):
    store.ledger.move("s", name, S.SUSPENDED)
    store.tickets.put(TicketRecord(SuspendTicket("approve", "?", ToolCall(name, "terminal"), id=name), "s"))
store.tickets.settle(Answer("told", payload={"approved": True}), "approved")
store.sessions.create("s", platform="cli", user="me")
wait()
"""
    )
    store = open_file()
    store.ledger.open(ToolCall("mine", "terminal"), "s")
    store.ledger.move("s", "mine", S.RUNNING)
    with process(file, root, code) as other:
        assert line(other) == "ready"
        assert store.recover() == []
        for move in (S.SUCCEEDED, S.RUNNING, S.SUSPENDED):
            with pytest.raises(InvalidTransition, match="'works' is running in another process"):
                store.ledger.move("s", "works", move)
        with pytest.raises(InvalidTransition, match="in another process"):
            store.ledger.handler_started("s", "works")
        with pytest.raises(InvalidTransition, match="in another process"):
            store.ledger.finish("s", "works", S.FAILED, ToolResult.error("terminal", ""))
        with pytest.raises(InvalidTransition, match="'works' is already running"):
            store.ledger.open(ToolCall("works", "terminal"), "s")
        kill(other)
    assert store.recover("another session") == []
    ended = store.recover("s")
    assert [(record.call.id, record.status, record.result and record.result.message) for record in ended] == [
        ("waits", S.FAILED, "interrupted before it ran"),
        ("works", S.FAILED, "interrupted; it may have run, or still run"),
        ("told", S.FAILED, "interrupted before it ran"),
        ("new", S.FAILED, "interrupted before it ran"),
    ]
    assert all(record.ended_at for record in ended)
    assert store.recover() == []
    assert [status(store, name) for name in ("mine", "done", "asks")] == [S.RUNNING, S.SUCCEEDED, S.SUSPENDED]
    assert [record.ticket.id for record in store.tickets.pending("s")] == ["asks"]
    store.ledger.open(ToolCall("works", "terminal"), "s")
    assert store.ledger.get("s", "works") != ended[1]


def test_a_call_that_a_dead_process_suspended_goes_on_here(open_file: Open, file: Path, root: Path) -> None:
    """002-31: the answer comes to another process"""
    code = (
        OPEN
        + """
running("c")
ticket = SuspendTicket("approve", "?", ToolCall("c", "terminal"), id="t")
store.tickets.put(TicketRecord(ticket, "s"))
store.ledger.finish("s", "c", S.SUSPENDED, ToolResult.suspended_with("terminal", "?", ticket))
wait()
"""
    )
    with process(file, root, code) as other:
        assert line(other) == "ready"
        kill(other)
    store = open_file()
    assert store.recover() == []
    assert store.tickets.settle(Answer("t", payload={"approved": True}), "approved")
    assert store.recover() == []  # it is ours now
    for move in (S.RESUMING, S.RUNNING):
        store.ledger.move("s", "c", move)
    store.ledger.handler_started("s", "c")
    store.ledger.finish("s", "c", S.SUCCEEDED, ToolResult.success("terminal", 1))
    assert status(store, "c") is S.SUCCEEDED


def test_a_store_is_not_used_across_a_fork(open_file: Open) -> None:
    store = open_file()
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            store.sessions.list()
            told = b"used"
        except StoreFailed as error:
            told = str(error).encode()
        os.write(writing, told)
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    assert b"opened before this process was forked" in os.read(reading, 1000)
    os.close(reading)
    assert list(store.sessions.list()) == []
