"""A run that waits for a person: one process parks it, another answers, and only at a terminal."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.config import state_dir
from agent.store.sqlite import SqliteStore
from tests.forks import Forks
from toolcrib.testing import ChatServer
from tools.dispatch.bridge import run_async

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("cautious")]
COMMAND = str(Path(sys.executable).with_name("toolcrib"))
ASKED = r"\? help$"
CLARIFY = ("clarify", {"question": "Which colour?", "choices": ["red", "green"]})


def delete(*names: str) -> Any:
    return ChatServer.calls(*(("terminal", {"command": f"rm -rf {name}"}) for name in names))


def toolcrib(forks: Forks, project: Path, *args: str, **more: Any) -> subprocess.CompletedProcess[str]:
    """Run the program as a script would, without a terminal."""
    return forks.run(*args, cwd=project, **more)


def park(forks: Forks, project: Path, server: ChatServer, *more: str) -> list[str]:
    """Start a run and wait until it is parked; return the ids of its tickets."""
    for name in ("build", "dist"):
        (project / name).mkdir(exist_ok=True)
    done = toolcrib(forks, project, "run", "tidy up", "--park", "--json", "--base-url", server.base_url, "--model", "m", *more)
    assert done.returncode == 7, done
    events = [json.loads(line) for line in done.stdout.splitlines()]
    assert [event["type"] for event in events[-2:]] == ["run_parked", "run_finished"]
    assert (events[-1]["stopped"], events[-1]["exit_code"]) == ("parked", 7)
    assert all(ticket["message"] and ticket["call_id"] for ticket in events[-2]["tickets"])
    deletes = [ticket for ticket in events[-2]["tickets"] if "rm -rf" in ticket["message"]]
    assert all(ticket["prompt"].startswith("terminal wants to run:\n  │ rm -rf ") for ticket in deletes)
    return [ticket["id"] for ticket in events[-2]["tickets"]]


def test_what_one_process_parked_is_answered_in_another_and_goes_on(forks: Forks, sit_down: Any, project: Path) -> None:
    """002-24, 003-25: the call waits, runs once it is approved, and the model receives its result."""
    with ChatServer(delete("build"), ChatServer.text("All tidy.")) as server:
        (ticket,) = park(forks, project, server)
        assert (project / "build").exists()
        listed = toolcrib(forks, project, "approvals").stdout
        assert ticket[:8] in listed
        assert "cli" in listed
        person = sit_down("approvals", "answer", ticket[:8], "--continue")
        assert "│ rm -rf build" in person.sees(ASKED)
        person.types("o")  # too early: the user may have typed it before the question appeared
        person.chooses("o")
        person.sees("All tidy.")
        assert person.waits_for_the_end() == 0
        assert not (project / "build").exists()
        assert [message["role"] for message in server.requests[-1]["messages"]] == ["system", "user", "assistant", "tool"]
        late = toolcrib(forks, project, "approvals", "answer", ticket)
        assert late.returncode == 1
        assert "was already answered: approved by terminal on " in late.stderr


def test_the_calls_are_run_and_the_rest_is_left(forks: Forks, sit_down: Any, project: Path) -> None:
    """002-31: an answer counts once; a denied sibling gets its reason, and the model receives both results, in order."""
    with ChatServer(delete("build", "dist"), ChatServer.text("I see.")) as server:
        one, two = park(forks, project, server)
        person = sit_down("approvals", "answer", one, "--scope", "once")
        assert "approved: this call only" in person.sees("approvals answer")
        assert person.waits_for_the_end() == 0
        assert [(project / name).exists() for name in ("build", "dist")] == [False, True]
        assert len(server.requests) == 1, "the model is not asked before all is settled"
        denied = sit_down("approvals", "answer", two, "--deny", "not on a Friday", "--continue")
        denied.sees("I see.")
        assert denied.waits_for_the_end() == 0
        assert (project / "dist").exists()
        first, second = [message["content"] for message in server.requests[-1]["messages"][-2:]]
        assert '"exit_code": 0' in first
        assert "not on a Friday" in second


def test_a_living_host_of_the_session_goes_on(forks: Forks, sit_down: Any, project: Path) -> None:
    """002-24: if another process waits for the answer, that process runs the call."""
    with ChatServer(delete("build")) as server:
        (ticket,) = park(forks, project, server)
        store = SqliteStore(state_dir() / "toolcrib.db")
        try:
            (run,) = run_async(store.runs.parked())
            host = run_async(store.leases.take("host:a", "another process", 600.0))
            run_async(store.sessions.update(run.session_id, host="host:a"))
            person = sit_down("approvals", "answer", ticket, "--scope", "once", "--continue")
            person.sees("continues")
            assert person.waits_for_the_end() == 0
            assert (project / "build").exists()
            record = run_async(store.tickets.get(ticket))
            assert (record is not None, record and record.state) == (True, "approved")
            assert host is not None
            run_async(store.leases.release(host))
        finally:
            store.close()


def test_nobody_answers_without_a_terminal(forks: Forks, project: Path) -> None:
    """003-28: a pipe can't answer either, whatever the command line contains."""
    with ChatServer(delete("build")) as server:
        (ticket,) = park(forks, project, server)
        for words in ([], ["--scope", "once"], ["--deny", "no"]):
            done = toolcrib(forks, project, "approvals", "answer", ticket, *words, stdin="o\n")
            assert done.returncode == 2
            assert "needs a user at a terminal, and there is none here" in done.stderr
        assert toolcrib(forks, project, "approvals", "answer", "zz").returncode == 2
        assert len(json.loads(toolcrib(forks, project, "approvals", "pending", "--json").stdout)) == 1
        assert (project / "build").exists()


