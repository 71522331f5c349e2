"""Line numbers of a diff's lines, for any two texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tools.files.diff_lines import DiffLine, diff_lines, number_width
from tools.files.differing import unified

LINES = st.lists(st.sampled_from(["a", "b", "", "-- x", "++ y", "@@ -1 +1 @@", " indented"]), max_size=30)


@given(LINES, LINES)
def test_each_line_has_its_number_in_its_file(old: list[str], new: list[str]) -> None:
    before, after = ("".join(f"{line}\n" for line in lines) for lines in (old, new))
    found = [*diff_lines(unified(before, after, "a/x", "b/x").removesuffix("\n"))]
    for one in found:
        if one.kind in ("removed", "added", "same"):
            assert one.text[1:] == (old if one.kind == "removed" else new)[one.number - 1]
        else:
            assert one.number == 0
    changed = len([one for one in found if one.kind == "added"]) - len([one for one in found if one.kind == "removed"])
    assert changed == len(new) - len(old)
    assert [one.kind for one in found[:3]] == (["before", "after", "hunk"] if old != new else ["note"])


def test_lines_outside_of_hunks_are_notes() -> None:
    diff = "x.py: 900 lines became 2; too many to show\n@@ -7 +9,2 @@ def f():\n-a\n+b\n+c\n... [5 more characters of diff]"
    assert [*diff_lines(diff)] == [
        DiffLine("note", "x.py: 900 lines became 2; too many to show"),
        DiffLine("hunk", "@@ -7 +9,2 @@ def f():"),
        DiffLine("removed", "-a", 7),
        DiffLine("added", "+b", 9),
        DiffLine("added", "+c", 10),
        DiffLine("note", "... [5 more characters of diff]"),
    ]
    assert number_width([*diff_lines(diff)]) == 2
