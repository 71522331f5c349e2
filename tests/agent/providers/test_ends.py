"""Complete replies whose connection stays open, and pieces that would fill the memory when they are parsed."""

from __future__ import annotations

import asyncio
import json
import tracemalloc
from typing import Any

import pytest

from agent.providers import Endpoint, HttpClient, HttpLimits
from agent.providers.factory import ModelTarget, ProviderOpening, open_session
from toolcrib import ProviderTurn, StreamBroken
from toolcrib.testing import ChatServer, Response

MIB = 1024 * 1024
USAGE = b'data: {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 2}}\n\n'
PARTS = [{"text": "Well."}]
WHOLE: dict[str, list[Any]] = {
    "chat": [{"choices": [{"index": 0, "delta": {"content": "Well."}, "finish_reason": "stop"}]}],
    "text": [{"choices": [{"index": 0, "delta": {"content": "Well."}, "finish_reason": "stop"}]}],
    "gemini": [{"candidates": [{"content": {"role": "model", "parts": PARTS}, "finishReason": "STOP"}]}],
    "anthropic": [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Well."}},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}},
    ],
}


def ask(response: Response, wire: str = "chat") -> ProviderTurn:
    async def go(base_url: str) -> ProviderTurn:
        endpoint = Endpoint(base_url, "m")
        client = HttpClient(endpoint, {}, HttpLimits(first_byte=3000, between=3000))
        session = open_session(ModelTarget(wire, endpoint), ProviderOpening(), {}, client=client)
        try:
            session.say("go")  # type: ignore[attr-defined]  # all of our sessions have it
            return await session.stream_turn(lambda event: None)
        finally:
            await session.close()

    with ChatServer(response) as server:
        return asyncio.run(asyncio.wait_for(go(server.base_url), 300))


def sse(wire: str) -> bytes:
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in WHOLE[wire])


@pytest.mark.parametrize("wire", WHOLE)
def test_a_whole_reply_does_not_wait_for_the_end_of_the_connection(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.providers._pace.TRAILER", 0.3)
    body = sse(wire)
    turn = ask(Response(body + b": the connection stays open\n\n", pieces=len(body), pause=900), wire)
    assert (turn.assistant_text, turn.finish) == ("Well.", "stop")


@pytest.mark.parametrize("wire", WHOLE)
def test_comments_after_it_do_not_keep_it_either(wire: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("agent.providers._pace.TRAILER", 0.3)
    body = sse(wire)
    turn = ask(Response(body + b": ping\n\n" * 20_000, pieces=max(len(body), 8), pause=0.05), wire)
    assert turn.assistant_text == "Well."


def test_token_counts_that_come_a_little_later_are_taken() -> None:
    body = sse("chat")
    turn = ask(Response(body + USAGE + b"data: [DONE]\n\n", pieces=len(body), pause=0.2))
    assert turn.usage == {"input": 7, "output": 2}


def values(size: int) -> bytes:
    return b"[" + b"[],{}," * (size // 6) + b"[]]"


@pytest.mark.parametrize(
    "place", [b'{"choices": [{"delta": {"content": "a", "x": %b}}]}', b'{"choices": [], "usage": {"x": %b}}']
)
@pytest.mark.parametrize("stream", [True, False])
def test_a_piece_of_very_many_values_is_not_read(place: bytes, *, stream: bool) -> None:
    body = place % values(16 * MIB)
    response = Response(b"data: " + body + b"\n\n") if stream else Response(body, content_type="application/json")
    tracemalloc.start()
    try:
        with pytest.raises(StreamBroken, match="more than 500,000 values") as caught:
            ask(response)
        assert tracemalloc.get_traced_memory()[1] < 12 * len(body)
    finally:
        tracemalloc.stop()
    assert not caught.value.retryable


def test_a_long_string_is_no_such_piece() -> None:
    """For example, an image or a long file arrives as one long string."""
    text = "x = [1, 2]\n" * 100_000
    assert ask(ChatServer.text(text, piece=len(text))).assistant_text == text