def test_who_leaves_the_prompt_answers_nothing(forks: Forks, sit_down: Any, project: Path) -> None:
    with ChatServer(delete("build")) as server:
        (ticket,) = park(forks, project, server)
        for key, code in (("c", 130), ("d", 1)):
            person = sit_down("approvals", "answer", ticket)
            person.sees(ASKED)
            person.presses(key)
            assert "the ticket is still pending" in person.sees("not answered")
            assert person.waits_for_the_end() == code
        wrong = sit_down("approvals", "answer", ticket, "--scope", "forever")
        wrong.sees("can be answered with --scope once, ")
        assert wrong.waits_for_the_end() == 2
        assert (project / "build").exists()


def test_a_question_is_answered_with_a_choice(forks: Forks, sit_down: Any, project: Path) -> None:
    """003-25: use-as-result: the model receives the answer as the result."""
    with ChatServer(ChatServer.calls(CLARIFY), ChatServer.text("Green it is.")) as server:
        (ticket,) = park(forks, project, server)
        person = sit_down("approvals", "answer", ticket, "--continue")
        person.sees(r"2\. green\n.*your own words >$")
        person.types("2")
        person.sees("Green it is.")
        assert person.waits_for_the_end() == 0
        assert "green" in server.requests[-1]["messages"][-1]["content"]


def test_the_chat_asks_what_waits_when_the_session_is_opened(forks: Forks, sit_down: Any, project: Path) -> None:
    """002-24"""
    with ChatServer(delete("build"), ChatServer.text("All tidy.")) as server:
        park(forks, project, server)
        person = sit_down("chat", "--continue")
        person.sees(ASKED)
        person.chooses("o")
        person.sees("All tidy.")
        person.at_prompt()
        assert not (project / "build").exists()


def test_a_task_waits_behind_a_parked_run(forks: Forks, sit_down: Any, project: Path) -> None:
    """A pipe, or a run that can't ask, does not answer for the user: no call is denied, and nothing is lost."""
    with ChatServer(delete("build"), ChatServer.text("All tidy."), ChatServer.text("And more.")) as server:
        (ticket,) = park(forks, project, server)
        done = toolcrib(forks, project, "run", "and more", "--continue")
        assert done.returncode == 7
        assert f"toolcrib approvals answer {ticket}" in done.stderr
        assert "your task waits in the session until that run has ended" in done.stderr
        assert toolcrib(forks, project, "run", "--continue").returncode == 7
        piped = toolcrib(forks, project, "chat", "--continue", stdin="hello\n")
        assert piped.returncode == 1
        assert "a call waits for an answer" in piped.stderr
        assert (project / "build").exists()
        person = sit_down("approvals", "answer", ticket, "--scope", "once")
        assert person.waits_for_the_end() == 0
        server.responses.append(ChatServer.text("Hello."))
        done = toolcrib(forks, project, "run", "--continue")
        assert (done.returncode, done.stdout) == (0, "All tidy.\nAnd more.\nHello.\n")


