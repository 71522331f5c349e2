"""Printed text can't control a terminal, and reports what happened."""

from __future__ import annotations

import io
import unicodedata
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document

from agent.cli.calls import call_row, call_words, diff_rows, finished_rows
from agent.cli.complete import LineCompleter
from agent.cli.escape import exact, one_line, tame
from agent.cli.faults import explained
from agent.cli.render import Screen, about_in_short, brief_line, call_line, first_sentence, result_text, short_args, table
from agent.cli.screen.cells import plain, row_width
from agent.cli.show_item import whole_of
from agent.cli.view import View
from agent.events import TextDelta, ThinkingDelta, ToolFinished, ToolStarted, TurnStarted
from agent.providers._faults import from_status
from model_tools import get_tool_definitions
from toolcrib import (
    ExecutedCall,
    InvalidArguments,
    RateLimited,
    ToolCall,
    ToolCallStatus,
    ToolDisplay,
    ToolResult,
    ToolStatus,
    registry,
)
from toolcrib.contract.display import NO_DISPLAY
from tools.judge.characters import is_hidden, look_alikes, stacked

SHOWN = ToolDisplay(emoji="💻")


def display_of(tool: str) -> ToolDisplay:
    entry = registry.get(tool)
    assert entry is not None
    return entry.display.with_emoji(entry.emoji)


@given(st.text(st.characters(exclude_categories=())))
def test_exact_shows_every_character(text: str) -> None:
    shown = exact(text)
    assert all(char == "\n" or char.isprintable() for char in shown)
    assert exact(shown) == shown
    plain = not any(map(is_hidden, text)) and not look_alikes(text) and not stacked(text)
    assert (shown == text) or not plain


@given(st.text(st.characters(exclude_categories=())))
def test_tame_leaves_nothing_that_acts(text: str) -> None:
    shown = tame(text)
    assert not [char for char in shown if unicodedata.category(char) in ("Cc", "Cs") and char not in "\n\t"]
    assert not {"\u202e", "\u2066", "\u200f", "\u2028"} & set(shown)
    shown.encode("utf-8")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31m", "^[[31m"),
        ("\x7f", "^?"),
        ("\x9b", "\\x9b"),
        ("\u202e", "\\u202e"),
        ("\U000e0041", "\\U000e0041"),
        ("\r", "^M"),
    ],
)
def test_how_they_are_written(text: str, shown: str) -> None:
    assert exact(text) == shown


def test_emoji_and_accents_stay() -> None:
    assert tame("👩‍🚀 é \t日本") == "👩‍🚀 é \t日本"
    assert one_line("a\n b\x1b", 3) == "a …"


def executed(result: ToolResult, status: ToolCallStatus = ToolCallStatus.SUCCEEDED) -> ExecutedCall:
    return ExecutedCall(ToolCall("1", "x"), result, status, 0.5)


def test_results_for_people() -> None:
    assert result_text(executed(ToolResult.success("x", "plain\x1b[2J"))) == "plain^[[2J"
    assert result_text(executed(ToolResult.success("x", {"a": [1]}))) == '{\n  "a": [\n    1\n  ]\n}'
    assert result_text(executed(ToolResult.success_with_message("x", [], "none"))) == "none\n[]"
    assert result_text(executed(ToolResult.error("x", "no luck"))) == "no luck"
    view = ToolResult("x", ToolStatus.SUCCESS, {"a": 1}, views={"person": "one\n"})
    assert result_text(executed(view)) == "one"


def test_the_line_of_a_call() -> None:
    assert call_line(executed(ToolResult.success("x", 1)), SHOWN) == "💻 x  0.5 s  ok"
    assert call_line(executed(ToolResult.error("x", "no"), ToolCallStatus.FAILED), NO_DISPLAY).endswith("failed")
    assert call_line(executed(ToolResult.error("x", "no"), ToolCallStatus.CANCELLED), NO_DISPLAY).endswith("interrupted")


def test_tables_align_wide_characters() -> None:
    out = io.StringIO()
    table([("💻", "a", "first"), ("✍️", "bbb", "second\x1b")], out=out)
    assert out.getvalue() == "💻  a    first\n✍️  bbb  second^[\n"
    table([], out=out)
    assert first_sentence("Do it.\nThen rest. Again") == "Do it"


class Narrow(io.StringIO):
    """A terminal of 40 columns."""

    def isatty(self) -> bool:
        return True


def shown(rows: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, **how: Any) -> list[str]:
    monkeypatch.setenv("COLUMNS", "40")
    out = Narrow()
    table(rows, out=out, **how)
    return out.getvalue().splitlines()


