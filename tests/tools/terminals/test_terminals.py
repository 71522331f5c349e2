"""Terminals as a model uses them: started, read, typed into and ended, on this machine (003-30)."""

from __future__ import annotations

import os
import re
import secrets
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.tools.conftest import Desk
from toolcrib import RunsCommand, UsesProcess, WritesInput
from tools.dispatch.bridge import run_async

# -- starting --------------------------------------------------------------------------------------------------------


def test_git_takes_no_pager_from_a_repository(desk: Desk) -> None:
    """It could be any program, and would get the keys."""
    desk.terminal("git init -q && git -c user.name=x -c user.email=x@x commit -q --allow-empty -m first")
    desk.terminal("git config core.pager 'echo evil' && git config pager.branch 'echo evil'")
    assert "first" in desk.terminal("git log --oneline")["screen"]
    assert "evil" not in desk.terminal("git branch")["screen"]


def test_a_command_that_ends_is_not_kept(desk: Desk) -> None:
    """003-30"""
    done = desk.terminal("tty; stty size; seq 40; exit 3")
    assert done["exit_code"] == 3
    assert done["screen"].endswith("39\n40\n‸")
    assert done["scrolled"].startswith("/dev/pts/")
    assert "30 100\n1\n2\n" in done["scrolled"]
    assert "process" not in done
    assert desk.call("process", action="list")["processes"] == []


def test_lines_that_do_not_fit_are_kept_as_a_file(desk: Desk) -> None:
    """003-30: the terminal is gone, so that no log has them."""
    done = desk.terminal("seq 3000")
    assert done["scrolled"].startswith("2772\n")
    assert "process" not in done
    found = re.fullmatch(
        r"earlier lines that scrolled away; the last 2,029 lines of all are (\S+): read_file it in parts", done["omitted"]
    )
    assert found is not None, done["omitted"]
    lines = Path(found[1]).read_text().split()
    assert (lines[0], lines[-1], len(lines)) == ("972", "3000", 2029)
    assert "omitted" not in desk.terminal("seq 100")


def test_a_file_of_lines_has_no_secrets(desk: Desk) -> None:
    done = desk.terminal(f"printf '%90s %s\\n' x {KEY}; seq 500")
    (path,) = re.findall(r"\S+/terminal-\w+\.txt", done["omitted"])
    kept = Path(path).read_text()
    assert "[redacted: key]" in kept
    assert all(part not in kept for part in (KEY[:12], KEY[-12:]))


def test_it_is_judged_as_a_program_with_open_input(desk: Desk, tmp_path: Path) -> None:
    desk.terminal("true")
    (effect,) = desk.gate.effects
    assert effect == RunsCommand("true", str(tmp_path.resolve()), effect.shell, background=True, open_input=True, terminal=True)


def test_it_has_the_state_of_the_shell(desk: Desk) -> None:
    desk.call("terminal", command="kept=5; hello() { echo \"hello $kept\"; }; set -f; alias there='echo an alias'; mkdir a; cd a")
    assert desk.terminal("hello; there; echo *; pwd")["screen"].split("\n")[:3] == ["hello 5", "an alias", "*"]
    assert desk.terminal("pwd")["screen"].startswith(str(desk.scope.processes.environment.cwd))
    assert "bash: " in desk.terminal("if")["screen"]


def test_a_forked_process_has_terminals_of_its_own(desk: Desk, desks: Callable[..., Desk]) -> None:
    """It has none of its parent's threads."""
    desk.terminal("exec cat", background=True, name="parent")
    child = os.fork()
    if not child:
        signal.alarm(30)
        try:
            os._exit(desks().terminal("echo from the child")["screen"] != "from the child\n‸")
        finally:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    desk.keys("parent", "on", "Enter")
    desk.sees("parent", "^on")


