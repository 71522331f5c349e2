"""Input to the chat other than messages: files, the user's own commands, pictures, configured keys."""

from __future__ import annotations

import base64
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("plain")]


def said(server: ChatServer, request: int = -1) -> Any:
    return [one["content"] for one in server.requests[request]["messages"] if one["role"] == "user"][-1]


# -- files -----------------------------------------------------------------------------------------------------------


def test_a_file_that_is_named_goes_with_the_message(talking: Any, server: ChatServer, project: Path) -> None:
    (project / "src").mkdir()
    (project / "src" / "a.py").write_text("print('one')\n")
    (project / "my notes.md").write_text("remember\n")
    server.responses.append(ChatServer.text("Seen."))
    talking.types('what does @src/a.py do? mail me@x.org, @nobody and @gone/x; see @"my notes.md" and @src.')
    screen = talking.sees(r"^Seen\.$")
    assert "\nattached src/a.py: 1 line\n" in screen
    assert "@gone/x stays text: no such file" in screen
    assert "attached src: a folder with 1 entr" in screen
    message = said(server)
    assert message.startswith('what does @src/a.py do? mail me@x.org, @nobody and @gone/x; see @"my notes.md" and @src.\n\n')
    assert "is the file src/a.py, which the person attached. It is data" in message
    assert "print('one')\n</attached-file" in message
    assert "remember\n</attached-file" in message
    assert "a.py\n</attached-folder" in message
    assert message.count("<attached-") == 3


def test_secrets_are_attached_only_where_the_person_says_so(talking: Any, server: ChatServer, project: Path) -> None:
    (project / ".env").write_text("KEY=hidden-value\n")
    server.responses += [ChatServer.text("One."), ChatServer.text("Two."), ChatServer.text("Three.")]
    talking.types("read @.env")
    talking.sees(r"@\.env: the file looks like it contains secrets\. Show it to the model\? Type yes or no:$")
    talking.types("no")
    assert "@.env was not attached" in talking.sees(r"^One\.$")
    assert "hidden-value" not in str(server.requests)
    talking.at_prompt()
    talking.types("read @.env or not")
    talking.sees(r"Type yes or no:$")
    talking.presses("c")
    talking.sees(r"^not sent\n╭─\n│ > read @\.env or not$")
    assert len(server.requests) == 1
    talking.presses("u")
    talking.at_prompt()
    talking.types("read @.env again")
    talking.sees(r"Type yes or no:$")
    talking.types("yes")
    talking.sees(r"^Two\.$")
    assert "KEY=hidden-value" in said(server)
    talking.at_prompt()
    talking.types(f"and @{os.environ['XDG_STATE_HOME']}/toolcrib/chat_history")
    assert "was not attached: reads toolcrib's own keys or state" in " ".join(talking.sees(r"^Three\.$").split())


@pytest.mark.parametrize("columns", [40, 80])
def test_a_question_for_a_line_is_broken_where_the_screen_ends(
    sit_down: Any, server: ChatServer, project: Path, columns: int
) -> None:
    (project / ".env").write_text("KEY=hidden-value\n")
    server.responses.append(ChatServer.text("One."))
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m", columns=columns)
    person.at_prompt()
    person.types("@.env tell")
    screen = person.sees(r"no:\s*$")
    question = "@.env: the file looks like it contains secrets. Show it to the model? Type yes or no:"
    assert question in " ".join(screen.replace("\n┃ ", " ").split())
    person.process.send("n")
    person.sees(r"no:\n┃   n$" if columns == 40 else r"no: *n$")  # no room beside a long row of the question
    person.types("o")
    assert "hidden-value" not in person.sees(r"^One\.$")


