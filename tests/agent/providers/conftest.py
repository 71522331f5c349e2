"""Recorded exchanges of the wires, and their replies as a reader receives them: streams with arbitrary cuts."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent.providers.sse import SseReader
from toolcrib import ProviderError, ProviderTurn, StreamEvent


class Read(NamedTuple):
    """Result of a reader for one reply; ``turn`` or ``error``."""

    reader: Any
    turn: ProviderTurn | None
    error: ProviderError | None
    events: list[StreamEvent]


class Recordings:
    """The recordings of one wire."""

    def __init__(self, folder: Path, wire: str, reader: Callable[..., Any]) -> None:
        self._folder = folder
        self._wire = wire
        self._reader = reader

    def rows(self, name: str = "exchanges.jsonl") -> list[dict[str, Any]]:
        source = self._folder / name
        if not source.is_file():
            pytest.skip(f"{source} is not there")
        with source.open(encoding="utf-8") as lines:
            return [row for row in map(json.loads, lines) if row["api"] == self._wire]

    def read(self, row: dict[str, Any], seed: int) -> Read:
        events: list[StreamEvent] = []
        reader = self._reader(events.append)
        text = row["response_text"]
        try:
            if row["stream"] and text[:1] != "[":  # Gemini streams a list if events were not requested
                sse = SseReader()
                for piece in _cut(text.encode(), seed):
                    reader.read_events(sse.feed(piece))
                reader.read_events(sse.close())
            else:
                reader.read_body(json.loads(text))
            return Read(reader, reader.finish(), None, events)
        except ProviderError as error:
            return Read(reader, None, error, events)


def _cut(body: bytes, seed: int) -> list[bytes]:
    chance = random.Random(seed)  # noqa: S311 - places to cut, no secret
    places = [0]
    while places[-1] < len(body):
        places.append(places[-1] + chance.choice([1, 3, 17, 200, 5000]))
    return [body[start:end] for start, end in itertools.pairwise(places)]


@pytest.fixture
def recordings(corpora: Path) -> Callable[[str, Callable[..., Any]], Recordings]:
    """Return ``recordings("chat", ChatReader)``."""
    return lambda wire, reader: Recordings(corpora / "wire", wire, reader)
