"""A delegate in the real chat: what the user sees of it, and the questions that it asks."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer, Response

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("plain")]


class TalkServer(ChatServer):
    """Answers each conversation from its own script, chosen by the first word of its first message.

    Keys in ``held`` wait for their event.
    """

    def __init__(self, **scripts: list[Response]) -> None:
        super().__init__()
        self.scripts = scripts
        self.talks: dict[str, list[Any]] = {key: [] for key in scripts}
        self.held: dict[str, threading.Event] = {}

    def _posted(self, path: str, headers: dict[str, str], sent: Any) -> Response:
        first = next(str(one["content"]) for one in sent["messages"] if one["role"] == "user")
        key = first.split()[0]
        self.talks[key].append(sent)
        if key in self.held:
            self.held[key].wait(60)
        return self.scripts[key].pop(0)


def background(task: str, name: str) -> Response:
    return ChatServer.calls(("delegate_task", {"task": task, "name": name, "background": True}), ids=[name])


def chats(sit_down: Any, server: ChatServer) -> Any:
    person = sit_down("chat", "--base-url", server.base_url, "--model", "test-model")
    person.sees(r"test-model answers")
    person.at_prompt()
    return person


def test_a_delegate_asks_the_person_of_the_chat(sit_down: Any, project: Path) -> None:
    (project / "build").mkdir()
    order = ("delegate_task", {"task": "tidy up the folder", "name": "tidier"})
    replies = [
        ChatServer.calls(order),
        ChatServer.calls(("terminal", {"command": "rm -rf build"}), ids=["below"]),
        ChatServer.text("The folder is tidy."),
        ChatServer.text("It was tidied."),
    ]
    with ChatServer(*replies) as server:
        person = sit_down("chat", "--base-url", server.base_url, "--model", "test-model")
        person.sees(r"test-model answers")
        person.at_prompt()
        person.types("Tidy the folder.")
        person.sees(r"terminal wants to run:")
        shown = person.sees(r"asked by the delegate tidier, whose task is:")
        assert "tidy up the folder" in shown
        person.chooses("o")
        person.sees(r"It was tidied\.")
        person.sees(r"delegate_task works on tidier")
        assert not (project / "build").exists()
        assert "The folder is tidy." in str(server.requests[-1]["messages"][-1]["content"])
        person.types("/exit")
        assert person.waits_for_the_end() == 0


def test_who_waits_and_who_has_ended_do_not_look_busy(sit_down: Any, plain: Any) -> None:
    plain("delegates: {at_once: 2}\n")
    calls = [("delegate_task", {"task": f"{name} it", "name": name}) for name in ("count", "ask", "wait")]
    scripts = {
        "go": [ChatServer.calls(*calls), ChatServer.text("All is done.")],
        "count": [ChatServer.text("Seven.")],
        "ask": [ChatServer.calls(("clarify", {"question": "Which?"})), ChatServer.text("It is asked.")],
        "wait": [ChatServer.text("late")],
    }
    with TalkServer(**scripts) as server:
        server.held = {"count": threading.Event(), "wait": threading.Event()}
        person = chats(sit_down, server)
        person.types("go")
        person.sees(r"(count|ask|wait): waits for a free slot")  # the last of the three to start
        for event in server.held.values():
            event.set()
        person.sees(r"ask: waits for an answer")
        person.sees(r"^│ · .*works on count.*\n│ +done: count has ended")
        time.sleep(1)
        person.types("this one")
        person.sees(r"All is done\.")


def test_ctrl_c_ends_delegates(sit_down: Any, project: Path) -> None:
    replies = [
        ChatServer.calls(("delegate_task", {"task": "sleep a while", "name": "sleeper"})),
        ChatServer.calls(("terminal", {"command": "sleep 60; touch late"}), ids=["below"]),
    ]
    with ChatServer(*replies) as server:
        person = sit_down("chat", "--base-url", server.base_url, "--model", "test-model")
        person.sees(r"test-model answers")
        person.at_prompt()
        person.types("Sleep.")
        person.sees(r"sleeper: .*terminal sleep 60")
        person.presses("c")
        person.sees(r"the delegate sleeper \(")
        person.at_prompt()
        person.types("/exit")
        assert person.waits_for_the_end() == 0


def test_a_delegate_in_the_background_asks_at_the_prompt(sit_down: Any, project: Path) -> None:
    (project / "build").mkdir()
    below = [ChatServer.calls(("terminal", {"command": "rm -rf build"}), delay=2), ChatServer.text("The folder is tidy.")]
    with TalkServer(go=[background("tidy up", "tidier"), ChatServer.text("It works.")], tidy=below) as server:
        person = chats(sit_down, server)
        person.types("go")
        person.sees(r"It works\.")
        person.at_prompt()
        person.process.send("half a li")
        shown = person.sees(r"asked by the delegate tidier, whose task is:")
        assert "rm -rf build" in shown
        person.chooses("o")
        person.sees(r"delegate tidier .*has ended")
        assert not (project / "build").exists()
        person.sees(r"^│ > half a li$")
        person.presses("c")
        person.at_prompt()
        person.types("/exit")
        assert person.waits_for_the_end() == 0


def test_ctrl_c_on_a_question_at_the_prompt_says_no_and_leaves_the_draft(sit_down: Any, project: Path) -> None:
    (project / "build").mkdir()
    below = [ChatServer.calls(("terminal", {"command": "rm -rf build"}), delay=1), ChatServer.text("Then not.")]
    with TalkServer(go=[background("tidy up", "tidier"), ChatServer.text("It works.")], tidy=below) as server:
        person = chats(sit_down, server)
        person.types("go")
        person.sees(r"It works\.")
        person.at_prompt()
        person.process.send("half a li")
        person.sees(r"\? help$")
        person.sees(r"Ctrl-C denies\b")
        person.presses("c")
        person.sees(r"^ +denied$")
        person.sees(r"delegate tidier .*has ended")
        person.sees(r"^│ > half a li$")
        assert (project / "build").exists()


def test_no_command_of_the_chat_wakes_the_model(sit_down: Any) -> None:
    """The result of a background delegate waits for the user's next message."""
    replies = [background("count", "counter"), ChatServer.text("It works."), ChatServer.text("It says seven.")]
    with TalkServer(go=replies, count=[ChatServer.text("Seven.", delay=1)]) as server:
        person = chats(sit_down, server)
        person.types("go")
        person.sees(r"delegate counter .*has ended")
        person.at_prompt()
        for line in ("/cost", "/fork nothing", "/env"):
            person.types(line)
        person.sees(r"no command has run yet")
        person.at_prompt()
        assert len(server.talks["go"]) == 2
        person.types("What does it say?")
        person.sees(r"It says seven\.")
        assert "Seven." in str(server.talks["go"][-1]["messages"])
        person.at_prompt()
        person.process.send("/resume \t")  # delegates' sessions are left out, so only one session remains
        person.sees(r"^│ > /resume [0-9a-f]{12}$")


