"""The official SDKs check our code: their types accept our requests, and their clients read replies as our readers do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from agent.providers import Endpoint, HttpClient
from agent.providers.anthropic import AnthropicSession
from agent.providers.gemini import GeminiSession
from agent.providers.openai_chat import OpenAIChatSession
from agent.providers.openai_responses import ResponsesSession
from toolcrib import ExecutedCall, Image, ProviderTurn, ToolCallStatus, ToolResult
from toolcrib.testing import ChatServer

SCHEMA = {
    "type": "object",
    "properties": {"path": {"type": "string", "description": "A path."}, "lines": {"type": "array", "items": {"type": "number"}}},
    "required": ["path"],
    "additionalProperties": False,
}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": SCHEMA}}
    for name in ("read_file", "fs_write")
]
SESSIONS: Mapping[str, tuple[type[Any], Mapping[str, Any]]] = {
    "chat": (OpenAIChatSession, {"extra": {"temperature": 0.5, "seed": 7}}),
    "responses": (ResponsesSession, {"extra": {"reasoning": {"effort": "low", "summary": "auto"}}}),
    "anthropic": (AnthropicSession, {"thinking": 2048, "max_tokens": 4096}),
    "gemini": (GeminiSession, {"thinking": "low"}),
}
PNG = Image.of(b"\x89PNG\r\n\x1a\n ...")
# Replies of another model are converted from the neutral fields.
RECORDS: list[dict[str, Any]] = [
    {"role": "user", "text": "before", "images": [PNG.to_json()]},
    {
        "role": "assistant",
        "text": "I look.",
        "calls": [{"id": "c9", "name": "read_file", "args": {"path": "z"}}],
        "model": "other",
    },
    {"role": "results", "results": [{"call_id": "c9", "name": "read_file", "text": "nothing", "is_error": True}]},
    {"role": "assistant", "text": "It is empty.", "calls": [], "model": "other"},
]


@pytest.fixture(scope="module")
def replies() -> ModuleType:
    import importlib.util

    spec = importlib.util.spec_from_file_location("sdk_replies", Path(__file__).with_name("_replies.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


async def converse(wire: str, server: ChatServer) -> list[ProviderTurn]:
    """Two turns: a streamed reply with calls, their results (one with an image, one an error), a reply again (004-21)."""
    made, options = SESSIONS[wire]
    client = HttpClient(Endpoint(server.base_url, "m", "API_KEY"), {"API_KEY": "secret"})
    session = made(client, model="m", system="Be brief.", tools=TOOLS, records=RECORDS, **{"max_tokens": 99, **options})
    try:
        session.say("hello", [PNG])
        first = await session.stream_turn(lambda event: None)
        read, wrote = first.tool_calls
        failed = ExecutedCall(wrote, ToolResult.error(wrote.name, "no space"), ToolCallStatus.FAILED)
        seen = ToolResult.success_with_images(read.name, {"text": "ü"}, [PNG])
        succeeded = ExecutedCall(read, seen, ToolCallStatus.SUCCEEDED)
        await session.append_tool_results(first, [succeeded, failed])
        second = await session.stream_turn(lambda event: None)
        await session.append_tool_results(
            second, [ExecutedCall(one, succeeded.result, succeeded.status) for one in second.tool_calls]
        )
        session.say("go on")
        return [first, second, await session.stream_turn(lambda event: None)]
    finally:
        await session.close()


def misspelt(body: Any) -> Any:
    """One wrong field, deep in the last message."""
    wrong = json.loads(json.dumps(body))
    inner = (wrong.get("messages") or wrong.get("input") or wrong.get("contents"))[-1]
    while isinstance(inner, dict) and (lists := [value for value in inner.values() if isinstance(value, list)]):
        inner = lists[0][-1]
    inner["txet"] = "x"
    return wrong


@pytest.fixture(scope="module", params=sorted(SESSIONS))
def judged(request: pytest.FixtureRequest, replies: ModuleType, with_sdk: Any) -> Any:
    """Return (our own reading, the number of our requests, the SDK's output)."""
    wire = request.param
    streamed, whole = getattr(replies, wire)()
    with ChatServer(streamed, whole, streamed, streamed, whole) as server:
        turns = asyncio.run(converse(wire, server))
        bodies = list(server.requests)
        said = with_sdk(wire, server.base_url.removesuffix("/v1"), [*bodies, misspelt(bodies[-1])])
    return turns, bodies, said


def test_the_sdk_s_types_take_our_requests(judged: Any) -> None:
    """The SDK refuses fields that it does not know, so a misspelt field is noticed."""
    _, bodies, said = judged
    assert len(bodies) == 3
    *ours, wrong = said["refused"]
    assert ours == ["", "", ""], "\n".join(ours)
    assert "txet" in wrong


def test_the_sdk_reads_what_we_read(judged: Any, replies: ModuleType) -> None:
    """X-2, X-4: text and calls are the same, for streams that are cut anywhere and for complete replies."""
    turns, _, said = judged
    expected = {"text": replies.TEXT, "calls": [[name, args] for name, args in replies.CALLS]}
    assert said["replies"] == [expected, expected]
    for turn in turns:
        assert {"text": turn.assistant_text, "calls": [[call.name, call.args] for call in turn.tool_calls]} == expected
