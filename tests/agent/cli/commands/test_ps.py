"""``toolcrib ps``: the background processes of sessions that other processes have open (003-30)."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.background.attached import terminal_to_attach
from agent.background.counting import running_elsewhere
from agent.background.reaching import Unreached, socket_of
from agent.background.requests import sessions_with_processes
from agent.background.viewing import obey
from agent.config import load_config, state_dir
from agent.conversation.session import Session
from agent.desk.request import SessionRequest
from agent.policy.confirmation import confirm
from agent.policy.self_protection import BELOW, marks_of
from agent.process import Crib
from tests.forks import Forks
from toolcrib.contract.errors import ToolcribError
from tools.processes.left import session_folders

SERVER = 'python3 -u -c \'import socket, time; s = socket.create_server(("127.0.0.1", 0)); print("up"); time.sleep(600)\''
HOLD = """
import asyncio, sys, time
from agent.api import assemble
from agent.config import load_config
from agent.desk.request import SessionRequest
platform, user = sys.argv[1:] or ("cli", "")
with assemble(config=load_config()) as crib:
    session = asyncio.run(crib.desk.open(SessionRequest(platform=platform, user=user, enabled=["terminal"])))
    for name in ("one", "two"):
        done = session.call("terminal", {"command": f"echo {name}; sleep 600", "background": True, "name": name})
    print(session.id, done.result.status, flush=True)
    if sys.stdin.readline():
        session.call("process", {"action": "signal", "name": "one", "signal": "KILL"})
        session.call("process", {"action": "wait", "name": "one"})
        print("ended", flush=True)
        sys.stdin.readline()
"""
"""A process that holds a session with two background processes, until it is killed."""


@pytest.fixture
def mode(request: pytest.FixtureRequest, plain: Callable[[str], Path], config: Callable[[str], Path]) -> str:
    """The mode of the sandbox: none, or the test's parameter."""
    mode: str = getattr(request, "param", "none")
    if mode != "none":
        config(f"sandbox: {{mode: {mode}}}\nsnapshots: {{enabled: false}}\n")
    return mode


@pytest.fixture
def crib(mode: str, tmp_path: Path) -> Iterator[Crib]:
    with assemble(config=load_config(), project_dir=tmp_path) as crib:
        yield crib


@pytest.fixture
def session(crib: Crib) -> Iterator[Session]:
    session = asyncio.run(crib.desk.open(SessionRequest()))
    yield session
    session.close_sync()


def start(session: Session, name: str, command: str) -> None:
    done = session.call("terminal", {"command": command, "background": True, "name": name})
    assert not done.result.is_error, done.result


def listed(run: Any) -> dict[str, Any]:
    done = run("ps", "--json")
    assert done.code == 0, done.err
    return {one["name"]: one for one in json.loads(done.out)}


def test_they_are_listed_shown_and_ended_from_another_process(run: Any, session: Session) -> None:
    assert run("ps").out == "no background processes; a model starts them with its tool terminal\n"
    start(session, "server", SERVER)
    start(session, "build", "printf '\\033[1mbuilt\\033[0m\\n\\a'; exit 3")
    while not (found := listed(run))["server"]["ports"] or found["build"]["state"] == "running":
        pass
    server = found["server"]
    assert (server["state"], server["command"], server["session"]) == ("running", SERVER, session.id)
    assert server["memory_mb"] > 1
    rows = run("ps").out
    assert re.search(rf"^{session.id[:12]}  server +running +\d+ s ago +{server['ports'][0]} ", rows, re.MULTILINE), rows
    assert re.search(r"  build +exit code 3 ", rows), rows
    assert f"ports:       {server['ports']}\n" in run("ps", "show", "server").out
    assert run("ps", "log", f"{session.id[:6]}/build").out == "built\n^G", "terminal controls are removed or escaped"
    assert json.loads(run("ps", "log", "server", "--json").out)["output"] == "up\n"
    asked = run("ps", "kill", "server")
    assert (asked.code, asked.out) == (2, "")
    assert f"End {session.id[:12]}/server? No user can be asked here: add --yes" in asked.err
    ended = run("ps", "kill", "server", "--yes")
    assert (ended.code, ended.out) == (0, f"ended: {session.id[:12]}/server\n")
    assert listed(run)["server"]["state"] == "exited"
    assert session.running_processes == []
    assert run("ps", "kill", "--all", "--yes").out == "no background process is running\n"
    session.close_sync()
    assert listed(run) == {}


