"""Background processes in the real chat: their count, ``/ps``, and the question before they end (003-30)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

pytestmark = [pytest.mark.e2e, pytest.mark.usefixtures("plain")]


def test_they_are_counted_listed_and_ended_and_asked_about(sit_down: Any) -> None:
    started = [
        ("terminal", {"command": "echo up; sleep 600", "background": True, "name": "dev"}),
        ("terminal", {"command": "sleep 600", "background": True, "name": "db"}),
    ]
    with ChatServer(ChatServer.calls(*started), ChatServer.text("They run.")) as server:
        person = sit_down("chat", "--base-url", server.base_url, "--model", "test-model")
        person.sees(r"test-model answers")
        person.at_prompt()
        person.types("/ps")
        person.sees(r"This session has no background processes")
        person.types("go")
        person.sees(r"They run\.")
        person.sees(r"2 processes · /help\Z")
        person.types("/ps")
        person.sees(r"^dev +running +\d+ s ago +- +\d+\.\d s +\d+ MB +echo up; sleep 600$")
        person.types("/ps log dev")
        person.sees(r"^> /ps log dev\n\s*up$")
        person.types("/ps stop nothing")
        person.sees(r"there is no background process 'nothing' \(there are: db, dev\)")
        person.types("/ps stop db")
        person.sees(r"Ended: db")
        person.sees(r"1 process · /help\Z")
        person.types("/fork")
        person.sees(r"continuing in the fork ends the background process: dev\n┏━\n┃ Continue\? Type yes or no:")
        time.sleep(1)  # keys typed before the question appeared do not count
        person.types("no")
        person.sees(r"cancelled; /ps shows the processes")
        person.at_prompt()
        person.presses("d")
        person.sees(r"Continue\? Type yes or no: *$")
        time.sleep(1)
        person.types("yes")
        assert person.waits_for_the_end() == 0


def test_the_count_follows_a_process_that_ends_while_nobody_types(sit_down: Any, project: Path) -> None:
    started = [
        ("terminal", {"command": "until [ -e over ]; do sleep 0.1; done", "background": True, "name": "build"}),
        ("terminal", {"command": "sleep 600", "background": True, "name": "db"}),
    ]
    with ChatServer(ChatServer.calls(*started), ChatServer.text("They run.")) as server:
        person = sit_down("chat", "--base-url", server.base_url, "--model", "test-model")
        person.sees(r"test-model answers")
        person.at_prompt()
        person.types("go")
        person.sees(r"They run\.")
        person.sees(r"2 processes · /help\Z")
        (project / "over").touch()
        person.sees(r"1 process · /help\Z")
