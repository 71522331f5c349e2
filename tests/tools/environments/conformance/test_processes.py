"""Background processes on every backend (003-30): started, watched, typed into, found again and ended, by the same text."""

from __future__ import annotations

import asyncio
import json
import secrets
import shlex
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import docker
import pytest

from tests.tools.environments.conformance.conftest import DOCUMENTED
from toolcrib import Environment, ExecRequest
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ExecutionFailed, NotFound
from tools import alive
from tools.environments.rows import ROWS
from tools.processes.process import Process
from tools.processes.table import ProcessTable

KEPT = 1 << 20


@pytest.fixture
def session() -> str:
    return f"test-{secrets.token_hex(6)}"


@pytest.fixture
def tables(env: Environment, session: str) -> Callable[[], AsyncIterator[ProcessTable]]:
    @asynccontextmanager
    async def tables() -> AsyncIterator[ProcessTable]:
        table = ProcessTable(env, session, log_bytes=KEPT)
        try:
            yield table
        finally:
            await table.close()

    return tables


async def until(table: ProcessTable, name: str, is_so: Callable[[Process], object]) -> Process:
    async with asyncio.timeout(60):
        while not is_so(one := await table.one(name)):
            await asyncio.sleep(0.02)
        return one


async def soon(is_so: Callable[[], Awaitable[object]]) -> None:
    async with asyncio.timeout(60):
        while not await is_so():
            await asyncio.sleep(0.02)


async def printed(table: ProcessTable, process: Process) -> bytes:
    return await table.read(process, 0, process.printed)


def test_it_has_the_state_of_the_shell_and_keeps_its_exit_code(env, tables, folder) -> None:
    async def go() -> None:
        await env.execute(ExecRequest("kept=5; export out=6; hello() { echo \"hello $kept\"; }; alias there='echo an alias'"))
        async with tables() as table:
            await table.start("one", "hello; there; env | grep ^out; pwd; echo wrong >&2; exit 3", str(folder))
            one = await until(table, "one", lambda one: not one.writes)
            assert (one.exit_code, one.state) == (3, "exited")
            assert await printed(table, one) == f"hello 5\nan alias\nout=6\n{folder}\nwrong\n".encode()

    asyncio.run(go())


def test_a_server_is_waited_for_by_its_port_asked_logged_and_ended(env, backend, tables, folder) -> None:
    """003-30"""

    async def go() -> None:
        async with tables() as table:
            await table.start("server", "python3 -u -m http.server 0 --bind 127.0.0.1 & wait", str(folder))
            await soon(lambda: table.ports("server"))
            (port,) = await table.ports("server")
            ask = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}/').status)"
            if backend[0] != DOCUMENTED:  # its shells have no network, not even the loopback
                asked = await env.execute(ExecRequest(f"python3 -c {shlex.quote(ask)}", timeout=60))
                assert asked.stdout.head == b"200\n", asked
                await until(table, "server", lambda one: one.printed > 80)
                assert await table.grep(await table.one("server"), 0, ['"GET / HTTP/1.1" 200'], 1)
            assert len((await table.use("server")).pids) >= 2
            await table.end("server")
            assert not (await table.use("server")).pids
            assert (await until(table, "server", lambda one: not one.writes)).exit_code is not None

    asyncio.run(go())


def test_a_repl_without_a_terminal_is_written_to_line_by_line(env, tables, folder) -> None:
    """003-30"""

    async def go() -> None:
        async with tables() as table:
            await table.start("repl", "python3 -iq 2>/dev/null", str(folder), reads=True)
            await table.write("repl", "answer = 6 * 7\n")
            await table.write("repl", "print(answer)\n")
            one = await until(table, "repl", lambda one: one.printed)
            assert b"42\n" in await printed(table, one)
            await table.close_input("repl")
            assert (await until(table, "repl", lambda one: not one.writes)).exit_code == 0

    asyncio.run(go())


