"""Calls that report progress in the real chat: a bar and activities on live rows, lines of words for a screen reader."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib.testing import ChatServer

pytestmark = pytest.mark.e2e

PLUGIN = """
import os, time
import toolcrib
from toolcrib import ProgressStatus

RUNNING = ProgressStatus.RUNNING

def until(name, ctx):
    while not os.path.exists(name) and not ctx.cancelled:
        time.sleep(0.02)

def build(args, ctx):
    ctx.report_activity("plan", {"step": "one", "left": ["two", "three"]})
    ctx.report_progress(RUNNING, "half \\x1b[2J\\u202e of it", 0.5)
    until("first", ctx)
    ctx.report_activity_delta("plan", {"op": "replace", "path": "/step", "value": "two"})
    ctx.report_activity_delta("plan", {"op": "remove", "path": "/nowhere"})
    ctx.report_progress(RUNNING, "unknown progress", float("nan"))
    until("second", ctx)
    end = time.monotonic() + 2
    reports = 0
    while time.monotonic() < end or reports <= 10_000:  # a busy machine takes longer for as many
        reports += 1
        ctx.report_progress(RUNNING, "flood", (reports % 100) / 100)
    ctx.report_progress(RUNNING, "flooded", 0.75)
    until("third", ctx)
    return f"built after {'many' if reports > 10_000 else reports} reports"

@toolcrib.hookimpl
def register_tools(registry):
    registry.register("build", "terminal", {"description": "Build."}, build)
"""
BAR = "█" * 10 + "░" * 10


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with ChatServer() as server:
        yield server


@pytest.fixture
def building(sit_down: Any, server: ChatServer, user_plugin: Callable[[str, str], Path]) -> Callable[..., Any]:
    """A chat whose model calls a tool that reports progress; ``building(*options, replies=...)``."""

    def start(*options: str, replies: Any = None, **more: Any) -> Any:
        user_plugin("build", PLUGIN)
        server.responses += replies or [ChatServer.calls(("build", {})), ChatServer.text("It is built.")]
        person = sit_down("chat", "--base-url", server.base_url, "--model", "m", *options, **more)
        person.sees(r"^(?:│ )?>")
        person.types("build it")
        return person

    return start


def test_a_bar_and_what_a_call_shows_on_its_live_rows(building: Any, project: Path) -> None:
    """002-15 .. 002-17: activities are replaced in place and changed by deltas.

    A hostile message and an invalid patch do no harm, and a flood of reports is limited to a few frames a second.
    """
    person = building()
    screen = person.sees(rf"^│ +{BAR} 50 % half \^\[\[2J\\u202e of it$")
    assert re.search(r"^│ . 🔧 build +\d+ s\n", screen, re.MULTILINE)
    assert re.search(r"^│     plan:\n│       step: one\n│       left: \[\"two\", \"three\"\]$", screen, re.MULTILINE)
    (project / "first").touch()
    screen = person.sees(r"^│     unknown progress$")
    assert "step: two" in person.sees(r"step: two")
    assert "step: one" not in person.text
    assert "█" not in person.text
    before = len(person.written)
    (project / "second").touch()
    person.sees(r"75 % flooded$")
    assert person.written[before:].count(b"flood") < 60, "some frames a second, and no more"
    (project / "third").touch()
    screen = person.sees(r"^It is built\.$")
    assert re.search(r"^│ 🔧 build .* ok  #1$", screen, re.MULTILINE)
    assert not re.search(r"█|plan:|flooded", screen), "what was live does not stay"
    person.types("/show 1")
    person.sees("built after many reports")


def test_a_screen_reader_is_told_in_words(building: Any, project: Path) -> None:
    """002-17: lines that stay on the screen, seconds apart."""
    for name in ("first", "second"):
        (project / name).touch()
    person = building("--screen-reader")
    person.sees(r"^build: flood(ed)?, \d+ %$")
    (project / "third").touch()
    screen = person.sees(r"^It is built\.$")
    assert not set("█░⠋⠙⠹") & set(screen)
    assert len(re.findall(r"^build: ", screen, re.MULTILINE)) <= 2


def test_what_a_delegate_s_call_reports_is_shown_below_the_parent_s(building: Any, project: Path) -> None:
    """002-17"""
    order = ("delegate_task", {"task": "build it for me", "name": "builder"})
    replies = [
        ChatServer.calls(order),
        ChatServer.calls(("build", {}), ids=["below"]),
        ChatServer.text("Built."),
        ChatServer.text("It is built."),
    ]
    person = building(replies=replies)
    screen = person.sees(rf"^│ +{BAR} 50 % builder: build: half ")
    assert re.search(r"^│ . 👥? ?.*delegate_task works on builder", screen, re.MULTILINE)
    for name in ("first", "second", "third"):
        (project / name).touch()
    person.sees(r"^It is built\.$")
