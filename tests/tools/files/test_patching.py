from __future__ import annotations

import difflib
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import DeletesFile, ExecutionFailed, Internal, InvalidArguments, NotFound, WritesFile
from tools.files.changing import apply_hunks, replace, show
from tools.files.text import decode, split_lines
from tools.files.unified import parse_diff


def unified(a: str, b: str, name: str = "f", context: int = 3) -> str:
    rows = difflib.unified_diff(split_lines(a), split_lines(b), f"a/{name}", f"b/{name}", n=context)
    return "".join(row if row.endswith("\n") else f"{row}\n\\ No newline at end of file\n" for row in rows)


def applied(text: str, diff: str) -> str:
    (file,) = parse_diff(diff)
    return apply_hunks(text, file.hunks)[0]


# -- exact replacement -------------------------------------------------------------------------------------------------


def test_replacement_says_what_changed(call, tmp_path: Path) -> None:
    """004-19: the result has a unified diff and the first changed line."""
    (tmp_path / "f.py").write_text("a\nb\nc\n")
    path = str(tmp_path / "f.py")
    result = call("patch", path="f.py", old="b\n", new="B\n")
    assert result.data["files"] == [{"path": path, "action": "modified", "first_changed_line": 2}]
    assert result.data["diff"] == f"--- a{path}\n+++ b{path}\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n"
    assert call.judged == (WritesFile(path, "a\nB\nc\n"),)
    assert (tmp_path / "f.py").read_text() == "a\nB\nc\n"


def test_missing_text_shows_the_nearest_lines_and_changes_nothing(call, tmp_path: Path) -> None:
    """004-19"""
    (tmp_path / "f").write_text("def load(path):\n    return open(path)\n")
    with pytest.raises(ExecutionFailed, match=r"not in the file; nothing was changed[^|]*\n1\|def load\(path\):\n2\|"):
        call("patch", path="f", old="def load(name):\n", new="x\n")
    assert call.judged == (WritesFile(str(tmp_path / "f"), None),)
    assert "load(path)" in (tmp_path / "f").read_text()


def test_a_long_text_that_fits_but_for_a_line_shows_that_line(call, tmp_path: Path) -> None:
    lines = [f"value {number}\n" for number in range(1, 41)]
    (tmp_path / "a").write_text("".join(lines))
    old = [*lines[4:24], "value 25!\n", *lines[25:28]]
    fits = (
        r"Lines 5-24 of the file fit, but the next line does not: 'value 25!'\. The nearest lines:\n24\|value 24\n25\|value 25\n"
    )
    with pytest.raises(ExecutionFailed, match=fits):
        call("patch", path="a", old="".join(old), new="x")
    hunk = "".join(f" {line}" for line in old)
    with pytest.raises(ExecutionFailed, match=r"hunk 1 \(line 5\) is not .*" + fits):
        call("patch", diff=f"--- a/a\n+++ b/a\n@@ -5,24 +5,25 @@\n{hunk}+new\n")
    with pytest.raises(
        ExecutionFailed, match=r"Lines 39-40 of the file fit, but .*: 'value 41'\. The nearest lines:\n40\|value 40$"
    ):
        call("patch", path="a", old="value 39\nvalue 40\nvalue 41\n", new="x")
    assert (tmp_path / "a").read_text() == "".join(lines)


def test_several_places_are_refused_with_their_lines_and_replaced_on_demand(call, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x = 1\ny\nx = 1\n")
    with pytest.raises(ExecutionFailed, match="fits at 2 places, lines 1, 3"):
        call("patch", path="f", old="x = 1", new="x = 2")
    assert call("patch", path="f", old="x = 1", new="x = 2", replace_all=True).data["notes"] == ["replaced 2 places"]
    assert (tmp_path / "f").read_text() == "x = 2\ny\nx = 2\n"


def test_overlapping_places_are_several() -> None:
    with pytest.raises(ExecutionFailed, match="2 places"):
        replace("aaa", "aa", "b", every=False)


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        ({"path": "f", "old": "", "new": "x"}, "old: empty"),
        ({"path": "f", "old": "x", "new": "x"}, "the same"),
        ({"path": "f", "old": "x"}, "give path, old and new"),
        ({}, "give path, old and new"),
        ({"diff": "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n", "old": "x"}, "not both"),
        ({"diff": "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-x\n+y\n", "path": "f"}, "leave path out"),
    ],
)
def test_arguments_that_do_not_belong_together(call, tmp_path: Path, args: dict[str, Any], reason: str) -> None:
    (tmp_path / "f").write_text("x\n")
    with pytest.raises(InvalidArguments, match=reason):
        call("patch", **args)


