"""Patterns in paths: the names that they may match count, in any part of a path."""

from __future__ import annotations

import pytest

from tools.judge.globs import dangerous, part_matches


@pytest.mark.parametrize(
    ("pattern", "name"),
    [
        ("g?t", "git"),
        ("t[[:lower:]]*", "toolcrib"),
        ("t@(oolcri)b", "toolcrib"),
        (".G*", ".git"),
        ("[!x]ev", "dev"),
        ("d\ufffcv", "dev"),
    ],
)
def test_a_part_of_a_pattern_matches_a_name(pattern: str, name: str) -> None:
    assert part_matches(pattern, name)


def test_a_hidden_name_is_not_matched_by_a_wildcard() -> None:
    assert not part_matches("*", ".git")
    assert not part_matches("\ufffc", ".ssh")


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("/d?v/sd*", "/dev/sda"),
        ("/dev/pt*/0", "/dev/pts/0"),
        ("/e*/passwd", "/etc/passwd"),
        ("/home/dev/project/.g?t/hook?/pre-commit", "/home/dev/project/.git/hooks/pre-commit"),
        ("/pro?/1/environ", "/proc/1/environ"),
    ],
)
def test_a_pattern_names_places_of_danger(pattern: str, named: str) -> None:
    assert named in set(dangerous(pattern))


def test_a_plain_path_names_nothing_else() -> None:
    assert not list(dangerous("/home/dev/project/.git/config"))