def test_lines_reach_its_input_until_that_is_closed(env, tables, folder) -> None:
    async def go() -> None:
        async with tables() as table:
            await table.start("reader", 'while read -r line; do echo "<$line>"; done; echo over', str(folder), reads=True)
            await table.write("reader", 'it\'s a "line"\n')
            await until(table, "reader", lambda one: one.printed)
            await table.close_input("reader")
            one = await until(table, "reader", lambda one: not one.writes)
            assert await printed(table, one) == b'<it\'s a "line">\nover\n'
            with pytest.raises(ExecutionFailed, match="input of reader is closed"):
                await table.write("reader", "more\n")

    asyncio.run(go())


def test_a_long_log_keeps_its_beginning_and_its_end(env, tables, folder) -> None:
    async def go() -> None:
        async with tables() as table:
            await table.start("flood", "echo first; head -c 8000000 /dev/zero | tr '\\0' x; echo; echo last", str(folder))
            one = await until(table, "flood", lambda one: not one.writes)
            assert one.printed == 8_000_000 + len("first\n\nlast\n")
            assert one.printed - one.missing <= 2 * KEPT
            assert await table.read(one, 0, 8) == b"first\nxx"
            assert await table.read(one, one.printed - 6, one.printed) == b"\nlast\n"

    asyncio.run(go())


def test_what_is_read_ahead_is_what_it_printed_since(env, tables, folder) -> None:
    async def go() -> None:
        async with tables() as table:
            prints = 'while read -r n; do head -c 30000 /dev/zero | tr "\\0" "$n"; printf "%03000d" "$n"; done'
            await table.start("some", prints, str(folder), reads=True)
            for turn in range(1, 9):  # in several files
                begin = table.read_to.get("some", 0)
                await table.write("some", f"{turn}\n")
                await until(table, "some", lambda one, end=begin + 33_000: one.printed == end)
                for first, until_byte in ((begin, begin + 30_000), (begin + 30_000, begin + 33_000)):
                    table.read_to["some"] = first
                    one = await table.one("some", ahead=True)
                    said = await table.read(one, first, until_byte)
                    wanted = f"{turn}".encode() * 30_000 if first == begin else f"{turn:03000d}".encode()
                    assert said == wanted
                table.read_to["some"] = begin + 33_000

    asyncio.run(go())


def test_bytes_that_a_shell_can_not_hold_are_read_ahead_too(env, tables, folder) -> None:
    async def go() -> None:
        async with tables() as table:
            await table.start("bytes", "while read -r line; do printf '%b' \"$line\"; done", str(folder), reads=True)
            printed = b""
            for text, added in (
                ("up", b"up"),
                ("a\\0b", b"a\0b"),
                ("\\xff\\xc3", b"\xff\xc3"),
                ("\\0", b"\0"),
                ("\\n\\n", b"\n\n"),
            ):
                size = len(printed) + len(added)
                await table.write("bytes", f"{text}\n")
                await until(table, "bytes", lambda one, size=size: one.printed == size)
                one = await table.one("bytes", ahead=True)
                assert (one.printed, await table.read(one, len(printed), size)) == (size, added)
                printed += added
                table.read_to["bytes"] = size

    asyncio.run(go())


def test_a_name_is_used_once_until_its_process_is_removed(env, tables, folder) -> None:
    async def go() -> None:
        async with tables() as table:
            await table.start("one", "true", str(folder))
            with pytest.raises(ExecutionFailed, match="one"):
                await table.start("one", "true", str(folder))
            await until(table, "one", lambda one: not one.writes)
            await table.remove("one")
            with pytest.raises(NotFound, match="none"):
                await table.one("one")
            await table.start("one", "true", str(folder))

    asyncio.run(go())


