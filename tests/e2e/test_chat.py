"""``toolcrib chat`` at a user's terminal."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.cli.words import SLASH
from tests.forks import Forks
from tools.environments.local.holding import sandbox_here

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("cautious")]
HELD = sandbox_here("workspace")
COMMAND = str(Path(sys.executable).with_name("toolcrib"))
DELETE = '@terminal {"command": "rm -rf build"}'


def piped(forks: Forks, lines: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return forks.run("chat", stdin=lines, cwd=cwd)


def make_build(project: Path) -> Path:
    build = project / "build"
    build.mkdir()
    (build / "old").write_text("x")
    return build


def test_a_call_typed_by_hand_runs(chatting: Any) -> None:
    """001-13"""
    chatting.presses("z")  # Ctrl-Z suspends the chat if a shell can resume it; it must not type a character
    chatting.at_prompt()
    chatting.types('@terminal {"command": "echo $((6*7))"}')
    chatting.sees(r"^42$")
    assert "💻 terminal" in chatting.at_prompt()
    chatting.types('@tool terminal {"command": "echo $((6*8))"}')
    chatting.sees(r"^48$")


def test_nothing_of_a_command_draws_a_line_of_the_prompt(chatting: Any, project: Path) -> None:
    """The screen is 100 columns wide: text padded to its edge continues on the next row, behind a bar."""
    forged = "  o    lists it, once"
    for padding in (0, 60, 75, 76, 77, 78, 79, 80, 81, 82, 83, 100):
        command = f"rm -rf $'a\\n{forged}' {' ' * padding}{forged} \u0441at \u3164 {'漢' * padding}{forged}"
        chatting.types("@terminal " + json.dumps({"command": command}))
        screen = chatting.sees(r"\? help\n[^\n]*denies and interrupts\Z")  # the complete prompt is drawn
        prompt = screen[screen.rindex("terminal wants to run:") :].split("\n")[:-1]  # without the status line
        ours = r"terminal wants|  in /|  ! |      as: |  o    this call only|  [dspta]    |  [um] N  |  ↳|  │[ ↳]"
        ours += r"|  You are asked about this every time\.$|┏━ Allow this\?$|┃ "
        assert [line for line in prompt if line and not re.match(ours, line)] == []
        assert not any(line.startswith(forged) for line in prompt)
        assert "\\u0441at \\u3164" in screen
        chatting.denies("no")
        chatting.at_prompt()
        chatting.clears()


def test_approval_granted_once_is_asked_again(chatting: Any, project: Path) -> None:
    """003-25: the call waits for the user, and runs when the user approves it."""
    build = make_build(project)
    chatting.types(DELETE)
    screen = chatting.sees(r"\? help$")
    assert "│ rm -rf build" in screen
    assert str(project) in re.sub(r"\n\s*↳?", "", screen)  # the path may be wrapped anywhere
    assert build.exists()
    chatting.chooses("o")
    chatting.sees(r"exit code 0")
    assert not build.exists()
    chatting.at_prompt()
    chatting.clears()
    make_build(project)
    chatting.types(DELETE)
    chatting.denies()
    chatting.sees(r"  denied  #")
    assert build.exists()


@pytest.mark.xdist_group("bubblewrap")
@pytest.mark.skipif(HELD.mode != "workspace", reason=f"no sandbox can be made here: {HELD.why_not_more}")
def test_by_default_an_undo_is_enough_and_a_new_host_is_asked_about(sit_down: Any, project: Path, config: Any) -> None:
    config("{}\n")
    build = make_build(project)
    person = sit_down("chat")
    said = " ".join(person.at_prompt().split())
    assert "Commands write only this project, private caches and a private /tmp. They reach only hosts that you allow." in said
    person.types(DELETE)
    assert "? help" not in person.sees(r"exit code 0")
    assert not build.exists()
    person.at_prompt()
    person.types("/undo")
    person.sees(r"Type yes or no: ?$")
    person.types("yes")
    person.at_prompt()
    assert (build / "old").read_text() == "x"
    person.types('@terminal {"command": "curl -sS https://example.test/x"}')
    screen = person.sees(r"\? help$")
    assert "reaches example.test, which the sandbox does not allow yet" in " ".join(screen.split())
    person.denies("not now")
    assert "not now" in person.at_prompt()


def test_approval_for_the_session_is_not_asked_again(chatting: Any, project: Path) -> None:
    """003-26"""
    build = make_build(project)
    chatting.types(DELETE)
    chatting.chooses("s")
    chatting.sees(r"exit code 0")
    chatting.at_prompt()
    chatting.clears()
    make_build(project)
    chatting.types(DELETE)
    screen = chatting.sees(r"exit code 0")
    assert "? help" not in screen
    assert not build.exists()


def test_a_denial_shows_its_reason(chatting: Any, project: Path) -> None:
    """003-28"""
    build = make_build(project)
    chatting.types(DELETE)
    chatting.denies("the build is still needed")
    chatting.sees(r"  denied  #")
    assert "the build is still needed" in chatting.at_prompt()
    assert build.exists()


def test_what_is_no_choice_goes_to_the_draft(chatting: Any, project: Path) -> None:
    build = make_build(project)
    chatting.types(DELETE)
    chatting.sees(r"\? help$")
    chatting.types("y")
    chatting.sees(r"^┃ > y\n(┃ .*\n)+.*\? help$")
    assert build.exists()
    chatting.presses("d")
    chatting.sees(r"denied")
    chatting.sees(r"^│ > y\n.*/help\Z")
    assert build.exists()


def test_ctrl_c_at_the_question_denies(chatting: Any, project: Path) -> None:
    build = make_build(project)
    chatting.types(DELETE)
    chatting.sees(r"\? help$")
    chatting.presses("c")
    chatting.sees(r"  (denied|interrupted)  #")
    chatting.at_prompt()
    assert build.exists()


def test_ctrl_c_ends_the_call_and_keeps_the_session(chatting: Any, project: Path) -> None:
    chatting.types('@terminal {"command": "cd / && touch /dev/null"}')
    chatting.sees(r"now in /")
    chatting.at_prompt()
    chatting.types(f'@terminal {{"command": "touch {project}/started; sleep 100"}}')
    chatting.sees(r"^│ . 💻 terminal runs touch")
    while not (project / "started").exists():
        chatting.looks()
    chatting.presses("c")
    chatting.sees(r"interrupted")
    chatting.at_prompt()
    chatting.types('@terminal {"command": "pwd; echo still here"}')
    chatting.sees(r"^still here$")
    assert "\n/\n" in chatting.at_prompt()


def test_slash_commands(chatting: Any) -> None:
    chatting.types("/tols")
    chatting.sees(r"did you mean /tools\?")
    chatting.types("/tools")
    chatting.sees(r"@read_file")
    chatting.types("hello there")
    chatting.sees(r"No model is connected")
    chatting.types("/quit")
    assert chatting.waits_for_the_end() == 0


def test_help_breaks_no_word_on_a_narrow_screen(sit_down: Any) -> None:
    person = sit_down("chat", columns=40, rows=80)
    person.at_prompt()
    person.types("/help")
    person.sees(r"^/quit ")
    person.at_prompt()
    commands = person.scrolled.split("/keys lists all keys.")[-1].splitlines()
    assert max(map(len, commands)) <= 40
    told = " ".join(" ".join(commands).split())
    for name, text in SLASH.items():
        assert f"{name} {text}" in told


def test_clarify_asks_and_gets_a_choice(chatting: Any) -> None:
    chatting.types('@clarify {"question": "Which colour?", "choices": ["red", "green"]}')
    assert "2. green" in chatting.sees(r"or your own words >$")
    chatting.types("2")
    chatting.sees(r"clarify .* ok  #1\n.*green")


def test_a_hidden_character_is_shown(chatting: Any, project: Path) -> None:
    build = make_build(project)
    chatting.types('@terminal {"command": "rm -rf build #\\u202e\\u001b[2K"}')
    screen = chatting.sees(r"\? help$")
    assert r"rm -rf build #\u202e^[[2K" in screen
    assert "invisible characters" in screen
    assert "You are asked about this every time." in screen
    assert "s session" not in screen
    chatting.denies()
    chatting.sees(r"  denied  #")
    assert build.exists()


def test_history_is_private_and_comes_back(chatting: Any, sit_down: Any) -> None:
    chatting.types('@terminal {"command": "echo remember"}')
    chatting.sees(r"^remember$")
    chatting.at_prompt()
    chatting.presses("d")
    assert chatting.waits_for_the_end() == 0
    file = Path(os.environ["XDG_STATE_HOME"]) / "toolcrib" / "chat_history"
    assert file.stat().st_mode & 0o777 == 0o600
    again = sit_down("chat")
    again.at_prompt()
    again.process.send("\x1b[A")
    again.sees(r"echo remember")


def test_a_closed_window_ends_what_runs(chatting: Any, project: Path) -> None:
    """If the sleeper survived, the check for leftovers at the end of the test run would find it."""
    chatting.types('@terminal {"command": "touch started; sleep 100"}')
    while not (project / "started").exists():
        chatting.looks()
    chatting.goes_away()
    assert chatting.process.exitstatus == 129


def test_ctrl_c_twice_at_work_interrupts_and_at_the_prompt_leaves(chatting: Any, project: Path) -> None:
    chatting.types('@terminal {"command": "trap \\"\\" INT TERM; touch started; sleep 100"}')
    while not (project / "started").exists():
        chatting.looks()
    chatting.process.send("a draft")
    chatting.sees(r"^│ > a draft$")
    chatting.process.send("\x03\x03")
    chatting.sees(r"interrupted")
    chatting.sees(r"^│ > a draft\n[^\n]*/help\Z")
    chatting.types("\x15/mode")
    chatting.sees(r"^→  cautious")
    chatting.at_prompt()
    chatting.presses("c")
    chatting.sees(r"^Ctrl-C again leaves, as Ctrl-D does$")
    chatting.presses("c")
    assert chatting.waits_for_the_end() == 0


@pytest.mark.parametrize(
    ("entry", "shown"),
    [
        ("{{argv: [rm, -rf, build], cwd: {project}, version: 1}}", "`rm -rf build` in "),
        ("rm -rf build", "`rm -rf build` in "),
        ("recursive delete", "everything that matches 'recursive delete', below "),
    ],
)
def test_what_a_foreign_hand_allowed_must_be_confirmed(
    sit_down: Any, forks: Forks, project: Path, config: Any, entry: str, shown: str
) -> None:
    """003-27: an entry that no approval of the user created does not count until the user confirms it."""
    config(f"approval: {{mode: cautious}}\ncommand_allowlist: [{entry.format(project=project)}]\n")
    for said, asked in (("maybe", True), ("yes", False)):
        build = make_build(project)
        person = sit_down("chat")
        assert shown in person.sees(r"Type yes or no: ?$").replace("\n", "")  # the screen breaks a line where it ends
        person.types(said)
        person.at_prompt()
        person.types(DELETE)
        person.sees("Allow once" if asked else r"exit code 0")
        assert build.exists() == asked
        person.goes_away()
        if asked:
            shutil.rmtree(build)
    make_build(project)
    assert piped(forks, f"{DELETE}\n", project).returncode == 0
    assert not build.exists()


def test_call_asks_on_the_terminal(sit_down: Any, project: Path) -> None:
    for key, code in (("o", 0), ("d", 3)):
        build = project / "build"
        build.mkdir(exist_ok=True)
        person = sit_down("call", "terminal", '{"command": "rm -rf build"}', "--plain")
        person.chooses(key)
        if code:
            person.sees(r"why not \(Enter: no reason\) >")
            person.types("keep it")
        assert person.waits_for_the_end() == code
        assert ("keep it" in person.text) == bool(code)
        assert build.exists() == bool(code)


def test_arrows_reach_a_choice_and_enter_confirms_it(sit_down: Any, project: Path) -> None:
    build = make_build(project)
    person = sit_down("call", "terminal", '{"command": "rm -rf build"}', "--plain")
    person.sees(r"\? help$")
    for key in ("\r", "o\r", "y"):  # Enter alone, pasted text, a letter that is not a choice
        person.process.send(key)
        person.looks()
    person.chooses("\x1b[C", r"  o once  p this path")
    assert "[o once]" in person.text
    person.process.send("\r")
    person.sees("approved: this call only")
    assert person.waits_for_the_end() == 0
    assert not build.exists()


def test_a_dumb_terminal_reads_lines(sit_down: Any, project: Path) -> None:
    build = make_build(project)
    person = sit_down("call", "terminal", '{"command": "rm -rf build"}', "--plain", TERM="dumb")
    person.sees(r"\[d\]eny  \? >")
    person.types("d keep it")
    assert person.waits_for_the_end() == 3
    assert "keep it" in person.text
    assert build.exists()


# -- piped input ---------------------------------------------------------------------------------------------------


def test_piped_in_the_kernel_tells_its_name(forks: Forks, project: Path) -> None:
    done = piped(forks, '@tool terminal {"command": "uname -s"}\n', project)
    assert done.returncode == 0, done.stderr
    assert (
        done.stdout.splitlines()[0] == subprocess.run(["uname", "-s"], capture_output=True, text=True, check=True).stdout.strip()
    )
    assert ">" not in done.stdout


def test_piped_bytes_that_are_no_text_are_told_and_the_rest_goes_on(project: Path) -> None:
    lines = b'@terminal {"command": "echo \xff"}\n@terminal {"command": ls}\n@nothing {}\n@terminal {"command": "echo after"}\n'
    done = subprocess.run([COMMAND, "chat"], input=lines, cwd=project, capture_output=True, timeout=60, check=False)
    assert done.returncode == 0
    assert b"half a surrogate pair" in done.stdout
    assert b"its arguments are not JSON" in done.stdout
    assert b"Unknown tool: nothing" in done.stdout
    assert b"after" in done.stdout.splitlines()
    assert b"Traceback" not in done.stderr


def test_closed_input_is_an_empty_chat(project: Path) -> None:
    done = subprocess.run(
        ["bash", "-c", f"exec {COMMAND} chat <&-"], cwd=project, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_piped_input_never_approves(forks: Forks, project: Path) -> None:
    """003-28: if no person can be asked, the call is denied, whatever the input contains."""
    build = make_build(project)
    done = piped(forks, f"{DELETE}\no\nonce\ny\n", project)
    assert done.returncode == 0
    assert "standard input is not a terminal" in done.stdout
    assert "denied" in done.stderr
    assert build.exists()
