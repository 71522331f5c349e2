"""Differences that a user sees before an edit: they are correct, complete and bounded, and the answer is bound to them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tools.file_tools  # noqa: F401 - it registers the tools
from tests.tools.approval.conftest import PROJECT
from toolcrib import DeletesFile, ToolEntry, WritesFile, registry
from toolcrib.testing import FakeEnvironment
from tools.approval.differences import MOST_CHARS, differences
from tools.files.changing import apply_hunks
from tools.files.differing import unified
from tools.files.unified import parse_diff

HOOK = f"{PROJECT}/.git/hooks/pre-commit"


@given(st.text("ab\r\n", max_size=60), st.text("ab\r\n", max_size=60))
def test_the_difference_leads_from_the_old_text_to_the_new(old: str, new: str) -> None:
    text = unified(old, new, "/f", "/f")
    assert bool(text) == (old != new)
    if old and new and old != new:
        (file,) = parse_diff(text)
        assert apply_hunks(old, file.hunks)[0] == new


def test_a_difference_between_long_files_takes_no_time() -> None:
    old = "".join(f"{number % 7}\n" for number in range(60_000))
    new = "".join(f"{number % 5}\n" for number in range(60_000))
    began = time.process_time()
    text = unified(old, new, "/f", "/f")
    assert time.process_time() - began < 5
    assert text.count("\n-") + text.count("\n+") >= 100_000
    assert len(unified(old, old.replace("6\n", "x\n", 1), "/f", "/f").splitlines()) == 11


def entry_of(name: str) -> ToolEntry:
    return registry.get(name) or ToolEntry(name=name, toolset="t", schema={}, handler=None, invoke=None)


def of(effects: list[Any], files: dict[str, bytes], redact: Callable[[str], str] = str, name: str = "write_file") -> Any:
    return asyncio.run(differences(entry_of(name), effects, FakeEnvironment(files), redact))


def test_what_cannot_be_compared_is_shown_as_it_is() -> None:
    assert of([WritesFile("/new", "x\n")], {}) is None
    assert of([WritesFile("/f")], {"/f": b"x\n"}) is None
    assert of([WritesFile("/f", "x\n")], {"/f": b"\xff\xfe"}) is None
    assert of([WritesFile("/f", "x\n")], {"/f": b"x" * MOST_CHARS}) is None
    assert of([], {}) is None


def test_several_files_and_deleted_ones_are_one_difference() -> None:
    found = of([WritesFile("/a", "2\n"), DeletesFile("/b")], {"/a": b"1\n", "/b": b"x\n"}, name="patch")
    assert found.text == "--- /a\n+++ /a\n@@ -1 +1 @@\n-1\n+2\n--- /b\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    assert "diff" in found.stands_for


def test_a_plugins_tool_shows_its_arguments_too() -> None:
    assert of([WritesFile("/a", "2\n")], {"/a": b"1\n"}, name="rewrite").stands_for == frozenset()


def test_secrets_of_the_old_text_are_not_shown() -> None:
    def redact(text: str) -> str:
        return text.replace("hunter22", "[redacted]")

    found = of([WritesFile("/a", "2\n")], {"/a": b"hunter22\n"}, redact)
    assert "hunter22" not in found.text
    assert of([WritesFile("/a", "x\nhunter22\n")], {"/a": b"x\n"}, redact) is None, "what is written is shown whole"


@pytest.mark.parametrize("changed", [b"one\ntwo\nthree\nevil\n", b"other\n"])
def test_an_answer_is_about_the_difference_that_was_shown(floors: Callable[..., Any], changed: bytes) -> None:
    environment = FakeEnvironment({HOOK: b"one\ntwo\n"}, cwd=PROJECT)
    floor = floors(environment)
    args = {"path": HOOK, "content": "one\n2\n"}
    asked = floor.call("write_file", args)
    assert isinstance(asked, set)
    ticket = floor.last.result.suspension
    assert "-two\n+2\n" in ticket.parameters["diff"]
    assert "  │ -two\n  │ +2" in ticket.parameters["prompt"]
    environment.files[HOOK] = changed
    assert not floor.answer().result.is_success
    assert environment.files[HOOK] == changed
    assert floor.call("write_file", args) == asked
    assert floor.answer().result.is_success
    assert environment.files[HOOK] == b"one\n2\n"