@pytest.mark.parametrize(
    ("command", "why"),
    [
        ("printf 'prompt> '; sleep 100", "it waits at a prompt"),
        ("printf 'Continue? '; sleep 100", "it waits at a prompt"),
        ("printf 'Loading (3/10)'; sleep 100", "it printed nothing for 2 s"),
        ("echo busy; sleep 100", "it printed nothing for 2 s"),
    ],
)
def test_a_command_that_waits_stays_in_the_background(desk: Desk, command: str, why: str) -> None:
    """003-30"""
    data = desk.terminal(command, name="job")
    assert (data["process"], data["state"]) == ("job", "running")
    assert data["note"] == f"{why}: it stays in the background; see the tool process"
    assert desk.scope.state["processes"]["job"]["command"] == command
    assert desk.process("signal", "job", signal="KILL")["signalled"]
    assert desk.process("wait", "job")["exit_code"] == 137


def test_a_command_that_prints_on_stays_at_its_time_limit(desk: Desk) -> None:
    data = desk.terminal("while :; do echo tick; sleep 0.1; done", timeout=1)
    assert data["note"].startswith("the time limit was reached")
    assert desk.process("poll", data["process"])["state"] == "running"


ARGUMENTS = [
    ({"notify": ["done"], "background": True}, "notify: a terminal only reports exit"),
    ({"notify": ["exit"]}, "notify: only for a background process"),
    ({"background": True, "timeout": 5}, "timeout: a background process has none"),
    ({"name": "a/b"}, "name: up to 40 letters"),
    ({"cwd": "/gone"}, "there is no folder /gone"),
]


@pytest.mark.parametrize(("given", "why"), ARGUMENTS)
def test_arguments_that_do_not_fit_are_named(desk: Desk, given: dict[str, Any], why: str) -> None:
    assert why in desk.terminal("true", **given)


def test_a_taken_name_and_a_full_quota_are_refused(desks: Callable[..., Desk]) -> None:
    desk = desks(**{"terminal.processes": 2})
    desk.terminal("sleep 100", background=True, name="one")
    assert "one was not started: the name is taken" in desk.terminal("true", background=True, name="one")
    desk.call("terminal", command="sleep 100", background=True)
    assert "2 background processes run already (terminal.processes)" in desk.terminal("true")


# -- reading ---------------------------------------------------------------------------------------------------------


def test_only_what_changed_is_shown(desk: Desk) -> None:
    """003-30"""
    desk.terminal("for n in 1 2 3 4 5 6; do echo row $n; done; exec cat", background=True, name="job")
    assert desk.sees("job", "row 6") == "row 1\nrow 2\nrow 3\nrow 4\nrow 5\nrow 6\n‸"
    assert desk.process("poll", "job")["changed"] == "7: ‸"
    typed = desk.process("write", "job", text="hello")
    assert typed["changed"] == "7: hello\n8: hello\n9: ‸"
    assert "scrolled" not in typed
    later = desk.process("write", "job", text="\n".join(map(str, range(40))))
    assert later["scrolled"].startswith("0\n")
    log = desk.process("log", "job", lines=500)["output"]
    assert log.startswith("row 1\nrow 2\n")
    assert log.endswith("\n39")


def test_it_is_waited_for(desk: Desk) -> None:
    asks = "sleep 0.3; echo ready; read -r x; echo \"<$x>\"; printf 'go> '; read -r x; sleep 100"
    desk.terminal(asks, background=True, name="j")
    assert desk.process("wait", "j", pattern="^rea")["came"] == "pattern"
    desk.keys("j", "abc", "Enter")
    assert desk.process("wait", "j", prompt=True)["came"] == "prompt"
    assert desk.process("wait", "j", quiet=0.2)["came"] == "quiet"
    assert desk.process("wait", "j", pattern="never", timeout=0.3)["came"] == "timeout"
    assert "can't be searched for" in desk.process("wait", "j", pattern="(", timeout=1)
    desk.keys("j", "C-c")
    assert desk.process("wait", "j")["came"] == "exit"


PROMPTING = {
    "a line that the shell reads": "read -rp '(name) ' x",
    "a line that python reads": "python3 -c 'input(\"your name \u203a \")'",
    "a debugger": "echo 'x = 1' >job.py; python3 -m pdb job.py",
    "a pager": "seq 100 | more",
    "a program that opens the terminal": "printf 'number (1)'; head -n 1 </dev/tty >/dev/null",
}