def test_tables_fit_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """No cell is wrapped: some columns are left out, then the widest cells are cut."""
    rows = [("ID", "WHEN", "FOLDER", "TITLE"), ("4f1c2ab39d01", "12 min ago", "/home/me/a/long/folder", "夜" * 30)]
    assert shown(rows, monkeypatch, spare=(2,)) == [
        "ID            WHEN        TITLE",
        "4f1c2ab39d01  12 min ago  夜夜夜夜夜夜…",
    ]
    assert all(len(line) <= 40 for line in shown(rows, monkeypatch))
    wide = [("ID", "COVERS", "BY"), ("1", "fs.recursive-delete below /b", "somebody far")]
    assert shown(wide, monkeypatch, whole=(1,))[1] == "1   fs.recursive-delete below /b  someb…"
    tiny = [tuple("x" * 9 for _ in range(9))]
    assert shown(tiny, monkeypatch) == ["  ".join(["x" * 9] * 9)], "it can't fit"
    named = [("key: " + "0" * 60, "/tmp/a/file/that/says/so")]
    assert shown(named, monkeypatch) == ["key: " + "0" * 60 + "  /tmp/a/file/that/sa…"]
    assert shown([("a", "b" * 100)], monkeypatch) == ["a  " + "b" * 36 + "…"]


def test_a_title_that_finds_no_room_stands_below(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("ID", "WHEN", "FOLDER", "TITLE"), ("4f1c2ab39d01", "12 min ago", "~/app", "why does the build fail on mondays?")]
    assert shown(rows, monkeypatch, spare=(2,), below=True) == [
        "ID            WHEN        FOLDER",
        "4f1c2ab39d01  12 min ago  ~/app",
        "  why does the build fail on mondays?",
    ]
    short = [("ID", "TITLE"), ("4f1c2ab39d01", "why?")]
    assert shown(short, monkeypatch, below=True) == ["ID            TITLE", "4f1c2ab39d01  why?"]


