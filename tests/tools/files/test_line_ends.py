"""Line ends of a patched file that has both kinds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import ExecutionFailed
from tools.files.changing import apply_hunks, replace
from tools.files.unified import parse_diff


def applied(text: str, diff: str) -> str:
    (file,) = parse_diff(diff)
    return apply_hunks(text, file.hunks)[0]


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a\r\nb\r\nc\r\nd\n", "b\nc\nd", "B\nC\nD", "a\r\nB\r\nC\r\nD\n"),
        ("a\r\nb\nc\r\n", "a\nb\nc", "A\nx\nb\nC", "A\r\nx\r\nb\nC\r\n"),
        ("a\r\nb\nc\n", "a", "a\nx", "a\r\nx\r\nb\nc\n"),
        ("a\r\nb", "b", "b\nc", "a\r\nb\r\nc"),
        ("a\nb\r\n", "b\r\n", "B\r\nc\r\n", "a\nB\r\nc\r\n"),
        ("a\r\nb\r\nc\n", "\nb", "\nB", "a\r\nB\r\nc\n"),
        ("a\r\nb\r\n", "a\r\n", "a\n", "a\nb\r\n"),
        ("a  b\r\nc\n", "a b\nc\n", "a b\nd\n", "a  b\r\nd\n"),
    ],
)
def test_a_changed_line_ends_as_the_line_that_it_replaces(text: str, old: str, new: str, expected: str) -> None:
    """An inserted line ends as its neighbour. A line that both texts have, with other white space, is kept as in the file."""
    assert replace(text, old, new, every=False)[0] == expected


def test_places_that_differ_only_in_line_ends_are_several() -> None:
    """A model does not see the line ends, so it can't mean one of them."""
    with pytest.raises(ExecutionFailed, match="2 places, lines 1, 3"):
        replace("a\r\nb\na\nb\n", "a\nb", "c", every=False)
    assert replace("a\r\nb\na\nb\n", "a\nb", "c", every=True) == ("c\nc\n", ["replaced 2 places"])
    with pytest.raises(ExecutionFailed, match="differ only in their line ends"):
        replace("a\nb\n", "a\r\n", "a\n", every=False)
    with pytest.raises(ExecutionFailed, match="2 places, lines 1, 3"):
        applied("a\nb\na\r\nb\r\n", "--- a/f\n+++ b/f\n@@ @@\n-a\n b\n+A\n")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["\n", "\r\n"])), min_size=1, max_size=12), st.data())
def test_a_patch_keeps_the_line_ends_of_a_mixed_file(lines: list[tuple[str, str]], data: st.DataObject) -> None:
    """One line is changed, inserted or removed, and every other line keeps its bytes. All lines of the file differ."""
    named = [f"<{number}>{line}{end}" for number, (line, end) in enumerate(lines)]
    at = data.draw(st.integers(0, len(named) - 1))
    first, last = data.draw(st.integers(0, at)), data.draw(st.integers(at, len(named) - 1))
    act = data.draw(st.sampled_from(["change", "insert", "remove"]))
    old = [line.replace("\r\n", "\n") for line in named[first : last + 1]]
    fresh = {"change": ["new\n"], "insert": [old[at - first], "new\n"], "remove": []}[act]
    new = [*old[: at - first], *fresh, *old[at - first + 1 :]]
    end = named[at][len(named[at].rstrip("\r\n")) :]
    kept = {"change": [f"new{end}"], "insert": [named[at], f"new{end}"], "remove": []}[act]
    expected = "".join([*named[:at], *kept, *named[at + 1 :]])
    assert replace("".join(named), "".join(old), "".join(new), every=False)[0] == expected
    rows = "".join(f" {line}" for line in old[: at - first]), "".join(f" {line}" for line in old[at - first + 1 :])
    changed = {"change": f"-{old[at - first]}+new\n", "insert": f" {old[at - first]}+new\n", "remove": f"-{old[at - first]}"}[act]
    assert applied("".join(named), f"--- a/f\n+++ b/f\n@@ -{first + 1} +1 @@\n{rows[0]}{changed}{rows[1]}") == expected


def test_a_diff_keeps_the_line_ends_of_a_mixed_file() -> None:
    head = "--- a/f\n+++ b/f\n"
    assert applied("a\r\nb\r\nc\r\nd\n", f"{head}@@ -1,4 +1,4 @@\n a\n-b\n+B\n c\n d\n") == "a\r\nB\r\nc\r\nd\n"
    assert applied("a\r\nb\n", f"{head}@@ -1,0 +2 @@\n+x\n") == "a\r\nx\r\nb\n"
    assert applied("a\r\nb", f"{head}@@ -1,2 +1,3 @@\n a\n-b\n+B\n+C\n") == "a\r\nB\r\nC"
    bare = "\\ No newline at end of file\n"
    assert applied("a\r\nb", f"{head}@@ -1,2 +1,2 @@\n a\n-b\n{bare}+B\n") == "a\r\nB\r\n"
    assert applied("a\r\nb\r\n", f"{head}@@ -1,2 +1,2 @@\n a\n-b\n+B\n{bare}") == "a\r\nB"