@pytest.mark.parametrize("part", ["sh", "sh -c"], ids=["whole", "without-its-reader"])
def test_a_keeper_that_was_killed_before_it_had_a_process_is_replaced(env, tables, folder, part: str) -> None:
    async def go() -> None:
        async with tables() as table:
            await table.start("one", "true", str(folder))
            await until(table, "one", lambda one: not one.writes)
            kill = ExecRequest(f"pkill -KILL -f '^{part} .*/{table.session}$'")

            async def killed() -> bool:
                return (await env.execute(kill)).exit_code == 0

            await soon(killed)
            await table.start("two", "echo two", str(folder))
            two = await until(table, "two", lambda two: not two.writes)
            assert await printed(table, two) == b"two\n"

    asyncio.run(go())


def test_an_interrupt_reaches_a_program_that_handles_it(env, tables, folder) -> None:
    async def go() -> None:
        async with tables() as table:
            await table.start("loop", "trap 'echo interrupted; exit 7' INT; echo up; while :; do sleep 0.05; done", str(folder))
            await until(table, "loop", lambda one: one.printed)
            await table.signal("loop", "INT")
            one = await until(table, "loop", lambda one: not one.writes)
            assert (one.exit_code, await printed(table, one)) == (7, b"up\ninterrupted\n")

    asyncio.run(go())


def test_a_descendant_that_left_its_session_is_ended_too(env, tables, folder, sleeper, eventually) -> None:
    async def go() -> None:
        async with tables() as table:
            await table.start("one", f"setsid {sleeper.command} & wait", str(folder))
            await soon(lambda: _as_async(sleeper.count()))
            await table.end("one")

    asyncio.run(go())
    eventually(lambda: not sleeper.count())


async def _as_async(value: object) -> object:
    return value


def test_another_table_finds_what_a_lost_one_started(env, session, folder, sleeper, eventually) -> None:
    async def go() -> None:
        first = ProcessTable(env, session)
        await first.start("long", f"echo begun; {sleeper.command}", str(folder))
        await first.start("short", "echo said; exit 4", str(folder))
        await first.release()
        second = ProcessTable(env, session)
        assert set(await second.look()) == {"long", "short"}
        short = await until(second, "short", lambda one: not one.writes)
        assert (short.exit_code, await printed(second, short)) == (4, b"said\n")
        assert (await second.one("long")).runs
        await second.close()

    asyncio.run(go())
    eventually(lambda: not sleeper.count())


STARTS = """
import asyncio, json, sys
from tools.environments import open_environment
from tools.processes.table import ProcessTable

async def main(kind, options, session, command):
    environment = open_environment(kind, **options)
    table = ProcessTable(environment, session)
    for number in range(5):
        await table.start(f"p{number}", f"echo begun; {command}", options["cwd"])
    print(environment.identity, flush=True)
    await asyncio.sleep(600)

asyncio.run(main(*json.loads(sys.argv[1])))
"""


def test_the_processes_of_a_killed_toolcrib_are_found_and_ended(
    backend, opened, session, tmp_path, sleeper, eventually, request
) -> None:
    kind, given = backend
    if kind not in ROWS:
        pytest.skip("the child process does not know this backend")
    kept = {"docker": {"keep": "reuse", "session": session}}
    if "sandbox" in given:
        kept["local"] = {"session": session, "records": str(tmp_path / "records")}
    options = {**given, **kept.get(kind, {})}
    argv = [sys.executable, "-c", STARTS, json.dumps([kind, options, session, sleeper.command])]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        name = process.stdout.readline().strip().removeprefix("docker:")
        if kind == "docker":
            client = docker.DockerClient(base_url=options["host"])
            request.addfinalizer(client.close)
            request.addfinalizer(lambda: client.containers.get(name).remove(force=True))
        process.kill()

    async def go() -> None:
        env = opened(**options)
        table = ProcessTable(env, session)
        found = await table.look()
        assert [found[f"p{number}"].runs for number in range(5)] == [True] * 5
        assert await printed(table, found["p0"]) == b"begun\n"
        await table.end("p0")
        assert not (await table.one("p0")).runs
        await table.close()
        await env.close()

    asyncio.run(go())
    eventually(lambda: not sleeper.count())


