"""A user attaches to a terminal of a session that another process has open, or of the chat's session (003-30)."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.policy.self_protection import BELOW, marks_of
from tests.e2e.conftest import PATIENCE
from toolcrib.testing import ChatServer

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("plain")]
HOLD = """
import asyncio, json, sys
from agent.api import assemble
from agent.background.attach_socket import offer
from agent.background.typed import TYPED
from agent.config import load_config
from agent.desk.request import SessionRequest
from tools.processes.records import record, started
from toolcrib.contract.terminal import TerminalSize

async def start(scope, folder, name, command):
    process = await scope.processes.start(name, command, folder, size=TerminalSize(100, 30))
    await record(scope, started(process, command, folder))

with assemble(config=load_config()) as crib:
    session = asyncio.run(crib.desk.open(SessionRequest(**json.loads(sys.argv[1]))))
    print(session.id, flush=True)
    for line in sys.stdin:
        what, args = json.loads(line)
        if what == "start":
            asyncio.run(start(session.scope, str(crib.project_dir), **args))
        said = None
        if what == "process":
            result = session.call("process", args).result
            said = result.message if result.is_error else result.data
        elif what == "size":
            size = session.scope.processes.terminals.get(**args).size
            said = [size.columns, size.rows]
        elif what == "offer":
            said = offer(session.scope, **args)
        elif what == "typed":
            kept = asyncio.run(session.scope.states.of("session", session.id)).get(TYPED.name)
            said = [one.get("line") for one in kept.value] if kept else []
        print(json.dumps(said), flush=True)
    session.close_sync()
"""
"""A process that holds a session, and does with it what it reads."""
SAFE = re.compile(
    r"(?:[^\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]|\x1b\[(?:[\d;]*[mHK]|\?(?:1049|7|25|1|2004|2026)[hl])|\r\n)*"
)
"""All that a program may cause on the user's terminal: text, styles, places, erased rows, and modes that the view sets itself."""
COOKED = termios.ICANON | termios.ISIG | termios.IEXTEN
"""Flags of a terminal that no program has taken over."""
WATCHING, TYPING = r"^tty · watching, typing takes over · Ctrl-\] leaves", r"^tty · you type · Ctrl-\] gives it back"


class Holder:
    """A process that has a session open, whose model may use a terminal named ``tty``."""

    def __init__(self, folder: Path, request: dict[str, Any]) -> None:
        line = [sys.executable, "-c", HOLD, json.dumps(request)]
        self.process = subprocess.Popen(line, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.session = self.process.stdout.readline().strip()

    def does(self, what: str, **args: Any) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps([what, args]) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, command: str) -> None:
        self.does("start", name="tty", command=command)

    def model(self, action: str, **args: Any) -> Any:
        return self.does("process", action=action, name="tty", **args)

    def sees(self, text: str) -> str:
        """Wait until the model sees a text on the screen, and return the screen."""
        end = time.monotonic() + PATIENCE
        while text not in (screen := str(self.model("screen")["screen"])):
            assert time.monotonic() < end, screen
        return screen

    def close(self) -> None:
        self.process.communicate(timeout=PATIENCE)


@pytest.fixture
def holds(project: Path) -> Iterator[Callable[..., Holder]]:
    made: list[Holder] = []

    def hold(command: str, **request: Any) -> Holder:
        made.append(Holder(project, {"enabled": ["terminal"], **request}))
        made[-1].start(command)
        return made[-1]

    yield hold
    for one in made:
        one.close()


def modes(person: Any) -> int:
    return int(termios.tcgetattr(person.process.child_fd)[3] & COOKED)


