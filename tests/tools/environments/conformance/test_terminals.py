"""Terminals (PTYs) on every backend that opens them (003-30)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pty
import re
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import pytest

from tests.tools.environments.conformance.conftest import DOCUMENTED
from toolcrib import Environment, EnvironmentFailed, ExecRequest, OpensTerminals, TerminalProcess, TerminalSize
from tools.environments.rows import ROWS

SIZE = TerminalSize(100, 30)
LIMIT = 60


class Typist:
    """A terminal, and its output since the last look."""

    def __init__(self, terminal: TerminalProcess) -> None:
        self.terminal, self.printed = terminal, b""

    async def sees(self, wanted: str) -> str:
        """Wait until the pattern is printed, and return its group, or the whole match."""
        async with asyncio.timeout(LIMIT):
            while (found := re.search(wanted.encode(), self.printed)) is None:
                chunk = await self.terminal.read()
                assert chunk is not None, self.printed
                assert chunk[0] == "stdout"
                self.printed += chunk[1]
        self.printed = self.printed[found.end() :]
        return found[found.lastindex or 0].decode()

    async def types(self, text: str) -> None:
        await self.terminal.write(text.encode())

    async def rest(self) -> tuple[bytes, int]:
        """Return what it prints until its end, and its exit code."""
        async with asyncio.timeout(LIMIT):
            while (chunk := await self.terminal.read()) is not None:
                self.printed += chunk[1]
            return self.printed, await self.terminal.wait()


Opens: TypeAlias = Callable[..., contextlib.AbstractAsyncContextManager[Typist]]


@pytest.fixture
def opens(env: Environment, backend: tuple[str, dict[str, Any]]) -> Opens:
    """Return a function that opens a terminal, and kills it in the end."""
    if backend[0] == DOCUMENTED:
        pytest.skip("this backend opens no terminals")

    @asynccontextmanager
    async def opens(command: str, **options: Any) -> AsyncIterator[Typist]:
        assert isinstance(env, OpensTerminals)
        terminal = await env.open_terminal(ExecRequest(command, **options), SIZE)
        try:
            yield Typist(terminal)
        finally:
            await terminal.kill()

    return opens


async def soon(is_so: Callable[[], object]) -> None:
    async with asyncio.timeout(LIMIT):
        while not is_so():
            await asyncio.sleep(0.01)


def test_a_backend_has_the_ability_or_works_without_it(env, backend) -> None:
    assert isinstance(env, OpensTerminals) == (backend[0] != DOCUMENTED)

    async def go() -> None:
        process = await env.spawn(ExecRequest("tty"))
        assert await process.read() == ("stdout", b"not a tty\n")
        assert await process.wait() == 1
        await process.kill()

    asyncio.run(go())


def test_a_command_has_the_shells_state_and_a_terminal_of_its_size(env, opens, folder) -> None:
    async def go() -> None:
        await env.execute(ExecRequest('kept=5; export LINES=9 COLUMNS=9 out=6; hello() { echo "hello $kept"; }; set -- a b'))
        about = 'hello; echo "$# $given $TERM"; env | grep -E "^(out|LINES|COLUMNS)="; pwd; tty; tty </dev/tty; stty size'
        resized = "trap 'stty size; exit 7' WINCH; echo ready; while :; do sleep 0.02; done"
        async with opens(f"{about}; {resized}", env={"given": "it's"}) as one:
            assert await one.sees("(?s)^(.*)/dev/pts") == f"hello 5\r\n2 it's xterm-256color\r\nout=6\r\n{folder}\r\n"
            assert await one.sees(r"^/\d+\r\n(/dev/.*)\r\n30 100\r\nready\r\n") == "/dev/tty"
            await one.terminal.resize(TerminalSize(120, 40))
            assert await one.rest() == (b"40 120\r\n", 7)
        async with opens("cat; pwd; exit 3", cwd="/", stdin=b"first\n\x04") as one:
            assert await one.rest() == (b"first\r\nfirst\r\n/\r\n", 3)
        async with opens("ps -o pid=,sid=,tpgid= $$") as one:
            pid, session, foreground = (await one.sees(r"(\d+ +\d+ +\d+)\r\n")).split()
            assert pid == session == foreground
            assert await one.rest() == (b"", 0)
            await one.terminal.resize(SIZE)
        async with opens("trap 'echo bye' EXIT; (trap '' HUP; sleep 300) & sleep 0.1; echo $TERM", env={"TERM": "vt100"}) as one:
            assert await one.rest() == (b"vt100\r\nbye\r\n", 0)
        with pytest.raises(EnvironmentFailed, match=f"{folder}/none.* cannot be entered|{folder}/none does not exist"):
            await env.open_terminal(ExecRequest("true", cwd=f"{folder}/none"), SIZE)

    asyncio.run(go())


def test_keys_end_commands_and_secrets_are_not_echoed(opens) -> None:
    async def go() -> None:
        # Not one long sleep: a C-c between its fork and its exec reaches bash's handler, so it would sleep on.
        async with opens("trap 'exit 130' INT; echo up; while :; do sleep 0.05; done") as one:
            await one.sees("up\r\n")
            await one.types("\x03")
            assert await one.rest() == (b"^C", 130)
        async with opens("cat; cat; read -sp 'Secret: ' word; echo; echo ${#word}") as one:
            await one.types("h\u00e9\u00e9\x7f\n\x04")
            await one.sees("h\u00e9\r\n")
            one.terminal.close_stdin()
            await one.sees("Secret: ")
            await one.types("hidden\n")
            assert await one.rest() == (b"\r\n6\r\n", 0)

    asyncio.run(go())


def test_a_shell_has_jobs_and_a_repl_its_prompt(opens) -> None:
    async def go() -> None:
        async with opens("PS1='$ ' bash --norc -i") as one:
            assert "job control" not in await one.sees("(?s)^.*\\$ ")
            await one.types("sleep 300\n")
            await asyncio.sleep(0.2)
            await one.types("\x1a")
            await one.sees("Stopped +sleep 300")
            await one.types("bg; kill %1; wait; echo $((6 * 7))\n")
            await one.sees("\n42\r\n")
            await one.types("exit 5\n")
            assert (await one.rest())[1] == 5
        async with opens("python3 -q") as one:
            await one.sees(">>> ")
            await one.types("import time; print(6 * 7); time.sleep(300)\n")
            await one.sees("\n42\r\n")
            await one.types("\x03")
            await one.sees("KeyboardInterrupt\r\n.*>>> ")
            await one.types("exit(3)\n")
            assert (await one.rest())[1] == 3

    asyncio.run(go())


def test_a_program_that_floods_is_held_until_it_is_read(backend, opens, folder) -> None:
    async def go() -> None:
        async with opens("stty -opost; head -c 3000000 /dev/zero; echo over >over") as one:
            ended = asyncio.create_task(one.terminal.wait())
            await asyncio.sleep(0.3)
            assert backend[0] == "ssh" or not (folder / "over").exists()  # sshd itself keeps up to 16 MB
            ended.cancel()
            total = 0
            while (chunk := await one.terminal.read()) is not None:
                total += len(chunk[1])
            assert (total, await one.terminal.wait()) == (3_000_000, 0)
            assert (folder / "over").exists()

    asyncio.run(go())


def test_a_reader_and_a_waiter_do_not_disturb_each_other(opens) -> None:
    async def go() -> None:
        async with opens("cat") as one, asyncio.timeout(LIMIT):
            waiting, reading = asyncio.create_task(one.terminal.wait()), asyncio.create_task(one.terminal.read())
            await asyncio.sleep(0.05)
            await one.types("k")
            assert await reading == ("stdout", b"k")
            assert await one.terminal.read(within=0.05) == ("stdout", b"")
            await one.types("\n\x04")
            assert (await one.rest(), await waiting) == ((b"\r\nk\r\n", 0), 0)

    asyncio.run(go())


def test_nothing_is_left_of_a_killed_a_closed_and_a_cancelled_terminal(env, opens, sleeper, eventually) -> None:
    many = f"bash --norc -ic '{sleeper.command} & {sleeper.command}' & nohup {sleeper.command} & wait"
    stubborn = f"trap '' HUP INT TERM; {sleeper.command} & {sleeper.command}; wait"

    async def go() -> None:
        async with opens(many):
            await soon(lambda: sleeper.count() == 3)
        assert not sleeper.count()
        opening = asyncio.create_task(env.open_terminal(ExecRequest(sleeper.command), SIZE))
        await asyncio.sleep(0.02)
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):  # it may have been open already
            await (await opening).kill()
        await env.open_terminal(ExecRequest(stubborn), SIZE)
        await soon(lambda: sleeper.count() == 2)
        await env.close()

    asyncio.run(go())
    eventually(lambda: not sleeper.count())


OPENS = """
import asyncio, json, sys
from toolcrib import ExecRequest, TerminalSize
from tools.environments import open_environment