def test_nothing_is_left_of_a_closed_session(env, tables, folder: Path) -> None:
    async def go() -> None:
        async with tables() as table:
            await table.start("one", "true", str(folder))
            where = (await env.execute(ExecRequest(f"ls -d /tmp/.toolcrib-processes-*/{table.session}"))).stdout.head
            assert where
        assert not (await env.execute(ExecRequest(f"ls -d {where.decode().strip()}"))).stdout.head

        async def no_keeper() -> bool:
            return (await env.execute(ExecRequest(f"pgrep -f '^sh .*/{table.session}$'"))).exit_code == 1

        await soon(no_keeper)

    asyncio.run(go())


def test_a_descendant_that_hides_is_ended_too(env, tables, folder, sleeper, eventually) -> None:
    async def go() -> None:
        async with tables() as table:
            hidden = f"setsid bash -c 'unset TOOLCRIB_PROCESS; exec env -i {sleeper.command}' >/dev/null 2>&1 & sleep 0.3"
            await table.start("one", hidden, str(folder))
            await until(table, "one", lambda one: not one.writes)
            assert sleeper.count() == 1
            assert len((await table.use("one")).pids) == 1

    asyncio.run(go())
    eventually(lambda: not sleeper.count())


def test_a_descendant_that_hides_is_ended_even_if_its_start_was_not_recorded(env, session, folder, sleeper, eventually) -> None:
    """As after a kill of toolcrib right after the start."""

    async def go() -> None:
        first, second = ProcessTable(env, session), ProcessTable(env, session)
        await first.start("one", f"setsid env -i {sleeper.command} & sleep 0.3", str(folder))
        await until(first, "one", lambda one: one.exit_code is not None)
        await first.release()
        assert sleeper.count() == 1
        await second.look()
        await second.close()

    asyncio.run(go())
    eventually(lambda: not sleeper.count())


def test_a_changed_record_reaches_no_other_process(env, tables, folder) -> None:
    async def go() -> None:
        async with tables() as table:
            await table.start("other", "exec sleep 300", str(folder))
            forge = 'cd "$TOOLCRIB_PROCESS"; cat ../other/pid >pid; cat ../other/pid >holder; echo secret >../x'
            log = "log/000000000000"  # its writer may start later than the command
            link = f"until [ -e {log} ]; do sleep 0.01; done; rm {log}; ln -s ../../x {log}; echo done >../y"
            await table.start("one", f"{forge}; {link}; exec sleep 300", str(folder), reads=True)
            await soon(lambda: table.environment.stat(f"{table.folder}/y"))
            assert await table.read(replace(await table.one("one"), parts=[(0, 100)]), 0, 100) == b""
            await table.close_input("one")
            await table.end("one")
            assert (await table.one("other")).runs

    asyncio.run(go())


def test_a_number_is_called_this_machines_only_if_it_is(env, tables, folder) -> None:
    async def go() -> None:
        async with tables() as table:
            process = await table.start("one", "exec sleep 300", str(folder))
            is_ours = alive.started(process.pid) == str(process.start)
            assert await table.pid_key() == ("pid" if is_ours else "pid_inside")

    asyncio.run(go())


def test_what_a_process_left_running_shows_until_it_ends(env, tables, folder) -> None:
    async def go() -> None:
        async with tables() as table:
            await table.start("one", "setsid sleep 300 >/dev/null 2>&1 & exit 0", str(folder))
            one, use = await table.in_use(await until(table, "one", lambda one: not one.runs))
            assert (one.state, one.exit_code) == ("left children", 0)
            assert use is not None
            assert len(use.pids) == 1
            await table.end("one")
            one, use = await table.in_use(await table.one("one"))
            assert (one.state, use) == ("exited", None)

    asyncio.run(go())