def leaves(person: Any, words: str) -> None:
    """Wait for the end of the command. The terminal must be as before, with a sentence about what happened."""
    assert person.waits_for_the_end() == 0
    assert re.search(rf"^tty {words}$", person.text, re.MULTILINE), person.text
    assert modes(person) == COOKED
    after = person.written.rpartition(b"\x1b[?1049l")[0].rpartition(b"\x1b[?2026l")[2]
    assert {b"\x1b[?25h", b"\x1b[?7h", b"\x1b[?1l", b"\x1b[?2004l"} <= set(re.findall(rb"\x1b\[\?\d+[hl]", after))


def test_a_user_watches_takes_the_terminal_and_gives_it_back(holds: Any, sit_down: Any) -> None:
    """003-30: the model may look but not type meanwhile; what the user typed is recorded, except a password."""
    holder = holds("cat; read -s -p 'Password: ' it; echo; echo ${#it} characters, $(stty size); exec cat")
    person = sit_down("ps", "attach", "tty", columns=90, rows=20)
    person.sees(WATCHING)
    assert modes(person) == 0
    person.process.send("by a user\r")
    person.sees(TYPING)
    person.sees(r"^by a user\nby a user$")
    for refused in (
        holder.model("keys", keys=["x"]),
        holder.model("write", text="x"),
        holder.model("resize", columns=50, rows=9),
    ):
        assert "the user types in this terminal: wait until they give it back" in refused
    looked = holder.model("screen")
    assert "by a user" in looked["screen"]
    assert "the user types in this terminal" in looked["note"]
    second = sit_down("ps", "attach", f"{holder.session[:9]}/tty")
    second.sees(r"^tty · another window types · Ctrl-\] leaves")
    second.process.send("nothing\x1d")
    leaves(second, "continues")

    person.process.send("\x04")
    person.sees(r"^Password:$")
    person.process.send("hunter2")
    person.process.send("\r")
    person.sees(r"^7 characters, 19 90$")
    person.process.send("half a li")
    person.sees(r"^half a li$")
    assert holder.does("typed") == ["by a user", "^D", None]
    person.process.send("\x1d")
    leaves(person, "continues; you gave it back")
    looked = holder.model("poll")
    assert looked["note"] == "the user typed here since your last look, and may have left an unfinished line"
    assert "note" not in holder.model("poll")
    assert holder.does("typed") == ["by a user", "^D", None, "half a li"]
    assert b"hunter2" not in b"".join(
        path.read_bytes() for path in Path(os.environ["XDG_STATE_HOME"]).rglob("*") if path.is_file()
    )


def test_keys_reach_the_program_as_its_modes_ask(holds: Any, sit_down: Any) -> None:
    """003-30: Ctrl-C ends the program, not the view; arrows and pastes are sent as the program asked for."""
    holder = holds(r"printf '\033[?1h\033[?2004h\033[?25l'; trap 'echo interrupted' INT; trap '' TSTP; while :; do read -r; done")
    person = sit_down("ps", "attach", "tty")
    person.sees(WATCHING)
    assert person.written.rindex(b"\x1b[?1h") > person.written.rfind(b"\x1b[?1l")
    assert person.written.rindex(b"\x1b[?2004h") > person.written.rfind(b"\x1b[?2004l")
    assert person.written.rindex(b"\x1b[?25l") > person.written.rfind(b"\x1b[?25h")
    person.process.send("\x03")
    person.sees(r"^\^Cinterrupted$")
    person.process.send("\x1a\x02")
    person.sees(r"\^Z\^B$")
    person.process.setwinsize(12, 40)
    person.process.kill(signal.SIGWINCH)
    end = time.monotonic() + PATIENCE
    while (size := holder.does("size", name="tty")) != [40, 11]:
        assert time.monotonic() < end, size
    person.presses("]")
    leaves(person, "continues; you gave it back")
    assert holder.does("size", name="tty") == [100, 30]


HOSTILE = r"""
printf '\033]52;c;aGFja2Vk\007\033]0;pwned title \033\\\033]8;;http://evil.example\007link\033]8;;\007 \033P$q"p\033\\'
printf '\033[c\033[6n\033[>q\033]10;?\007\033[5i\033[?1000h\033[?1049h\033[!p\033c\033_Gx\033\\\302\233c'
printf '\342\200\256backwards\342\201\246\033[3J\033[20t'
printf '\033[31mred\033[7mreversed\033[m \005\016\017\010\007 end\n'; exec cat
"""