def test_what_a_process_left_running_is_shown_and_ended(run: Any, session: Session) -> None:
    """003-30"""
    start(session, "daemon", "setsid sleep 600 >/dev/null 2>&1 & exit 0")
    while (found := listed(run)["daemon"])["state"] == "running":
        pass
    assert (found["state"], found["exit_code"]) == ("left children", 0)
    assert re.search(r"  daemon +left children ", run("ps").out)
    for action in ({"action": "list"}, {"action": "poll", "name": "daemon"}):
        data = session.call("process", action).result.data
        (row,) = data.get("processes", [data])
        assert row["state"] == "left children"
    assert run("ps", "kill", "daemon", "--yes").code == 0
    assert re.search(r"  daemon +exit code 0 ", run("ps").out)


@pytest.mark.parametrize(("mode", "key"), [("none", "pid"), ("workspace", "pid_inside")], indirect=["mode"])
def test_a_number_in_a_sandbox_is_named_as_such(run: Any, session: Session, key: str) -> None:
    start(session, "one", "exec sleep 600")
    (row,) = session.call("process", {"action": "list"}).result.data["processes"]
    assert row[key] == listed(run)["one"][key]
    assert f"\n{key + ':':<13}{row[key]}\n" in run("ps", "show", "one").out


def test_a_log_is_followed_to_its_end(run: Any, session: Session, tmp_path: Path) -> None:
    start(session, "slow", "seq 300; until [ -e more ]; do sleep 0.05; done; seq 5000; printf end")
    threading.Timer(0.7, (tmp_path / "more").touch).start()
    shown = run("ps", "log", "slow", "-f", "-n", "9000").out
    assert shown == "".join(f"{number}\n" for number in [*range(1, 301), *range(1, 5001)]) + "end"
    assert run("ps", "log", "slow", "-n", "2").out == "5000\nend"


def test_a_name_is_unique_or_has_its_session(run: Any, crib: Crib, session: Session) -> None:
    other = asyncio.run(crib.desk.open(SessionRequest()))
    try:
        for one in (session, other):
            start(one, "same", "sleep 600")
        said = run("ps", "show", "same")
        assert said.code == 1
        assert re.search(
            r"'same' names several processes: [0-9a-f]{12}/same, [0-9a-f]{12}/same\. Use one of these names", said.err
        )
        assert run("ps", "kill", f"{other.id[:12]}/same", "--yes").code == 0
        assert (other.running_processes, session.running_processes) == ([], ["same"])
    finally:
        other.close_sync()
    said = run("ps", "log", "none")
    assert (said.code, said.err) == (1, "toolcrib: no background process is named 'none'. List processes: toolcrib ps\n")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["list", "x"], "list takes no names"),
        (["show"], "give one process: toolcrib ps show SESSION/NAME"),
        (["kill"], "name what to end"),
        (["kill", "x", "--all"], "name what to end"),
        (["show", "x", "-f"], "-f is for log"),
    ],
)
def test_a_wrong_line_is_refused(run: Any, words: list[str], said: str) -> None:
    done = run("ps", *words)
    assert done.code == 2
    assert said in done.err


@pytest.mark.parametrize("words", [[], ["log", "x"], ["kill", "--all", "--yes"]])
def test_inside_a_session_all_are_refused(run: Any, session: Session, monkeypatch: pytest.MonkeyPatch, words: list[str]) -> None:
    start(session, "mine", "sleep 600")
    monkeypatch.setenv(BELOW, marks_of([state_dir()]))
    done = run("ps", *words)
    assert (done.code, done.out) == (2, "")
    assert "`toolcrib ps" in done.err
    assert session.running_processes == ["mine"]


def test_processes_of_other_principals_are_never_shown(run: Any, crib: Crib, session: Session) -> None:
    theirs = asyncio.run(crib.desk.open(SessionRequest(platform="telegram", user="eve", enabled=["terminal"])))
    try:
        asyncio.run(theirs.scope.processes.start("secret", "sleep 600", str(crib.project_dir)))
        assert asyncio.run(sessions_with_processes(crib.store)) == {}
        assert listed(run) == {}
    finally:
        theirs.close_sync()


