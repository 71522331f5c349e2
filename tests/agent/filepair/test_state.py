"""The file in memory: exact replacement, all edits or none."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tools.filepair_tool
from agent.filepair.state import Edit, VariantFile, first_changed_line, unified_diff
from toolcrib import InvalidArguments, NotFound, ToolRegistry
from toolcrib.testing import call_tool
from toolsets import TOOLSETS, ToolsetCatalog

PAGE = "<html>\n<h1>One</h1>\n<p>a a a</p>\n</html>\n"


def page() -> VariantFile:
    return VariantFile("index.html", PAGE)


def test_create_file_writes_the_whole() -> None:
    """004-7, 004-19"""
    state = VariantFile()
    assert (state.path, state.content) == ("", "")
    state.create_file("./index.html", PAGE)
    assert (state.path, state.content, state.version) == ("index.html", PAGE, 1)
    state.create_file("b.html", "<p>")
    assert (state.path, state.content, state.version) == ("b.html", "<p>", 2)


@pytest.mark.parametrize(("path", "content"), [("a.html", ""), ("a.html", " \n"), ("", "x"), ("  ", "x")])
def test_empty_content_is_an_error(path: str, content: str) -> None:
    """004-19"""
    state = page()
    with pytest.raises(InvalidArguments, match="is empty"):
        state.create_file(path, content)
    assert (state.content, state.version) == (PAGE, 0)


@pytest.mark.parametrize(
    ("edits", "line", "replaced"),
    [
        ([Edit("a", "b")], "<p>b a a</p>", [1]),
        ([Edit("a", "b", 2)], "<p>b b a</p>", [2]),
        ([Edit("a", "b", -1)], "<p>b b b</p>", [3]),
        ([Edit("a", "b", 9)], "<p>b b b</p>", [3]),
        ([Edit("a a a", "x"), Edit(">x<", ">y<")], "<p>y</p>", [1, 1]),
        ([Edit(" a", "")], "<p>a a</p>", [1]),
        ([Edit("a a a", r"\1 $0 \g<1>")], r"<p>\1 $0 \g<1></p>", [1]),
    ],
)
def test_edits_replace_exactly(edits: list[Edit], line: str, replaced: list[int]) -> None:
    """004-19: several edits, each on the result of the previous one; count is 1 by default, -1 for all"""
    state = page()
    done = state.edit_file(edits)
    assert state.content.split("\n")[2] == line
    assert done.replaced == replaced
    assert done.first_changed_line == 3
    assert done.diff == (
        f"--- a/index.html\n+++ b/index.html\n@@ -1,4 +1,4 @@\n <html>\n <h1>One</h1>\n-<p>a a a</p>\n+{line}\n </html>\n"
    )


@pytest.mark.parametrize(
    ("edits", "path", "error", "words"),
    [
        ([Edit("zzz", "y")], "", NotFound, "edit 1: old_text is not in index.html: 'zzz'; nothing was changed"),
        ([Edit("One", "Two"), Edit("One", "Three")], "", NotFound, "edit 2: old_text is not in"),
        ([Edit("One", "Two"), Edit("", "x")], "", InvalidArguments, "edit 2: old_text is empty"),
        ([Edit("One", "Two", 0)], "", InvalidArguments, "count is 0"),
        ([Edit("One", "Two", -2)], "", InvalidArguments, "count is -2"),
        ([], "", InvalidArguments, "edits is empty"),
        ([Edit("One", "Two")], "other.html", NotFound, "no file 'other.html'; the file is 'index.html'"),
    ],
)
def test_a_wrong_edit_leaves_the_file_as_it_was(edits: list[Edit], path: str, error: type[Exception], words: str) -> None:
    """004-19"""
    state = page()
    with pytest.raises(error, match=words):
        state.edit_file(edits, path)
    assert (state.content, state.version) == (PAGE, 0)


def test_without_a_file_there_is_nothing_to_edit() -> None:
    """004-19"""
    with pytest.raises(NotFound, match="call create_file first"):
        VariantFile().edit_file([Edit("a", "b")])


lines = st.text(alphabet="ab\n\u2028\r", max_size=30)


@given(lines, lines)
def test_the_first_changed_line(before: str, after: str) -> None:
    """004-19"""
    number = first_changed_line(before, after)
    if before == after:
        assert number is None
        assert unified_diff(before, after, "f") == ""
        return
    assert number is not None
    old, new = before.split("\n"), after.split("\n")
    assert old[: number - 1] == new[: number - 1]
    diff = unified_diff(before, after, "f")
    assert diff.startswith("--- a/f\n+++ b/f\n@@ ")
    shown = diff.split("\n")[3:]
    grown = sum(line.startswith("+") for line in shown) - sum(line.startswith("-") for line in shown)
    assert grown == _count(after) - _count(before)


def _count(text: str) -> int:
    return text.count("\n") + (text != "" and not text.endswith("\n"))


LONG = "".join(f"line {number % 50}\n" for number in range(400))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a", "a\n"),
        ("a\n", "a"),
        ("a\nb", "a\nc"),
        ("x\ny\n", "y\n"),
        ("a\n", "a\n\n"),
        ("a b\u2028c\n", "a d\u2028c\n"),
        (LONG, LONG.replace("line 7\n", "seven\nand more\n", 3)),
        (LONG, LONG + "end"),
        (LONG, "start\n" + LONG),
        (LONG, LONG + LONG),
        (LONG, LONG[700:-700]),
        (LONG, "line 0\n"),
    ],
)
def test_the_diff_can_be_applied(before: str, after: str, tmp_path: Path) -> None:
    """004-19: git can apply the diff"""
    (tmp_path / "f").write_text(before, encoding="utf-8", newline="")
    diff = unified_diff(before, after, "f")
    subprocess.run(["git", "apply", "-"], input=diff.encode(), cwd=tmp_path, check=True)
    assert (tmp_path / "f").read_bytes().decode() == after


# -- as tools ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def offered() -> ToolRegistry:
    registry = ToolRegistry()
    tools.filepair_tool.offer(registry)
    tools.filepair_tool.offer(registry)
    return registry


def test_the_toolset_resolves_by_name_and_stands_in_no_preset(offered: ToolRegistry) -> None:
    """004-7"""
    catalog = ToolsetCatalog(offered)
    assert catalog.resolve("filepair") == ["create_file", "edit_file"]
    assert not {"create_file", "edit_file", "filepair"} & {
        name for one in TOOLSETS.values() for name in (*one.tools, *one.includes)
    }
    assert [entry.handler for entry in offered.entries()] == [None, None]
    assert len(json.dumps(offered.get_definitions())) < 1800


def test_the_tools_through_the_dispatcher(offered: ToolRegistry) -> None:
    """004-7, 004-19: arguments are checked, and results are data"""
    state = VariantFile()

    def call(name: str, args: Any) -> Any:
        entry = offered.get(name)
        assert entry is not None
        return call_tool(entry, args, handlers=state.handlers()).result

    assert call("edit_file", {"edits": [{"old_text": "a", "new_text": "b"}]}).failure.text.startswith("no file exists yet")
    assert call("create_file", {"path": "index.html", "content": ""}).failure.kind == "InvalidArguments"
    assert call("create_file", {"path": "index.html"}).failure.kind == "InvalidArguments"
    created = call("create_file", {"path": "index.html", "content": PAGE})
    assert created.data == {"path": "index.html", "content_length": len(PAGE), "lines": 4}
    edited = call("edit_file", {"path": "index.html", "edits": [{"old_text": "a", "new_text": "b", "count": -1}]})
    assert edited.data["replaced"] == [3]
    assert edited.data["first_changed_line"] == 3
    assert "+<p>b b b</p>\n" in edited.data["diff"]
    assert call("edit_file", {"edits": []}).failure.kind == "InvalidArguments"
    assert call("edit_file", {"edits": [{"old_text": "nowhere", "new_text": ""}]}).failure.kind == "NotFound"
    assert state.version == 2