def test_a_cell_that_says_how_to_mend_it_is_wrapped(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [("*", "docker", "not configured: set terminal.docker.image in config.yaml"), ("", "local", "ready")]
    assert shown(rows, monkeypatch, wrap=True) == [
        "*  docker  not configured: set",
        "           terminal.docker.image in",
        "           config.yaml",
        "   local   ready",
    ]
    assert shown([("max_turns: 3", "/home/me/.config/toolcrib/config.yaml:12")], monkeypatch, wrap=True) == [
        "max_turns: 3",
        "    /home/me/.config/toolcrib/config.yaml:12",
    ]


def completions(text: str) -> list[str]:
    found: Iterable[Completion] = LineCompleter(get_tool_definitions()).get_completions(Document(text), CompleteEvent())
    return [one.text for one in found]


def test_completion_in_the_chat() -> None:
    assert completions("/to") == ["/tools"]
    assert completions("@ter") == ["terminal "]
    assert completions("@tool read_f") == ["read_file "]
    assert completions("@terminal ") == ['{"command": ""}']
    assert completions("@nothing ") == []
    assert completions("hello") == []


def test_a_reason_of_several_lines_stands_on_one_with_marks_between() -> None:
    denied = ToolResult.error("x", "x: rm -rf build\ndeletes folders\n\n  Ask a person.")
    line = brief_line(executed(denied, ToolCallStatus.FAILED), SHOWN)
    assert line.endswith("failed: x: rm -rf build · deletes folders · Ask a person.")


def test_what_an_interrupted_command_had_printed_stands_on_lines() -> None:
    text = "interrupted; it may have done part of its work\none two\nthree four\n" + "x" * 30
    rows = finished_rows(executed(ToolResult.error("x", text), ToolCallStatus.CANCELLED), SHOWN, 1, 29, whole=False)
    assert [plain(row) for row in rows[1:]] == [
        *("  interrupted; it may have", "  done part of its work", "  one two", "  three four"),
        *("  " + "x" * 27, "  xxx"),
    ]


def test_a_diff_of_several_files_names_each() -> None:
    one, gone = "--- a/src/x.py\n+++ b/src/x.py\n@@ -1 +1 @@\n-1\n+2\n", "--- a/gone.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-1\n"
    shown = [plain(row) for row in diff_rows(one + gone, 40)]
    assert shown == ["  src/x.py", "  1 - 1", "  1 + 2", "  gone.txt", "  1 - 1"]
    assert plain(diff_rows(one, 40)[0]) == "  1 - 1"  # the call's line names the file
    unnumbered = [plain(row) for row in diff_rows(one + gone, 40, numbered=False)]
    assert unnumbered == ["  src/x.py", "  @@ -1 +1 @@", "  -1", "  +2", "  gone.txt", "  @@ -1 +0,0 @@", "  -1"]
    assert plain(diff_rows(one, 40, named=True)[0]) == "  src/x.py"


def test_results_are_broken_between_words() -> None:
    result = ToolResult.success("x", "a result with words that are longer than a row")
    rows = finished_rows(executed(result), SHOWN, 1, 20, whole=True)
    assert [plain(row) for row in rows[1:]] == ["a result with words", "that are longer than", "a row"]


def test_an_error_names_its_kind_once() -> None:
    assert explained(InvalidArguments("path: is missing")) == "Invalid arguments: path: is missing"


def test_an_interrupt_is_told_once() -> None:
    cancelled = ToolResult.error("x", "interrupted; it may have done part of its work")
    line = brief_line(executed(cancelled, ToolCallStatus.CANCELLED), SHOWN)
    assert line == "💻 x  0.5 s  interrupted; it may have done part of its work"


@pytest.mark.parametrize(("seconds", "shown"), [(1.2, "2 s"), (3600, "60 min"), (9000, "3 h"), (float("inf"), "277778 h")])
def test_how_long_a_server_asks_to_wait(seconds: float, shown: str) -> None:
    assert f"Wait {shown}, as the server asks" in explained(RateLimited("slow down", retry_after=seconds))


def test_when_a_server_renews_a_spent_quota() -> None:
    spent = from_status(429, '{"error": {"type": "usage_limit_reached", "resets_in_seconds": 9568}}')
    assert "quota is spent" in str(spent)
    assert explained(spent).endswith("\n  The server renews it in 3 h.")


def test_a_terminal_that_can_take_nothing_back(capsys: pytest.CaptureFixture[str]) -> None:
    view = View(Screen(interactive=True), thinking=True)
    call = ToolCall("1", "x", {"a": "b"})
    done = ExecutedCall(call, ToolResult.success("x", "hi"), ToolCallStatus.SUCCEEDED, 0.5)
    for event in (
        TurnStarted(1),
        ThinkingDelta("hm\x1b[2J"),
        TextDelta("I **look**."),
        ToolStarted(call, "💻"),
        ToolFinished(done, "💻"),
    ):
        view(event)
    view.brief = False
    view(ToolFinished(done, "💻"))
    view.end()
    assert capsys.readouterr().out.split("\n") == [
        *("hm^[[2J", "I **look**.", "💻 x  b ...", "💻 x  b  0.5 s  ok", "💻 x  0.5 s  ok", "hi", ""),
    ]


def test_arguments_in_a_few_words() -> None:
    assert short_args({"command": "ls\n-la"}) == "ls -la"
    assert short_args({"path": "a.py", "start": 3}) == "path=a.py start=3"
    assert short_args({"command": "\x1b[2J" + "x" * 200}).startswith("^[[2Jxxx")
    assert len(short_args({"command": "x" * 200})) == 60
    assert short_args({}) == ""
    assert short_args(["odd"]) == "['odd']"


@pytest.mark.parametrize("columns", range(20, 90))
def test_the_line_of_a_call_fits_and_keeps_its_end(columns: int) -> None:
    call = ToolCall("1", "write_file", {"path": "some/long/path/of/a/file.py", "content": ""})
    row = call_row(call, display_of("write_file"), [("  1.2 s", ""), ("  ok", ""), ("  #4", "")], columns)
    assert row_width(row) <= columns
    assert plain(row).endswith("  1.2 s  ok  #4")


def test_a_delegate_is_named_with_its_task() -> None:
    call = ToolCall("c", "delegate_task", {"task": "look at the change", "name": "reviewer"})
    display = display_of("delegate_task")
    assert call_words(call, display, 100) == "🤝 delegate_task works on reviewer: look at the change"
    assert about_in_short(call, display) == "reviewer: look at the change"
    assert about_in_short(ToolCall("c", "delegate_task", {"task": "look"}), display) == "look"


def test_the_whole_of_a_result_is_text_and_no_json() -> None:
    """The result is shown as the model read it, or field by field with real line breaks."""
    call = ToolCall("c", "look", {"path": "a.py"})
    read = ToolResult("look", ToolStatus.SUCCESS, {"content": "x = 1\ny = 2\n"}, views={"model": "1|x = 1\n2|y = 2"})
    shown = whole_of(ExecutedCall(call, read, ToolCallStatus.SUCCEEDED, 0.1))
    assert shown.endswith("path: a.py\n\n1|x = 1\n2|y = 2\n")
    found = {"messages": [{"role": "results", "text": 'one\n"two"'}], "more": 3, "none": []}
    result = ToolResult("session_search", ToolStatus.SUCCESS, found)
    shown = whole_of(ExecutedCall(ToolCall("c", "session_search", {}), result, ToolCallStatus.SUCCEEDED, 0.1))
    assert shown.split("\n")[2:] == [
        "messages:", "  -", "    role: results", "    text:", "      one", '      "two"', "more: 3", "none: []", "",
    ]  # fmt: skip
