"""A delegate at work in the real chat: what the person sees of it, and what it asks them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

pytestmark = pytest.mark.e2e


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
        person.types("Have it tidied.")
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
