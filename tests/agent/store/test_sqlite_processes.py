"""Several processes and one file: kill -9, racing answers, calls of dead and of living processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from agent.store._owner import new_owner
from agent.store.sqlite import SqliteStore
from toolcrib import StoreFailed, SuspendTicket, ToolCall, ToolCallStatus
from toolcrib.contract.store import Fence, Grant, Lease, TicketRecord

Open = Callable[..., SqliteStore]
S = ToolCallStatus

HEAD = """
import asyncio, sys
from pathlib import Path
from agent.store._owner import new_owner
from agent.store.sqlite import SqliteStore
from toolcrib import Answer, InvalidTransition, LeaseLost, SuspendTicket, ToolCall, ToolCallStatus as S, ToolResult
from toolcrib.contract.store import Fence, Grant, TicketRecord
def wait():
    print("ready", flush=True)
    sys.stdin.readline()
async def main(store):
"""
MAIN = "\nasyncio.run(main(SqliteStore(Path(sys.argv[1]))))\n"


@contextmanager
def process(file: Path, root: Path, code: str) -> Iterator[subprocess.Popen[str]]:
    """Start another process, which runs ``code`` with a ``store``; at the end it is killed if it still runs."""
    with subprocess.Popen(
        [sys.executable, "-c", HEAD + textwrap.indent(code, "    ") + MAIN, str(file)],
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


def line(of: subprocess.Popen[str]) -> str:
    assert of.stdout is not None
    read = of.stdout.readline()
    assert read, f"the process printed nothing more, and ended with {of.wait()}"
    return read.strip()


def go(*waiting: subprocess.Popen[str]) -> None:
    for one in waiting:
        assert one.stdin is not None
        one.stdin.write("\n")
    for one in waiting:
        assert one.stdin is not None
        one.stdin.flush()


def kill(running: subprocess.Popen[str]) -> str:
    """Kill the process, and return the rest of its output."""
    assert running.stdout is not None
    running.send_signal(signal.SIGKILL)
    rest = running.stdout.read()  # communicate() skips what was read ahead, which ends anywhere in a line
    assert running.wait() == -signal.SIGKILL
    return rest


async def test_what_an_append_returned_for_survives_kill_9(file: Path, root: Path) -> None:
    """The process is killed in the middle of batches of several callers."""
    code = """
await store.sessions.create("s", platform="cli", user="me")
async def write(caller):
    number = 0
    while True:
        texts = [f"{caller} {number} {part}" + "x" * 500 for part in range(3)]
        await store.sessions.append_many("s", [{"role": "user", "text": text} for text in texts])
        print(caller, number, flush=True)
        number += 1
await asyncio.gather(*(write(caller) for caller in range(8)))
"""
    for turn in range(3):
        used = file.with_name(f"{turn}.db")  # a separate file for each turn: SQLite would apply a leftover log to the next one
        with process(used, root, code) as writer:
            printed = [line(writer) for _ in range(10 + 300 * turn)]
            printed += kill(writer).split("\n")[:-1]
        with contextlib.closing(SqliteStore(used)) as store:
            found = [message["text"].split("x")[0] for message in await store.sessions.messages("s")]
            for caller in map(str, range(8)):
                own = [text.split()[1:] for text in found if text.split()[0] == caller]
                assert own == [[str(number), str(part)] for number in range(len(own) // 3) for part in range(3)]
                told = [int(one.split()[1]) for one in printed if one.split()[0] == caller]
                assert len(own) >= 3 * (max(told, default=-1) + 1)
            info = await store.sessions.get("s")
            assert info is not None
            assert info.messages == len(found)


async def test_two_processes_open_a_fresh_file_at_once(file: Path, root: Path) -> None:
    code = """
await store.sessions.create('s', platform='cli', user='me')
for _ in range(20):
    await store.sessions.append('s', {'role': 'user', 'text': 'hi'})
