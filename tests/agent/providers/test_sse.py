"""The SSE reader: correct at any cut, and equal to an independent one (X-10)."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers.sse import SseReader
from toolcrib import StreamBroken


def read(stream: bytes, cuts: Sequence[int] = (), *, close: bool = True) -> list[tuple[str, str]]:
    reader, events = SseReader(), []
    places = sorted({0, len(stream), *(cut for cut in cuts if 0 < cut < len(stream))})
    for start, end in itertools.pairwise(places):
        events += reader.feed(stream[start:end])
    return events + (reader.close() if close else [])


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: a\n\ndata: b\n\n", [("", "a"), ("", "b")]),
        (b"data:a\n\ndata:  b\n\n", [("", "a"), ("", " b")]),
        (b"data: a\r\n\r\ndata: b\r\n\r\n", [("", "a"), ("", "b")]),
        (b"data: a\r\rdata: b\r\r", [("", "a"), ("", "b")]),
        (b"data: a\r\ndata: b\n\rdata: c\n\n", [("", "a\nb"), ("", "c")]),
        (b": hello\n\n:\n\ndata: a\n: in between\n\n", [("", "a")]),
        (b"event: error\ndata: {}\n\ndata: x\n\n", [("error", "{}"), ("", "x")]),
        (b"event: ping\n\ndata: x\n\n", [("", "x")]),
        (b"\xef\xbb\xbfdata: a\n\n", [("", "a")]),
        (b"data: a\n\ndata: [DONE]", [("", "a"), ("", "[DONE]")]),
        (b"data: a\n\ndata: b\n", [("", "a"), ("", "b")]),
        (b"id: 7\nretry: 10\nnonsense\ndata\n\n", [("", "")]),
        ("data: a\u2028b\u2029c\x85d\x0be\n\n".encode(), [("", "a\u2028b\u2029c\x85d\x0be")]),
        ("data: \U0001f600é\n\n".encode(), [("", "\U0001f600é")]),
        (b"data: \xff\n\n", [("", "\ufffd")]),
        (b"", []),
    ],
)
def test_x_10_every_form_at_every_cut(stream: bytes, events: list[tuple[str, str]]) -> None:
    """X-10"""
    assert read(stream) == events
    assert read(stream, range(len(stream))) == events
    for cut in range(len(stream)):
        assert read(stream, [cut]) == events


LINES = st.sampled_from(["data: {}", "data: a\u2028b", "data", ": c", "event: e", "id: 1", "data:  é\U0001f600", "", "", "x"])


@given(st.lists(LINES, max_size=12), st.sampled_from(["\n", "\r\n", "\r"]), st.lists(st.integers(0, 120), max_size=8))
def test_x_10_as_an_independent_reader(lines: list[str], end: str, cuts: list[int]) -> None:
    """X-10: httpx-sse reads the same events; it also returns those without data, which the standard drops."""
    import httpx
    import httpx_sse

    stream = "".join(line + end for line in [*lines, "", ""]).encode()
    response = httpx.Response(200, headers={"content-type": "text/event-stream"}, content=stream)
    theirs = [(one.event, one.data) for one in httpx_sse.EventSource(response).iter_sse()]
    ours = read(stream, cuts)
    # httpx-sse returns events without a data line like those with an empty one: skip both.
    assert [("" if name == "message" else name, data) for name, data in theirs if data] == [one for one in ours if one[1]]


def test_an_event_comes_with_its_last_byte() -> None:
    """A CR ends a line at once: the event does not wait for the next chunk."""
    reader = SseReader()
    assert reader.feed(b"data: a\r\r") == [("", "a")]
    assert reader.feed(b"\ndata: b\n\n") == [("", "b")]


FRAMES = st.sampled_from(
    ["data: é\n\n", "data: a\r\n\r\n", "event: e\ndata: b\n\n", "event: f\r\ndata: c\r\n\r\n", "data: d\n\r\n", "data: g\r\r"]
)
ODD = st.sampled_from([": c\n\n", "\n", "\r\n", "id: 1\ndata: h\ndata: i\n\n", "data: j\rdata: k\n\n", "event: error\n\n"])


@given(st.lists(FRAMES | ODD, max_size=8), st.lists(st.integers(0, 120), max_size=6))
def test_x_10_no_event_waits_for_the_piece_after_its_own(frames: list[str], cuts: list[int]) -> None:
    """X-10: at each cut there are as many events as byte by byte, though most pieces take shortcuts in the reader."""
    stream = "".join(frames).encode()
    single, by_byte = SseReader(), []
    after: list[int] = [0]
    for byte in stream:
        by_byte += single.feed(bytes([byte]))
        after.append(len(by_byte))
    reader, events = SseReader(), []
    places = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    for start, end in itertools.pairwise(places):
        events += reader.feed(stream[start:end])
        assert events == by_byte[: after[end]]
    assert reader.close() == single.close()


def test_an_endless_event_is_refused() -> None:
    for piece in (b"data: " + b"x" * 60, b"data: x\n", b"data:\n"):
        reader = SseReader(100)
        with pytest.raises(StreamBroken, match="more than 100 characters"):  # noqa: PT012 - which piece is too much differs
            for _ in range(101):
                reader.feed(piece)
    assert SseReader(100).feed(b"data: " + b"y" * 94 + b"\n\n") == [("", "y" * 94)]


@pytest.mark.untraced
def test_one_byte_at_a_time_costs_no_more_than_its_bytes() -> None:
    """One event of a megabyte in single bytes: joining the buffer at each byte would take forever."""
    payload = json.dumps("z" * 1_000_000).encode()
    reader = SseReader()
    events = [event for byte in b"data: " + payload + b"\n\n" for event in reader.feed(bytes([byte]))]
    assert events == [("", payload.decode())]
