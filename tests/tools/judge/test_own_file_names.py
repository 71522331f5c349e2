"""Patterns of names that may match a file of toolcrib."""

from __future__ import annotations

import pytest

from tools.judge.own_file_names import may_be_kept, may_lie_in, overlap

STATE = "/home/dev/.local/state/toolcrib"


@pytest.mark.parametrize(
    "pattern",
    "* *.markdown *.MARKDOWN *.m?rk* *.[m]arkdown MEM* tool* *.db *.db* *-wal *backup* *-search *.yaml *.env *.json *.lock"
    " secrets.env config.yaml USER.markdown app-0123456789abcdef.markdown chat_history [!x]*".split(),
)
def test_a_pattern_that_may_match_one(pattern: str) -> None:
    assert may_be_kept(pattern)


@pytest.mark.parametrize(
    "pattern",
    "*.py *.md *.c *.csv *.log *.toml *.conf *.jpg package.json README.markdown uv.lock Makefile .git node_modules".split(),
)
def test_a_pattern_that_matches_others_only(pattern: str) -> None:
    assert not may_be_kept(pattern)


@pytest.mark.parametrize(
    ("pattern", "may"),
    [
        ("*memory*", True),
        ("*toolcrib*", True),
        ("/home/dev/.local/*", True),
        ("*/src/*.py", False),
        ("/home/dev/notes/*", False),
    ],
)
def test_a_pattern_of_paths(pattern: str, may: bool) -> None:
    assert may_lie_in(pattern, STATE) is may


@pytest.mark.parametrize(
    ("one", "two", "both"),
    [
        ("a*c", "*b*", True),
        ("a?c", "abc", True),
        ("a*", "b*", False),
        ("", "*", True),
        ("", "?", False),
        ("*.x", "*.y", False),
        (r"\*", "*", True),
        ("[ab]c", "xc", True),
    ],
)
def test_two_patterns_overlap(one: str, two: str, both: bool) -> None:
    assert overlap(one, two) is both
    assert overlap(two, one) is both