@pytest.mark.parametrize("command", PROMPTING.values(), ids=PROMPTING)
def test_a_program_that_waits_for_input_is_at_a_prompt_whatever_its_end(desk: Desk, command: str) -> None:
    """003-30"""
    desk.terminal(command, background=True, name="job")
    found = desk.process("wait", "job", prompt=True, timeout=20)
    assert found["came"] == "prompt", found
    desk.process("signal", "job", signal="KILL")


def test_a_program_that_reads_without_a_text_shows_no_prompt(desk: Desk) -> None:
    desk.terminal("echo ready; exec cat", background=True, name="job")
    assert desk.process("wait", "job", prompt=True, timeout=1)["came"] == "timeout"


def test_a_line_that_a_burst_carried_away_is_found(desk: Desk, tmp_path: Path) -> None:
    """003-30"""
    burst = "printf 'its port:\\e[32m 8137\\e[m\\n'; seq 20000; touch over; exec sleep 100"
    desk.terminal(burst, background=True, name="job")
    give_up = time.monotonic() + 30
    while not (tmp_path / "over").exists() and time.monotonic() < give_up:
        time.sleep(0.02)
    assert desk.process("wait", "job", pattern="^its port: 8137$", timeout=10)["came"] == "pattern"
    assert desk.process("wait", "job", pattern="^its port", timeout=0.5)["came"] == "timeout", "that was seen"


def test_a_log_has_all_lines_that_are_asked_for(desk: Desk) -> None:
    desk.terminal("for n in {1..400}; do printf '%090d\\n' $n; done; exec sleep 100", background=True, name="job")
    desk.process("wait", "job", quiet=0.5)
    assert len(desk.process("log", "job", lines=400)["output"].split()) == 400


def test_highlighted_text_is_marked(desk: Desk) -> None:
    """003-30: a model does not see colours."""
    menu = "printf ' one\\n\\e[7m two     \\e[m\\n three\\n'; exec sleep 100"
    desk.terminal(menu, background=True, name="job")
    assert desk.sees("job", "three") == " one\n \u27e6two\u27e7\n three\n\u2038"


def test_a_program_learns_its_new_size(desk: Desk) -> None:
    """003-30"""
    desk.terminal("trap 'stty size' WINCH; while :; do sleep 0.02; done", background=True, name="job")
    desk.process("wait", "job", quiet=0.3)
    shown = desk.process("resize", "job", columns=40, rows=12)
    assert "12 40" in shown["screen"]


def test_questions_of_a_program_are_answered(desk: Desk) -> None:
    ask = "stty -icanon -echo; printf '\\e[6n'; IFS= read -rsd R answer; printf '%q\\n' \"$answer\""
    assert r"$'\E[1;1'" in desk.terminal(ask)["screen"]


def test_an_answer_counts_as_keys_that_edit_the_line(desk: Desk) -> None:
    """003-30: bash takes a part of it for text, so a comment may become a command."""
    desk.terminal("bash --norc", background=True, name="job")
    desk.process("wait", "job", prompt=True)
    desk.process("write", "job", text="printf '\\e[6n'")
    assert desk.gate.effects[0].certain
    desk.process("wait", "job", pattern="R", timeout=5)
    desk.process("write", "job", text="#; echo no comment")
    assert not desk.gate.effects[0].certain
    assert "\nno comment" in desk.process("screen", "job")["screen"]


def test_an_answer_while_a_user_is_asked_stops_the_keys(desk: Desk) -> None:
    desk.terminal("sleep 0.5; stty -icanon -echo; printf '\\e[6n'; read -rsd R; cat", background=True, name="job")
    desk.gate.before = lambda: desk.process("wait", "job", quiet=1, timeout=5)
    assert "the program asked its terminal a question" in desk.keys("job", "x")
    desk.keys("job", "C-c")
    assert desk.process("wait", "job")["came"] == "exit"


def test_a_program_that_asks_and_never_reads_is_drained(desk: Desk) -> None:
    desk.terminal("while :; do printf '\\e[6n%0.s' {1..1000}; done", background=True, name="job")
    desk.process("wait", "job", quiet=0.1, timeout=2)
    first = desk.process("poll", "job")["printed"]
    desk.process("wait", "job", pattern="never", timeout=0.3)
    assert desk.process("poll", "job")["printed"] > first
    desk.keys("job", "C-c")
    assert desk.process("wait", "job")["came"] == "exit"