async def main(kind, options, command):
    environment = open_environment(kind, **options)
    terminal = await environment.open_terminal(ExecRequest(command), TerminalSize(80, 24))
    said = b""
    while (chunk := await terminal.read()) is not None:
        said += chunk[1]
    open(sys.argv[2], "wb").write(said)
    await environment.close()

asyncio.run(main(*json.loads(sys.argv[1])))
"""
ATTACKS = """
import fcntl, glob, os, termios
own = os.ttyname(0)
print("fds", sorted({os.readlink(each) for each in glob.glob("/proc/self/fd/*") if os.path.exists(each)} - {own}))
print("children hold", [each for each in glob.glob("/proc/[0-9]*/fd/*") if os.path.exists(each)
      and os.path.basename(os.readlink(each)) == "ptmx"])
print("pts", sorted(os.listdir("/dev/pts")), own)
with open("/dev/tty", "w") as tty:
    tty.write("MINE\\n")
    for number in (termios.TIOCSTI, 0x541C):
        try:
            fcntl.ioctl(tty, number, b"TYPED")
        except OSError as error:
            print("refused", error.errno)
with open("/dev/ptmx", "r+b", buffering=0) as other:  # a new terminal, not this one
    print("another", fcntl.ioctl(other, 0x80045430, bytes(4))[0] != int(own.rpartition("/")[2]))
"""


def test_a_command_reaches_neither_toolcribs_terminal_nor_the_master(backend, folder, tmp_path) -> None:
    """toolcrib itself runs in a terminal, as in a chat."""
    kind, given = backend
    if kind not in ROWS:
        pytest.skip("this backend opens no terminals")
    (folder / "attacks.py").write_text(ATTACKS)
    arguments = [json.dumps([kind, given, "python3 attacks.py"]), str(tmp_path / "said")]
    pid, master = pty.fork()
    if pid == 0:
        os.execv(sys.executable, [sys.executable, "-c", OPENS, *arguments])  # noqa: S606 - as above
    shown = b""
    with contextlib.suppress(OSError):  # the end of the terminal
        while data := os.read(master, 4096):
            shown += data
    os.close(master)
    assert (os.waitpid(pid, 0)[1], shown) == (0, b"")
    said = (tmp_path / "said").read_text().replace("\r\n", "\n")
    assert "fds []" in said, said
    assert "MINE" in said
    assert "another True" in said
    if "sandbox" in given:
        assert "children hold []" in said
        assert "pts ['0', 'ptmx'] /dev/pts/0" in said
        assert said.count("refused 1\n") == 2
