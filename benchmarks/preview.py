"""Growth of the time to preview a call's arguments with their length.

One long call takes turns with ten short ones, which have as much text and take about as long. The best time of each counts: the
work is always the same, so any excess is disturbance.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable

from benchmarks._wire_streams import WORDS
from benchmarks.core import CannotMeasureError, Figure, best_of_each, each

PIECE = 12
"""Number of characters per delta: about three tokens."""


def measure(*, quick: bool) -> list[Figure]:
    """Return the ms for arguments of 1 MB (10^6 characters) against 100 kB, with a preview whenever one is worth sending."""
    size, rounds = (5_000, 2) if quick else (100_000, 7)
    took = best_of_each(
        {"short": each(_preview(size), 10, time.process_time), "long": each(_preview(10 * size), 1, time.process_time)}, rounds
    )
    against = "a tenth of the arguments"
    return [Figure("preview.linear", took["long"] * 1e3, "ms", took["short"] * 1e3, 12, "ratio", against)]


def _preview(size: int) -> Callable[[], None]:
    from agent.filepair.preview import ArgumentReader, GrowingText

    content = "\n".join(random.Random(4).choices(WORDS, k=size // 3))[:size]
    raw = json.dumps({"path": "a.txt", "content": content})
    pieces = [raw[at : at + PIECE] for at in range(0, len(raw), PIECE)]

    def run() -> None:
        reader, growing = ArgumentReader(["content"]), GrowingText()
        for piece in pieces:
            reader.feed(piece)
            growing.next(reader.get("content"))
        found = reader.get("content")
        if found is None or found.text != content or not growing.sent:
            raise CannotMeasureError("the preview is not what was written")

    return run