def test_white_space_is_tolerated_where_unique_and_the_indent_follows_the_file() -> None:
    text = "class A:\n        def f(self):\n            return  1\n"
    changed, notes = replace(text, "def f(self):\n    return 1", "def f(self):\n    x = 2\n    return x", every=False)
    assert changed == "class A:\n        def f(self):\n            x = 2\n            return x\n"
    assert notes == ["old matched lines 2-3 except for white space"]
    assert replace("a:\n  b\n", "  a:\n    b\n", "  a:\n\n    c\n", every=False)[0] == "a:\n\n  c\n"
    with pytest.raises(ExecutionFailed, match="not in the file"):
        replace("a:\n  b\n", "  a:\n    b\n", "c\n", every=False)  # the new text is indented less than the old text
    with pytest.raises(ExecutionFailed, match="not in the file"):
        replace("a:\n  b\n", "  a:\n   b\n", "  c\n", every=False)  # two different shifts
    with pytest.raises(ExecutionFailed, match="not in the file"):
        replace("a  b\nc\n", "a b\n", "x", every=False)  # joins two lines
    with pytest.raises(ExecutionFailed, match="2 places, lines 1, 2"):
        replace("a  b\na   b\n", "a b", "c", every=False)
    with pytest.raises(ExecutionFailed, match="not in the file"):
        replace("if x:\n\ty\n", "if x:\n    y\n", "z\n", every=False)  # tabs for blanks: no common prefix


@pytest.mark.parametrize(
    ("data", "old", "new", "expected"),
    [
        (b"a\r\nb\r\n", "a\nb\n", "c\nd\n", b"c\r\nd\r\n"),
        (b"a\r\nb\r\n", "a", "c\nd", b"c\r\nd\r\nb\r\n"),
        (b"a\nb\n", "a\r\nb", "c\r\nd", b"c\nd\n"),
        (b"\xef\xbb\xbfa\nb", "b", "c", b"\xef\xbb\xbfa\nc"),
        ("grün".encode("latin-1"), "grün", "blau", b"blau"),
        ("a\nb".encode("utf-16"), "b", "é", "a\né".encode("utf-16")),
        (b"a\nb\r\nc\n", "b\nc", "x\ny", b"a\nx\r\ny\n"),
    ],
)
def test_line_ends_marks_and_encodings_stay(call, tmp_path: Path, data: bytes, old: str, new: str, expected: bytes) -> None:
    (tmp_path / "f").write_bytes(data)
    call("patch", path="f", old=old, new=new)
    assert (tmp_path / "f").read_bytes() == expected


def test_an_empty_file_and_a_pipe(call, tmp_path: Path) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(ExecutionFailed, match="The file is empty"):
        call("patch", path="f", old="a", new="b")
    call("patch", diff="--- a/f\n+++ b/f\n@@ -0,0 +1 @@\n+a\n")
    assert (tmp_path / "f").read_text() == "a\n"
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ExecutionFailed, match="not a regular file"):
        call("patch", path="pipe", old="a", new="b")