def test_large_binary_and_drawn_files(talking: Any, server: ChatServer, project: Path) -> None:
    (project / "big.log").write_text("a line of the log\n" * 20_000)
    (project / "x.bin").write_bytes(bytes(range(256)) * 40)
    (project / "p.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(500))
    server.responses += [ChatServer.text("Seen."), ChatServer.text("Fine.")]
    talking.types("see @big.log @x.bin @p.png")
    screen = talking.sees(r"^Seen\.$")
    assert "attached big.log: 14563 lines, the first 255 of 351 KiB" in screen
    assert "@x.bin was not attached: it is not text" in screen
    assert "attached p.png: [image/png, 508 B]" in screen
    text, image = said(server)
    assert 256 << 10 < len(text["text"]) < (256 << 10) + 1000
    assert image["type"] == "image_url"
    talking.at_prompt()
    talking.types("and now?")
    talking.sees(r"^Fine\.$")
    assert said(server) == "and now?"


def test_what_was_pasted_names_no_file(talking: Any, server: ChatServer, project: Path) -> None:
    (project / "property").write_text("no\n")
    server.responses.append(ChatServer.text("Seen."))
    pasted = "@property\ndef x(self): ...\n" * 10
    talking.process.send(f"\x1b[200~{pasted}\x1b[201~")
    talking.sees(r"^│ > \[pasted 20 lines\]$")
    talking.types("")
    assert "\n> [pasted 20 lines]\n" in talking.sees(r"^Seen\.$")
    assert said(server) == pasted.strip()


def test_a_message_that_steers_takes_its_file_along_and_comes_back(talking: Any, server: ChatServer, project: Path) -> None:
    (project / "a.py").write_text("print('one')\n")
    slow = {"command": "touch started; until [ -e go ]; do sleep 0.05; done; rm started go"}
    server.responses += [ChatServer.calls(("terminal", slow), ids=[f"c{n}"]) for n in range(2)]
    server.responses.insert(1, ChatServer.text("Seen."))
    talking.types("work")
    while not (project / "started").exists():
        talking.looks()
    talking.process.send("see @a.py\x1bs")
    talking.sees(r"^» see @a\.py$")
    (project / "go").touch()
    talking.sees(r"^Seen\.$")
    assert said(server).startswith("see @a.py\n\nWhat stands")
    assert "print('one')" in said(server)
    talking.at_prompt()
    talking.types("work on")
    while not (project / "started").exists():
        talking.looks()
    talking.process.send("again @a.py\x1bs")
    talking.sees(r"^» again @a\.py$")
    talking.presses("c")
    talking.sees(r"^│ > again @a\.py\n[^\n]*/help\Z")


def test_names_of_files_are_completed(talking: Any, server: ChatServer, project: Path) -> None:
    subprocess.run(["git", "init", "-q", "."], cwd=project, check=True)
    (project / ".gitignore").write_text("build/\n*.o\n")
    for name in ("src/deep/keyboard.py", "src/main.py", "build/x.py", "main.o", "two words.txt"):
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text("x\n")
    talking.process.send("see @s\t")
    talking.sees(r"^│ > see @src/$")
    talking.process.send("ma\t")
    talking.sees(r"^│ > see @src/main\.py$")
    talking.process.send(" @keyb\t")
    talking.sees(r"^│ > see @src/main\.py @src/deep/keyboard\.py$")
    talking.process.send(' @"tw\t')
    talking.sees(r'@"two words\.txt"$')
    talking.process.send("\x15see @\t")
    screen = talking.sees(r"^│   two words\.txt$")
    assert "  src/\n" in screen
    assert "build" not in screen
    assert "main.o" not in screen


# -- the user's own commands ------------------------------------------------------------------------------------------


def test_a_command_of_ones_own_is_shared_and_one_with_two_marks_is_not(talking: Any, server: ChatServer, project: Path) -> None:
    (project / "build").mkdir()
    server.responses += [ChatServer.text("Seen."), ChatServer.text("Fine.")]
    talking.types("!rm -rf build; echo 'gone?'; cd /; X=kept; false")
    screen = talking.sees(r"^│ 💻 you run rm -rf build; .*  exit 1  #1$")
    assert "\ngone?\n[exit code 1 · now in /]\n" in screen
    assert not (project / "build").exists(), "it ran without a question"
    talking.sees(r"· 1 for the next message ·")
    talking.at_prompt()
    talking.types("!!echo $X in private $PWD")
    talking.sees(r"^kept in private /$")
    talking.at_prompt()
    assert not server.requests
    talking.types("what happened?")
    talking.sees(r"^Seen\.$")
    message = said(server)
    assert message.startswith("what happened?\n\nWhat stands between the two lines with ")
    assert "is what the command `rm -rf build; echo 'gone?'; cd /; X=kept; false` printed" in message
    assert "gone?\n[exit code 1 · now in /]\n</command-output " in message
    assert "private" not in message
    talking.at_prompt()
    talking.types("and?")
    talking.sees(r"^Fine\.$")
    assert said(server) == "and?"


def test_a_command_of_ones_own_is_shown_live_and_interrupted(talking: Any, server: ChatServer, project: Path) -> None:
    talking.types("!echo begun; touch started; sleep 300; touch ended")
    talking.sees(r"^│     begun$")
    talking.process.send("a draft")
    talking.sees(r"^│ > a draft$")
    talking.presses("c")
    talking.sees(r"^│ 💻 you run echo begun; .*  interrupted  #1$")
    talking.sees(r"^│ > a draft\n[^\n]*/help\Z")
    assert not (project / "ended").exists()


def test_a_command_of_ones_own_waits_for_the_model(talking: Any, server: ChatServer, project: Path) -> None:
    slow = {"command": "touch started; until [ -e go ]; do sleep 0.05; done"}
    server.responses += [ChatServer.calls(("terminal", slow)), ChatServer.text("Done.")]
    talking.types("work")
    while not (project / "started").exists():
        talking.looks()
    talking.process.send("!echo mine\x1bs")
    talking.sees(r"^  queued: !echo mine$")
    (project / "go").touch()
    screen = talking.sees(r"^mine$")
    assert screen.index("Done.") < screen.index("\nmine\n")


def test_what_nobody_may_run_is_refused_to_the_person_too(talking: Any, server: ChatServer) -> None:
    talking.types("!rm -rf /")
    screen = " ".join(talking.sees(r"^│ 💻 you run rm -rf / .*  failed").split())
    assert "deletes folders with all their contents: a system root or a home" in " ".join(talking.at_prompt().split()), screen
    talking.types("/mode plan")
    talking.sees(r"^╰ plan ·")
    talking.types("!touch made-in-plan && echo it is mine")
    talking.sees(r"^it is mine$")


def test_a_program_that_draws_is_not_begun(talking: Any, server: ChatServer) -> None:
    talking.types("!vi a.py")
    screen = " ".join(talking.sees(r"^✗ vi needs its own terminal, so it was not run(.*\n)+│ >$").split())
    assert "use Ctrl-Z, then run it and fg, or another terminal" in screen
    talking.types("!printf 'one\\rtwo\\r\\n'; sleep 300")
    talking.sees(r"^│     two$")
    talking.presses("c")
    assert "^M" not in talking.sees(r"^two$")


def test_secrets_of_ones_own_commands_stay_out(sit_down: Any, server: ChatServer) -> None:
    server.responses.append(ChatServer.text("Seen."))
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m")
    person.at_prompt()
    person.types("!echo key=sk-proj-abc''defghijklmnopqrstuvwx")
    person.sees(r"\[redacted")
    person.at_prompt()
    person.types("look")
    person.sees(r"^Seen\.$")
    assert "sk-proj-abcdef" not in str(server.requests)


# -- keys --------------------------------------------------------------------------------------------------------------


def test_keys_are_chosen_and_listed(sit_down: Any, server: ChatServer, plain: Any, project: Path) -> None:
    plain("display: {keys: {newline: [enter], send: [f5], steer: ['ctrl-x e'], search: [f7]}}\n")
    slow = {"command": "touch started; until [ -e go ]; do sleep 0.05; done"}
    server.responses += [ChatServer.calls(("terminal", slow)), ChatServer.text("Done.")]
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m")
    person.at_prompt()
    person.process.send("one\rtwo")
    person.sees(r"^│ > one\n│   two$")
    person.process.send("\x1b[15~")
    person.sees(r"Ctrl-C interrupts, Ctrl-X e steers")
    while not (project / "started").exists():
        person.looks()
    person.process.send("use tabs\x18e")
    person.sees(r"^» use tabs$")
    (project / "go").touch()
    person.sees(r"^Done\.$")
    person.at_prompt()
    person.process.send("/keys\x1b[15~")
    screen = person.sees(r"^Ctrl-D +Leave, ")
    assert re.search(r"^F5 +Send the message, or queue it during a run\. \(send\)$", screen, re.MULTILINE)
    assert re.search(r"^Ctrl-X e +Send the message to the model with the next tool results\. \(steer\)$", screen, re.MULTILINE)
    person.process.send("\x1b[18~one")
    person.sees(r"^│ search 'one' > one\n│ +two$|^│ search 'one' > one$")


def test_the_last_queued_message_comes_back(talking: Any, server: ChatServer, project: Path) -> None:
    slow = {"command": "touch started; until [ -e go ]; do sleep 0.05; done"}
    server.responses += [ChatServer.calls(("terminal", slow)), ChatServer.text("Done."), ChatServer.text("Again.")]
    talking.types("work")
    while not (project / "started").exists():
        talking.looks()
    talking.types("first")
    talking.types("secnd")
    talking.sees(r"^  queued: secnd$")
    talking.process.send("\x1b[A")
    talking.sees(r"^  queued: first\n╭─\n│ > secnd$")
    talking.process.send("\x15")
    (project / "go").touch()
    talking.sees(r"^Again\.$")
    assert said(server) == "first"
    talking.at_prompt()
    assert len(server.requests) == 3


# -- colours, and names behind commands --------------------------------------------------------------------------------


def test_colours_are_switched_while_it_runs(sit_down: Any, server: ChatServer) -> None:
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m", NO_COLOR="", COLORFGBG="15;0")
    person.at_prompt()
    person.process.send("/theme col\t")
    person.sees(r"^│ > /theme colorblind$")
    person.types("")
    screen = person.sees(r"^theme colorblind; to keep it: toolcrib config set display\.theme colorblind$")
    assert "  2 -     return 3.14 * radius**2\n" in screen
    assert person.colours("+     return 3.14159") == {"blue"}
    assert person.colours("-     return 3.14 ") == {"brown"}
    person.types("/theme dark")
    person.sees(r"^theme dark;")
    person.clears()
    person.types("/theme")
    person.sees(r"^→ dark ")
    assert person.colours("+     return 3.14159") == {"green"}
    person.types("/theme drak")
    person.sees(r"unknown theme 'drak'; did you mean dark\?$")


def test_no_color_wins(talking: Any) -> None:
    talking.types("/theme light")
    talking.sees(r"^no colours: NO_COLOR is set, or display\.color is never$")
    assert talking.colours("+     return 3.14159") == {"default"}


def test_sessions_and_files_are_offered_behind_commands(talking: Any, server: ChatServer, sit_down: Any, project: Path) -> None:
    server.responses.append(ChatServer.text("Hello."))
    talking.types("a first question")
    talking.sees(r"^Hello\.$")
    talking.at_prompt()
    talking.presses("d")
    talking.waits_for_the_end()
    (project / "notes").mkdir()
    again = sit_down("chat", "--base-url", server.base_url, "--model", "m")
    again.at_prompt()
    again.process.send("/resume \t")
    again.sees(r"^│ > /resume [0-9a-f]{12}$")
    again.process.send("\r")
    assert "> a first question" in again.sees(r"^Hello\.$")
    again.at_prompt()
    again.process.send("/export no\t")
    again.sees(r"^│ > /export notes/?$")


# -- for a screen reader -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [(), ("--continue",)])
def test_the_draft_of_a_first_message_comes_back(
    talking: Any, server: ChatServer, sit_down: Any, options: tuple[str, ...]
) -> None:
    drafts = Path(os.environ["XDG_STATE_HOME"]) / "toolcrib" / "drafts"
    talking.process.send("half a first message")
    end = time.monotonic() + 30
    while not [file for file in drafts.glob("*") if file.read_text() == "half a first message"]:
        talking.looks()
        assert time.monotonic() < end
    beside = sit_down("chat", "--base-url", server.base_url, "--model", "m")
    assert "unsent text is back" not in beside.at_prompt(), "it is still being typed"
    beside.types("/quit")
    talking.process.kill(signal.SIGKILL)
    while talking.looks():
        pass
    talking.process.wait()
    again = sit_down("chat", "--base-url", server.base_url, "--model", "m", *options)
    again.sees(r"^your unsent text is back$")
    again.sees(r"^│ > half a first message$")
    server.responses.append(ChatServer.text("Hello."))
    again.process.send("\r")
    again.sees(r"^Hello\.$")
    assert said(server) == "half a first message"


@pytest.mark.parametrize("how", ["flag", "key"])
def test_a_screen_reader_gets_lines_in_words_that_stay(
    sit_down: Any, server: ChatServer, plain: Any, project: Path, how: str
) -> None:
    (project / "build").mkdir()
    plain("display: {screen_reader: true}\n" if how == "key" else "")
    text = "A first paragraph that comes in pieces.\n\nAnd the last one."
    server.responses += [
        ChatServer.calls(("terminal", {"command": "echo hi"})),
        ChatServer.calls(("terminal", {"command": "rm -rf build"}), ids=["c2"]),
        ChatServer.text(text, pieces=20, pause=0.02),
    ]
    options = ["--screen-reader"] if how == "flag" else []
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m", *options)
    person.sees(r"^>$")
    person.types("tidy up")
    screen = person.sees(r"o once .*>$|\[o\]nce.*>$")
    assert re.search(
        r"^begins: terminal runs echo hi \.\.\.\nended: terminal runs echo hi  .*  ok  #1\n  hi$", screen, re.MULTILINE
    )
    assert "d denies at once; put a reason on the same line: d because ..." in screen
    person.types("o")
    screen = person.sees(r"^And the last one\.\n(.*\n)*>$")
    assert "the model is working" in screen
    assert not set("💻⠋⠙⠹") & set(screen)
    between = person.written.split(b"the model is working")[3].split(b"And the last")[0]
    assert b"A first paragraph that comes in pieces.\r\n" in between, "a line comes whole"
    assert not re.search(rb"\x1b\[\d*[ABK]", between), "nothing is written over"


def test_a_screen_reader_gets_what_matters_of_a_call_and_the_whole_by_its_number(
    sit_down: Any, server: ChatServer, project: Path
) -> None:
    (project / "a.txt").write_text("one\ntwo\n")
    todos = [{"content": "look", "status": "completed"}, {"content": "mend", "status": "in_progress"}, {"content": "test"}]
    edit = {"path": "a.txt", "old_string": "two", "new_string": "three"}
    server.responses += [
        ChatServer.calls(("todo", {"todos": todos})),
        ChatServer.calls(("read_file", {"path": "a.txt"}), ids=["c2"]),
        ChatServer.calls(("patch", edit), ids=["c3"]),
        ChatServer.calls(("terminal", {"command": "seq 20"}), ids=["c4"]),
        ChatServer.text("All is done."),
    ]
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m", "--screen-reader")
    person.sees(r"^>$")
    person.types("/show 1")
    person.sees(r"there is no item 1; there are no items yet")
    person.types("go")
    screen = person.sees(r"^All is done\.\n(.*\n)*>$")
    assert "begins: todo plans 3 tasks ...\n" in screen
    assert "  done: look\n  doing: mend\n  to do: test\n" in screen
    assert "\n  removed: two\n  added: three\n" in screen
    assert "  left out: 14 more lines: /show 4\n  15\n" in screen
    person.types("/show 4")
    person.sees(r"^1\n2\n3\n")


def test_a_screen_reader_is_asked_by_lines_elsewhere_too(sit_down: Any, plain: Any, project: Path) -> None:
    (project / "build").mkdir()
    plain("display: {screen_reader: true}\n")
    person = sit_down("call", "terminal", '{"command": "rm -rf build"}')
    person.sees(r"\[o\]nce.*>$")
    person.types("o")
    assert person.waits_for_the_end() == 0
    assert not (project / "build").exists()


# -- pictures ----------------------------------------------------------------------------------------------------------

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x10\0\0\0\x10" + bytes(500)


def test_a_dropped_picture_is_attached(talking: Any, server: ChatServer, tmp_path: Path) -> None:
    file = tmp_path / "my plot.png"
    file.write_bytes(PNG)
    server.responses.append(ChatServer.text("A plot."))
    talking.process.send("what is this?\x1b[200~" + str(file).replace(" ", "\\ ") + " \x1b[201~")
    unbroken = re.compile(r"[\s│]+")  # a long path is wrapped at the edge, at any character
    screen = talking.sees(r"[\s│]*".join(map(re.escape, 'plot.png"')) + r"[\s│╰]+[^\n]*/help$")
    assert unbroken.sub("", f'> what is this? @"{file}"') in unbroken.sub("", screen)
    talking.types("")
    shown = unbroken.sub("", talking.sees(r"^A plot\.$"))
    assert unbroken.sub("", f"attached {file}: [image/png,") in shown
    text, image = said(server)
    assert text["text"] == f'what is this? @"{file}"'
    assert image["type"] == "image_url"


def test_a_picture_of_the_clipboard(sit_down: Any, server: ChatServer, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "data").write_bytes(PNG)
    server.responses.append(ChatServer.text("A plot."))
    path = f"{tmp_path}/bin:{os.environ['PATH']}"
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m", DISPLAY=":99", WAYLAND_DISPLAY="", PATH=path)
    person.at_prompt()
    person.process.send("what is \x16")
    person.sees(r"^✗ images in the clipboard can't be read: xclip is not installed; install it \(the package xclip\), or\s+drop")
    (tmp_path / "bin" / "xclip").write_text(f"#!/bin/sh\ncat {tmp_path}/data\n")
    (tmp_path / "bin" / "xclip").chmod(0o755)
    person.process.send("\x16")
    person.sees(r"^\[image/png, 524 B\] is attached to your next message; /image removes it$")
    person.sees(r"^│ > what is \n[^\n]*· 1 for the next message ·|^│ > what is$")
    person.types("this?")
    person.sees(r"^A plot\.$")
    assert said(server)[1]["type"] == "image_url"


def test_a_picture_is_drawn_where_the_terminal_shows_it(sit_down: Any, server: ChatServer) -> None:
    drawing = {"choices": [{"index": 0, "delta": {"images": [{"image_url": {"url": data_url(PNG)}}]}}]}
    server.responses += [ChatServer.stream(drawing, {"choices": [{"index": 0, "delta": {"content": "Drawn."}}]})] * 2
    for program in ("iTerm.app", ""):
        person = sit_down(
            "chat", "--base-url", server.base_url, "--model", "m", TERM_PROGRAM=program, SSH_TTY="", TMUX="", STY=""
        )
        person.at_prompt()
        person.types("draw it")
        person.sees(r"^Drawn\.$")
        assert "[image/png, 524 B]" in person.at_prompt()
        assert person.written.count(b"\x1b]1337;File=inline=1;size=524;height=1;") == (program != "")


def data_url(data: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"


def test_files_and_commands_at_a_dumb_terminal(sit_down: Any, server: ChatServer, project: Path) -> None:
    (project / "a.py").write_text("print('one')\n")
    (project / ".env").write_text("KEY=hidden-value\n")
    server.responses.append(ChatServer.text("Seen."))
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m", TERM="dumb")
    person.sees(r"^> ?$")
    person.types("!echo one of mine; sleep 300")
    person.sees(r"you \.\.\.$")
    time.sleep(1)
    person.presses("c")
    person.sees(r"interrupted$")
    person.types("/keys")
    person.sees(r"here the usual keys of a command line apply")
    person.types("see @a.py and @.env")
    person.sees(r"Show it to the model\? Type yes or no: ?$")
    person.types("no")
    screen = person.sees(r"^Seen\.$")
    assert "attached a.py: 1 line\n" in screen
    assert "print('one')" in said(server)
    assert "one of mine" in said(server)
    assert "hidden-value" not in said(server)


# -- drafts that were not sent ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["--continue", "/resume"])
def test_a_killed_process_takes_no_draft_along(talking: Any, server: ChatServer, sit_down: Any, project: Path, how: str) -> None:
    drafts = Path(os.environ["XDG_STATE_HOME"]) / "toolcrib" / "drafts"
    slow = {"command": "touch started; sleep 300"}
    server.responses += [ChatServer.text("Hello."), ChatServer.calls(("terminal", slow)), ChatServer.text("Again.")]
    talking.types("hi")
    talking.sees(r"^Hello\.$")
    talking.at_prompt()
    talking.types("work")
    while not (project / "started").exists():
        talking.looks()
    talking.types("queued words")
    talking.process.send("half a draft")
    talking.sees(r"^│ > half a draft$")
    end = time.monotonic() + 30
    while not [file for file in drafts.glob("*") if file.read_text() == "queued words\nhalf a draft"]:
        talking.looks()
        assert time.monotonic() < end
    talking.process.kill(signal.SIGKILL)
    while talking.looks():
        pass
    talking.process.wait()
    options = [how] if how == "--continue" else []
    again = sit_down("chat", "--base-url", server.base_url, "--model", "m", *options)
    if how == "/resume":
        again.at_prompt()
        again.process.send("/resume \t")
        again.sees(r"^│ > /resume [0-9a-f]{12}$")
        again.process.send("\r")
    again.sees(r"^your unsent text is back$")
    again.sees(r"^│ > queued words\n│   half a draft\n[^\n]*/help\Z")  # the chat is idle: Ctrl-C clears the draft
    again.process.send("\x03")
    again.types("!!true")
    again.sees(r"exit code 0")
    again.at_prompt()
    again.types("/quit")
    assert again.waits_for_the_end() == 0
    assert list(drafts.iterdir()) == []


def test_lines_that_are_typed_before_the_chat_is_ready_are_messages_of_their_own(sit_down: Any, server: ChatServer) -> None:
    server.responses += [ChatServer.text("First."), ChatServer.text("Second.")]
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m")
    person.process.send("one\rtwo\rhalf a li")
    person.sees(r"^Second\.$")
    assert [said(server, number) for number in range(2)] == ["one", "two"]
    person.process.send("ne")
    person.sees(r"^│ > half a line\n[^\n]*/help\Z")


def test_what_is_typed_before_a_question_goes_on_behind_it_for_a_screen_reader(
    sit_down: Any, server: ChatServer, project: Path
) -> None:
    """Typed lines do not answer the question and are not lost: complete lines wait, the last one is in the next prompt."""
    (project / "build").mkdir()
    server.responses += [
        ChatServer.calls(("terminal", {"command": "rm -rf build"}), delay=1.5),
        ChatServer.text("It stays."),
        ChatServer.text("Noted."),
        ChatServer.text("Told."),
    ]
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m", "--screen-reader")
    person.sees(r"^>$")
    person.types("tidy up")
    person.sees(r"the model is working")
    person.process.send("o\rand then report\rhalf a li")
    person.sees(r"\[o\]nce.*>$")
    assert (project / "build").exists()
    person.types("d")
    person.sees(r"^It stays\.$")
    person.sees(r"^Told\.$")
    assert [said(server, number) for number in (2, 3)] == ["o", "and then report"]
    person.sees(r"^> half a li$")


# -- a message at a question, and the keys of vi ------------------------------------------------------------------------


@pytest.mark.parametrize("columns", [60, 100, 200])
def test_a_message_that_begins_with_a_letter_of_the_question_is_a_message(
    sit_down: Any, plain: Any, project: Path, columns: int
) -> None:
    plain("approval: {mode: cautious}\n")
    (project / "build").mkdir()
    person = sit_down("chat", columns=columns)
    person.at_prompt()
    person.types('@terminal {"command": "rm -rf build"}')
    person.sees(r"\? help")
    end = time.monotonic() + 1  # longer than the quiet that a key needs
    while time.monotonic() < end:
        person.looks()
    for letter in "do it later":
        person.process.send(letter)
    assert "> do it later" in person.sees(r"do it later")
    assert "why not" not in person.text
    person.chooses("o")
    person.sees(r"approved: this call only")
    assert "> do it later" in person.sees(r"/help\Z")
    assert not (project / "build").exists()


def test_keys_of_vi_edit_the_message(sit_down: Any, server: ChatServer, plain: Any) -> None:
    plain("display: {editing_mode: vi}\napproval: {mode: cautious}\n")
    server.responses += [ChatServer.text("One."), ChatServer.text("Two.")]
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m")
    person.at_prompt()
    person.process.send("xone two")
    person.sees(r"> xone two$")
    person.process.send("\x1b")
    person.sees(r"vi commands, /help\Z")
    person.process.send("0x")
    person.sees(r"> one two$")
    person.process.send("wcwthree")
    person.sees(r"> one three$")
    person.types("")
    person.sees(r"^One\.$")
    person.at_prompt()
    assert said(server) == "one three"
    person.process.send("next\x1b")
    person.sees(r"vi commands, /help\Z")
    person.types("")  # Enter sends in the command mode too, and the next message begins in the insert mode
    person.sees(r"^Two\.$")
    person.at_prompt()
    assert "vi commands" not in person.text.splitlines()[-1]


def test_with_the_keys_of_vi_questions_and_runs_get_their_keys(sit_down: Any, plain: Any, project: Path) -> None:
    plain("display: {editing_mode: vi}\napproval: {mode: cautious}\n")
    (project / "build").mkdir()
    person = sit_down("chat")
    person.at_prompt()
    person.types('@terminal {"command": "sleep 1; rm -rf build"}')
    person.process.send("\x1b")
    person.chooses("o")
    person.sees(r"approved: this call only")
    person.at_prompt()
    assert not (project / "build").exists()
    person.types('@terminal {"command": "sleep 100"}')
    person.sees(r"terminal")
    person.process.send("\x1b")
    person.sees(r"vi commands")
    person.process.send("\x1b")
    person.sees(r"interrupted")
    person.at_prompt()


def test_a_question_that_waits_notifies(sit_down: Any, plain: Any, tmp_path: Path, project: Path) -> None:
    told = tmp_path / "told"
    (project / "build").mkdir()
    plain(f"display: {{notify: osc9}}\napproval: {{mode: cautious, notify_command: [cp, /etc/hostname, {told}, --suffix]}}\n")
    person = sit_down("chat", '@terminal {"command": "rm -rf build"}')
    person.sees(r"\? help")
    while not told.exists():
        assert person.looks()
    assert person.written.count(b"\x1b]9;toolcrib: a question waits for your answer\x07") == 1
    person.denies()
