"""Deltas on their way from the server to the user interface: each at once, before the server continues."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.events import Event, TextDelta, ThinkingDelta, ToolCallDelta
from agent.model_choice.models import ModelChoice
from agent.providers import Endpoint, HttpClient
from agent.providers.factory import ModelTarget, ProviderOpening, open_session
from tests.forks import Forks
from toolcrib import StreamEvent

ONE_BY_ONE = pytest.mark.parametrize("wire", ["chat", "responses", "anthropic", "gemini", "text"])
THINKS, SAYS, CALLS = "thinking_delta", "assistant_delta", "tool_call_delta"


def sse(*events: Any) -> list[bytes]:
    return [f"data: {json.dumps(event)}\n\n".encode() for event in events]


def chat(*deltas: dict[str, Any]) -> list[bytes]:
    ends = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
    return sse(*({"choices": [{"index": 0, "delta": delta}]} for delta in deltas), ends)


def gemini(*parts: dict[str, Any]) -> list[bytes]:
    ends = {"candidates": [{"finishReason": "STOP"}]}
    return sse(*({"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts), ends)


def call(index: int, **function: str) -> dict[str, Any]:
    return {"tool_calls": [{"index": 0, "id": "c", "type": "function", "function": function}]}


REPLIES: dict[str, tuple[list[bytes], list[str]]] = {
    "chat": (
        chat({"reasoning_content": "hm"}, {"content": "One"}, {"content": " two"}, call(0, name="todo", arguments="{}")),
        [THINKS, SAYS, SAYS, CALLS],
    ),
    "text": (chat({"content": "One and "}, {"content": "two and "}, {"content": "three."}), [SAYS, SAYS]),
    "anthropic": (
        sse(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "thinking_delta", "thinking": "hm"}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "One"}},
            {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": " two"}},
            {"type": "content_block_start", "index": 2, "content_block": {"type": "tool_use", "id": "c", "name": "todo"}},
            {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        ),
        [THINKS, SAYS, SAYS, CALLS],
    ),
    "responses": (
        sse(
            {"type": "response.reasoning_text.delta", "output_index": 0, "delta": "hm"},
            {"type": "response.output_text.delta", "output_index": 1, "delta": "One"},
            {"type": "response.output_text.delta", "output_index": 1, "delta": " two"},
            {"type": "response.output_item.added", "output_index": 2, "item": {"type": "function_call", "name": "todo"}},
            {"type": "response.completed", "response": {"status": "completed"}},
        ),
        [THINKS, SAYS, SAYS, CALLS],
    ),
    "gemini": (
        gemini(
            {"text": "hm", "thought": True}, {"text": "One"}, {"text": " two"}, {"functionCall": {"name": "todo", "args": {}}}
        ),
        [THINKS, SAYS, SAYS, CALLS],
    ),
}


@ONE_BY_ONE
def test_004_3_each_wire_forwards_a_delta_before_the_server_sends_the_next(wire: str, one_by_one: Any) -> None:
    """004-3: no delta is held back until the end of the turn."""
    pieces, kinds = REPLIES[wire]
    seen: list[str] = []

    async def ask(base_url: str) -> None:
        endpoint = Endpoint(base_url, "m")
        # A first reply in text may be thinking up to its end; this model's prompt is known to open none.
        opening = ProviderOpening(options={"thinking": "closed"} if wire == "text" else {})
        session = open_session(ModelTarget(wire, endpoint), opening, {}, client=HttpClient(endpoint, {}))

        def on_event(event: StreamEvent) -> None:
            seen.append(event.kind)
            server.saw()

        try:
            session.say("go")  # type: ignore[attr-defined]  # all of our sessions have it
            await session.stream_turn(on_event)
        finally:
            await session.close()

    with one_by_one(pieces) as server:
        asyncio.run(ask(server.base_url))
    assert seen[: len(kinds)] == kinds
    assert server.unseen == []


def test_004_3_a_session_forwards_them_too(tmp_path: Path, one_by_one: Any) -> None:
    """004-3"""
    pieces, _ = REPLIES["chat"]
    seen: list[type[Event]] = []

    def watch(event: Event) -> None:
        if isinstance(event, TextDelta | ThinkingDelta | ToolCallDelta):
            seen.append(type(event))
            server.saw()

    async def ask(base_url: str) -> None:
        async with assemble(project_dir=tmp_path) as crib:
            session = await crib.open()
            try:
                await session.connect(ModelChoice("m", base_url))
                await session.ask("go", emit=watch)
            finally:
                await session.close()

    with one_by_one(pieces, chat({"content": "Done."})) as server:
        asyncio.run(ask(server.base_url))
    assert seen == [ThinkingDelta, TextDelta, TextDelta, ToolCallDelta, TextDelta]
    assert server.unseen == []


@pytest.mark.full
def test_004_3_so_does_the_command_line(tmp_path: Path, forks: Forks, one_by_one: Any) -> None:
    """004-3: as JSON lines on a pipe."""
    pieces = chat({"content": "One"}, {"content": " two"}, {"content": " three"})
    texts: list[str] = []
    with one_by_one(pieces) as server:
        words = ["run", "go", "--json", "--model", "m", "--base-url", server.base_url]
        with forks.popen(*words, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
            for line in process.stdout:
                if (told := json.loads(line))["type"] == "text_delta":
                    texts.append(told["text"])
                    server.saw()
    assert process.returncode == 0
    assert texts == ["One", " two", " three"]
    assert server.unseen == []
