"""Frames that carriage returns overwrite, in output that comes in any chunks."""

from __future__ import annotations

import itertools
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcrib import ExecRequest
from tools.environments._output import Output
from tools.terminal_tool import LastOutput


def kept(*chunks: bytes) -> tuple[bytes, int]:
    output = Output(ExecRequest("x", last_frames=True))
    for chunk in chunks:
        output.take("stdout", chunk)
    captured = output.finish()["stdout"]
    assert output.finish()["stdout"] == captured
    return captured.head + captured.tail, captured.redrawn


@pytest.mark.parametrize(
    ("printed", "left"),
    [
        (b"\r1%\r2%\r3%\n", b"3%\n"),
        (b"1%\r2%\r", b"2%\r"),
        (b"1%\r\r\nx", b"1%\r\r\nx"),
        (b"1%\r\x1b[K", b"\x1b[K"),
        (b"1%\r\x1b[2K2%\n", b"\x1b[2K2%\n"),
        (b"1%\r\x1b[?25h\n", b"1%\r\x1b[?25h\n"),
        (b"1%\r\x1b[32m2%", b"\x1b[32m2%"),
        (b"\0\1a\rb\n", b"\0\1a\rb\n"),
        (b"error\n1%\r2%\nerror\n", b"error\n2%\nerror\n"),
    ],
)
def test_frames(printed: bytes, left: bytes) -> None:
    assert kept(printed)[0] == left


@given(
    st.lists(st.sampled_from([b"1%", b"\r", b"\n", b"\r\n", b"done", b"x" * 5000])), st.lists(st.integers(0, 6_000), max_size=5)
)
def test_chunks_make_no_difference(printed: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(printed)
    places = [0, *sorted(cuts), len(whole)]
    chunks = [whole[begin:end] for begin, end in itertools.pairwise(places)]
    text, redrawn = kept(whole)
    again, as_much = kept(*chunks)
    assert as_much == redrawn
    assert re.sub(rb"\r+", b"\r", again) == re.sub(rb"\r+", b"\r", text)
    assert len(whole) - whole.count(b"\r") == len(text) - text.count(b"\r") + redrawn
    if b"x" in whole:
        return
    expected = [line.rstrip(b"\r").rpartition(b"\r")[2] for line in whole.split(b"\n")]
    assert [line.rstrip(b"\r") for line in text.split(b"\n")] == expected


def test_the_output_of_a_cancelled_command_has_only_last_frames() -> None:
    printed = LastOutput(None)
    printed("stdout", b"building\n" + b"".join(b"\r%d%%" % number for number in range(50)) + b"\r\ndos\r\n")
    assert str(printed) == "building\n49%\ndos"


def test_a_line_too_long_for_a_frame_is_kept() -> None:
    long = b"x" * 10_000
    assert kept(long, b"\rend\n") == kept(long + b"\rend\n") == (long + b"\rend\n", 0)
    assert kept(long, b"\r1%\r2%\n") == kept(long + b"\r1%\r2%\n") == (long + b"\r2%\n", 2)
