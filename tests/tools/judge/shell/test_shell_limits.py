"""003-25: the parser ends at its limits for every text."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.shell_scripts import DAMAGE
from tools.judge.budget import Budget
from tools.judge.shell import ShellSyntaxError, ShellTooComplex, parse

TEXTS = st.text() | st.lists(st.sampled_from([*DAMAGE, "a", "b c", "x=", "E\n"]) | st.text(max_size=3)).map("".join)


@given(TEXTS)
def test_nothing_but_the_two_errors_is_raised(text):
    offset = 0
    try:
        script = parse(text)
        assert len(script.lines) == len(script.items)
    except (ShellSyntaxError, ShellTooComplex) as error:
        offset = error.offset
    assert 0 <= offset <= len(text)


def test_size():
    with pytest.raises(ShellTooComplex) as caught:
        parse("a" * 101, Budget(chars=100))
    assert caught.value.kind == "size"
    assert parse("a" * 100, Budget(chars=100)).items


NESTS = {
    "substitution": ("$(", "a", ")"),
    "quoted substitution": ('"$(a ', "b", ')"'),
    "default": ("${x:-", "a", "}"),
    "quoted default": ('"${x:-', "a", '}"'),
    "process": ("a <(", "b", ")"),
    "subshell": ("( ", "a", " )"),
    "double subshell": ("((a);", "b", ")"),
    "group": ("{ ", "a", "; }"),
    "function": ("f() { ", "a", "; }"),
    "if": ("if a; then ", "b", "; fi"),
    "while": ("while ", "a", "; do b; done"),
    "case": ("case x in x) ", "a", ";; esac"),
    "arithmetic": ("$((1+", "1", "))"),
    "quoted arithmetic": ('$((1+"', "1", '"))'),
    "not arithmetic": ("$((a);x=", "b", ")"),
    "subscript": ("${x[", "1", "]}"),
    "pattern": ("a @(", "b", ")"),
    "array": ("x=($(", "a", "))"),
    "assignment": ("x=$(", "a", ")"),
}


@pytest.mark.parametrize("kind", NESTS)
def test_depth(kind):
    """The limit is reached before Python's own stack ends, even for a caller that has used much of the stack."""
    opening, middle, closing = NESTS[kind]

    def nest(depth):
        return opening * depth + middle + closing * depth

    assert parse(nest(20)).items
    limit = sys.getrecursionlimit()
    with pytest.raises(ShellTooComplex) as caught:
        parse(nest(200))
    assert caught.value.kind == "depth"

    def deep(frames):
        return parse(nest(20)) if frames == 0 else deep(frames - 1)

    assert deep(limit // 3).items


def test_no_room_on_the_stack_is_told_as_depth():
    def deep(frames):
        return parse('"$(a ' * 25 + ')"' * 25) if frames == 0 else deep(frames - 1)

    frames = sys.getrecursionlimit() - 150
    with pytest.raises((ShellTooComplex, RecursionError)):
        deep(frames)


def test_brackets_that_only_count_may_nest_deeply():
    assert parse("[[ " + "( " * 1000 + "a" + " )" * 1000 + " ]]").items
    assert parse("x=$((" + "(" * 1000 + "1" + ")" * 1000 + "))").items


def test_long_chains():
    assert len(parse("a | " * 3000 + "a").items[0].command.commands) == 3001
    assert len(parse("a; " * 3000).items) == 3000
    with pytest.raises(ShellTooComplex):
        parse("a && " * 3000 + "a")


def test_large_inputs_are_read():
    """Each text would take minutes if its rest were copied or read again at every step."""
    budget = Budget(chars=2_000_000)
    for text in (
        "cat <<E\n" + "it's $x \\\n" * 10_000 + "E\n",
        "cat <<-'E'\n" + "\tline\n" * 10_000 + "\tE\n",
        "echo " + "a\\ " * 25_000,
        'echo "' + "\\$" * 25_000 + '"',
        "echo " + "$x" * 25_000,
        "echo " + "a\\\n" * 25_000 + "b",
        "x=(" + "'a' " * 25_000 + ")",
        "a\n" * 25_000,
        "cat " + "<<E " * 12_000,
        "echo ${x:-" + "a'b'" * 25_000 + "}",
        "echo $((" + "1+$x+" * 25_000 + "1))",
    ):
        assert parse(text, budget).items
