"""Programs that need a terminal, as a model uses them through ``terminal`` and ``process``, on every backend (003-30)."""

from __future__ import annotations

import asyncio
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.tools.conftest import Desk
from tests.tools.environments.conformance.conftest import DOCUMENTED
from toolcrib import Environment, RunIdentity, WritesInput
from tools.dispatch.scope import CallScope

VIM = Path(os.path.realpath(shutil.which("vim") or "vim")).name
"""The program itself: a container has no /etc/alternatives."""


@pytest.fixture
def session(env: Environment) -> Iterator[Desk]:
    scope = CallScope(identity=RunIdentity(f"s-{secrets.token_hex(6)}", user=secrets.token_hex(6)), open_environment=lambda: env)
    yield Desk(scope)
    asyncio.run(scope.close())


@pytest.fixture
def desk(session: Desk, backend: tuple[str, dict[str, Any]]) -> Desk:
    if backend[0] == DOCUMENTED:
        pytest.skip("this backend opens no terminals")
    return session


def test_a_backend_without_terminals_says_so(session: Desk, backend: tuple[str, dict[str, Any]]) -> None:
    """003-30"""
    if backend[0] != DOCUMENTED:
        pytest.skip("this backend opens terminals")
    assert "opens no terminals; leave out pty" in session.terminal("ls")
    assert session.gate.effects == [], "no user is asked about it"


def test_lines_keys_and_an_editor(desk: Desk, folder: Path) -> None:
    """003-30: python3's REPL answers a line, and vim edits a file."""
    started = desk.terminal("python3 -q", name="repl")
    assert (started["process"], started["state"]) == ("repl", "running")
    assert started["screen"] == ">>> ‸"
    assert desk.process("write", "repl", text="print(6 * 7)")["screen"] == ">>> print(6 * 7)\n42\n>>> ‸"
    assert desk.process("close_input", "repl")["process"] == "repl"
    assert desk.process("wait", "repl")["exit_code"] == 0

    desk.terminal(f"{VIM} -u NONE -N notes.txt", background=True, name="editor")
    desk.sees("editor", "New")
    desk.keys("editor", "i", "first", "Enter", "second", "Escape")
    desk.keys("editor", ":wq", "Enter")
    assert desk.process("wait", "editor")["exit_code"] == 0
    assert (folder / "notes.txt").read_text() == "first\nsecond\n"


def test_a_program_that_reads_is_at_a_prompt_and_one_that_works_is_not(desk: Desk) -> None:
    """003-30"""
    desk.terminal("read -rp '(name) ' it; printf 'working (1)'; sleep 100", background=True, name="job")
    assert desk.process("wait", "job", prompt=True)["came"] == "prompt"
    desk.process("write", "job", text="it")
    assert desk.process("wait", "job", prompt=True, timeout=1.2)["came"] == "timeout"
    desk.process("signal", "job", signal="KILL")


def test_a_pager_a_monitor_and_a_menu(desk: Desk, folder: Path) -> None:
    """003-30: less, top and whiptail."""
    (folder / "long.txt").write_text("".join(f"line {number}\n" for number in range(1, 200)))
    desk.terminal("less long.txt", background=True, name="pager")
    assert "line 29" in desk.sees("pager", "long.txt")
    desk.keys("pager", "G")
    assert "line 199" in desk.sees("pager", "END")
    desk.keys("pager", "!")
    desk.sees("pager", "not available")  # a pager in a terminal starts no program
    desk.keys("pager", "Enter", "q")
    assert desk.process("wait", "pager")["exit_code"] == 0

    desk.terminal("top -d 100", background=True, name="monitor")
    assert "load average" in desk.sees("monitor", "PID")
    desk.process("resize", "monitor", columns=60, rows=10)
    assert len(desk.process("screen", "monitor")["screen"].split("\n")) <= 10
    desk.keys("monitor", "q")
    assert desk.process("wait", "monitor")["exit_code"] == 0

    desk.terminal("whiptail --menu Fruit 15 40 3 a Apple b Banana c Cherry 2>choice", background=True, name="menu")
    desk.sees("menu", "Cherry")
    desk.keys("menu", "Down", "Enter")
    assert desk.process("wait", "menu")["exit_code"] == 0
    assert (folder / "choice").read_text() == "b"


def test_hunks_are_staged_and_a_password_is_never_typed(desk: Desk, folder: Path) -> None:
    """003-30: git add -p, and read -s."""
    git = "git -c user.name=a -c user.email=a@example.org"
    made = desk.call(
        "terminal", command=f"git init -q && echo one > file && git add file && {git} commit -qm one && echo two > file"
    )
    assert made["exit_code"] == 0, made
    desk.terminal("git add -p", background=True, name="stage")
    desk.sees("stage", "Stage this hunk")
    desk.keys("stage", "y", "Enter")
    assert desk.process("wait", "stage")["exit_code"] == 0
    assert desk.call("terminal", command="git diff --cached --name-only")["output"] == "file\n"

    desk.terminal('read -rsp "Enter it: " secret; echo; echo "<$secret>"', background=True, name="login")
    desk.sees("login", "Enter it")
    for refused in (
        desk.process("write", "login", text="hunter2"),
        desk.keys("login", "hunter2", "Enter"),
        desk.keys("login", "Up"),
    ):
        assert "login asks for a password, which only a user may type" in refused
    assert not any(isinstance(effect, WritesInput) for effect in desk.gate.effects), "no user is asked about it"
    desk.keys("login", "C-c")
    assert desk.process("wait", "login")["exit_code"] == 130
    assert "hunter2" not in desk.process("log", "login")["output"]


def test_a_database_and_another_host(desk: Desk, backend: tuple[str, dict[str, Any]], request: pytest.FixtureRequest) -> None:
    """003-30: psql, and ssh, on this machine and within ssh."""
    kind, options = backend
    if kind not in ("local", "ssh") or "sandbox" in options:
        pytest.skip("a sandbox and a container do not reach this machine's servers")
    if shutil.which("psql") is None or shutil.which("ssh") is None:
        pytest.skip("psql or ssh is missing")
    assert "=#" in desk.terminal(f"psql -q {request.getfixturevalue('postgres').url}", name="database")["screen"]
    desk.process("write", "database", text="select 6 * 7 as answer;")
    desk.sees("database", "1 row")
    desk.process("write", "database", text="\\q")
    assert desk.process("wait", "database")["exit_code"] == 0

    server = request.getfixturevalue("root_sshd")
    keys = f"-i {server.folder}/id -o UserKnownHostsFile={server.folder}/known_hosts -o BatchMode=yes -F none"
    desk.terminal(f"ssh -tp {server.port} {keys} {server.user}@{server.host} 'exec sh'", name="host")
    desk.process("write", "host", text="echo $((6 * 7)) $SSH_TTY")
    desk.sees("host", "42 /dev/pts/")
    desk.process("close_input", "host")
    assert desk.process("wait", "host")["exit_code"] == 0


def test_nothing_is_left_of_it(desk: Desk, sleeper: Any, eventually: Any) -> None:
    desk.terminal(f"trap '' HUP INT; {sleeper.command} & {sleeper.command} & wait", background=True, name="stubborn")
    desk.terminal(sleeper.command, background=True, name="other")
    eventually(lambda: sleeper.count() == 3)
    assert desk.process("signal", "other", signal="TERM")["signalled"]
    assert desk.process("wait", "other")["came"] == "exit"
    eventually(lambda: sleeper.count() == 2)
    assert desk.process("remove", "stubborn")["removed"]
    eventually(lambda: not sleeper.count())