def test_a_delegate_that_failed_is_not_shown_as_ok(sit_down: Any, plain: Any) -> None:
    plain("retry: {attempts: 1}\n")
    refused = ChatServer.body({"error": {"message": "no such key"}}, 401)
    calls = ("delegate_task", {"task": "count apples", "name": "counter"}), ("delegate_task", {"task": "sum", "name": "adder"})
    replies = [
        ChatServer.calls(*calls),
        ChatServer.text("One failed."),
        background("look", "looker"),
        ChatServer.text("It works."),
    ]
    scripts = {"go": replies, "count": [refused], "sum": [ChatServer.text("3")], "look": [refused]}
    with TalkServer(**scripts) as server:
        person = chats(sit_down, server)
        person.types("go")
        shown = person.sees(r"One failed\.")
        assert re.search(r"works on counter.* failed  #\d+\n.*refused the key(.|\n)*?\n│   0 turns, 0 tokens", shown), shown
        assert re.search(r"works on adder.* ok  #\d+\n│   1 turn, 15 tokens", shown), shown
        person.types("and in the background?")
        shown = person.sees(r"delegate looker \([0-9a-f]{12}\) has ended: failed: (.|\n)*refused the key(.|\n)*; 0 turns")
        assert re.search(r"works in the background  #\d+\n│   [0-9a-f]{12}: /delegates shows", shown), shown
        assert "AuthFailed" not in shown


