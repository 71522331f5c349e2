"""A model in the installed program, with a server that answers over real HTTP."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.forks import Forks
from toolcrib.testing import ChatServer, Response

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("plain")]
COMMAND = str(Path(sys.executable).with_name("toolcrib"))
WRONG = "def add(a, b):\n    return a - b\n"
TEST = "from calc import add\nassert add(2, 3) == 5, add(2, 3)\nprint('the test passes')\n"


def task() -> list[Response]:
    """Three turns: read, fix and test (in pieces that end anywhere), and the answer."""
    mend = {"path": "calc.py", "old": "a - b", "new": "a + b"}
    return [
        ChatServer.calls(("read_file", {"path": "calc.py"}), text="I look first.", ids=["look"], pieces=37),
        ChatServer.calls(("patch", mend), ("terminal", {"command": "python3 test_calc.py"}), ids=["mend", "test"], pieces=11),
        ChatServer.text("I fixed `add`; **the test passes**.", pieces=23),
    ]


@pytest.fixture
def calc(project: Path) -> Path:
    (project / "test_calc.py").write_text(TEST)
    file = project / "calc.py"
    file.write_text(WRONG)
    return file


def test_a_chat_begins_with_the_message_of_its_command_line(sit_down: Any, server: ChatServer) -> None:
    server.responses = [ChatServer.text("Hello Ada."), ChatServer.text("Still Ada.")]
    person = sit_down("chat", "I am Ada", "--base-url", server.base_url, "--model", "test-model")
    assert "> I am Ada" in person.sees("Hello Ada[.]")
    person.at_prompt()
    person.types("who am I?")
    person.sees("Still Ada[.]")


def test_at_the_end_of_its_turns_it_asks_whether_to_go_on(sit_down: Any, server: ChatServer) -> None:
    look = ("terminal", {"command": "echo hi"})
    server.responses = [*[ChatServer.calls(look, ids=[f"c{n}"]) for n in range(2)], ChatServer.text("It says hi.")]
    person = sit_down("chat", "go", "--max-turns", "1", "--base-url", server.base_url, "--model", "test-model")
    person.sees("The model has used 1 turn[.] Continue for up to 1 more[?] Type yes or no:")
    person.types("yes")
    person.sees("The model has used 2 turns[.] Continue for up to 1 more[?] Type yes or no:")
    person.types("no")
    person.sees("It says hi[.]")
    person.at_prompt()
    assert "maximum number of turns" in server.requests[2]["messages"][-1]["content"]


def test_run_does_a_task_of_three_turns(forks: Forks, server: ChatServer, calc: Path, project: Path) -> None:
    """004-1, 004-4, 004-5, 004-11: the file is really edited, and its test really runs."""
    server.responses += task()
    words = ["mend calc.py", "--base-url", server.base_url, "--model", "test-model", "--json"]
    done = forks.run("run", *words, cwd=project)
    assert done.returncode == 0, done.stderr
    assert calc.read_text() == WRONG.replace("-", "+")
    told = [json.loads(line) for line in done.stdout.splitlines()]
    finished = {one["id"]: one for one in told if one["type"] == "tool_finished"}
    assert list(finished) == ["look", "mend", "test"]
    assert "the test passes" in finished["test"]["result"]["output"]
    assert told[-1]["turns"] == 3
    results = [message for message in server.requests[2]["messages"] if message["role"] == "tool"]
    assert [message["tool_call_id"] for message in results] == ["look", "mend", "test"]
    assert done.stderr == ""


def test_the_chat_does_a_task_of_three_turns(talking: Any, server: ChatServer, calc: Path) -> None:
    """004-1, 004-3, 004-4: the same task, in a terminal."""
    server.responses += task()
    talking.types("mend calc.py")
    talking.sees(r"^I fixed add; the test passes\.$")
    screen = talking.at_prompt()
    for line in (
        "I look first.",
        "read_file reads calc.py  ",
        "patch edits calc.py  ",
        "terminal runs python3 test_calc.py  ",
        "│   2 -     return a - b",
        "│   2 +     return a + b",
        "│   the test passes",
    ):
        assert line in screen
    assert len(re.findall(r"  ok  #\d\n", screen)) == 3
    assert screen.count("python3 test_calc.py") == 1  # the live line is removed
    assert calc.read_text() == WRONG.replace("-", "+")


def test_a_model_asks_and_the_person_agrees(talking: Any, server: ChatServer, project: Path) -> None:
    """003-25"""
    (project / "build").mkdir()
    server.responses += [ChatServer.calls(("terminal", {"command": "rm -rf build"})), ChatServer.text("It is gone.")]
    talking.types("tidy up")
    screen = talking.sees(r"\? help$")
    assert "│ rm -rf build" in screen
    talking.types("o")
    talking.sees(r"^It is gone\.$")
    talking.at_prompt()
    assert not (project / "build").exists()


def test_a_question_of_the_models(talking: Any, server: ChatServer) -> None:
    server.responses += [
        ChatServer.calls(("clarify", {"question": "Which colour?", "choices": ["red", "green"]})),
        ChatServer.text("Green it is."),
    ]
    talking.types("paint it")
    talking.sees(r"or your own words >$")
    talking.types("2")
    talking.sees(r"^Green it is\.$")
    assert "green" in server.requests[1]["messages"][-1]["content"]


FIRST_EVENT = ChatServer.text("slow").body.index(b"\n\n") + 2
FAULTS = [
    (ChatServer.body({"error": {"message": "out of cheese"}}, 500), "Overloaded", "out of cheese"),
    (
        ChatServer.body({"error": {"message": "slow down"}}, 429, headers={"Retry-After": "900"}),
        "RateLimited",
        "Wait 15 min, as the server asks",
    ),
    (ChatServer.body({"error": {"message": "bad key"}}, 401), "AuthFailed", "--api-key-env"),
    (
        ChatServer.body({"error": {"code": "context_length_exceeded"}}, 400),
        ".*reports that the conversation is too long",
        "/new       an empty session",
    ),
    (Response(b"\x00\x01 garbage\n\n"), "StreamBroken", "not an event stream"),
    (ChatServer.text("cut off in the", cut=160), "StreamBroken", "the model has the part of its reply"),
    (ChatServer.text("slow", pieces=FIRST_EVENT, pause=60), "StreamBroken", "sent nothing for"),
]


def test_whatever_the_server_does_is_told_and_the_session_kept(sit_down: Any, plain: Any) -> None:
    plain("retry: {attempts: 1}\nmodel: {between_bytes_timeout: 0.3}\n")
    with ChatServer() as server:
        port = server.port
        person = sit_down("chat", "--base-url", server.base_url, "--model", "test-model")
        person.at_prompt()
        for number, (response, kind, words) in enumerate(FAULTS):
            server.responses += [response, ChatServer.text(f"Answer {number}.")]
            person.types(f"line {number}")
            person.sees(rf"✗ {kind}")
            screen = person.at_prompt()
            assert words in screen.replace("\n", "")
            assert "The session continues" in screen
            person.types("again")
            person.sees(rf"^Answer {number}\.$")
            person.at_prompt()
            person.clears()
    person.types("is anybody there?")
    person.sees(r"✗ ConnectionFailed: ")
    person.at_prompt()
    with ChatServer(ChatServer.text("I am back."), port=port) as server:
        person.types("again")
        person.sees(r"^I am back\.$")
        said = [message["content"] for message in server.requests[0]["messages"] if message["role"] == "user"]
    assert said[:2] == ["line 0", "again"]
    assert said[-1] == "again"


def test_a_short_wait_is_told_and_waited_for(talking: Any, server: ChatServer) -> None:
    busy = ChatServer.body({"error": {"message": "slow down"}}, 429, headers={"Retry-After": "0.2"})
    server.responses += [busy, ChatServer.text("Now then.")]
    talking.types("hello")
    talking.sees(r"^Now then\.$")
    screen = talking.at_prompt()
    assert "slow down" in screen
    assert "retrying in 0.2 s" in screen


def test_ctrl_c_interrupts_the_answer_and_keeps_the_session(talking: Any, server: ChatServer) -> None:
    endless = ChatServer.text("one line\n\n" * 200, pieces=400, pause=0.05)
    server.responses += [endless, ChatServer.text("Still here.")]
    talking.types("talk")
    talking.sees(r"^one line$")
    talking.presses("c")
    talking.sees(r"interrupted; the session is kept")
    talking.at_prompt()
    talking.types("are you?")
    talking.sees(r"^Still here\.$")


def test_ctrl_c_interrupts_a_wait_for_the_server(talking: Any, server: ChatServer) -> None:
    busy = ChatServer.body({"error": {"message": "slow down"}}, 429, headers={"Retry-After": "50"})
    server.responses += [busy, ChatServer.text("Now then.")]
    talking.types("hello")
    talking.sees(r"retrying in 50\.0 s")
    talking.presses("c")
    talking.sees(r"interrupted; the session is kept")
    talking.at_prompt()
    talking.types("and now?")
    talking.sees(r"^Now then\.$")


def test_ctrl_c_interrupts_the_models_call(talking: Any, server: ChatServer, project: Path) -> None:
    server.responses += [
        ChatServer.calls(("terminal", {"command": "touch started; sleep 100"})),
        ChatServer.text("I stopped."),
    ]
    talking.types("wait")
    while not (project / "started").exists():
        talking.looks()
    talking.presses("c")
    talking.sees(r"sleep 100 .* interrupted")
    talking.at_prompt()
    talking.types("what happened?")
    talking.sees(r"^I stopped\.$")
    roles = [message["role"] for message in server.requests[1]["messages"]]
    assert roles == ["system", "user", "assistant", "tool", "user"]


def test_a_killed_chat_goes_on(sit_down: Any, server: ChatServer, project: Path) -> None:
    """X-1: every call has a result, even a call whose process was killed."""
    where = ("--base-url", server.base_url, "--model", "test-model")
    server.responses += [
        ChatServer.text("Hello Ada."),
        ChatServer.calls(("terminal", {"command": "echo $$ > pid; exec sleep 100"})),
    ]
    person = sit_down("chat", *where, TMPDIR=str(project))  # a killed process can't delete its temporary folder
    person.at_prompt()
    person.types("I am Ada")
    person.sees(r"^Hello Ada\.$")
    person.at_prompt()
    person.types("wait")
    pid = project / "pid"
    while not (pid.exists() and pid.read_text().strip()):
        person.looks()
    person.process.kill(signal.SIGKILL)
    while person.looks():
        continue
    _gone(int(pid.read_text()))
    server.responses += [ChatServer.text("You are Ada.")]
    again = sit_down("chat", *where, "--continue")
    screen = again.at_prompt().replace("still be\nrunning", "still be running")
    call = "💻 terminal runs echo $$ > pid; exec sleep 100  interrupted; it may have run, or may still be running"
    for line in ("> I am Ada", "Hello Ada.", "> wait", call):
        assert line in screen
    again.types("who am I?")
    again.sees(r"^You are Ada\.$")
    messages = server.requests[-1]["messages"]
    assert [message["role"] for message in messages] == ["system", "user", "assistant", "user", "assistant", "tool", "user"]


def _gone(pid: int) -> None:
    """Wait until the process that the killed one had started has ended."""
    try:
        os.kill(pid, signal.SIGKILL)
        while True:
            os.kill(pid, 0)
            time.sleep(0.01)
    except ProcessLookupError:
        return


def test_the_model_is_switched_in_the_chat(talking: Any, server: ChatServer) -> None:
    server.models.append("other-model")
    server.responses += [ChatServer.text("One."), ChatServer.text("Two.")]
    talking.types("first")
    talking.sees(r"^One\.$")
    talking.at_prompt()
    talking.types("/model")
    talking.sees(r"^╭─ Switch the model\n│ >\n│ → test-model +.* · in use\n│   other-model ")
    talking.process.send("oth")
    talking.sees(r"^│ > oth\n│ → other-model +[^\n]*\n│   1 of 2\n╰")
    talking.types("")
    talking.sees(r"using other-model from now on")
    talking.at_prompt()
    talking.types("/model test-model")
    talking.sees(r"using test-model from now on")
    talking.at_prompt()
    talking.types("/model other-model")
    talking.sees(r"^using other-model from now on(.*\n)*.*other-model ·")
    talking.at_prompt()
    talking.types("second")
    talking.sees(r"^Two\.$")
    assert [request["model"] for request in server.requests] == ["test-model", "other-model"]
    assert len(server.requests[1]["messages"]) == 4
    talking.at_prompt()
    talking.types("/new")
    talking.sees(r"a new session")
    talking.at_prompt()
    talking.types("/quit")
    assert talking.waits_for_the_end() == 0


def test_without_markdown_text_is_as_it_was_written(sit_down: Any, plain: Any, server: ChatServer) -> None:
    plain("display: {markdown: false, thinking: true}\n")
    thinking = {"choices": [{"index": 0, "delta": {"reasoning_content": "let me think"}}]}
    answer = {"choices": [{"index": 0, "delta": {"content": "**Bold** it is.\u202e\x1b[2J"}}]}
    server.responses.append(ChatServer.stream(thinking, answer))
    person = sit_down("chat", "--base-url", server.base_url, "--model", "test-model")
    person.at_prompt()
    person.types("bold?")
    person.sees(r"^\*\*Bold\*\* it is\.\\u202e\^\[\[2J$")
    assert "let me think\n" in person.text


def test_sigterm_ends_a_run_in_order(server: ChatServer, project: Path) -> None:
    server.responses.append(ChatServer.calls(("terminal", {"command": "touch started; sleep 100"})))
    process = subprocess.Popen(
        [COMMAND, "run", "wait", "--base-url", server.base_url, "--model", "m", "--json"],
        cwd=project, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    while not (project / "started").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    last = json.loads(out.splitlines()[-1])
    assert (last["type"], last["stopped"]) == ("run_finished", "interrupted")
    assert "Traceback" not in err


def test_a_reader_that_goes_away_ends_the_run(server: ChatServer, project: Path) -> None:
    server.responses.append(ChatServer.text("on and on " * 1000, pieces=2000, pause=0.02))
    command = f"{COMMAND} run go --base-url {server.base_url} --model m --json | head -n 3"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command], cwd=project, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 141
    assert "Traceback" not in done.stderr
    assert len(done.stdout.splitlines()) == 3
