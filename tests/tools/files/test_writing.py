from __future__ import annotations

from pathlib import Path

import pytest

from toolcrib import ActivityEvent, ExecutionFailed, InvalidArguments, WritesFile


def test_created_then_replaced(call, tmp_path: Path) -> None:
    first = call("write_file", path="new/a.txt", content="one\ntwo")
    path = str(tmp_path / "new/a.txt")
    assert first.data == {"path": path, "action": "created", "bytes": 7, "lines": 2}
    assert call.judged == (WritesFile(path, "one\ntwo"),)
    assert call("write_file", path="new/a.txt", content="é\n").data == {
        "path": path,
        "action": "replaced",
        "bytes": 3,
        "lines": 1,
    }
    assert Path(path).read_bytes() == "é\n".encode()


def test_line_ends_and_mode_stay(call, tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("old")
    script.chmod(0o755)
    call("write_file", path="run.sh", content="a\r\nb\n")
    assert script.read_bytes() == b"a\r\nb\n"
    assert script.stat().st_mode & 0o777 == 0o755


def test_what_was_judged_is_what_is_written(call, tmp_path: Path) -> None:
    """The path is a link, whose target is judged; a later change of the link has no effect."""
    (tmp_path / "x").write_text("x")
    (tmp_path / "y").write_text("y")
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "x")

    def swap() -> None:
        link.unlink()
        link.symlink_to(tmp_path / "y")

    call.between = swap
    call("write_file", path="link", content="new")
    assert ((tmp_path / "x").read_text(), (tmp_path / "y").read_text()) == ("new", "y")


@pytest.mark.parametrize("place", ["file", "folder"])
def test_a_link_put_there_after_judging_is_refused(call, tmp_path: Path, place: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "f").write_text("safe")
    (tmp_path / "dir").mkdir()

    def swap() -> None:
        if place == "file":
            (tmp_path / "dir" / "f").symlink_to(outside / "f")
        else:
            (tmp_path / "dir").rmdir()
            (tmp_path / "dir").symlink_to(outside)

    call.between = swap
    with pytest.raises((ExecutionFailed, InvalidArguments)):
        call("write_file", path="dir/f", content="bad")
    assert (outside / "f").read_text() == "safe"


def test_folders_and_lone_surrogates_are_refused(call, tmp_path: Path) -> None:
    with pytest.raises(InvalidArguments, match="is a folder"):
        call("write_file", path=".", content="")
    with pytest.raises(InvalidArguments, match=r"U\+D800"):
        call("write_file", path="a", content="\ud800")
    (tmp_path / "f").touch()
    with pytest.raises((InvalidArguments, ExecutionFailed), match=r"not a folder|Not a directory"):
        call("write_file", path="f/g", content="x")


def test_what_it_replaced_is_shown_and_told_to_nobody_else(call, tmp_path: Path) -> None:
    """The model may never have read the old text, so only users see the difference."""
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    seen: list[ActivityEvent] = []

    class Watches:
        def emit(self, event: ActivityEvent) -> None:
            seen.append(event)

    call.scope.activity_sink = Watches()
    result = call("write_file", path="a.txt", content="one\n2\n")
    (event,) = seen
    assert event.activity_type == "file-difference"
    assert event.content["text"].endswith("@@ -1,2 +1,2 @@\n one\n-two\n+2\n")
    assert "diff" not in result.data
    assert "two" not in str(result.to_json())
