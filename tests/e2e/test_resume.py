"""Sessions that are resumed in the real chat: after a kill, after ten thousand messages, and with a full context."""

from __future__ import annotations

import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from toolcrib.testing import ChatServer
from tools.dispatch.bridge import run_async

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("plain")]
TOO_LONG = ChatServer.body({"error": {"message": "maximum context length is 100 tokens", "code": "context_length_exceeded"}}, 400)


def ready(person: Any) -> str:
    """Wait for the prompt, also of a narrow terminal, which cuts the last line, and return the screen."""
    shown: str = person.sees(r"^│ >\n╰ m · [^\n]*\Z")
    time.sleep(0.1)
    return shown


def said(server: ChatServer) -> list[tuple[str, str]]:
    return [(one["role"], one["content"]) for one in server.requests[-1]["messages"] if one["role"] != "system"]


def test_what_was_said_before_an_interrupt_is_known_to_the_model(sit_down: Any, server: ChatServer) -> None:
    server.responses += [ChatServer.text("One two three. " * 30, pieces=300, pause=0.2), ChatServer.text("As I said.")]
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m")
    person.at_prompt()
    person.types("count")
    person.sees(r"One two")
    person.presses("c")
    person.sees(r"interrupted; the session is kept")
    person.types("go on")
    person.sees(r"^As I said\.$")
    (_, first), (role, partial), (_, last) = said(server)
    assert (first, role, last) == ("count", "assistant", "go on")
    assert partial.startswith("One two")
    assert partial.endswith("\n\n[interrupted by the user]")


def test_killed_in_the_middle_of_an_answer(sit_down: Any, server: ChatServer, project: Path) -> None:
    server.responses += [ChatServer.text("One two three. " * 60, pieces=300, pause=0.2), ChatServer.text("As I said.")]
    where = ("--base-url", server.base_url, "--model", "m")
    person = sit_down("chat", *where)
    person.at_prompt()
    person.types("count")
    with assemble(project_dir=project) as crib:

        def stored() -> str:
            last = run_async(crib.store.sessions.latest())
            run = None if last is None else run_async(crib.store.runs.current(last.id))
            return "" if run is None else str(run.state.get("said", ""))

        while not stored():
            assert person.looks()
    person.process.kill(signal.SIGKILL)
    again = sit_down("chat", *where, "--continue")
    again.sees(r"^> count$")
    again.at_prompt()
    again.types("go on")
    again.sees(r"^As I said\.$")
    assert said(server)[1][1].startswith("One two")
    again.types("/sessions")
    assert re.search(r" count$", again.sees(r"^ID .* TITLE$"), re.MULTILINE)


def test_a_long_session_shows_its_end_and_can_be_read_whole(sit_down: Any, server: ChatServer, project: Path) -> None:
    records = [
        {"role": role, "text": f"{role} {number}", **({"calls": [], "usage": {}} if role == "assistant" else {})}
        for number in range(400)
        for role in ("user", "assistant")
    ]

    async def store() -> None:
        async with assemble(project_dir=project) as crib:
            session = await crib.open()
            await crib.store.sessions.append_many(session.id, records)
            await session.close()

    run_async(store())
    person = sit_down("chat", "--continue", "--base-url", server.base_url, "--model", "m", PAGER="cat")
    screen = person.at_prompt()
    assert "… 794 messages above; to read them: /show all; to write them to a file: /export" in screen
    assert "> user 397\n  assistant 397\n> user 398" in screen
    assert "user 396" not in screen
    person.types("/show all")
    person.sees(r"^798 user:\n  user 399$")
    assert "  user 399\n\n799 assistant:\n  assistant 399\n╭─\n│ >" in person.at_prompt()