print('done', flush=True)
"""
    opened = 'wait()\nimport agent.store.sqlite\nstore = agent.store.sqlite.SqliteStore(Path(sys.argv[1] + ".fresh"))\n'
    for _ in range(3):
        with process(file, root, opened + code) as first, process(file, root, opened + code) as second:
            assert (line(first), line(second)) == ("ready", "ready")
            go(first, second)
            assert (line(first), line(second)) == ("done", "done")
        fresh = file.with_name("store.db.fresh")
        store = SqliteStore(fresh)
        assert len(await store.sessions.messages("s")) == 40
        store.close()
        fresh.unlink()


async def test_of_two_processes_one_settles_a_ticket_and_one_moves_its_call(open_file: Open, file: Path, root: Path) -> None:
    """002-28, 002-31"""
    store, rounds = open_file(), 30
    for number in range(rounds):
        call = ToolCall(f"c{number}", "terminal")
        await store.ledger.open(call, "s", S.RUNNING)
        await store.ledger.move("s", call.id, S.SUSPENDED)
        await store.tickets.put(TicketRecord(SuspendTicket("approve", "?", call, id=f"t{number}"), "s"))
    code = f"""
wait()
for number in range({rounds}):
    settled = await store.tickets.decide_ticket(Answer(f"t{{number}}", payload={{"approved": True}}), "approved")
    try:
        await store.ledger.finish("s", f"c{{number}}", S.CANCELLED, ToolResult.error("x", new_owner()))
        won = (await store.ledger.get("s", f"c{{number}}")).result.message
    except InvalidTransition:
        won = "refused"
    print(settled, won, flush=True)
"""
    with process(file, root, code) as first, process(file, root, code) as second:
        assert (line(first), line(second)) == ("ready", "ready")
        go(first, second)
        said = [(line(first).split(), line(second).split()) for _ in range(rounds)]
    for one, other in said:
        assert sorted([one[0], other[0]]) == ["refused", "settled"]
        assert one[1] == other[1], "both read the first result"
    assert list(await store.tickets.pending("s")) == []


async def test_two_processes_spend_a_counted_grant(open_file: Open, file: Path, root: Path) -> None:
    store = open_file()
    await store.grants.add(Grant("g", "uses", "k", "/", session_id="s", uses_left=50))
    code = "wait()\nprint(sum([await store.grants.spend('g') for _ in range(40)]), flush=True)"
    with process(file, root, code) as first, process(file, root, code) as second:
        assert (line(first), line(second)) == ("ready", "ready")
        go(first, second)
        assert int(line(first)) + int(line(second)) == 50


async def test_of_two_processes_one_takes_a_lease(open_file: Open, file: Path, root: Path) -> None:
    rounds = 30
    code = f"""
wait()
for number in range({rounds}):
    lease = await store.leases.take(str(number), new_owner(), 3600.0)
    print(None if lease is None else lease.token, flush=True)
wait()
"""
    with process(file, root, code) as first, process(file, root, code) as second:
        assert (line(first), line(second)) == ("ready", "ready")
        go(first, second)
        said = [{line(first), line(second)} for _ in range(rounds)]
        assert said == [{"1", "None"}] * rounds
        store = open_file()
        assert await store.leases.take("0", new_owner(), 3600.0) is None, "its owner lives"
        kill(first)
        kill(second)
    taken = [await store.leases.take(str(number), new_owner(), 3600.0) for number in range(rounds)]
    assert [lease and lease.token for lease in taken] == [2] * rounds, "at once, since the owners are dead"


async def test_a_stale_holder_that_wakes_up_writes_nothing_more(open_file: Open, file: Path, root: Path) -> None:
    """SIGSTOP, takeover, SIGCONT: whatever it was writing."""
    code = """
await store.sessions.create("s", platform="cli", user="me")
fence = Fence(await store.leases.take("s", new_owner(), 0.0))
mine = store.fenced(fence)
async def write(caller):
    number = 0
    while True:
        try:
            await mine.sessions.append("s", {"role": "user", "text": f"{caller} {number}"})
        except LeaseLost:
            return f"lost at {number}"
        number += 1
        print("wrote", flush=True)
