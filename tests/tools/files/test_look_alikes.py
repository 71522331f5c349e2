"""Text that a patch does not find because of characters that look alike or are invisible."""

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


LOOK_ALIKES = [
    ("in\u00a0current", "in current", r"line 2, column 3 of the file has U\+00A0 \(NO-BREAK SPACE\), old has U\+0020 \(SPACE\)"),
    ("cafe\u0301", "caf\u00e9", r"column 4 .*U\+0065 .*U\+0301 \(COMBINING ACUTE ACCENT\), old has U\+00E9"),
    ("caf\u00e9", "cafe\u0301", r"column 4 of the file has U\+00E9 .*, old has U\+0065 "),
    ("a \u2014 b", "a - b", r"column 3 of the file has U\+2014 \(EM DASH\), old has U\+002D"),
    ("a - b", "a \u2013 b", r"column 3 of the file has U\+002D .*, old has U\+2013 \(EN DASH\)"),
    ("say \u201chi\u201d", 'say "hi"', r"column 5 .*U\+201C.*column 8 .*U\+201D"),
    ("don\u2019t", "don't", r"column 4 .*U\+2019 \(RIGHT SINGLE QUOTATION MARK\), old has U\+0027 \(APOSTROPHE\)"),
    ("x\u200by", "xy", r"column 2 of the file has U\+200B \(ZERO WIDTH SPACE\), old has nothing"),
    ("xy", "x\ufeffy", r"column 2 of the file has nothing, old has U\+FEFF"),
    ("p\u0430th", "path", r"column 2 of the file has U\+0430 \(CYRILLIC SMALL LETTER A\)"),
    ("wait\u2026", "wait...", r"column 5 of the file has U\+2026"),
]


@pytest.mark.parametrize(("here", "old", "named"), LOOK_ALIKES)
def test_characters_that_look_alike_are_named_with_their_column(here: str, old: str, named: str) -> None:
    """Nothing is changed: only the model knows which of the two it means."""
    for text, missing in [(f"one\n{here}\nthree\n", old), (f"one\r\n{here}\r\n", f"one\n{old}")]:
        with pytest.raises(ExecutionFailed, match=rf"nothing was changed.*looks alike: line 2, {named.removeprefix('line 2, ')}"):
            replace(text, missing, "x", every=False)
    diff = f"--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n one\n-{old}\n+x\n"
    with pytest.raises(ExecutionFailed, match=r"looks alike: line 2, column"):
        applied(f"one\n{here}\n", diff)


@given(st.lists(st.sampled_from([*"ab \n-'", "\u00a0", "\u2019", "\u200b", "e\u0301", "\u2014"]), min_size=1, max_size=30))
def test_any_text_that_only_looks_alike_is_named(chars: list[str]) -> None:
    text = "".join(chars)
    plain = text.translate({0xA0: " ", 0x2019: "'", 0x200B: None, 0x2014: "-"}).replace("e\u0301", "\u00e9")
    if plain != text:
        with pytest.raises(ExecutionFailed, match=r"looks alike: line \d+, column \d+ of the file has "):
            replace(f"<{text}>", f"<{plain}>", "x", every=False)