def test_delegates_in_the_background_are_listed_and_one_is_stopped(sit_down: Any) -> None:
    two = [("delegate_task", {"task": f"{name} things", "name": name, "background": True}) for name in ("count", "sum")]
    scripts = {
        "go": [ChatServer.calls(*two), ChatServer.text("They work.")],
        "count": [ChatServer.text("late", delay=60)],
        "sum": [ChatServer.text("late", delay=60)],
    }
    with TalkServer(**scripts) as server:
        person = chats(sit_down, server)
        person.types("go")
        person.sees(r"They work\.")
        person.sees(r"2 running delegates · /help\Z")
        person.types("/delegates")
        shown = person.sees(r"^[0-9a-f]{12}  sum +\d+ s ago +sum things$")
        assert re.search(r"^[0-9a-f]{12}  count +\d+ s ago +count things$", shown, re.MULTILINE)
        person.types("/delegates stop missing")
        person.sees(r"no running delegate has the id or name 'missing'; list delegates: /delegates")
        person.types("/delegates stop count")
        person.sees(r"delegate count \([0-9a-f]{12}\) has ended: stopped; ")
        person.sees(r"1 running delegate · /help\Z")
        for line in ("/exit", "/new"):
            person.types(line)
            person.sees(rf"^> {line}\n.* ends the running delegate: sum \([0-9a-f]{{12}}\)\n┏━\n┃ Continue\? Type yes or no:")
            time.sleep(1)  # keys typed before the question appeared do not count
            person.types("no")
            person.sees(rf"^> {line}\n(.|\n)*cancelled; /delegates shows the tasks of the delegates")
            person.at_prompt()
        person.presses("d")
        person.sees(r"Continue\? Type yes or no: *$")
        time.sleep(1)
        person.types("yes")
        assert person.waits_for_the_end() == 0


def test_ctrl_c_leaves_delegates_in_the_background_at_work(sit_down: Any) -> None:
    scripts = {
        "go": [background("count", "counter"), ChatServer.text("late", delay=60), ChatServer.text("It is seven.")],
        "count": [ChatServer.text("Seven.")],
    }
    with TalkServer(**scripts) as server:
        server.held = {"count": threading.Event()}
        person = chats(sit_down, server)
        person.types("go")
        person.sees(r"works in the background")
        while len(server.talks["go"]) < 2 or not server.talks["count"]:
            time.sleep(0.05)
        person.presses("c")
        person.sees(r"interrupted; the session is kept; delegate counter continues: /delegates stop ID\s+ends it")
        person.sees(r"1 running delegate · /help\Z")
        server.held["count"].set()
        person.sees(r"delegate counter \([0-9a-f]{12}\) has ended: done; ")
        person.sees(r"^╰ test-model · 15 tokens of context · local · /help\Z")
        person.types("And?")
        person.sees(r"It is seven\.")
        assert "Seven." in str(server.talks["go"][-1]["messages"][-1])
        person.types("/exit")
        assert person.waits_for_the_end() == 0


def test_questions_of_several_delegates_are_counted(sit_down: Any, project: Path) -> None:
    (project / "one").mkdir()
    (project / "two").mkdir()
    calls = [("delegate_task", {"task": f"{name} it", "name": name}) for name in ("first", "second")]
    scripts = {
        "go": [ChatServer.calls(*calls), ChatServer.text("All is done.")],
        "first": [ChatServer.calls(("terminal", {"command": "rm -rf one"})), ChatServer.text("x")],
        "second": [ChatServer.calls(("terminal", {"command": "rm -rf two"}), delay=2), ChatServer.text("y")],
    }
    with TalkServer(**scripts) as server:
        person = chats(sit_down, server)
        person.types("go")
        person.chooses("d", r"Allow this\?  1 of 2")
        person.sees(r"why not")
        person.types("")
        person.chooses("o", r"Allow this\?  2 of 2")
        person.sees(r"All is done\.")
        assert (project / "one").exists()
        assert not (project / "two").exists()