print(*await asyncio.gather(*(write(caller) for caller in range(4))), sep=",", flush=True)
print("renewed" if await store.leases.renew(fence.lease) else "not renewed", flush=True)
wait()
"""
    store = open_file()
    for _ in range(5):
        with process(file, root, code) as owner:
            for _ in range(20):
                assert line(owner) == "wrote"
            owner.send_signal(signal.SIGSTOP)
            lease = await stolen(store, owner)
            mine = store.fenced(Fence(lease))
            before = await store.sessions.messages("s")
            owner.send_signal(signal.SIGCONT)
            last = line(owner)
            while last == "wrote":
                last = line(owner)
            assert last.count("lost at") == 4
            assert line(owner) == "not renewed"
            assert await store.sessions.messages("s") == before
            await mine.sessions.append("s", {"role": "user", "text": "mine"})
            await store.leases.release(lease)


async def stolen(store: SqliteStore, owner: subprocess.Popen[str]) -> Lease:
    """Take the lease of the stopped owner. If it was stopped with SQLite's lock, let it continue for a moment."""
    taking = asyncio.ensure_future(store.leases.take("s", new_owner(), 3600.0))
    while not (await asyncio.wait({taking}, timeout=0.2))[0]:
        owner.send_signal(signal.SIGCONT)
        owner.send_signal(signal.SIGSTOP)
    lease = taking.result()
    assert lease is not None
    return lease


async def test_signals_reach_other_processes(open_file: Open, file: Path, root: Path) -> None:
    code = """
import threading
came = threading.Event()
end = store.signals.listen(lambda topic: (print(topic, flush=True), came.set()))
print("ready", flush=True)
await asyncio.to_thread(came.wait)
end()
print("done", flush=True)
wait()
"""
    store = open_file()
    with process(file, root, code) as first, process(file, root, code) as second:
        assert (line(first), line(second)) == ("ready", "ready")
        await store.signals.send("session caf\u00e9")
        assert [line(first), line(second)] == ["session caf\u00e9"] * 2
        assert [line(first), line(second), line(first), line(second)] == ["done", "done", "ready", "ready"]
        assert list(file.with_name("store.db-signals").iterdir()) == [], "a listener that ended leaves no socket"


async def test_the_socket_of_a_dead_process_is_removed(open_file: Open, file: Path, root: Path) -> None:
    folder = file.with_name("store.db-signals")
    with process(file, root, "end = store.signals.listen(print)\nwait()") as listening:
        assert line(listening) == "ready"
        assert folder.stat().st_mode & 0o777 == 0o700
        assert len(list(folder.iterdir())) == 1
        kill(listening)
    store = open_file()
    await store.signals.send("anybody?")
    assert list(folder.iterdir()) == []


async def test_a_folder_that_others_may_write_is_not_listened_in(open_file: Open, file: Path) -> None:
    store = open_file()
    folder = file.with_name("store.db-signals")
    folder.mkdir()
    folder.chmod(0o777)
    heard: list[str] = []
    end = store.signals.listen(heard.append)
    await store.signals.send("x")
    end()
    assert list(folder.iterdir()) == []
    assert heard == []


async def test_signals_work_below_a_long_path(tmp_path: Path) -> None:
    """The path of a socket has at most about a hundred bytes."""
    store = SqliteStore(tmp_path.joinpath(*["long" * 10] * 4) / "store.db")
    came = threading.Event()
    end = store.signals.listen(lambda topic: came.set())
    await store.signals.send("x")
    assert await asyncio.to_thread(came.wait, 60)
    end()
    store.close()


async def test_a_store_is_not_used_across_a_fork(open_file: Open) -> None:
    store = open_file()
    await store.sessions.list()
    end = store.signals.listen(lambda topic: None)
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12+ warns of a fork with threads, the point here
        child = os.fork()
    if child == 0:
        try:
            store.sessions.list().send(None)
            told = b"used"
        except StoreFailed as error:
            told = str(error).encode()
        store.close()
        os.write(writing, told)
        os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    assert b"opened before this process was forked" in os.read(reading, 1000)
    os.close(reading)
    assert list(await store.sessions.list()) == []
    end()


async def test_late_a_store_may_be_opened_after_a_fork(file: Path) -> None:
    store = SqliteStore(file, late=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        status = 1
        try:
            with contextlib.suppress(StopIteration):
                store.sessions.create("s", platform="cli", user="me").send(None)
            store.close()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    assert await store.sessions.get("s") is not None
    store.close()