def test_no_byte_of_the_program_reaches_the_users_terminal(holds: Any, sit_down: Any) -> None:
    """003-30: a hostile program's clipboard, links, questions and device controls stay in the session."""
    holds(HOSTILE)
    person = sit_down("ps", "attach", "tty", NO_COLOR="")
    person.sees(WATCHING)
    person.sees(r" end$")
    person.process.send("typed\r")
    person.sees(r"typed\ntyped$")
    assert person.colours("red") == {"red"}
    plain = sit_down("ps", "attach", "tty")
    plain.sees(r"redreversed end$")
    for one in (person, plain):
        one.process.send("\x1d")
        assert one.waits_for_the_end() == 0
        assert SAFE.fullmatch(one.written.decode()), one.written
        assert not any(word in one.written for word in (b"evil.example", b"aGFja2Vk", b"]52", b"\x07"))
    assert b"31m" not in plain.written, "NO_COLOR"
    assert b"\x1b[0;7m" in plain.written, "attributes stay"


def test_a_killed_window_gives_the_terminal_back(holds: Any, sit_down: Any) -> None:
    """003-30"""
    holder = holds("cat")
    person = sit_down("ps", "attach", "tty")
    person.sees(WATCHING)
    person.process.send("mine\r")
    person.sees(TYPING)
    person.sees(r"^mine\nmine$")
    person.process.kill(signal.SIGKILL)
    end = time.monotonic() + PATIENCE
    while "note" in (looked := holder.model("screen")) and "user types" in looked["note"]:
        assert time.monotonic() < end
    assert (looked["state"], holder.does("size", name="tty")) == ("running", [100, 30])
    again = sit_down("ps", "attach", "tty")
    again.sees(r"^mine\nmine$")
    again.process.kill(signal.SIGTERM)
    assert again.waits_for_the_end() == 128 + signal.SIGTERM
    assert modes(again) == COOKED
    gone = sit_down("ps", "attach", "tty")
    gone.sees(WATCHING)
    gone.goes_away()
    assert holder.model("poll")["state"] == "running"


def test_it_ends_with_its_program_and_with_its_toolcrib(holds: Any, sit_down: Any, project: Path) -> None:
    holder = holds("until [ -e over ]; do sleep 0.05; done; exit 3")
    person = sit_down("ps", "attach", "tty")
    person.sees(WATCHING)
    (project / "over").touch()
    leaves(person, "has ended with exit code 3")
    holder.does("process", action="remove", name="tty")
    holder.start("exec sleep 600")
    person = sit_down("ps", "attach", "tty")
    person.sees(WATCHING)
    holder.process.kill()
    leaves(person, "is out of reach: the toolcrib that had its session open has ended")


def test_a_terminal_larger_than_the_window_is_shown_around_its_cursor(holds: Any, sit_down: Any) -> None:
    holds("seq 25; printf '%090d' 0; exec cat")
    person = sit_down("ps", "attach", "tty", columns=80, rows=10)
    person.sees(WATCHING + " · larger than this window$")
    assert person.text.startswith("18\n19\n")
    assert "0" * 80 in person.text
    person.process.send("\x1d")
    leaves(person, "continues")
    small = sit_down("ps", "attach", "tty", rows=4)
    small.sees(r"the window is too small: 20 columns and 5 rows are needed")
    assert small.waits_for_the_end() == 2


CONNECT = """
import base64, json, socket, sys, time
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
try:
    link.sendall(json.dumps({"window": [80, 24], "type": base64.b64encode(b"typed by a command").decode()}).encode() + b"\\n")
    print("answer:", link.makefile().readline() or "refused")
except OSError:
    print("answer: refused")
"""


