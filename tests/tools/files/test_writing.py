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


@pytest.mark.parametrize(
    ("before", "content", "after", "note"),
    [
        (b"a\r\nb\r\n", "x\ny\n", b"x\r\ny\r\n", "kept: CRLF line ends"),
        (b"a\r\nb\r\n", "x\r\ny\n", b"x\r\ny\n", None),
        (b"a\r\nb\n", "x\ny\n", b"x\ny\n", "some lines ended with CRLF, and all end with LF now"),
        (b"\xef\xbb\xbfa\n", "x\n", b"\xef\xbb\xbfx\n", "kept: utf-8 with a byte order mark"),
        (b"\xef\xbb\xbfa\n", "\ufeffx\n", b"\xef\xbb\xbfx\n", "kept: utf-8"),
        (
            "a\r\nb\r\n".encode("utf-16"),
            "\u20ac\n",
            "\u20ac\r\n".encode("utf-16"),
            "kept: utf-16-le with a byte order mark; kept: CRLF",
        ),
        ("a\n".encode("utf-32"), "b\n", "b\n".encode("utf-32"), "kept: utf-32-le"),
        ("gr\u00fcn".encode("latin-1"), "gr\u00fcn", "gr\u00fcn".encode(), "the file was not UTF-8 and is now"),
        ("gr\u00fcn".encode("latin-1"), "blue", b"blue", None),
        (b"\x89PNG\r\n\x1a\n\0\0", "x\n", b"x\n", "the file was binary (PNG image) and is now UTF-8 text"),
        (b"a\nb\n", "x\ny\n", b"x\ny\n", None),
        (b"", "x\n", b"x\n", None),
    ],
)
def test_the_form_of_a_replaced_file_is_kept_or_its_change_is_said(
    call, tmp_path: Path, before: bytes, content: str, after: bytes, note: str | None
) -> None:
    (tmp_path / "f").write_bytes(before)
    result = call("write_file", path="f", content=content)
    assert (tmp_path / "f").read_bytes() == after
    assert result.data["bytes"] == len(after)
    assert (result.data.get("note") or "").startswith(note or "")
    assert ("note" in result.data) == (note is not None)
    assert (note or "") in result.views["model"]
    assert call.judged == (WritesFile(str(tmp_path / "f"), after.decode(result_encoding(after)).removeprefix("\ufeff")),)


def result_encoding(data: bytes) -> str:
    return "utf-32" if data[2:4] == b"\0\0" else "utf-16" if data[:2] == b"\xff\xfe" else "utf-8"


def test_a_form_that_changed_after_the_call_was_judged(call, tmp_path: Path) -> None:
    """The gates judged the text with its line ends."""
    (tmp_path / "f").write_bytes(b"a\n")
    call.between = lambda: (tmp_path / "f").write_bytes(b"a\r\n")
    with pytest.raises(ExecutionFailed, match="changed after this call was checked; nothing was written"):
        call("write_file", path="f", content="x\n")
    assert (tmp_path / "f").read_bytes() == b"a\r\n"


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
