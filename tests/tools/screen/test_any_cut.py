"""The screen is the same however the bytes were cut, and random bytes never break it."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz import screen_streams
from tools.screen.terminal import TerminalScreen

# It ends with a step to the left: in pyte the cursor stays beyond a character in the last column when it moves up or down.
TEXT = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1, max_size=30).map(lambda text: f"{text}\x1b[D")
SMALL = st.integers(0, 12)
MOVES = st.builds(lambda first, second, final: f"\x1b[{first};{second}{final}", SMALL, SMALL, st.just("H")) | st.builds(
    lambda count, final: f"\x1b[{count}{final}", SMALL, st.sampled_from("ABCDGdXP@")
)
ERASES = st.builds(lambda part, final: f"\x1b[{part}{final}", st.integers(0, 2), st.sampled_from("JK"))
CONTROLS = st.sampled_from(["\r\n", "\r", "\t", "\x1b7\x1b[3;3Hx\x1b8", "\x1bM", "\x1bD", "\x1b[1;31m", "\x1b[m"])
OUTPUT = st.lists(TEXT | MOVES | ERASES | CONTROLS, max_size=30).map("".join)


@given(st.integers(0, 10**9))
@settings(max_examples=300)
def test_random_streams_break_no_rule(seed: int) -> None:
    assert list(screen_streams.broken(seed)) == []


@given(
    st.lists(st.sampled_from([bytes([byte]) for byte in range(256)] + [b"\x1b[", b"\x1b]", b"\x1bP", b"m", b"H"]), max_size=60)
)
@settings(max_examples=100)
def test_single_bytes_give_the_same_as_all_at_once(parts: list[bytes]) -> None:
    whole, cut = TerminalScreen(9, 4), TerminalScreen(9, 4)
    whole.feed(b"".join(parts))
    for byte in b"".join(parts):
        cut.feed(bytes([byte]))
        cut.text()
    assert screen_streams.seen(cut) == screen_streams.seen(whole)


@given(OUTPUT)
@settings(max_examples=200)
def test_simple_output_gives_the_screen_of_pyte(output: str) -> None:
    theirs = pyte.Screen(20, 6)
    pyte.Stream(theirs).feed(output)
    ours = TerminalScreen(20, 6)
    ours.feed(output.encode())
    assert ours.lines == [row.rstrip() for row in theirs.display]


@pytest.mark.parametrize("seed", [6, 596, 1241, 1262])
def test_a_character_that_is_cut_after_a_cut_sequence_is_read(seed: int) -> None:
    assert list(screen_streams.broken(seed)) == []
