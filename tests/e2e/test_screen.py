"""The chat's screen at a user's terminal: it streams, takes keys at the same time, and loses no typed text."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("plain")]
CHOICES_SHORT = r"^  v  o .*  d deny  \? help$"
CHOICES = r"^┃ +p this path · .* · \? help$"
SLOW = {"command": "touch started; until [ -e go ]; do sleep 0.05; done; echo went"}


def said(server: ChatServer, request: int) -> list[str]:
    return [one["content"] for one in server.requests[request]["messages"] if one["role"] == "user"]


def at_work(person: Any, project: Path) -> None:
    person.types("work")
    while not (project / "started").exists():
        person.looks()


def test_words_are_shown_as_they_come(talking: Any, server: ChatServer) -> None:
    """The first words are shown while the paragraph is incomplete."""
    server.responses.append(ChatServer.text("First words of **a long** paragraph" + " and more" * 40, pieces=200, pause=0.3))
    talking.types("talk")
    screen = talking.sees(r"^First words")
    assert "and more" * 40 not in screen.replace("\n", " ")
    assert re.search(r"^│ >$", screen, re.MULTILINE)
    talking.presses("c")
    talking.sees(r"interrupted; the session is kept")


def test_what_is_typed_while_it_works_is_queued(talking: Any, server: ChatServer, project: Path) -> None:
    server.responses += [ChatServer.calls(("terminal", SLOW)), ChatServer.text("First."), ChatServer.text("Second.")]
    at_work(talking, project)
    talking.types("and then this")
    talking.sees(r"^  queued: and then this$")
    talking.process.send("half a draft")
    talking.sees(r"^│ > half a draft$")
    (project / "go").touch()
    talking.sees(r"^Second\.$")
    assert "> half a draft" in talking.sees(r"/help\Z")
    assert said(server, 2) == ["work", "and then this"]


def test_a_message_that_steers_goes_with_the_next_results(talking: Any, server: ChatServer, project: Path) -> None:
    server.responses += [ChatServer.calls(("terminal", SLOW)), ChatServer.text("As you wish.")]
    at_work(talking, project)
    talking.process.send("use tabs\x1bs")
    talking.sees(r"^» use tabs$")
    (project / "go").touch()
    talking.sees(r"^As you wish\.$")
    talking.at_prompt()
    assert said(server, 1) == ["work", "use tabs"]


def test_a_message_that_came_too_late_to_steer_is_answered(talking: Any, server: ChatServer) -> None:
    server.responses += [ChatServer.text("One. " * 20, pieces=100, pause=0.1), ChatServer.text("Two.")]
    talking.types("talk")
    talking.sees(r"^One\.")
    talking.process.send("late\x1bs")
    talking.sees(r"^Two\.$")
    assert said(server, 1) == ["talk", "late"]


def test_an_interrupt_gives_back_what_was_queued(talking: Any, server: ChatServer, project: Path) -> None:
    server.responses += [ChatServer.calls(("terminal", SLOW)), ChatServer.text("Again.")]
    at_work(talking, project)
    talking.types("and then this")
    talking.sees("queued: ")
    talking.presses("c")
    talking.sees(r"interrupted; the session is kept")
    talking.sees(r"^│ > and then this$")
    assert len(server.requests) == 1
    talking.types("")
    talking.sees(r"^Again\.$")


def test_what_is_typed_ahead_answers_no_question_and_stays(talking: Any, server: ChatServer, project: Path) -> None:
    (project / "build").mkdir()
    server.responses += [ChatServer.calls(("terminal", {"command": "rm -rf build"}), delay=0.3), ChatServer.text("Kept.")]
    talking.types("tidy up")
    for _ in range(30):  # the question appears during these keys
        talking.process.send("o")
        talking.looks()
        time.sleep(0.05)
    screen = talking.text
    assert "│ rm -rf build" in screen
    assert re.search(r"^│ > o{10,}$", screen, re.MULTILINE)
    talking.sees(CHOICES)
    assert (project / "build").exists()
    talking.process.send("d")
    talking.sees("why not")
    talking.types("not now")
    talking.sees(r"^Kept\.$")
    assert talking.scrolled.count("not now") == 1, "the call's line has it"
    assert re.search(r"^│ > o{10,}$", talking.sees(r"/help\Z"), re.MULTILINE)


def test_questions_in_a_row_take_a_key_each(talking: Any, server: ChatServer, project: Path) -> None:
    for name in ("one", "two", "three"):
        (project / name).mkdir()
    calls = [("terminal", {"command": f"rm -rf {name}"}) for name in ("one", "two", "three")]
    server.responses += [ChatServer.calls(*calls), ChatServer.text("Done.")]
    talking.types("tidy up")
    talking.sees(r"Allow this\?  call 1 of 3")
    time.sleep(1)  # wait until the key counts
    talking.process.send("o")
    talking.sees("│ rm -rf two")
    talking.process.send("o")  # before the user can have read the question
    talking.sees(r"^  'o' came before this question could be read: press it again$")
    screen = talking.sees(r"^┏━ Allow this\?  call 2 of 3$")
    assert "> o" not in screen
    assert (project / "two").exists()
    talking.process.send("x")
    talking.sees(r"^  a question waits: what you type is kept for later, a letter alone answers\n┏━ .*\n┃ > x$")
    talking.process.send("\x7f")
    talking.sees(r"^┏━ Allow this\?  call 2 of 3$")
    time.sleep(1)  # wait, because the x counts as typing
    talking.process.send("o")
    talking.sees("│ rm -rf three")
    talking.process.send("do keep it")  # more than a single letter is text
    talking.sees(r"^│ > do keep it$")
    talking.sees(r"^  an approval request waits: stop typing to answer it$")
    talking.sees(r"^┏━ Allow this\?  call 3 of 3$")
    assert not (project / "two").exists()
    talking.process.send("d")
    talking.sees("why not")
    talking.types("")
    talking.sees(r"^Done\.$")
    assert re.search(r"^│ > do keep it$", talking.sees(r"/help\Z"), re.MULTILINE)
    assert (project / "three").exists()


def test_a_key_switches_the_mode(talking: Any, server: ChatServer, project: Path) -> None:
    server.responses += [ChatServer.calls(("terminal", {"command": "touch made"})), ChatServer.text("It was refused.")]
    talking.process.send("dra\x1b[Z")
    talking.sees(r"^╰ confirm-edits · test-model · ")
    talking.process.send("\x1b[Z")
    talking.sees(r"^╰ plan · test-model · .*local · /help")
    talking.types("ft")
    talking.sees(r"^It was refused\.$")
    assert said(server, 0) == ["draft"]
    assert not (project / "made").exists()
    talking.process.send("\x1b[Z")
    screen = talking.sees(r"^│ >\n╰ test-model · [^\n]*/help\Z")
    assert "mode " not in screen  # a frequent key prints no line for each press


def test_alt_and_a_letter_answer_no_question(talking: Any, server: ChatServer, project: Path) -> None:
    (project / "build").mkdir()
    server.responses += [ChatServer.calls(("terminal", {"command": "rm -rf build"})), ChatServer.text("Kept.")]
    talking.types("tidy up")
    talking.sees(CHOICES)
    assert "Alt-S" not in talking.sees(r"Ctrl-C denies and interrupts")
    talking.process.send("\x1bs\x18\x13\x1bo\r")
    talking.chooses("d")
    talking.sees(r"why not")
    talking.types("no")
    talking.sees(r"^Kept\.$")
    assert (project / "build").exists()


def test_commands_that_only_tell_do_not_wait(talking: Any, server: ChatServer, project: Path) -> None:
    server.responses += [ChatServer.calls(("terminal", SLOW)), ChatServer.text("Done.")]
    at_work(talking, project)
    talking.types("/env")
    talking.sees(r"^commands run in local")
    talking.types("/mode plan")
    talking.sees(r"^╰ plan ·")
    (project / "go").touch()
    talking.sees(r"^Done\.$")
    talking.types("/new")
    talking.sees(r"a new session, in mode plan")
    assert "tokens" not in talking.sees(r"^╰ plan · test-model · local · /help")


def test_several_lines(talking: Any, server: ChatServer) -> None:
    server.responses.append(ChatServer.text("Four."))
    talking.process.send("one\\\rtwo\x1b\rthree\x0afour")
    talking.sees(r"^│ > one\n│   two\n│   three\n│   four$")
    talking.types("")
    talking.sees(r"^Four\.$")
    assert said(server, 0) == ["one\ntwo\nthree\nfour"]


def test_a_large_paste_is_a_label_and_is_sent_whole(talking: Any, server: ChatServer) -> None:
    server.responses.append(ChatServer.text("Long."))
    pasted = "\n".join(f"line {number} of it" for number in range(5_000))
    talking.process.send("read: ")
    for at in range(0, len(pasted), 1000):
        begin, end = "\x1b[200~" if not at else "", "\x1b[201~" if at + 1000 >= len(pasted) else ""
        talking.process.send(f"{begin}{pasted[at : at + 1000]}{end}")
        talking.looks()
    talking.sees(r"^│ > read: \[pasted 5000 lines\]$")
    talking.types("")
    talking.sees(r"^Long\.$")
    assert said(server, 0) == [f"read: {pasted}"]


def test_the_draft_goes_through_an_editor(sit_down: Any, server: ChatServer, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\necho in the editor\nsed -i "s/draft/edited text/" "$1"\n')
    editor.chmod(0o755)
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m", EDITOR=str(editor))
    person.at_prompt()
    person.process.send("my draft\x18\x05")
    person.sees(r"^│ > my edited text$")


def test_history_is_searched(talking: Any, server: ChatServer) -> None:
    server.responses += [ChatServer.text("One."), ChatServer.text("Two."), ChatServer.text("Three.")]
    for line, answer in (("the first thing", "One"), ("another one", "Two")):
        talking.types(line)
        talking.sees(rf"^{answer}\.$")
        talking.at_prompt()
    talking.process.send("\x12first")
    talking.sees(r"^│ search 'first' > the first thing$")
    talking.process.send("\r")
    talking.sees(r"^│ > the first thing$")
    talking.types("")
    talking.sees(r"^Three\.$")
    assert said(server, 2)[-1] == "the first thing"


def test_completions_are_offered(talking: Any) -> None:
    talking.process.send("/s\t\t")
    screen = talking.sees(r"^│   /sessions  the last sessions, with titles and tags$")
    assert "│   /show  " in screen


def test_a_command_shows_its_output_while_it_runs(talking: Any, server: ChatServer, project: Path, monkeypatch: Any) -> None:
    command = {"command": "echo one; printf 'half of a'; " + SLOW["command"]}
    server.responses += [ChatServer.calls(("terminal", command)), ChatServer.text("Done.")]
    talking.types("run it")
    screen = talking.sees(r"^│     one$")
    assert "│     half of a" not in screen  # an incomplete line may hold half a secret
    (project / "go").touch()
    talking.sees(r"^Done\.$")
    assert "│   half of awent\n" in talking.text


def test_secrets_stay_out_of_live_output(sit_down: Any, server: ChatServer, project: Path) -> None:
    command = {"command": "echo key=sk-proj-abcdefghijklmnopqrstuvwx; echo next; " + SLOW["command"]}
    server.responses += [ChatServer.calls(("terminal", command)), ChatServer.text("Done.")]
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m")
    person.at_prompt()
    person.types("run it")
    screen = person.sees(r"^│     next$")
    assert "[redacted" in screen
    assert "sk-proj-abc" not in screen.split("terminal runs")[1].split("\n", 1)[1]
    (project / "go").touch()
    person.sees(r"^Done\.$")


def test_items_are_shown_whole(talking: Any, server: ChatServer) -> None:
    talking.types("/show 1")
    talking.sees(r"there is no item 1; there are no items yet$")
    talking.types("/show")
    talking.sees(r"nothing to show yet: a call gets its #N when it ends$")
    server.responses += [ChatServer.calls(("terminal", {"command": "seq 20"})), ChatServer.text("Done.")]
    talking.types("count")
    screen = talking.sees(r"^Done\.$")
    assert "\n│   20\n" in screen
    assert "\n│   3\n" not in screen
    assert "more lines: /show 1" in screen
    talking.at_prompt()
    talking.types("/show 1")
    screen = talking.sees(r"^1\n2\n3\n")
    assert "command: seq 20" in screen
    talking.types("/show 7")
    talking.sees(r"there is no item 7; the items are 1 to 1")


def test_lines_that_are_left_out_are_counted_as_people_write_numbers(talking: Any, server: ChatServer) -> None:
    for count in (2006, 7):
        server.responses += [ChatServer.calls(("terminal", {"command": f"seq {count}"})), ChatServer.text(f"That was {count}.")]
        talking.types("count")
        talking.sees(rf"^That was {count}\.$")
        talking.at_prompt()
    screen = talking.text
    assert "  … 2,000 more lines: /show 1\n" in screen
    assert "  … 1 more line: /show 2\n" in screen


def test_a_long_item_opens_in_the_pager(sit_down: Any, server: ChatServer, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\ncat >/dev/null\necho in the pager; stty -a </dev/tty | grep -o ' icanon'\nsleep 0.5\n")
    pager.chmod(0o755)
    server.responses += [ChatServer.calls(("terminal", {"command": "seq 100"})), ChatServer.text("Done.")]
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m", PAGER=str(pager))
    person.at_prompt()
    person.types("count")
    person.sees(r"^Done\.$")
    person.at_prompt()
    person.types("/show")
    person.sees(r"^in the pager\n icanon")
    person.at_prompt()


def test_a_failed_command_says_so_in_its_line(talking: Any, server: ChatServer) -> None:
    server.responses += [ChatServer.calls(("terminal", {"command": "echo no; exit 3"})), ChatServer.text("Done.")]
    talking.types("run it")
    assert re.search(r"^│ 💻 terminal runs echo no; exit 3  .*  exit 3  #1\n│   no\n", talking.sees(r"^Done\.$"), re.MULTILINE)


def test_a_kill_leaves_the_terminal_as_it_was(talking: Any, server: ChatServer, project: Path) -> None:
    server.responses += [ChatServer.calls(("terminal", SLOW))]
    at_work(talking, project)
    talking.process.kill(signal.SIGTERM)
    assert talking.waits_for_the_end() == 143
    assert talking.text.split("\n")[-1] == "interrupted; the session is kept"  # the live rows are removed


def test_thinking_is_folded(talking: Any, server: ChatServer) -> None:
    deltas = [{"reasoning_content": "hmm, "}, {"reasoning_content": "well"}, {"content": "Yes."}]
    server.responses.append(ChatServer.stream(*({"choices": [{"index": 0, "delta": delta}]} for delta in deltas)))
    talking.types("is it?")
    screen = talking.sees(r"^Yes\.$")
    assert "hmm" not in screen
    assert re.search(r"^│ 💭 thought for .*  #1$", screen, re.MULTILINE)
    talking.at_prompt()
    talking.types("/show 1")
    talking.sees(r"^hmm, well$")


def test_the_tasks_are_a_list(talking: Any, server: ChatServer) -> None:
    todos = [{"content": "look", "status": "completed"}, {"content": "mend", "status": "in_progress"}, {"content": "test"}]
    server.responses += [ChatServer.calls(("todo", {"todos": todos})), ChatServer.text("Planned.")]
    talking.types("plan")
    assert "\n│   ✓ look\n│   ▸ mend\n│   ○ test\n" in talking.sees(r"^Planned\.$")


def test_a_persons_time_is_not_the_calls(talking: Any, server: ChatServer, project: Path) -> None:
    (project / "build").mkdir()
    server.responses += [ChatServer.calls(("terminal", {"command": "rm -rf build"})), ChatServer.text("Gone.")]
    talking.types("tidy up")
    talking.sees(CHOICES)
    time.sleep(3)
    talking.process.send("o")
    found = re.search(r"rm -rf build  ([\d.]+) (m?s)  ok", talking.sees(r"^Gone\.$"))
    assert found is not None
    assert found[2] == "ms" or float(found[1]) < 3


def test_leaving_says_how_to_come_back(talking: Any, server: ChatServer, sit_down: Any) -> None:
    server.responses += [ChatServer.text("Hello."), ChatServer.text("Hello again.")]
    talking.types("hi")
    talking.sees(r"^Hello\.$")
    talking.at_prompt()
    talking.presses("d")
    assert talking.waits_for_the_end() == 0
    found = re.search(r"^session (\w+): toolcrib chat --resume \1 continues this session$", talking.text, re.MULTILINE)
    assert found is not None
    assert "/help\n" not in talking.text.split("\n", 2)[2]  # the live rows are removed
    again = sit_down("chat", "--base-url", server.base_url, "--model", "m", "--resume", found[1])
    assert "> hi" in again.at_prompt()


@pytest.mark.parametrize("columns", [40, 200])
def test_any_width(sit_down: Any, server: ChatServer, columns: int) -> None:
    text = (
        "# Title\n\nSome words that fill a row or two of a narrow screen, and `code`.\n\n| a | b |\n|-|-|\n| "
        + "x" * 60
        + " | y |\n"
    )
    server.responses += [ChatServer.calls(("terminal", {"command": "echo " + "w" * 90})), ChatServer.text(text)]
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m", columns=columns)
    person.at_prompt()
    person.types("go")
    screen = person.sees(r"^Title$(.*\n)*x+  y$") if columns == 200 else person.sees(r"^Title$(.*\n)*x+$")
    assert max(map(len, screen.split("\n"))) < columns
    assert "  ok  #1\n" in screen


def test_a_dumb_terminal_gets_plain_lines(sit_down: Any, server: ChatServer) -> None:
    server.responses += [ChatServer.calls(("terminal", {"command": "echo hi"})), ChatServer.text("It says **hi**.")]
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m", TERM="dumb")
    person.sees(r"^> ?$")
    person.types("run it")
    screen = person.sees(r"^It says \*\*hi\*\*\.$")
    assert re.search(r"^💻 terminal runs echo hi  .*  ok  #1\n  hi$", screen, re.MULTILINE)


# -- approvals -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def asked(talking: Any, server: ChatServer, project: Path) -> Any:
    """A chat that shows the choices for a command that deletes a folder, while the model waits."""
    (project / "build").mkdir()
    server.responses += [ChatServer.calls(("terminal", {"command": "rm -rf build"})), ChatServer.text("So be it.")]
    talking.types("tidy up")
    talking.sees(CHOICES)
    return talking


def test_text_that_goes_on_answers_nothing_and_is_kept(asked: Any, project: Path) -> None:
    """The first letters are choices, and the choices were visible for a while, but the input is text."""
    asked.process.send("only")
    asked.sees(r"^┃ > only$")
    asked.process.send("\r o p s")
    asked.sees(r"^┃ > only o p s\n┃   o  Allow once")
    asked.process.send("\x1b[200~ o\n o\x1b[201~")
    asked.sees(r"^┃ > only o p s o\n┃    o\n┃   o  Allow once")
    assert (project / "build").exists()
    asked.chooses("o")
    asked.sees(r"^  approved: this call only.*\n(.*\n)*So be it\.$")
    assert re.search(r"^│ > only o p s o\n│    o$", asked.sees(r"/help\Z"), re.MULTILINE)
    assert not (project / "build").exists()


def test_the_arrows_and_enter_choose(asked: Any, project: Path) -> None:
    asked.process.send("\x1b[C")
    asked.sees(r"^┃ → o  Allow once ")
    asked.process.send("\x1b[C")
    asked.sees(r"^┃ → s  Allow in session ")
    asked.process.send("\r")
    asked.sees(r"^  approved: fs\.recursive-delete, anywhere below ")
    asked.sees(r"^So be it\.$")
    assert not (project / "build").exists()


def test_a_denial_takes_its_reason_on_the_same_line(asked: Any, server: ChatServer, project: Path) -> None:
    asked.process.send("d")
    asked.sees(r"^┃   why not \(Enter: no reason\) >$")
    asked.types("I need the log")
    asked.sees(r"^So be it\.$")
    assert "I need the log" in server.requests[1]["messages"][-1]["content"]
    assert (project / "build").exists()


def test_ctrl_c_says_no_and_interrupts(asked: Any, server: ChatServer, project: Path) -> None:
    asked.presses("c")
    asked.sees(r"^interrupted; the session is kept$")
    asked.at_prompt()
    assert len(server.requests) == 1
    assert (project / "build").exists()
    asked.types("go on")
    asked.sees(r"^So be it\.$")


def test_escape_says_no_and_interrupts_and_keeps_the_draft(asked: Any, server: ChatServer, project: Path) -> None:
    asked.process.send("my draft")
    asked.sees(r"^┃ > my draft$")
    asked.process.send("\x1b")
    asked.sees(r"^interrupted; the session is kept$")
    asked.sees(r"^│ > my draft\n[^\n]*/help\Z")
    assert len(server.requests) == 1
    assert (project / "build").exists()
    asked.process.send("\x1b")  # nothing runs: it does not clear the draft
    time.sleep(1)
    asked.process.send("\x1b\rmore")
    asked.sees(r"^│ > my draft\n│   more\n[^\n]*/help\Z")


def test_escape_interrupts_and_before_a_letter_is_alt(talking: Any, server: ChatServer, project: Path) -> None:
    server.responses += [ChatServer.calls(("terminal", SLOW))]
    at_work(talking, project)
    talking.process.send("use tabs\x1bs")
    talking.sees(r"^» use tabs$")
    talking.process.send("a draft\x1b")
    talking.sees(r"^interrupted; the session is kept$")
    screen = talking.sees(r"/help\Z")
    assert "│ > use tabs\n│   a draft\n" in screen


def test_a_narrow_screen_shows_the_mode(sit_down: Any, server: ChatServer) -> None:
    person = sit_down("chat", "--base-url", server.base_url, "--model", "a-model-of-a-name", columns=40)
    person.at_prompt()
    person.types("/mode plan")
    person.sees(r"^╰ plan · a-model-of-a-name")


@pytest.mark.parametrize("word", ["exit", "quit"])
def test_a_word_that_leaves_other_programs_leaves(talking: Any, server: ChatServer, word: str) -> None:
    talking.types(word)
    assert talking.waits_for_the_end() == 0
    assert not server.requests


@pytest.mark.parametrize(("bell", "rings"), [("always", 1), ("never", 0)])
def test_a_question_rings_the_bell_once(
    sit_down: Any, server: ChatServer, project: Path, plain: Any, bell: str, rings: int
) -> None:
    plain(f"display: {{bell: {bell}}}\n")
    (project / "build").mkdir()
    server.responses += [ChatServer.calls(("terminal", {"command": "rm -rf build"})), ChatServer.text("So be it.")]
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m")
    person.at_prompt()
    person.types("tidy up")
    person.denies("not now")
    person.sees(r"^So be it\.$")
    assert person.written.count(b"\x07") == rings


def test_a_small_screen_shows_all_that_a_yes_covers(sit_down: Any, server: ChatServer, project: Path) -> None:
    command = "rm -rf " + " ".join(f"folder-{number}" for number in range(14))
    server.responses += [ChatServer.calls(("terminal", {"command": command})), ChatServer.text("Kept.")]
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m", columns=40, rows=8)
    person.at_prompt()
    person.types("tidy up")
    person.sees(r"^  ! \d+ more lines: v next page")
    person.sees(CHOICES_SHORT)
    person.process.send("V")
    person.sees(r"^^  ! this is the end$")
    person.sees(CHOICES_SHORT)
    shown = "".join(person.scrolled.split())
    assert all(f"folder-{number}" in shown for number in range(14))
    assert "fs.recursive-delete" in shown
    person.process.send("v")
    person.sees(r"this is the end; V shows all again$")
    person.process.send("d")
    person.sees("why not")
    person.types("")
    person.sees(r"^Kept\.$")