def test_a_key_is_answered_in_a_flood(desk: Desk) -> None:
    """003-30"""
    desk.terminal("yes; echo over", background=True, name="flood")
    desk.process("wait", "flood", pattern="y")
    desk.keys("flood", "C-c")
    assert desk.process("wait", "flood")["came"] == "exit"
    assert desk.process("screen", "flood")["screen"].count("y\n") > 20


KEY = "ghp_" + "a1B2c3D4e5" * 3 + "f6G7h8"


@pytest.mark.parametrize(
    "script",
    [
        "printf '%90s %s\\n' x {}",  # wrapped
        "printf '{}\\e[12D'",  # the cursor is in it
        "seq 28; printf '%90s %s\\n' x {}",  # it leaves the screen
        "seq 60; printf '%90s %s\\n' x {}; seq 28",
    ],
)
def test_a_secret_is_hidden_though_a_row_ends_in_it(desk: Desk, script: str) -> None:
    desk.terminal(f"{script.format(KEY)}; exec sleep 100", background=True, name="job")
    desk.process("wait", "job", quiet=0.3)
    for shown in (desk.process("poll", "job"), desk.process("screen", "job"), desk.process("log", "job", lines=500)):
        assert "[redacted: key]" in str(shown) or shown.get("scrolled") is None
        assert all(part not in str(shown) for part in (KEY[:12], KEY[-12:], KEY[14:26]))


# -- typing ----------------------------------------------------------------------------------------------------------


def test_lines_are_judged_with_what_was_typed_before(desk: Desk, tmp_path: Path) -> None:
    desk.terminal("cat", background=True, name="job")
    cwd, shell = str(tmp_path.resolve()), desk.gate.effects[0].shell
    typed = []
    for keys in (["one", "Enter"], ["tw"], ["o", "Enter"], ["Up"], ["Enter"], ["last", "Enter"]):
        desk.keys("job", *keys)
        typed.append(desk.gate.effects[0])
    assert [(one.text, one.before, one.certain) for one in typed] == [
        ("one\n", "", True),
        ("tw\n", "one\n", True),
        ("two\n", "one\n", True),
        ("", "one\ntwo\n", False),
        ("\n", "one\ntwo\n", False),
        ("last\n", None, True),
    ]
    assert typed[0] == WritesInput("job", "one\n", "cat", cwd, shell, "", ("text:one", "Enter"))


def test_keys_that_only_end_a_program_type_nothing(desk: Desk) -> None:
    desk.terminal("cat; cat", background=True, name="job")
    desk.keys("job", "C-d")
    assert desk.gate.effects == [UsesProcess("job", "closes its input")]
    desk.process("close_input", "job")
    assert desk.process("wait", "job")["exit_code"] == 0
    desk.terminal("cat", background=True, name="other")
    desk.keys("other", "C-c")
    assert desk.gate.effects == [UsesProcess("other", "interrupts it")]


def test_text_before_an_end_of_input_is_judged(desk: Desk) -> None:
    desk.terminal("cat", background=True, name="job")
    desk.keys("job", "abc")
    desk.process("close_input", "job")
    assert isinstance(desk.gate.effects[0], WritesInput)


def test_keys_that_another_call_overtook_are_not_pressed(desk: Desk) -> None:
    desk.terminal("cat", background=True, name="job")
    desk.gate.before = lambda: desk.keys("job", "first", "Enter")
    assert "another call typed something; call again" in desk.keys("job", "second", "Enter")
    desk.gate.before = lambda: desk.keys("job", "rest")
    assert "another call typed something; call again" in desk.keys("job", "C-d")
    assert desk.process("screen", "job")["screen"] == "first\nfirst\nrest‸"
    desk.keys("job", "C-c")
    assert desk.gate.effects == [UsesProcess("job", "interrupts it")], "whatever was typed before it"


def test_a_password_prompt_that_appears_while_a_user_is_asked_gets_nothing(desk: Desk) -> None:
    """003-30"""
    desk.terminal('read -r x; read -rs y; echo "<$y>"', background=True, name="job")
    desk.gate.before = lambda: desk.keys("job", "go", "Enter")
    assert "job asks for a password" in desk.keys("job", "hunter2", "Enter")
    desk.keys("job", "C-c")
    assert "hunter2" not in desk.process("log", "job")["output"]


