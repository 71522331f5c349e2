"""Tests of /show, which prints calls in full: code as it was written, diffs as diffs, files and matches as text."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.cli.plain import PlainScreen
from agent.cli.show_item import diff_of, whole_of
from agent.cli.view import View
from agent.events import ToolActivity
from tests.agent.cli.test_showing import display_of
from toolcrib import ExecutedCall

CODE = "def f():\n    return 1\n\n\nx = 1\n"


@pytest.fixture
def call(tmp_path: Path) -> Iterator[Any]:
    """Return ``call(tool, args)``, which runs a tool in a session of that folder."""
    with assemble(project_dir=tmp_path) as crib:
        session = crib.open_session()
        yield lambda name, **args: session.call(name, args)
        session.close_sync()


def whole(executed: ExecutedCall) -> str:
    return whole_of(executed, display_of(executed.call.name))


def test_code_keeps_its_indentation(call: Any) -> None:
    written = whole(call("write_file", path="a.py", content=CODE))
    assert "content:\n    def f():\n        return 1\n\n\n    x = 1\n" in written
    assert "/a.py: 5 lines, " in written
    here = whole(call("terminal", command="cat <<'X'\n  two\nX"))
    assert here == "terminal\ncommand:\n    cat <<'X'\n      two\n    X\n\n  two\n[exit code 0]\n"


def test_files_matches_and_diffs_are_text(call: Any, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(CODE)
    assert whole(call("read_file", path="a.py")).endswith(f"/a.py: lines 1 to 5 of 5\n{CODE}")
    for text, shown in (("\n", "lines 1 to 1 of 1\n\n"), ("", "empty\n\n")):
        (tmp_path / "blank").write_text(text)
        assert whole(call("read_file", path="blank")).endswith(f"/blank: {shown}")
    assert "\na.py:2:     return 1\n" in whole(call("search_files", pattern="return"))
    assert whole(call("search_files", pattern="*.py", target="files")).endswith("\n\na.py\n")
    edit = call("patch", path="a.py", old="return 1", new="return 2")
    assert "\\n" not in whole(edit)
    assert "-    return 1\n+    return 2\n" in diff_of(edit)


def test_a_list_of_tasks_is_a_list(call: Any) -> None:
    tasks = [{"id": "1", "content": "look", "status": "completed"}, {"id": "2", "content": "mend", "status": "pending"}]
    executed = call("todo", todos=tasks)
    assert whole(executed) == "todo\n\n✓ look\n○ mend\n"


@pytest.mark.parametrize(
    ("words", "shown"),
    [(False, ["  2 -     return 2", "  2 +     return 1"]), (True, ["  removed:     return 2", "  added:     return 1"])],
)
def test_lines_of_a_file_that_is_written_anew_are_its_diff(
    call: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: bool, shown: list[str]
) -> None:
    (tmp_path / "a.py").write_text(CODE.replace("1\n\n", "2\n\n"))
    screen = PlainScreen(words=words)
    executed = call("write_file", path="a.py", content=CODE)
    diff = "--- a/a.py\n+++ b/a.py\n@@ -1,5 +1,5 @@\n def f():\n-    return 2\n+    return 1\n"
    View(screen)(ToolActivity(executed.call.id, "file-difference", {"text": diff}))
    screen.closed(executed, display_of("write_file"))
    lines = capsys.readouterr().out.splitlines()
    assert " write_file writes a.py  " in f" {lines[0].replace('ended:', '✍️')}"
    assert lines[-2:] == shown
    assert "-    return 2\n+    return 1" in screen.whole(1)
