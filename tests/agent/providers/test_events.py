"""Guarantees of the readers of all wires."""

from __future__ import annotations

from typing import Any

import pytest

from agent.providers._anthropic_reader import AnthropicReader
from agent.providers._chat_reader import ChatReader
from agent.providers._gemini_reader import GeminiReader
from agent.providers._responses_reader import ResponsesReader

READERS = {"chat": ChatReader, "responses": ResponsesReader, "anthropic": AnthropicReader, "gemini": GeminiReader}
MAY_GIVE_NO_IDS = ("chat", "gemini")


@pytest.mark.parametrize("wire", READERS)
def test_x_10_events_do_not_depend_on_the_cuts(recordings: Any, wire: str) -> None:
    """X-10: not only the sum is the same, but each event; ids are the server's own, if it sent any."""
    recorded = recordings(wire, READERS[wire])
    streams = [row for row in recorded.rows() if row["stream"]]
    assert streams
    for row in streams:
        first, second = (recorded.read(row, seed).events for seed in (4, 5))
        if wire in MAY_GIVE_NO_IDS:
            first, second = ([(one.kind, one.text, one.name) for one in events] for events in (first, second))
        assert first == second, row["id"]