PROMPTS = ["Password: ", "ann's password for host: ", "Enter passphrase for key '/k': ", "PIN: ", "API key: ***"]


@pytest.mark.parametrize("prompt", PROMPTS)
def test_a_prompt_that_names_a_password_counts_though_it_echoes(desk: Desk, prompt: str) -> None:
    """003-30: such as one of another machine, whose echo is unknown here."""
    desk.terminal(f'stty -icanon; printf %s "{prompt}"; cat', background=True, name="job")
    desk.process("wait", "job", pattern=prompt.rstrip(" *"))
    assert "job asks for a password" in desk.keys("job", "hunter2", "Enter")
    desk.keys("job", "C-c")


@pytest.mark.parametrize("setting", ["kill x", "erase x", "eol x", "intr x", "iuclc", "istrip", "igncr", "-icrnl", "werase 233"])
def test_text_with_another_meaning_is_not_typed(desk: Desk, setting: str) -> None:
    """003-30: the program would read another line than the judged one."""
    desk.terminal(f"stty {setting}; echo ready; cat", background=True, name="job")
    desk.process("wait", "job", pattern="ready")
    assert "gives typed text another meaning" in desk.keys("job", "echo x rm -rf build", "Enter")
    desk.process("signal", "job", signal="TERM")


@pytest.mark.parametrize("program", ["python3 -q", "bash --norc", "vim -u NONE x", "less /etc/passwd", "top", "sh"])
def test_programs_leave_text_its_meaning(desk: Desk, program: str) -> None:
    desk.terminal(program, background=True, name="job")
    desk.process("wait", "job", quiet=0.3)
    assert "state" in desk.keys("job", "q", "Enter")


def test_a_signal_may_stop_a_line_as_c_c_does(desk: Desk) -> None:
    desk.terminal("python3 -q", background=True, name="job")
    desk.process("wait", "job", prompt=True)
    desk.process("write", "job", text="import time; time.sleep(100)")
    assert desk.gate.effects[0].before == ""
    desk.process("signal", "job", signal="INT")
    desk.process("write", "job", text="1 + 1")
    assert desk.gate.effects[0].before is None


def test_lines_are_unknown_after_an_interrupt(desk: Desk) -> None:
    """A terminal discards what was typed ahead, and the line that runs may stop in the middle."""
    desk.terminal("PS1='> ' bash --norc", background=True, name="job")
    desk.process("wait", "job", prompt=True)
    desk.process("write", "job", text="sleep 100")
    desk.process("write", "job", text="echo typed ahead")
    desk.keys("job", "C-c")
    desk.process("write", "job", text="echo then")
    (effect,) = desk.gate.effects
    assert effect.before is None
    assert "\nthen" in desk.process("screen", "job")["screen"]
    assert "\ntyped ahead" not in desk.process("screen", "job")["screen"]


def test_an_interrupt_discards_hidden_text(desk: Desk) -> None:
    """003-30: otherwise the next prompt shows a part of a password that the user typed."""
    desk.terminal("PS1='> ' bash --norc", background=True, name="job")
    desk.process("wait", "job", prompt=True)
    desk.process("write", "job", text="read -s x")
    terminal = desk.scope.processes.terminals.get("job")
    assert terminal is not None
    assert terminal.hold("a user")
    run_async(terminal.type_bytes(b"half a pass"))
    run_async(terminal.type_bytes(b"\x03"))
    terminal.release("a user")
    desk.process("write", "job", text="echo then")
    shown = desk.process("screen", "job")["screen"]
    assert "\nthen" in shown
    assert "half" not in shown


def test_lines_after_a_user_typed_follow_unknown_ones(desk: Desk) -> None:
    """003-30: so that each of them is asked about."""
    desk.terminal("cat", background=True, name="job")
    desk.process("write", "job", text="one")
    terminal = desk.scope.processes.terminals.get("job")
    assert terminal is not None
    assert terminal.hold("a user")
    terminal.release("a user")
    for line in ("two", "three"):
        desk.process("write", "job", text=line)
        assert [(one.text, one.before) for one in desk.gate.effects] == [(f"{line}\n", None)]