def test_what_nobody_answered_in_time_is_not_run(forks: Forks, project: Path) -> None:
    """002-24: the ticket expires, an answer is too late, and the model is informed."""
    (project / "config.yaml").write_text("approval: {mode: cautious, park_timeout: 0.2}\n")
    with ChatServer(delete("build"), ChatServer.text("Too late.")) as server:
        (ticket,) = park(forks, project, server, "--config", str(project / "config.yaml"))
        while json.loads(toolcrib(forks, project, "approvals", "pending", "--json").stdout):
            continue
        late = toolcrib(forks, project, "approvals", "answer", ticket)
        assert late.returncode == 1
        assert " expired on " in late.stderr
        done = toolcrib(forks, project, "run", "--continue")
        assert done.stdout == "Too late.\n"
        assert (project / "build").exists()
        assert "not answered in time" in server.requests[-1]["messages"][-1]["content"]


def test_an_unfinished_run_of_a_killed_process_is_continued(forks: Forks, project: Path) -> None:
    """002-24: a call that may have run is not run again, and the run ends with an answer."""
    ready = project / "ready"
    command = {"command": f"echo x >> {ready}; sleep 600"}
    with ChatServer(ChatServer.calls(("terminal", command)), ChatServer.text("It was interrupted.")) as server:
        argv = [COMMAND, "run", "go", "--base-url", server.base_url, "--model", "m"]
        with subprocess.Popen(argv, cwd=project, stdin=subprocess.DEVNULL, start_new_session=True) as process:
            while not ready.exists() and process.poll() is None:
                continue
            os.kill(process.pid, signal.SIGKILL)
        done = toolcrib(forks, project, "run", "--continue")
        assert (done.returncode, done.stdout) == (0, "It was interrupted.\n")
        assert ready.read_text() == "x\n"
        assert "may have run" in server.requests[-1]["messages"][-1]["content"]
        assert toolcrib(forks, project, "run", "--continue").returncode == 8, "there is no run left to continue"
    without_engine = {**os.environ, "DOCKER_HOST": "unix:///nowhere"}  # docker containers of this machine do not matter here
    assert toolcrib(forks, project, "env", "prune", "--yes", env=without_engine).returncode == 0


def test_a_delegate_that_was_answered_goes_on_within_its_parent(forks: Forks, sit_down: Any, project: Path) -> None:
    """With --continue the parent runs the delegate: alone, it would have another prompt and tools that its parent lacks."""
    order = ChatServer.calls(("delegate_task", {"task": "tidy", "tools": ["terminal"]}))
    with ChatServer(order, delete("build", "dist"), ChatServer.text("I did."), ChatServer.text("All tidy.")) as server:
        park(forks, project, server)
        found = json.loads(toolcrib(forks, project, "approvals", "pending", "--json").stdout)
        own, standing = sorted(found, key=lambda one: "relays" in one["parameters"])
        person = sit_down("approvals", "answer", own["id"], "--scope", "once", "--continue")
        person.sees(r"the run is parked: 1 call waits")
        assert person.waits_for_the_end() == 7
        person = sit_down("approvals", "answer", standing["id"], "--scope", "once", "--continue")
        person.sees("All tidy.")
        assert person.waits_for_the_end() == 0
        first, last = server.requests[1], server.requests[2]
        assert first["messages"][0] == last["messages"][0], "the delegate's own prompt"
        assert [one["function"]["name"] for one in last["tools"]] == ["terminal"]
    assert not (project / "build").exists()
    assert not (project / "dist").exists()