@pytest.fixture
def killed(crib: Crib, tmp_path: Path, forks: Forks) -> Iterator[str]:
    """The session of a killed toolcrib, with the processes ``one`` and ``two``."""
    holder = forks.popen(code=HOLD, cwd=tmp_path, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    session_id, status = holder.stdout.readline().split()
    assert status == "success"
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    confirm(load_config(profile=""))
    yield session_id
    asyncio.run(crib.desk.open(SessionRequest(resume=session_id))).close_sync()


def test_a_terminal_is_marked_shown_and_ended(run: Any, session: Session) -> None:
    """003-30"""
    command = {"command": "seq 3; exec cat", "background": True, "pty": True, "name": "menu"}
    assert not session.call("terminal", command).result.is_error
    session.call("process", {"action": "wait", "name": "menu", "pattern": "3"})
    assert re.search(r"  menu +running, terminal ", run("ps").out)
    assert listed(run)["menu"]["pty"] is True
    assert run("ps", "log", "menu", "-n", "2").out == "2\n3\n"
    assert run("ps", "log", "menu", "-f").out == "1\n2\n3\n"
    assert run("ps", "kill", "menu", "--yes").code == 0
    assert listed(run)["menu"]["state"] == "exited"


def test_a_terminal_ends_with_a_killed_toolcrib(run: Any, crib: Crib, forks: Forks, tmp_path: Path) -> None:
    """003-30: also a program that ignores the end of its terminal, once the session is resumed."""
    loops = "trap '' HUP; echo $BASHPID >> pids; while :; do sleep 0.1; done"
    held = HOLD.replace('"background": True', '"background": True, "pty": True').replace("echo {name}; sleep 600", loops)
    with forks.popen(code=held, cwd=tmp_path, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True) as holder:
        session_id, status = holder.stdout.readline().split()
        assert status == "success"
        while len(pids := (tmp_path / "pids").read_text().split() if (tmp_path / "pids").exists() else []) < 2:
            pass
        holder.kill()
    confirm(load_config(profile=""))
    assert all(Path(f"/proc/{pid}").exists() for pid in pids)
    resumed = asyncio.run(crib.desk.open(SessionRequest(resume=session_id)))
    try:
        give_up = time.monotonic() + 60
        while any(Path(f"/proc/{pid}").exists() for pid in pids) and time.monotonic() < give_up:
            resumed.call("process", {"action": "list"})
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    finally:
        resumed.close_sync()


@pytest.mark.parametrize(("platform", "user"), [("cli", ""), ("telegram", "eve")])
def test_processes_of_other_toolcribs_count(
    plain: Callable[[str], Path], tmp_path: Path, forks: Forks, platform: str, user: str
) -> None:
    """003-30"""
    plain("terminal: {processes: 3}\n")
    options: dict[str, Any] = {"cwd": tmp_path, "stdout": subprocess.PIPE, "stdin": subprocess.PIPE, "text": True}
    with forks.popen(platform, user, code=HOLD, **options) as holder:
        assert holder.stdout.readline().split()[1:] == ["success"]
        with assemble(config=load_config(), project_dir=tmp_path) as crib:
            mine = asyncio.run(crib.desk.open(SessionRequest(platform=platform, user=user, enabled=["terminal"])))

            def start(name: str) -> str:
                args = {"command": "sleep 600", "background": True, "name": name}
                return str(mine.call("terminal", args).result.message or "started")

            assert start("third") == "started"
            said = start("fourth")
            assert "3 background processes run already (terminal.processes), 2 of them in sessions of other toolcrib" in said
            holder.stdin.write("\n")  # one of them ends; its record stays
            holder.stdin.flush()
            assert holder.stdout.readline() == "ended\n"
            assert start("fourth") == "started"
            assert "run already" in start("fifth")


@pytest.mark.xdist_group("leftovers")
@pytest.mark.parametrize("mode", ["none", "workspace"], indirect=True)
def test_what_a_killed_toolcrib_left_is_unattended_and_each_ends_alone(
    run: Any, crib: Crib, forks: Forks, killed: str, tmp_path: Path
) -> None:
    """003-30"""
    assert {name: one["state"] for name, one in listed(run).items()} == {"one": "unattended", "two": "unattended"}
    assert "unattended: their toolcrib was killed. To continue with them: toolcrib chat --resume SESSION" in run("ps").out
    said = run("ps", "log", "one")
    assert (said.code, f"toolcrib chat --resume {killed[:12]}" in said.err) == (1, True)
    done = forks.run("ps", "kill", "one", "--yes", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, f"ended: {killed[:12]}/one\n"), done.stderr
    assert {name: one["state"] for name, one in listed(run).items()} == {"one": "ended", "two": "unattended"}
    again = run("ps", "kill", "one", "--yes")
    assert (again.code, "one has ended already" in again.err) == (1, True)
    session = asyncio.run(crib.desk.open(SessionRequest(resume=killed)))
    try:
        assert session.running_processes == ["two"]
        polled = session.call("process", {"action": "poll", "name": "one"}).result
        assert (polled.data.get("state"), polled.data.get("output")) == ("exited", "one\n"), polled
        polled = session.call("process", {"action": "poll", "name": "two"}).result
        assert (polled.data["state"], polled.data["output"]) == ("running", "two\n")
    finally:
        session.close_sync()
    assert listed(run) == {}


GONE = "two ended with the toolcrib that had its terminal, and nothing of its screen is kept"


@pytest.mark.xdist_group("leftovers")
@pytest.mark.parametrize("mode", ["none", "workspace"], indirect=True)
def test_a_terminal_of_a_killed_toolcrib_has_ended(run: Any, crib: Crib, forks: Forks, tmp_path: Path) -> None:
    """003-30: the other process is unattended; commands about the terminal name what happened to it."""
    held = HOLD.replace('"background": True,', '"background": True, "pty": name == "two",')
    holder = forks.popen(code=held, cwd=tmp_path, stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True)
    session_id, status = holder.stdout.readline().split()
    assert status == "success"
    holder.send_signal(signal.SIGKILL)
    holder.communicate()
    confirm(load_config(profile=""))
    known = listed(run)
    assert {name: one["state"] for name, one in known.items()} == {"one": "unattended", "two": "ended"}
    assert list(known["two"])[:4] == ["session", "title", "name", "state"]
    assert asyncio.run(running_elsewhere(crib.store, "", 20)) == 1
    said = run("ps", "log", "two")
    assert (said.code, said.err.strip()) == (1, f"toolcrib: {GONE}")
    with pytest.raises(Unreached, match=GONE):
        asyncio.run(socket_of(crib.store, known["two"]))
    session = asyncio.run(crib.desk.open(SessionRequest(resume=session_id)))
    try:
        for action in ("log", "screen"):
            with pytest.raises(ToolcribError, match=GONE):
                asyncio.run(obey(session.scope, f"{action} two", lines=40))
        for name, why in (("two", GONE), ("one", "one is not a terminal"), ("nope", "there is no background process 'nope'")):
            with pytest.raises(ToolcribError, match=why):
                terminal_to_attach(session.scope, name)
        polled = session.call("process", {"action": "poll", "name": "two"}).result
        assert polled.data["note"] == GONE.replace("two", "it", 1)
        assert GONE in str(session.call("process", {"action": "keys", "name": "two", "keys": ["C-c"]}).result.message)
    finally:
        session.close_sync()


@pytest.mark.xdist_group("leftovers")
@pytest.mark.parametrize("mode", ["none", "workspace"], indirect=True)
def test_all_that_a_killed_toolcrib_left_can_be_ended_and_the_logs_stay(
    run: Any, crib: Crib, forks: Forks, killed: str, tmp_path: Path
) -> None:
    """003-30"""
    assert forks.run("ps", "kill", "--all", "--yes", cwd=tmp_path).returncode == 0
    assert {name: one["state"] for name, one in listed(run).items()} == {"one": "ended", "two": "ended"}
    session = asyncio.run(crib.desk.open(SessionRequest(resume=killed)))
    try:
        logs = [session.call("process", {"action": "log", "name": name}).result for name in ("one", "two")]
        assert [log.data["output"] for log in logs] == ["one\n", "two\n"], logs
    finally:
        session.close_sync()


@pytest.mark.xdist_group("leftovers")
@pytest.mark.parametrize("mode", ["none", "workspace"], indirect=True)
def test_what_is_pruned_is_listed_no_more(run: Any, crib: Crib, killed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """003-30"""
    folders = [one for one in session_folders() if one.name.startswith(killed[:24])]
    monkeypatch.setattr("tools.processes.left.session_folders", lambda: iter([one for one in folders if one.exists()]))
    assert set(listed(run)) == {"one", "two"}
    assert run("env", "prune", "--yes").code == 0
    assert listed(run) == {}
    session = asyncio.run(crib.desk.open(SessionRequest(resume=killed)))
    try:
        assert session.running_processes == []
    finally:
        session.close_sync()
