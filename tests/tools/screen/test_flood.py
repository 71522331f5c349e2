"""A flood of lines costs little, and leaves the screen that it would have left."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator

import pytest

from tools.screen.terminal import TerminalScreen

COLOURS = b"\x1b[01;34mfolder\x1b[0m  \x1b[32mprogram\x1b[m \x1b[K\x1b]8;;file:///a\x07link\x1b]8;;\x07\r\n"
FLOODS = {
    "yes": b"y\r\n" * 60_000,
    "seq": b"".join(b"%d\r\n" % number for number in range(50_000)),
    "log": b"".join(b"2026-01-01 12:00 INFO request %d took 12 ms to answer \t\xc3\xa9\r\n" % number for number in range(80_000)),
    "colours": COLOURS * 5_000,
    "a style that stays": b"\x1b[0;31mred \x1b[44m" + b"words and words\r\n" * 20_000,
}

RESTS = {
    "numbers": b"1;" * 50_000,
    "accents": "\u0301".encode() * 50_000,
    "letters": b"a" * 100_000,
    "escapes": b"\x1b" * 100_000,
    "questions": b"\x1b[6n" * 30_000,
}
"""What a program may repeat forever, also inside of a sequence that it never ends."""


def cut(data: bytes, size: int) -> Iterator[bytes]:
    yield from (data[start : start + size] for start in range(0, len(data), size))


def interpreted(data: bytes) -> TerminalScreen:
    """Return the screen after each part was read: a part has fewer lines than the history, so none is skipped."""
    screen = TerminalScreen(80, 24)
    for part in cut(data, 4_000):
        screen.feed(part)
        assert screen.cursor.row < 24
    return screen


@pytest.mark.parametrize("name", FLOODS)
def test_the_screen_is_the_same_as_if_each_line_was_interpreted(name: str) -> None:
    data = b"$ program\r\n" + FLOODS[name] + b"\x1b[1mlast\x1b[m line\r\n$ "
    screen = TerminalScreen(80, 24)
    since = screen.mark()
    for part in cut(data, 4_095):
        screen.feed(part)
    slow = interpreted(data)
    assert screen.rows_as_sgr() == slow.rows_as_sgr()
    assert screen.history == slow.history
    assert screen.cursor == slow.cursor
    assert screen.changes(since) == slow.changes(since)
    assert screen.changes(since).lost == data.count(b"\n") - 23 - 2000


def test_modes_and_titles_in_a_flood_count() -> None:
    screen = TerminalScreen(80, 24)
    screen.feed(b"line\r\n" * 50_000 + b"\x1b[?2004h\x1b]2;title\x07\x1b[?1h\x0e\x1b)0" + b"line\r\n" * 50_000 + b"q")
    assert (screen.modes.bracketed_paste, screen.modes.application_cursor, screen.title) == (True, True, "title")
    assert screen.lines[-1] == "─"


def test_full_screen_output_is_not_skipped() -> None:
    screen = TerminalScreen(80, 24)
    for number in range(20_000):
        screen.feed(b"\x1b[3;5Hkept" if number == 5 else b"\x1b[%d;1H%d\r\n" % (10 + number % 10, number))
    assert screen.lines[2] == "    kept"


def test_memory_stays_flat() -> None:
    screen = TerminalScreen(80, 24)
    part = b"words and words of a long log\r\n" * 2_000

    def flood(parts: int) -> int:
        for _ in range(parts):
            screen.feed(part)
        screen.text()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        before = flood(70)
        assert flood(150) < before + 500_000
        assert tracemalloc.get_traced_memory()[1] < 40_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("begin", [b"\x1b]2;", b"\x1bP", b"\x1b[", b"\x1b[1;", b"e", b""])
@pytest.mark.parametrize("name", RESTS)
def test_what_is_kept_is_bounded(begin: bytes, name: str) -> None:
    answers: list[bytes] = []
    screen = TerminalScreen(80, 24, history=100, answer=answers.append, clock=lambda: 0.0)
    for part in [begin, *cut(RESTS[name], 10_000)]:
        screen.feed(part)
        screen.text()
    assert len(b"".join(answers)) < 2_000
    assert len(screen.title) <= 200
    assert sum(map(len, screen.history)) <= 100 * 80
    assert len(screen.text()) < 24 * 80 * 2
