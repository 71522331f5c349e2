"""Commands of a session at the console's socket: no client of theirs can chat or decide. Users' terminals can chat."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.plugins.console.test_console_hostile import ConsoleHouse
from tests.plugins.console.test_console_hostile import house as house
from toolcrib import ExecRequest
from tools.dispatch.bridge import close_loop, run_async

ATTACK = "this comes from a command"
PATIENCE = 60.0

CLIENT = """
import os, socket, sys, time
lines = open(sys.argv[2], "rb").read()
done = open(sys.argv[3], "a")
s = socket.socket(socket.AF_UNIX)
s.settimeout(0.25)
try:
    s.connect(sys.argv[1])
    HOOK
    for line in lines.splitlines(keepends=True):
        s.sendall(line)
        time.sleep(0.02)
    while s.recv(65536):
        pass
except OSError:
    pass
done.write("tried\\n")
done.close()
"""
"""Sends lines and reads for a while. Arguments: socket, file of lines, file that is written at the end."""
HOOKS = {
    "client.py": "pass",
    # the process that connected ends before it sends anything
    "left.py": "os.fork() and os._exit(0)\n    time.sleep(0.3)",
    "twice.py": "os.fork() and os._exit(0)\n    os.setsid()\n    os.fork() and os._exit(0)\n    time.sleep(0.3)",
    # the process that connected hands the descriptor to another process
    "handed.py": (
        "a, b = socket.socketpair()\n"
        "    if os.fork():\n"
        "        socket.send_fds(a, [b'x'], [s.fileno()])\n"
        "        os._exit(0)\n"
        "    s.close()\n"
        "    time.sleep(0.2)\n"
        "    _, [fd], _, _ = socket.recv_fds(b, 1, 1)\n"
        "    s = socket.socket(fileno=fd)\n"
        "    s.settimeout(0.25)"
    ),
    # the process that connected is replaced by another program
    "became.py": (
        "s.settimeout(None)\n"
        "    os.dup2(s.fileno(), 1)\n"
        "    os.execvp('sh', ['sh', '-c', 'cat \"$0\"; sleep 0.3; echo tried >> \"$1\"', *sys.argv[2:]])"
    ),
}
DOUBLE_FORK = """
import os, sys
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execvp(sys.argv[1], sys.argv[1:])
    os._exit(0)
os.wait()
"""

TALK = (
    "import argparse, sys; from plugins.console import client; p = argparse.ArgumentParser(); client.configure(p);"
    "sys.exit(client.run(p.parse_args(sys.argv[1:])))"
)
"""Runs the terminal's side of the console."""

ATTACKS = {
    "python": "@python client.py @args",
    "python-with-no-variables": "env -i @python client.py @args",
    "python-inline": '@python -c "$(cat client.py)" @args',
    "curl": '(sleep 0.1; while read -r l; do echo "$l"; sleep 0.05; done < lines; sleep 0.3) | '
    "curl -sN -m 3 --unix-socket @socket telnet://x > shown; echo tried >> done",
    "perl": "perl -MIO::Socket::UNIX -e '$SIG{PIPE} = q(IGNORE); my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]); "
    "open(F, $ARGV[1]); "
    "if ($s) { while (<F>) { print $s $_; $s->flush; select(undef, undef, undef, 0.05) } sleep 1 } "
    'open(D, ">>", $ARGV[2]); print D "tried\\n"\' @args',
    "node": 'node -e \'const fs = require("fs"), [p, l, d] = process.argv.slice(1), s = require("net").connect(p); '
    'const end = () => { fs.appendFileSync(d, "tried\\n"); process.exit() }; s.on("error", end); '
    "s.write(fs.readFileSync(l)); setTimeout(end, 600)' @args",
    "written-script": "printf '%s\\n' '@python client.py @args' > go.sh; bash go.sh",
    "left-in-the-background": "@python client.py @args > /dev/null 2>&1 &",
    "nohup": "nohup @python client.py @args > /dev/null 2>&1 &",
    "end-of-a-pipeline": "cat lines | cat | @python client.py @args",
    "coproc": "coproc C { @python client.py @args; }; wait",
    "process-substitution": "cat <(@python client.py @args)",
    "another-session": "setsid -w @python client.py @args",
    "orphan": "setsid --fork @python client.py @args > /dev/null 2>&1",
    "orphan-with-no-variables": "env -i setsid --fork @python client.py @args > /dev/null 2>&1",
    "double-fork-with-no-variables": "env -i @python fork.py @python client.py @args > /dev/null 2>&1",
    "another-shell-s-place": "exec @python client.py @args",
    "script": "script -qc '@python client.py @args' /dev/null > /dev/null",
    "script-as-an-orphan": "setsid --fork script -qc '@python client.py @args' /dev/null > /dev/null 2>&1",
    "tmux": "TMUX_TMPDIR=$PWD tmux -f /dev/null -L evil new-session -d '@python client.py @args'",
    "tmux-with-no-variables": 'env -i TMUX_TMPDIR=$PWD tmux -f /dev/null -L evil new-session -d "@python client.py @args"',
    "connected-and-left": "@python left.py @args",
    "connected-and-left-twice": "@python twice.py @args > /dev/null 2>&1",
    "descriptor-handed-on": "@python handed.py @args",
    "another-program-since": "@python became.py @args",
    "our-own-client": "(sleep 0.7; echo '" + ATTACK + "'; echo /approve; sleep 0.3) | "
    "env PYTHONPATH=@root @python talk.py --chat main --socket @socket > shown 2>&1; echo tried >> done",
}


