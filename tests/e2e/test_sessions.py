"""Stored sessions at a terminal: named in the chat, resumed, and deleted after a confirmation."""

from __future__ import annotations

import re
from typing import Any

import pytest

from toolcrib.testing import ChatServer

pytestmark = pytest.mark.e2e


def test_a_session_is_named_resumed_and_deleted(sit_down: Any) -> None:
    with ChatServer(ChatServer.text("Hello there."), ChatServer.text("As I said.")) as server:
        model = ("--base-url", server.base_url, "--model", "m")
        person = sit_down("chat", *model)
        person.at_prompt()
        person.types("hi")
        person.sees(r"Hello there\.")
        person.at_prompt()
        person.types("/title the long plan")
        person.sees(r"the session is renamed: the long plan")
        person.types("/quit")
        person.waits_for_the_end()
        listed = sit_down("sessions")
        listed.waits_for_the_end()
        # long paths move the title to the next row
        row = re.search(r"^(\w{12}) [^\n]*(?:\n\s+)?the long plan", listed.text, re.MULTILINE)
        assert row is not None
        resumed = sit_down("sessions", "resume", row[1])
        resumed.sees(r"2 messages: the long plan")
        resumed.at_prompt()
        resumed.types("go on")
        resumed.sees(r"As I said\.")
        resumed.at_prompt()
        resumed.types("/quit")
        resumed.waits_for_the_end()
    unsure = sit_down("sessions", "delete", row[1])
    unsure.sees(r"4 messages: the long plan\nDelete this session permanently.*")
    unsure.types("no")
    assert unsure.waits_for_the_end() == 1
    sure = sit_down("sessions", "delete", row[1])
    sure.sees(r"Type yes or no:")
    sure.types("yes")
    assert sure.waits_for_the_end() == 0
    assert "deleted: 1 session" in sure.text
    left = sit_down("sessions")
    left.waits_for_the_end()
    assert "no sessions yet" in left.text
