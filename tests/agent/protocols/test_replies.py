"""Single replies with the oddities of real models, and text that only mentions calls.

A line of ``replies_calls.jsonl`` or ``replies_text.jsonl`` has a reply, its text for people, the calls that run, and whether the
model is informed about a call that does not.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent.protocols import find_protocol

TOOLS: list[dict[str, Any]] = [
    {"name": "get_weather", "parameters": {"type": "object", "required": ["city"], "properties": {
        "city": {"type": "string"}, "days": {"type": "integer"}, "metric": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}}, "opts": {"type": "object"}}}},
    {"name": "write_file", "parameters": {
        "type": "object", "properties": {"path": {"type": "string"}, "content": {"type": "string"}}}},
    {"name": "now", "parameters": {"type": "object", "properties": {}}},
]  # fmt: skip


def rows(table: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(__file__).parent / f"replies_{table}.jsonl").read_text("utf-8").splitlines()]


def read(row: dict[str, Any], size: int) -> dict[str, Any]:
    """Return the reply of a row, read in pieces of ``size`` characters."""
    reader = find_protocol("auto").reader(TOOLS, thinking=row.get("thinking", "maybe"))
    text = row["text"]
    events = [event for at in range(0, len(text), size) for event in reader.feed(text[at : at + size])]
    reply = reader.finish()
    shown = "".join(event.text for event in (*events, *reply.events) if event.kind == "assistant_delta")
    found: dict[str, Any] = {
        **row,
        "content": shown,
        "calls": [[call.name, call.args] for call in reply.calls if call.fault is None],
    }
    assert shown == reply.content
    assert bool(reply.faults) >= any(call.fault is not None for call in reply.calls)
    found.pop("told", None)
    return {**found, "told": True} if any(call.fault is not None for call in reply.calls) else found


@pytest.mark.parametrize("table", ["calls", "text"])
def test_each_is_read_right_at_any_cut(table: str) -> None:
    wrong = [(row, found) for row in rows(table) for size in (1, 7, 100_000) if (found := read(row, size)) != row]
    assert wrong == []