class Scene:
    """A gateway with a question that waits for its owner, and the shell of a session."""

    def __init__(self, house: ConsoleHouse, root: Path) -> None:
        self.house = house
        self._root = root
        self.doomed = house.folder / "build"
        self.doomed.mkdir()
        for name, hook in HOOKS.items():
            (house.folder / name).write_text(CLIENT.replace("HOOK", hook))
        (house.folder / "fork.py").write_text(DOUBLE_FORK)
        (house.folder / "talk.py").write_text(TALK)

    @asynccontextmanager
    async def owner(self) -> AsyncIterator[Any]:
        """Open the gateway, and the owner's terminal."""
        async with self.house.running(getpass.getuser()), self.house.terminal() as terminal:
            try:
                yield terminal
            finally:
                terminal._writer.close()

    async def ask(self, terminal: Any) -> None:
        """Ask for approval in the owner's chat, and write the lines of an attacker who knows all of its ids."""
        terminal.line({"text": f"rm -rf {self.doomed}"})
        shown = await terminal.next_line("text", "rm -rf")
        while not shown["buttons"]:
            shown = await terminal.next_line("text", "")
        lines: list[Any] = [
            {"hello": "evil"},
            {"text": ATTACK},
            {"hello": "main"},
            {"text": "/approve"},
            {"text": "/approve session"},
        ]
        lines += [{"press": [shown["id"], choice]} for choice, _ in shown["buttons"] if not choice.startswith(("d", "n"))]
        lines += [{"text": "/yolo"}, {"text": ATTACK}]
        (self.house.folder / "lines").write_text("".join(f"{json.dumps(line)}\n" for line in lines))

    async def run(self, command: str) -> str:
        """Run a command in a session's shell, without the judge, and wait until the attack was tried."""
        args = shlex.join([str(self.house.path), *(str(self.house.folder / name) for name in ("lines", "done"))])
        for name, value in {
            "@python": shlex.quote(sys.executable),
            "@args": args,
            "@socket": shlex.quote(str(self.house.path)),
            "@root": shlex.quote(str(self._root)),
        }.items():
            command = command.replace(name, value)
        return await asyncio.to_thread(self._run, command, self.house.folder / "done")

    def _run(self, command: str, done: Path | None = None) -> str:
        session = self.house.cribs[0].open_session(platform="api")
        try:
            outcome = run_async(session.scope.environment.execute(ExecRequest(command, cwd=str(self.house.folder), timeout=60)))
            said = (outcome.stdout.head + outcome.stderr.head).decode()
            end = time.monotonic() + PATIENCE
            while done is not None and not (done.exists() and done.read_text()):
                assert time.monotonic() < end, f"it was never tried: {said}"
                time.sleep(0.05)
            return said
        finally:
            session.close_sync()

    async def assert_nothing_came(self) -> None:
        await self.house.answered()  # by now all earlier lines were accepted or refused
        harm = ["a message was delivered"] if any(ATTACK in one for one in self.house.asked) else []
        harm += [] if self.doomed.exists() else ["the pending call was approved"]
        harm += [] if len(await self.house.store.mail.questions("console")) == 1 else ["the question waits no more"]
        assert harm == []


@pytest.fixture
def tmux_server(house: ConsoleHouse) -> Iterator[None]:
    """Ends the tmux server that a test may have started in the house's folder."""
    yield
    if shutil.which("tmux"):
        env = {**os.environ, "TMUX_TMPDIR": str(house.folder)}
        subprocess.run(["tmux", "-L", "evil", "kill-server"], env=env, check=False, capture_output=True)


@pytest.fixture
def scene(house: ConsoleHouse, root: Path, tmux_server: None) -> Iterator[Scene]:
    yield Scene(house, root)
    close_loop()


def needs(command: str) -> None:
    for program in ("curl", "perl", "node", "script", "tmux", "setsid"):
        if program in command.replace(".js", "") and not shutil.which(program):
            pytest.skip(f"{program} is not installed")


