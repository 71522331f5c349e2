"""A stored conversation resumes with the model that was requested before, whatever name its server reports."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent.api import Agent
from toolcrib.testing import ChatServer, Response

SIGNATURE = "c2lnbmVkIGJ5IHRoZSBtb2RlbA=="


class Wire(NamedTuple):
    """A wire's name; the model's name in requests and in replies; a signed reply with a call, and a last reply."""

    provider: str
    asked: str
    answered: str
    signed: Callable[[str], Response]
    last: Callable[[str], Response]


def chat(message: dict[str, Any]) -> Callable[[str], Response]:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}
    return lambda model: ChatServer.body({"object": "chat.completion", "model": model, "choices": [choice]})


def anthropic(*content: dict[str, Any]) -> Callable[[str], Response]:
    return lambda model: ChatServer.body({"type": "message", "model": model, "stop_reason": "end_turn", "content": [*content]})


def responses(*output: dict[str, Any]) -> Callable[[str], Response]:
    return lambda model: ChatServer.body({"id": "r1", "model": model, "status": "completed", "output": [*output]})


def gemini(*parts: dict[str, Any]) -> Callable[[str], Response]:
    candidate = {"content": {"role": "model", "parts": [*parts]}, "finishReason": "STOP"}
    return lambda model: ChatServer.body({"modelVersion": model, "candidates": [candidate]})


NOTHING_TO_DO = {"name": "todo", "arguments": "{}"}
WIRES = [
    Wire(
        "chat",
        "gemini-flash",
        "gemini-3-flash-preview",
        chat({"tool_calls": [{"id": "c", "type": "function", "function": NOTHING_TO_DO, "extra_content": SIGNATURE}]}),
        chat({"content": "Done."}),
    ),
    Wire(
        "anthropic",
        "claude-sonnet-4-0",
        "claude-sonnet-4-20250514",
        anthropic(
            {"type": "thinking", "thinking": "hm", "signature": SIGNATURE},
            {"type": "tool_use", "id": "c", "name": "todo", "input": {}},
        ),
        anthropic({"type": "text", "text": "Done."}),
    ),
    Wire(
        "responses",
        "our-deployment",
        "gpt-5-2025-08-07",
        responses(
            {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": SIGNATURE},
            {"type": "function_call", "id": "fc", "call_id": "c", "status": "completed", **NOTHING_TO_DO},
        ),
        responses({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Done."}]}),
    ),
    Wire(
        "gemini",
        "gemini-3-pro",
        "gemini-3-pro-preview-11-2025",
        gemini({"functionCall": {"name": "todo", "args": {}}, "thoughtSignature": SIGNATURE}),
        gemini({"text": "Done."}),
    ),
]


def sent_on(wire: Wire, project: Path, *, then: str, now: str, answered: str) -> str:
    """Return the request of another process that resumes with ``now`` a conversation begun with ``then``."""
    with ChatServer(wire.signed(answered), wire.last(answered), wire.last(answered)) as server:
        about = {"base_url": server.base_url, "provider": wire.provider, "project_dir": project}
        with Agent(model=then, **about) as agent:
            assert agent.ask("go").text == "Done."
            begun = agent.session.id
        with Agent(model=now, resume=begun, **about) as agent:
            agent.ask("and now?")
        return json.dumps(server.requests[-1])


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.provider)
def test_what_was_asked_is_compared_with_what_is_asked(wire: Wire, tmp_path: Path) -> None:
    """004-13, 004-14, 004-15: reasoning and signatures are sent again by another process, whatever name the server reports."""
    assert SIGNATURE in sent_on(wire, tmp_path, then=wire.asked, now=wire.asked, answered=wire.answered)


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.provider)
def test_another_model_does_not_get_them(wire: Wire, tmp_path: Path) -> None:
    """The name of the requested model decides, even if the server reports none."""
    assert SIGNATURE not in sent_on(wire, tmp_path, then=wire.asked, now="another-model", answered=wire.answered)
    assert SIGNATURE not in sent_on(wire, tmp_path, then=wire.asked, now="another-model", answered="")


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.provider)
@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("qwen3-coder", "qwen3"),
        ("qwen3", "qwen3-coder"),
        ("gpt-4o", "gpt-4o-mini"),
        ("gpt-4o-2024-05-13", "gpt-4o-2024-08-06"),
        ("claude-sonnet-4-20250514", "claude-sonnet-4-20250929"),
        ("mistral-large-2407", "mistral-large-2411"),
        ("gemini-pro", "gemini-flash-latest"),
        ("our-proxy-model", "what-answered"),
    ],
)
def test_the_name_that_was_asked_alone_decides(wire: Wire, then: str, now: str, tmp_path: Path) -> None:
    """One name may be a prefix of the other, differ in its date, or be the name that the server reported."""
    assert SIGNATURE not in sent_on(wire, tmp_path, then=then, now=now, answered=now)


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.provider)
@pytest.mark.parametrize(
    ("then", "now"),
    [
        ("claude-sonnet-4", "claude-sonnet-4-20250514"),
        ("mistral-large-2411", "mistral-large-latest"),
        ("vendor/gpt-4o", "gpt-4o-2024-08-06"),
    ],
)
def test_a_name_without_a_date_means_any(wire: Wire, then: str, now: str, tmp_path: Path) -> None:
    assert SIGNATURE in sent_on(wire, tmp_path, then=then, now=now, answered="something-else")