def test_what_cannot_be_patched(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").write_bytes(b"\0\1\2")
    (tmp_path / "latin").write_bytes("ü".encode("latin-1"))
    for path, error, reason in [
        ("bin", ExecutionFailed, "binary"),
        (".", InvalidArguments, "folder"),
        ("nowhere", NotFound, "does not exist"),
        ("latin", InvalidArguments, r"can't encode '€'"),
    ]:
        with pytest.raises(error, match=reason):
            call("patch", path=path, old="ü", new="€")
    monkeypatch.setattr("tools.files.patching.PATCH_BYTES", 1)
    (tmp_path / "big").write_text("big")
    with pytest.raises(ExecutionFailed, match="larger than"):
        call("patch", path="big", old="b", new="c")


# -- unified diffs -----------------------------------------------------------------------------------------------------

_lines = st.lists(
    st.sampled_from(["a", "b", "c", "", "  a", "--- x", "+++ y", "@@ -1 +1 @@", "-- ", "\\ No", "ä", "x\r"]), max_size=12
)
_texts = st.builds(lambda lines, end: "\n".join(lines) + ("\n" if end and lines else ""), _lines, st.booleans())


@given(a=_texts, b=_texts, context=st.integers(0, 4))
def test_applying_a_diff_of_a_and_b_to_a_gives_b(a: str, b: str, context: int) -> None:
    if a == b:
        return
    changed = applied(a, unified(a, b, context=context))
    if not context:  # without context, added lines end as their neighbour
        changed, b = changed.replace("\r", ""), b.replace("\r", "")
    assert changed == b


@given(a=_texts, b=_texts, before=st.lists(st.integers(100, 999).map("unique {}\n".format), max_size=4, unique=True))
def test_a_diff_fits_exactly_or_is_refused_when_lines_moved(a: str, b: str, before: list[str]) -> None:
    """An offset is accepted if the place is unique; otherwise the diff is refused."""
    if a == b:
        return
    head = "".join(before)
    try:
        changed = applied(head + a, unified(a, b))
    except ExecutionFailed:
        return
    if len(parse_diff(unified(a, b))[0].hunks) == 1 and (head + a).count(a) == 1 and "\n" in a:
        assert sorted(changed.split()) == sorted((head + b).split())


@given(_texts, _texts)
def test_a_shown_diff_can_be_applied_again(a: str, b: str) -> None:
    if a != b:
        text, line = show("/f", a, b)
        assert applied(a, text) == b
        assert split_lines(a)[: line - 1] == split_lines(b)[: line - 1]


@given(st.binary(max_size=200))
def test_decoding_loses_nothing(data: bytes) -> None:
    text = decode(data)
    assert text is None or text.encode(text.text) == data


@given(st.text(alphabet="-+@ ,1a/b\n\\#", max_size=80))
def test_any_text_is_read_or_refused(diff: str) -> None:
    try:
        files = parse_diff(diff)
    except InvalidArguments:
        return
    assert all(file.old or file.new for file in files)


def test_offset_is_found_and_said() -> None:
    diff = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n one\n-two\n+TWO\n"
    (file,) = parse_diff(diff)
    assert apply_hunks("x\ny\none\ntwo\n", file.hunks) == (
        "x\ny\none\nTWO\n",
        ["hunk 1 applied at line 3; its header says 1"],
    )


def test_no_guess_between_several_places() -> None:
    with pytest.raises(ExecutionFailed, match=r"hunk 1 \(line 9\) fits at 2 places, lines 2, 4"):
        applied("x\none\ny\none\n", "--- a/f\n+++ b/f\n@@ -9 +9 @@\n-one\n+ONE\n")
    with pytest.raises(ExecutionFailed, match="hunk 1 fits at 2 places"):
        applied("x\none\ny\none\n", "--- a/f\n+++ b/f\n@@ @@\n-one\n+ONE\n")


def test_wrong_counts_and_lost_blanks_are_read() -> None:
    diff = "```diff\n--- a/f\n+++ b/f\n@@ -1,9 +1,2 @@ def f\n one\n\n-two\n+TWO\n```\n"
    with pytest.raises(InvalidArguments, match="line 9"):
        parse_diff(diff)
    assert applied("one\n\ntwo\n", diff.replace("```diff\n", "").replace("```\n", "")) == "one\n\nTWO\n"


def test_line_ends_of_the_file_are_kept_by_a_diff() -> None:
    diff = "--- a/f\n+++ b/f\n@@ -1,2 +1,3 @@\n one\n-two\n+TWO\n+three\n"
    assert applied("one\r\ntwo\r\n", diff) == "one\r\nTWO\r\nthree\r\n"
    assert applied("one\ntwo", diff) == "one\nTWO\nthree"
    assert applied("one\ntwo\n", diff.replace("\n", "\r\n")) == "one\nTWO\nthree\n"
    assert applied("one\ntwo", "--- a/f\n+++ b/f\n@@ -2,1 +2,2 @@\n two\n+three\n") == "one\ntwo\nthree"


def test_several_files_created_deleted_and_renamed(call, tmp_path: Path) -> None:
    (tmp_path / "edit").write_text("a\nb\n")
    (tmp_path / "gone").write_text("old\n")
    (tmp_path / "from").write_text("same\nx\n")
    (tmp_path / "from").chmod(0o750)
    diff = (
        "diff --git a/edit b/edit\nindex 1..2 100644\n" + unified("a\nb\n", "a\nB\n", "edit")
        + "--- /dev/null\n+++ b/sub/new\n@@ -0,0 +1,2 @@\n+one\n+two\n"
        "diff --git a/gone b/gone\ndeleted file mode 100644\n--- a/gone\n+++ /dev/null\n@@ -1 +0,0 @@\n-old\n"
        "diff --git a/from b/to\nrename from from\nrename to to\n--- a/from\n+++ b/to\n@@ -1,2 +1,2 @@\n same\n-x\n+y\n"
        "diff --git a/empty b/empty\nnew file mode 100644\nindex 0..0\n-- \n2.39.0\n"
    )  # fmt: skip
    result = call("patch", diff=diff)
    at = lambda name: str(tmp_path / name)  # noqa: E731 - short
    assert call.judged == (
        WritesFile(at("edit"), "a\nB\n"),
        WritesFile(at("sub/new"), "one\ntwo\n"),
        DeletesFile(at("gone")),
        WritesFile(at("to"), "same\ny\n"),
        DeletesFile(at("from")),
        WritesFile(at("empty"), ""),
    )
    assert [said["action"] for said in result.data["files"]] == ["modified", "created", "deleted", "renamed", "created"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["edit", "empty", "sub", "to"]
    assert (tmp_path / "to").read_text() == "same\ny\n"
    assert (tmp_path / "to").stat().st_mode & 0o777 == 0o750


def test_nothing_is_written_unless_all_of_it_fits(call, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("a\n")
    (tmp_path / "two").write_text("b\n")
    diff = unified("a\n", "A\n", "one") + unified("x\n", "X\n", "two")
    with pytest.raises(ExecutionFailed, match="two: hunk 1"):
        call("patch", diff=diff)
    assert (tmp_path / "one").read_text() == "a\n"


def test_a_write_that_fails_midway_puts_the_others_back(call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "one").write_text("a\n")
    (tmp_path / "file").write_text("")
    diff = (
        unified("a\n", "A\n", "one")
        + "--- /dev/null\n+++ b/new\n@@ -0,0 +1 @@\n+n\n--- /dev/null\n+++ b/dir/x\n@@ -0,0 +1 @@\n+n\n"
    )
    call.between = lambda: (tmp_path / "dir").write_text("in the way")
    with pytest.raises((ExecutionFailed, InvalidArguments)):
        call("patch", diff=diff)
    assert (tmp_path / "one").read_text() == "a\n"
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("diff", "reason"),
    [
        ("", "no file"),
        ("hello", "no file"),
        ("*** Begin Patch\n*** Update File: f\n", "not a unified diff"),
        ("@@ -1 +1 @@\n-a\n+b\n", "before the names"),
        ("--- a/f\n+++ b/f\n", "no hunks"),
        ("--- a/f\n+++ b/g\n@@ -1 +1 @@\n-a\n+b\n", "names differ"),
        ("--- /dev/null\n+++ /dev/null\n@@ -1 +1 @@\n-a\n+b\n", "both names"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n a\n", "changes nothing"),
        ("Binary files a/x and b/x differ\n", "only text changes"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n", "named twice"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n--- a/./f\n+++ b/./f\n@@ -1 +1 @@\n-a\n+b\n", "named twice"),
        ("diff --git a/f b/./f\nrename from f\nrename to ./f\n", "same file"),
    ],
)
def test_bad_diffs_are_refused_before_the_gates(call, tmp_path: Path, diff: str, reason: str) -> None:
    (tmp_path / "f").write_text("a\n")
    with pytest.raises(InvalidArguments, match=reason):
        call("patch", diff=diff)
    assert call.judged == ()
    assert (tmp_path / "f").read_text() == "a\n"


@pytest.mark.parametrize(
    ("diff", "reason"),
    [
        ("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+n\n", "exists already"),
        ("--- a/f\n+++ /dev/null\n@@ -1 +0,0 @@\n-a\n", "without removing all"),
        ("--- a/f\n+++ b/f\n@@ @@\n+n\n", "no context"),
        ("--- a/f\n+++ b/f\n@@ -9,0 +9 @@\n+n\n", "no context"),
        ("--- a/f\n+++ b/f\n@@ -1 +1 @@\n-a\n+b\n\\ No newline at end of file\n", "for a line that others follow"),
        ("--- a/f\n+++ b/f\n@@ -2 +2 @@\n-b\n+c\n@@ -1 +1 @@\n-a\n+b\n", r"hunk 2 \(line 1\) is not in the file"),
    ],
)
def test_diffs_that_do_not_fit(call, tmp_path: Path, diff: str, reason: str) -> None:
    (tmp_path / "f").write_text("a\nb\n")
    with pytest.raises(ExecutionFailed, match=reason):
        call("patch", diff=diff)
    assert (tmp_path / "f").read_text() == "a\nb\n"


def test_names_with_odd_characters(call, tmp_path: Path) -> None:
    (tmp_path / "ä b").write_text("a\n")
    call("patch", diff='--- "a/\\303\\244 b"\t2026-01-01\n+++ "b/\\303\\244 b"\n@@ -1 +1 @@\n-a\n+b\n')
    assert (tmp_path / "ä b").read_text() == "b\n"


def test_a_file_that_changed_after_it_was_judged_is_left_alone(call, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\nb\n")
    call.between = lambda: (tmp_path / "f").write_text("a\nc\n")
    with pytest.raises(ExecutionFailed, match="changed after this call was checked"):
        call("patch", path="f", old="a", new="x")
    assert (tmp_path / "f").read_text() == "a\nc\n"


def test_a_link_put_there_after_judging_is_not_followed(call, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\n")
    (tmp_path / "other").write_text("a\n")

    def swap() -> None:
        (tmp_path / "f").unlink()
        (tmp_path / "f").symlink_to(tmp_path / "other")

    call.between = swap
    with pytest.raises(ExecutionFailed, match="link"):
        call("patch", path="f", old="a", new="x")
    assert (tmp_path / "other").read_text() == "a\n"


def test_without_judged_effects_nothing_happens(call, tmp_path: Path) -> None:
    import asyncio

    from toolcrib import ToolCall, registry
    from toolcrib.contract.context import mint_context

    args = {"path": "f", "old": "a", "new": "b"}
    (tmp_path / "f").write_text("a")
    entry = registry.get("patch")
    with pytest.raises(Internal, match="through the dispatcher"):
        asyncio.run(entry.handler(args, mint_context(ToolCall("1", "patch", args), call.scope)))


def test_large_changes_are_not_shown_in_full() -> None:
    text, line = show("/f", "a\n" * 3000, "b\n" * 3000)
    assert (text, line) == ("/f: 3000 lines from line 1 became 3000; too many to show\n", 1)
    text, _ = show("/f", "a\n", "b" * 50_000 + "\n")
    assert len(text) < 21_000


# -- what can't be written ---------------------------------------------------------------------------------------------


@pytest.fixture
def fixed(tmp_path: Path) -> Iterator[Path]:
    """A file that no account may change, not even root."""
    (tmp_path / "fixed").write_text("one\n")
    try:
        subprocess.run(["chattr", "+i", str(tmp_path / "fixed")], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("only root, on a file system that knows immutable files, can make one")
    yield tmp_path / "fixed"
    subprocess.run(["chattr", "-i", str(tmp_path / "fixed")], check=True)


def test_a_file_that_may_not_be_changed_is_not_said_to_be(call, fixed: Path) -> None:
    (fixed.parent / "other").write_text("one\n")
    with pytest.raises(ExecutionFailed, match=r"no permission for .*/fixed; all files are restored$"):
        call("patch", path="fixed", old="one", new="two")
    diff = "".join(f"--- a/{name}\n+++ b/{name}\n@@ -1 +1 @@\n-one\n+two\n" for name in ("other", "fixed"))
    with pytest.raises(ExecutionFailed, match=r"no permission for .*/fixed; all files are restored$"):
        call("patch", diff=diff)
    assert (fixed.parent / "other").read_text() == fixed.read_text() == "one\n"
