"""The files that find, fd and others list: their starting folders and possible names."""

from __future__ import annotations

import shlex

import pytest

from tools.judge.finds import Finds, finds
from tools.judge.meaning.act import Act
from tools.judge.meaning.value import Value


def found(command: str) -> Finds:
    words = shlex.split(command)
    said = finds(Act(words[0], [Value(word) for word in words], cwds=("/home/dev/project",)), "/home/dev")
    assert said is not None
    return said


def names(command: str) -> list[list[str]]:
    return [[one.pattern for one in choice] for choice in found(command).choices]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("find ~", [[]]),
        ("find ~ -name a", [["a"]]),
        ("find ~ -type f -name a -newer b", [["a"]]),
        ("find ~ -newer -name -type f", [[]]),
        ("find ~ -name a -o -name b", [["a"], ["b"]]),
        ("find ~ -name a -o -type f", [["a"], []]),
        ("find ~ ! -name a", [[]]),
        (r"find ~ ! \( -name a \) -name b", [["b"]]),
        ("find ~ ( -name a -o -name b ) -path */x/*", [["a", "*/x/*"], ["b", "*/x/*"]]),
        ("find ~ -name a -prune -o -name b -print", [["b"]]),
        ("find ~ -name a -exec cat {} ; -o -name b -exec cat {} +", [["a"], ["b"]]),
        ("find ~ -exec cat {} ; -name a", [[]]),
        ("find . -path ./x/*", [["/home/dev/project/x/*"]]),
        ("fd -H -e py . ~ -x cat", [["*.py"]]),
        ("fd notes ~", [["*notes*"]]),
        (r"fd '\.py$' ~", [["*.py"]]),
        ("fd -g *.py ~", [["*.py"]]),
        ("fd [ab]+ ~", [["*"]]),
        ("locate notes", [["*notes*"]]),
    ],
)
def test_the_names_that_may_be_found(command: str, expected: list[list[str]]) -> None:
    assert names(command) == expected


def test_more_choices_than_are_kept_apart_are_any_name() -> None:
    tests = " ".join(f"-name {at} -o" for at in range(70))
    assert names(f"find ~ {tests} -name x") == [[]]


@pytest.mark.parametrize(
    ("command", "starts", "depth", "hidden"),
    [
        ("find", ["/home/dev/project"], 99, True),
        ("find -L .. ~ -maxdepth 2", ["/home/dev", "/home/dev"], 2, True),
        ("fd x ..", ["/home/dev"], 99, False),
        ("fd -uu x -d 3 --search-path=/srv", ["/srv"], 3, True),
        ("ls -RA ..", ["/home/dev"], 99, True),
        ("rg --files ~", ["/home/dev"], 99, False),
        ("git -C .. ls-files -o", ["/home/dev"], 99, True),
        ("git ls-files", [], 99, True),
    ],
)
def test_where_it_begins_and_how_far_it_goes(command: str, starts: list[str], depth: int, hidden: bool) -> None:
    said = found(command)
    assert (list(said.starts), said.depth, said.hidden) == (starts, depth, hidden)


def test_other_programs_list_nothing() -> None:
    assert finds(Act("cat", [Value("cat"), Value("x")], cwds=("/",))) is None
