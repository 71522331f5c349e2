"""Cost of reading a streamed reply on each wire, against json.loads of its events alone.

Both take turns, in processor time, and the best of each counts: the work is always the same, so any excess is disturbance. The
garbage collector stays on.
"""

from __future__ import annotations

import json
import math
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from benchmarks._wire_streams import WIRES, Stream, streams
from benchmarks.core import CannotMeasureError, Figure, best_of_each, once

BAR = 1.5


def measure(*, quick: bool) -> list[Figure]:
    """Return times in ms for a stream of 10,000 deltas: the worst stream of each wire with the worst cut, and the worst
    of all.
    """
    number, rounds = (200, 1) if quick else (10_000, 6)
    found = {wire: [_Reading(stream, number) for stream in streams(wire, number)] for wire in WIRES}
    for _ in range(3):  # at intervals, because a disturbance can last seconds
        for readings in found.values():
            for reading in readings:
                reading.measure(rounds)
    each = [_worst(wire, readings) for wire, readings in found.items()]
    worst = max(each, key=lambda figure: figure.ratio)
    against = f"{worst.against}, {worst.name.removeprefix('wire.read_')}"
    return [*each, Figure("wire.read", worst.value, worst.unit, worst.baseline, BAR, "ratio", against)]


class _Reading:
    """Best processor time so far of one stream, in seconds, by cut; ``loads`` is the baseline."""

    def __init__(self, stream: Stream, number: int) -> None:
        self.what = stream.what
        self._runs = {"loads": once(_loads(stream.payloads), time.process_time)}
        for how, pieces in _reads(stream.events).items():
            came: list[object] = []
            _read(stream.wire, pieces, came.append)()
            if len(came) not in (number, number + 1):  # the beginning of a call is one more event
                raise CannotMeasureError(f"{stream.wire}: {len(came)} events came of {number} deltas of {stream.what}, {how}")
            last = deque[object](maxlen=1)  # an interface shows an event and drops it
            self._runs[how] = once(_read(stream.wire, pieces, last.append), time.process_time)
        self.best = dict.fromkeys(self._runs, math.inf)

    def measure(self, rounds: int) -> None:
        took = best_of_each(self._runs, rounds)
        self.best = {name: min(seconds, took[name]) for name, seconds in self.best.items()}


def _worst(wire: str, readings: Sequence[_Reading]) -> Figure:
    figures: list[Figure] = []
    for reading in readings:
        took = dict(reading.best)
        loads = took.pop("loads") * 1e3
        for how, seconds in took.items():
            against = f"json.loads of the events; the worst: {reading.what}, {how}"
            figures.append(Figure(f"wire.read_{wire}", seconds * 1e3, "ms", loads, BAR, "ratio", against))
    return max(figures, key=lambda figure: figure.ratio)


def _reads(events: Sequence[bytes]) -> Mapping[str, Sequence[bytes]]:
    """Return reads as from a server that flushes each event, through a proxy, and from a server faster than the reader."""
    whole = b"".join(events)
    cut = {f"{size} bytes a read": [whole[at : at + size] for at in range(0, len(whole), size)] for size in (4096, 65536)}
    return {"an event a read": events, **cut}


def _loads(payloads: Sequence[str]) -> Callable[[], None]:
    def run() -> None:
        for payload in payloads:
            json.loads(payload)

    return run


def _read(wire: str, pieces: Sequence[bytes], on_event: Callable[[object], None]) -> Callable[[], None]:
    """Return a function that reads a reply as the provider does."""
    from agent.providers.sse import SseReader

    make = _reader(wire)

    def run() -> None:
        sse, reader = SseReader(), make(on_event)
        for piece in pieces:
            reader.read_events(sse.feed(piece))
        reader.read_events(sse.close())

    return run


def _reader(wire: str) -> Callable[..., Any]:
    from agent.providers._anthropic_reader import AnthropicReader
    from agent.providers._chat_reader import ChatReader
    from agent.providers._gemini_reader import GeminiReader
    from agent.providers._responses_reader import ResponsesReader

    readers = {"chat": ChatReader, "responses": ResponsesReader, "anthropic": AnthropicReader, "gemini": GeminiReader}
    return readers[wire]