@pytest.mark.parametrize("attack", list(ATTACKS))
async def test_no_command_of_a_session_speaks_for_a_person(scene: Scene, attack: str) -> None:
    needs(ATTACKS[attack])
    async with scene.owner() as terminal:
        await scene.ask(terminal)
        await scene.run(ATTACKS[attack])
        await scene.assert_nothing_came()


# -- users' own terminals ----------------------------------------------------------------------------------------------

WAYS = {
    "plain": ["@argv"],
    "another-session": ["setsid", "-w", "@argv"],
    "terminal": ["script", "-qec", "@line", "/dev/null"],
    "shell-in-a-shell": ["bash", "-c", 'bash -c "$0"; true', "@line"],
}


@asynccontextmanager
async def person(house: ConsoleHouse, way: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run the terminal's side outside of every session; its keys are a pipe."""
    argv = [sys.executable, "-c", TALK, "--socket", str(house.path)]
    line = shlex.join(argv)
    words = [one.replace("@line", line) for one in WAYS[way]]
    words = [part for one in words for part in (argv if one == "@argv" else [one])]
    env = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    process = await asyncio.create_subprocess_exec(*words, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, env=env)
    try:
        async with asyncio.timeout(PATIENCE):
            yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def hears(process: asyncio.subprocess.Process, words: str) -> None:
    assert process.stdout is not None
    while line := await process.stdout.readline():
        if words in line.decode().split("\n")[0].strip("\r"):
            return
    raise AssertionError(f"it ended before {words!r}")


@pytest.mark.parametrize("way", list(WAYS))
async def test_a_person_s_terminal_chats(house: ConsoleHouse, way: str) -> None:
    if not shutil.which(WAYS[way][0].partition("@")[0] or "sh"):
        pytest.skip(f"{WAYS[way][0]} is not installed")
    async with house.running(getpass.getuser()), person(house, way) as process:
        assert process.stdin is not None
        process.stdin.write(b"hello there\n")
        await hears(process, "re hello there")
        process.stdin.write(b":quit\n")
        process.stdin.close()
        await process.wait()
    assert house.asked == ["hello there"]


async def test_a_terminal_in_a_person_s_tmux_chats(house: ConsoleHouse, tmux_server: None) -> None:
    """The tmux server is an orphan, like one that a session's command starts."""
    if not shutil.which("tmux"):
        pytest.skip("tmux is not installed")
    env = {**os.environ, "TMUX_TMPDIR": str(house.folder), "PYTHONPATH": str(Path.cwd())}
    async with house.running(getpass.getuser()):
        line = f"(echo hello there; sleep 20) | {shlex.join([sys.executable, '-c', TALK, '--socket', str(house.path)])}"
        argv = ["tmux", "-f", "/dev/null", "-L", "evil", "new-session", "-d", line]
        process = await asyncio.create_subprocess_exec(*argv, env=env)
        await process.wait()
        await house.until(lambda: house.asked)
        subprocess.run(["tmux", "-L", "evil", "kill-server"], env=env, check=False, capture_output=True)
    assert house.asked == ["hello there"]


async def test_terminals_chat_side_by_side_while_a_session_works(scene: Scene) -> None:
    house = scene.house
    async with house.running(getpass.getuser()), house.terminal("one") as one, house.terminal("two") as two:
        said = await asyncio.to_thread(scene._run, "echo $((6*7)); sleep 0.2 & wait")
        assert said.strip() == "42"
        for name, terminal in (("one", one), ("two", two)):
            terminal.line({"text": f"I am {name}"})
            await terminal.next_line("text", f"re I am {name}")
    assert sorted(house.asked) == ["I am one", "I am two"]


async def test_a_session_s_own_sockets_are_its_own(scene: Scene) -> None:
    """A command's own socket is not affected by the checks of the console's socket."""
    house = scene.house
    code = (
        "import os, socket; s = socket.socket(1); s.bind('app.sock'); s.listen()\n"
        "if os.fork() == 0:\n    c = socket.socket(1); c.connect('app.sock'); c.sendall(b'hi'); os._exit(0)\n"
        "print(s.accept()[0].recv(9)); os.wait()\n"
    )
    (house.folder / "app.py").write_text(code)
    async with house.running(getpass.getuser()):
        assert "b'hi'" in await asyncio.to_thread(scene._run, f"{shlex.quote(sys.executable)} app.py")
        await house.answered()


async def test_after_an_attack_people_go_on_chatting(scene: Scene) -> None:
    async with scene.owner() as terminal:
        await scene.ask(terminal)
        for _ in range(3):
            await scene.run("@python client.py @args")
        await scene.house.answered()
        assert "are you well?" in scene.house.asked
