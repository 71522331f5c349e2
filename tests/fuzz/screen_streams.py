"""Feed random output of programs to a terminal's screen.

    python -m tests.fuzz.screen_streams --count 100000 --seed 1

Each stream mixes text, control characters, sequences that programs send, damaged ones and random bytes. The screen must take it
without an error, in little processor time, and show the same however it was cut; neither its text nor its painted rows may have a
control character, and marks of highlighted text come in pairs. Prints counts, and each stream that breaks a rule; the exit
status is 1 if there was one.
"""

from __future__ import annotations

import argparse
import random
import re
import time
from collections.abc import Iterator

from tools.screen.terminal import TerminalScreen

FINALS = "@ABCDEFGHIJKLMPSTXZ`abcdefghlmnpqrstu"
WORDS = (
    "hello",
    "é",
    "日本",
    "e\u0301",
    "👍🏽",
    "x" * 90,
    "\u202etxt",
    "\u00ad",
    "a\u200db",
    "\u2028",
    "~",
    " ",
    "\U000e0041",
    "\ufffd",
    "q",
)
STRINGS = (
    *(
        "\x1b]0;title\x07",
        "\x1b]2;t\x1b[1mx\x1b\\",
        "\x1b]8;;http://a\x1b\\link\x1b]8;;\x07",
        "\x1b]52;c;aGk=\x07",
        "\x1b]11;?\x07",
    ),
    *("\x1bP+q544e\x1b\\", "\x1bP1$r0m\x1b\\", "\x1b_apc\x1b\\", "\x1b^pm\x07\x1b\\", "\x1bXsos\x18", "\x1b]2;open", "\x1bPopen"),
)
ESCAPES = ("7", "8", "D", "E", "H", "M", "c", "=", ">", "(0", "(B", ")0", "#8", "Z", "%G", "N", "\\", "(", "#", "\x1b")
MODES = (1, 3, 4, 5, 6, 7, 12, 20, 25, 47, 66, 1000, 1002, 1004, 1006, 1047, 1048, 1049, 2004, 2026, 9999)
CAN_BE_PAINTED = re.compile(r"(?:[^\x00-\x1f\x7f-\x9f]|\x1b\[[\d;]*m)*")
MARKS = "\ue000", "\ue001"
SECONDS = 2
"""Processor time that a stream may take: a thousand times as long as most take."""


def piece(chance: random.Random) -> bytes:
    """Return a random part of a stream."""
    kind = chance.randrange(12)
    if kind < 3:
        return chance.choice(WORDS).encode()
    if kind < 5:
        return chance.choice(
            ["\r\n", "\n", "\r", "\b", "\t", "\x07", "\x0e", "\x0f", "\v", "\x18", "\0", "\x7f", "\x85"]
        ).encode()
    if kind < 8:
        numbers = [
            chance.choice(["", "0", "1", "2", "3", "5", "24", "79", "80", "99999", "4:3"]) for _ in range(chance.randrange(4))
        ]
        return f"\x1b[{chance.choice(['', '', '', '?', '>', '<', '='])}{';'.join(numbers)}{chance.choice(FINALS)}".encode()
    if kind == 8:
        return f"\x1b[{chance.choice(['', '?'])}{chance.choice(MODES)}{chance.choice('hl')}".encode()
    if kind == 9:
        return (
            f"\x1b[{chance.choice(['1', '38;5;9', '38:2::1:2:3', '48;2;1;2;3', '58:5:1', '7;31', '', '38;5', '999'])}m".encode()
        )
    if kind == 10:
        return chance.choice(STRINGS).encode() if chance.random() < 0.5 else f"\x1b{chance.choice(ESCAPES)}".encode()
    return chance.choice(
        [chance.randbytes(chance.randrange(1, 9)), b"\x1b[" + b"1;" * chance.randrange(200), b"\x1b[1\n2", b"\x9b31m"]
    )


def stream(seed: int) -> bytes:
    """Return a random stream; some are damaged."""
    chance = random.Random(seed)  # noqa: S311 - the streams can be drawn again
    data = bytearray(b"".join(piece(chance) for _ in range(chance.randrange(1, 80))))
    if chance.random() < 0.3:
        for _ in range(chance.randrange(1, 5)):
            data[chance.randrange(len(data))] = chance.randrange(256)
    return bytes(data)


def seen(screen: TerminalScreen) -> tuple[object, ...]:
    """Return all that a screen shows."""
    return (
        *(screen.rows_as_sgr(), screen.history, screen.cursor, screen.alternate, screen.title, screen.modes, screen.text()),
        screen.size,
    )


def broken(seed: int) -> Iterator[str]:
    """Yield the rules that the screen breaks for a stream."""
    chance = random.Random(seed)  # noqa: S311 - the cuts can be drawn again
    data, size = stream(seed), (chance.choice([1, 2, 7, 80]), chance.choice([1, 2, 5, 24]))
    answers: list[bytes] = []
    screen, other = (TerminalScreen(*size, history=50, answer=answers.append, clock=lambda: 0.0) for _ in range(2))
    started = time.process_time()
    mark = screen.mark()
    screen.feed(data)
    whole = seen(screen)
    answered = b"".join(answers)
    answers.clear()
    at = 0
    while at < len(data):
        size_of_part = chance.randrange(1, 9)
        other.feed(data[at : at + size_of_part])
        at += size_of_part
    if seen(other) != whole or b"".join(answers) != answered:
        yield "a cut changes the screen"
    changes = screen.changes(mark)
    shown = [*screen.lines, *screen.history, screen.title, *changes.rows.values(), *changes.scrolled, *screen.text().split("\n")]
    if any(not CAN_BE_PAINTED.fullmatch(row) for row in screen.rows_as_sgr()) or any(
        re.search(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e]", text) for text in shown
    ):
        yield "a control character is shown"
    marked = screen.text(around=MARKS)
    if re.sub(r"[^\ue000\ue001]", "", marked) != "\ue000\ue001" * marked.count(MARKS[0]):
        yield "marks of highlighted text are not in pairs"
    if screen.text() != re.sub(r"[\ue000\ue001]", "", marked):
        yield "marks of highlighted text change the text"
    columns, rows = chance.choice([1, 2, 40, 132]), chance.choice([1, 3, 50])
    screen.resize(columns, rows)
    screen.feed(data)
    cursor = screen.cursor
    if len(screen.lines) != rows or not (0 <= cursor.row < rows and 0 <= cursor.column < columns):
        yield "the cursor or a row is outside of the screen"
    if len(screen.history) > 50 or len(answered) > 8_000:
        yield "it is not bounded"
    if time.process_time() - started > SECONDS:
        yield "it takes long"


def main() -> int:
    """Try the streams; return 1 if one breaks a rule."""
    parser = argparse.ArgumentParser(description="Feed random output of programs to a terminal's screen.")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    wrong = 0
    for seed in range(options.seed, options.seed + options.count):
        for rule in broken(seed):
            wrong += 1
            print(f"{seed}: {rule}: {stream(seed)!r}")
    print(f"{options.count:,} streams, {wrong} broken rules")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