def test_what_stood_there_stands_there_again(sit_down: Any, server: ChatServer, project: Path) -> None:
    (project / "a.txt").write_text("one\n")
    (project / "build").mkdir()
    server.responses += [
        ChatServer.calls(("patch", {"path": "a.txt", "old": "one", "new": "two"})),
        ChatServer.calls(("terminal", {"command": "rm -rf build"}), ids=["c2"]),
        ChatServer.text("# Done\n\nIt has **two**.\n\n- first\n- second"),
    ]
    options = ("--base-url", server.base_url, "--model", "test-model")
    person = sit_down("chat", *options)
    person.at_prompt()
    person.types("go")
    person.denies("keep the log")
    person.sees(r"^• second")
    person.at_prompt()
    person.types("/exit")
    assert person.waits_for_the_end() == 0
    person = sit_down("chat", "--continue", *options)
    screen = person.at_prompt()
    assert re.search(r"^│ \S+ patch edits a.txt  ok  #1\n│   1 - one\n│   1 \+ two\n", screen, re.MULTILINE)
    assert re.search(r"^│ 💻 terminal runs rm -rf build  denied  #2\n│   the user denied it: keep the log\n", screen, re.M)
    assert "Done\n\nIt has two.\n\n• first\n• second\n" in screen
    person.types("/show 1")
    person.sees(r"^old: one$")


@pytest.mark.parametrize("columns", [40, 100])
def test_a_full_context_goes_on_in_a_fork(sit_down: Any, server: ChatServer, columns: int) -> None:
    server.responses += [ChatServer.text("Mango."), ChatServer.text("Kiwi."), TOO_LONG, ChatServer.text("Fig.")]
    person = sit_down("chat", "--base-url", server.base_url, "--model", "m", columns=columns)
    ready(person)
    for text, answer in (("a fruit", "Mango"), ("another", "Kiwi")):
        person.types(text)
        person.sees(rf"^{answer}\.$")
        ready(person)
    person.types("a third")
    screen = person.sees(r"^  /model +a larger model$")
    assert "too long for the model" in " ".join(screen.split())
    ready(person)
    person.types("/fork 1")
    person.sees(r"send it again:\s+a third")
    ready(person)
    person.types("/context")
    shown = person.sees(r"^window: unknown; to set it:\n  model\.context_window$")
    assert re.search(r"^  your messages +\d+", shown, re.MULTILINE)
    ready(person)
    person.types("a third")
    person.sees(r"^Fig\.$")
    assert [text for _, text in said(server)] == ["another", "Kiwi.", "a third"]
    ready(person)
    person.types("/sessions")
    listed = person.sees(r"^to continue one: /resume ID$").split("\nID ")[-1].splitlines()
    assert all(len(line) < columns for line in listed)
    named = [line for line in listed if re.match(r"[0-9a-f]{12}  ", line)]
    assert len(named) == 2


def test_a_session_is_picked_from_a_list(talking: Any, server: ChatServer) -> None:
    """Typing searches titles, arrows move the mark, and Esc closes the list."""
    for topic in ("apples", "pears", "apple pie"):
        server.responses.append(ChatServer.text(f"About {topic}."))
        talking.types(f"write about {topic}")
        talking.sees(rf"^About {topic}\.$")
        talking.at_prompt()
        talking.types("/new")
        talking.sees(r"a new session; the last one is stored(.*\n)*│ >\n╰")
        talking.clears()
    talking.types("/resume")
    talking.sees(
        r"^╭─ Resume a session\n│ >\n│ → write about apple pie  .*\n│   write about pears  .*\n│   write about apples  .*\n╰"
    )
    talking.process.send("apple")
    talking.sees(r"^│ > apple\n│ → write about apple pie  .*\n│   write about apples  .*\n│   2 of 3\n╰")
    talking.process.send("\x1b[B")
    talking.sees(r"^│ → write about apples  ")
    talking.process.send("\x1b")
    talking.at_prompt()
    talking.types("/resume")
    talking.sees(r"^╭─ Resume a session$")
    talking.process.send("of nothing at all\r")
    talking.sees(r"^│ > of nothing at all\n│   no item contains this text\n╰")
    talking.process.send("\x15pears")
    talking.sees(r"^│ → write about pears  ")
    talking.types("")
    assert "> write about pears" in talking.sees(r"^About pears\.$")
    talking.at_prompt()