def test_a_sessions_command_can_not_attach(holds: Any, sit_down: Any, project: Path) -> None:
    """003-30: neither with the command, nor through the socket, which the kernel names the sender of."""
    holder = holds(f"cd {project}; until [ -e path ]; do sleep 0.05; done; python3 connect.py $(cat path); exec cat")
    (project / "connect.py").write_text(CONNECT)
    (project / "path.new").write_text(holder.does("offer", name="tty"))
    (project / "path.new").rename(project / "path")
    holder.sees("answer:")
    assert "not proven to run outside of all sessions" in holder.sees("sessions")
    assert "typed by a command" not in holder.model("screen")["screen"]
    person = sit_down("ps", "attach", "tty", **{BELOW: marks_of([Path(os.environ["XDG_STATE_HOME"]) / "toolcrib"])})
    person.sees(r"^toolcrib: Denied: `toolcrib ps attach` is for a user only")
    assert person.waits_for_the_end() == 2
    below = sit_down("ps", "attach", "tty", **{BELOW: "1:1"})
    below.sees(r"^toolcrib: Denied: `toolcrib ps attach` is for a user only")
    assert below.waits_for_the_end() == 2


def test_it_needs_a_terminal_on_both_sides(holds: Any, sit_down: Any, project: Path) -> None:
    theirs = holds("cat", platform="telegram", user="eve")
    no_one = sit_down("ps", "attach", f"{theirs.session[:9]}/tty")
    no_one.sees(r"no background process is named")
    assert no_one.waits_for_the_end() == 1
    line = [sys.executable, "-c", "import sys; from agent.cli import main; sys.exit(main(['ps', 'attach', 'tty']))"]
    done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert (done.returncode, "attach needs a user at a terminal" in done.stderr) == (2, True)


def test_in_the_chat(sit_down: Any) -> None:
    """003-30: the chat gives its window to the terminal, and gets it back as it was."""
    call = ("terminal", {"command": "cat", "pty": True, "background": True, "name": "tty"})
    replies = [
        ChatServer.calls(call),
        ChatServer.text("It runs."),
        ChatServer.calls(("process", {"action": "poll", "name": "tty"})),
    ]
    again = ("terminal", {**call[1], "name": "two"})
    replies += [ChatServer.text("Seen."), ChatServer.calls(again), ChatServer.text("Again.")]
    with ChatServer(*replies) as server:
        person = sit_down("chat", "--base-url", server.base_url, "--model", "test-model")
        person.sees(r"test-model answers")
        person.at_prompt()
        person.types("go")
        person.sees(r"It runs\.")
        person.at_prompt()
        person.types("/ps attach nothing")
        person.sees(r"^✗ there is no background process 'nothing'; /ps lists the processes")
        person.types("/ps attach")
        person.sees(r"✗ give the name of a terminal: /ps attach NAME")
        person.types("/ps attach tty")
        person.sees(WATCHING)
        person.process.send("/exit\r")
        person.sees(r"^/exit\n/exit$")
        person.process.send("\x03")
        person.sees(r"has ended with exit code 130 · Ctrl-\] returns$")
        person.process.send("too late\r\x1d")
        person.sees(r"^tty has ended with exit code 130$")
        assert "too late" not in person.text
        person.at_prompt()
        person.types("look")
        person.sees(r"Seen\.")
        assert "the user typed here since your last look" in json.dumps(server.requests[-1])
        person.at_prompt()
        person.types("again")
        person.sees(r"Again\.")
        person.at_prompt()
        person.types("/ps attach two")
        person.sees(r"^two · watching")
        person.process.kill(signal.SIGTERM)
        assert person.waits_for_the_end() == 128 + signal.SIGTERM
    assert modes(person) == COOKED
    assert "could not be ended" not in person.text
    assert person.written.count(b"\x1b[?1049h") == person.written.count(b"\x1b[?1049l") == 2
