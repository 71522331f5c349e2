"""An interrupted reply, in each wire's own form: its text and why it ended, and never half a thought or call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agent.protocols import find_protocol
from agent.providers import Endpoint, HttpClient
from agent.providers.anthropic import AnthropicSession
from agent.providers.gemini import GeminiSession
from agent.providers.openai_chat import OpenAIChatSession
from agent.providers.openai_responses import ResponsesSession
from agent.providers.text import TextSession
from toolcrib import ProviderError
from toolcrib.testing import ChatServer


def tagged(client: HttpClient, **options: Any) -> TextSession:
    return TextSession(client, protocol=find_protocol("tags"), **options)


SESSIONS: Mapping[str, Callable[..., Any]] = {
    "chat": OpenAIChatSession,
    "responses": ResponsesSession,
    "anthropic": AnthropicSession,
    "gemini": GeminiSession,
    "text": tagged,
}
TOLD = "A part\n\n[interrupted by the user]"
FORMS: Mapping[str, Any] = {
    "chat": {"role": "assistant", "content": TOLD},
    "responses": {"role": "assistant", "content": TOLD},
    "anthropic": {"role": "assistant", "content": [{"type": "text", "text": TOLD}]},
    "gemini": {"role": "model", "parts": [{"text": TOLD}]},
    "text": {"role": "assistant", "content": TOLD},
}
BROKEN = {
    "role": "assistant",
    "text": "A part",
    "broken": "interrupted by the user",
    "usage": {},
    "model": "m",
    "via": {"provider": "any", "model": "m", "base_url": "http://there"},
}


def sent(wire: str, records: list[Any], **options: Any) -> list[Any]:
    async def ask(server: ChatServer) -> None:
        client = HttpClient(Endpoint(server.base_url, "m", None), {})
        session = SESSIONS[wire](client, model="m", tools=[], stream=False, records=records, **options)
        try:
            await session.stream_turn(lambda event: None)
        except ProviderError:  # only the request matters here
            pass
        finally:
            await session.close()

    with ChatServer(ChatServer.body({}, 400)) as server:
        asyncio.run(ask(server))
        request = server.requests[0]
    told: list[Any] = request[{"responses": "input", "gemini": "contents"}.get(wire, "messages")]
    return [one for one in told if one.get("role") != "system"]


@pytest.mark.parametrize("wire", FORMS)
def test_the_part_that_came_goes_back_as_the_assistant_s(wire: str) -> None:
    records = [{"role": "user", "text": "go"}, BROKEN, {"role": "user", "text": "and?"}]
    told = sent(wire, records)
    assert told[1] == FORMS[wire]
    assert len(told) == 3


@pytest.mark.parametrize("wire", FORMS)
def test_one_that_had_said_nothing_keeps_the_roles_apart(wire: str) -> None:
    records = [{"role": "user", "text": "go"}, {**BROKEN, "text": ""}, {"role": "user", "text": "and?"}]
    roles = [one["role"] for one in sent(wire, records)]
    assert roles == ["user", FORMS[wire]["role"], "user"]


def test_thinking_may_be_on_where_half_a_thought_was_lost() -> None:
    """Anthropic refuses thinking without its signature, so none is sent."""
    records = [{"role": "user", "text": "go"}, BROKEN, {"role": "user", "text": "and?"}]
    assert sent("anthropic", records, thinking=1024)[1] == FORMS["anthropic"]