REFUSED = [
    (("C-foo",), "No key is named 'C-foo'"),
    (("Ctrl-C",), "To type it as text: text:Ctrl-C"),
    (("a\x1b",), "contains the control character"),
]


@pytest.mark.parametrize(("keys", "why"), REFUSED)
def test_an_unknown_key_presses_nothing(desk: Desk, keys: tuple[str, ...], why: str) -> None:
    desk.terminal("cat", background=True, name="job")
    assert why in desk.keys("job", *keys)
    assert desk.process("screen", "job")["screen"] == "‸"


def test_a_process_without_a_terminal_has_no_keys(desk: Desk) -> None:
    desk.call("terminal", command="cat", background=True, input=True, name="job")
    assert "job has no terminal: start it with pty: true" in desk.keys("job", "Up")
    assert "job has no terminal" in desk.process("screen", "job")
    assert "only a terminal has prompts" in desk.process("wait", "job", prompt=True)


def test_another_session_has_no_terminal_of_that_name(desks: Callable[..., Desk]) -> None:
    one, other = desks(), desks()
    one.terminal("cat", background=True, name="job")
    other.terminal("cat", background=True, name="mine")
    for found in (other.keys("job", "a"), other.process("screen", "job"), other.process("write", "job", text="a")):
        assert "job has no terminal" in found or "there is no background process 'job'" in found
    assert one.process("screen", "job")["screen"] == "‸"


# -- the end ---------------------------------------------------------------------------------------------------------


def test_its_end_is_reported(desk: Desk, told: list[Any]) -> None:
    """003-30"""
    desk.terminal("sleep 0.2; exit 7", background=True, name="job", notify=["exit"])
    give_up = time.monotonic() + 30
    while not told and time.monotonic() < give_up:
        time.sleep(0.05)
    assert [(one.process, one.what) for one in told] == [("job", "ended with exit code 7")]


def test_a_command_that_stays_has_the_time_of_its_start(desk: Desk) -> None:
    desk.terminal("echo busy; sleep 100", name="job")
    assert desk.scope.state["processes"]["job"]["at"] < time.time() - 2


def test_lines_of_its_log_are_searched(desk: Desk) -> None:
    """003-30: also lines that left the screen."""
    desk.terminal("seq 50; exec cat", background=True, name="job")
    desk.sees("job", "^50")
    found = desk.process("log", "job", grep="^[1-3]5", lines=2)
    assert (found["output"], found["lines"]) == ("15\n25", 2)
    assert "from: the log of a terminal has lines" in desk.process("log", "job", **{"from": 5})


def test_nothing_can_be_typed_after_the_end(desk: Desk) -> None:
    desk.terminal("true", background=True, name="job")
    assert desk.process("wait", "job")["exit_code"] == 0
    assert "nothing was typed: job has ended" in desk.keys("job", "a")
    assert desk.process("log", "job")["output"] == ""
    assert desk.process("remove", "job")["removed"]
    assert "there is no background process 'job'" in desk.process("screen", "job")


def test_keys_that_come_after_the_end_are_refused_with_the_reason(desk: Desk) -> None:
    """The program ends while the user is asked."""
    desk.terminal("read -r x", background=True, name="job")
    desk.gate.before = lambda: (desk.process("signal", "job", signal="KILL"), desk.process("wait", "job"))
    assert "nothing was typed: the program has ended" in desk.keys("job", "a", "Enter")


def test_what_a_lost_terminal_left_is_ended_by_the_next_toolcrib(desks: Callable[..., Desk]) -> None:
    """003-30: as after a kill of toolcrib, whose terminals are gone with it."""
    session = f"s-{secrets.token_hex(6)}"
    killed, resumed = desks(session), desks(session)
    killed.terminal("sleep 100", background=True, name="job")
    (found,) = resumed.call("process", action="list")["processes"]
    assert (found["process"], found["state"]) == ("job", "running")
    assert found["note"] == "it ended with the toolcrib that had its terminal, and nothing of its screen is kept"
    assert resumed.process("wait", "job", timeout=30)["came"] == "exit"
    assert killed.process("wait", "job", timeout=30)["came"] == "exit"
