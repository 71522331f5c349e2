"""Streams of model output in the form of the four wires. The events' fields and framing are as recorded."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_TEXT = """the a of to in is and file line test call value error return import path server while because first second model
reads writes naïve — “quoted” runs. def __init__(self): self.value = None raise KeyError('missing') => 1024 0.5 {} []"""
WORDS = tuple(_TEXT.split())
_FRAMES = {"chat": "data: {data}\n\n", "responses": "event: {type}\ndata: {data}\n\n", "gemini": "data: {data}\r\n\r\n"}
_FRAMES["anthropic"] = _FRAMES["responses"]


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream. ``payloads`` are the JSON of the events, ``events`` the same as bytes on the wire, ``what`` their description."""

    wire: str
    what: str
    payloads: Sequence[str]
    events: Sequence[bytes]


def streams(wire: str, number: int) -> list[Stream]:
    """Return a stream of text and one of a call's arguments, with ``number`` deltas each and the events that the wire sends
    before them.
    """
    made = []
    for what, build in _BUILDERS[wire].items():
        events = build(random.Random(2).choices(WORDS, k=number))
        payloads = [json.dumps(event, ensure_ascii=False, separators=(",", ":")) for event in events]
        framed = [
            _FRAMES[wire].format(type=event.get("type"), data=payload).encode()
            for event, payload in zip(events, payloads, strict=True)
        ]
        made.append(Stream(wire, what, payloads, framed))
    return made


_Events = list[dict[str, Any]]


def _chat(delta: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "id": "chatcmpl-B9MHDbslfkBeAs8l4bebGdFOJ6PeG",
        "object": "chat.completion.chunk",
        "created": 1741570283,
        "model": "gpt-4o-mini-2024-07-18",
        "service_tier": "default",
        "system_fingerprint": "fp_06737a9306",
        "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}],
        "obfuscation": "PZu8T",
    }


def _chat_text(words: Sequence[str]) -> _Events:
    return [_chat({"role": "assistant", "content": ""}), *(_chat({"content": f"{word} "}) for word in words)]


def _chat_arguments(words: Sequence[str]) -> _Events:
    head = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "write_file", "arguments": ""}}
    pieces = [{"index": 0, "function": {"arguments": f"{word} "}} for word in words]
    return [_chat({"tool_calls": [one]}) for one in (head, *pieces)]


def _responses(kind: str, words: Sequence[str], item: Mapping[str, Any], more: Mapping[str, Any]) -> _Events:
    added = {"type": "response.output_item.added", "sequence_number": 2, "output_index": 0, "item": item}
    return [added] + [
        {
            "type": kind,
            "sequence_number": place + 4,
            "item_id": item["id"],
            "output_index": 0,
            **more,
            "delta": f"{word} ",
            **({"logprobs": []} if more else {}),
            "obfuscation": "IYt7jaRyRJkly",
        }
        for place, word in enumerate(words)
    ]


def _responses_text(words: Sequence[str]) -> _Events:
    item = {"id": f"msg_{'0786f8f250c4d449' * 3}", "type": "message", "status": "in_progress", "content": [], "role": "assistant"}
    return _responses("response.output_text.delta", words, item, {"content_index": 0})


def _responses_arguments(words: Sequence[str]) -> _Events:
    item = {"id": f"fc_{'689f74f404488196' * 3}", "type": "function_call", "status": "in_progress", "arguments": ""}
    return _responses("response.function_call_arguments.delta", words, {**item, "call_id": "call_1", "name": "write_file"}, {})


def _anthropic(block: Mapping[str, Any], kind: str, key: str, words: Sequence[str]) -> _Events:
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    deltas = [{"type": "content_block_delta", "index": 0, "delta": {"type": kind, key: f"{word} "}} for word in words]
    return [start, *deltas]


def _anthropic_text(words: Sequence[str]) -> _Events:
    return _anthropic({"type": "text", "text": ""}, "text_delta", "text", words)


def _anthropic_arguments(words: Sequence[str]) -> _Events:
    block = {"type": "tool_use", "id": "toolu_01A09q90qw90lq917835lq9", "name": "write_file", "input": {}}
    return _anthropic(block, "input_json_delta", "partial_json", words)


def _gemini(candidate: Mapping[str, Any], usage: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    head = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-3-flash-preview"}
    return {**head, **more, "responseId": "J3dHapyWENS3g8UPyrefuAE"}


def _gemini_text(words: Sequence[str]) -> _Events:
    """Return longer pieces than for other wires, as Gemini sends them."""
    usage = {
        "promptTokenCount": 8,
        "candidatesTokenCount": 92,
        "totalTokenCount": 128,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 8}],
        "thoughtsTokenCount": 28,
        "serviceTier": "standard",
    }
    contents = [{"parts": [{"text": f"{word} " * 8}], "role": "model"} for word in words]
    return [_gemini({"content": content, "index": 0}, usage) for content in contents]


def _gemini_arguments(words: Sequence[str]) -> _Events:
    usage = {"trafficType": "ON_DEMAND"}
    pieces = [{"jsonPath": "$.content", "stringValue": f"{word} ", "willContinue": True} for word in words]
    calls: _Events = [{"name": "write_file", "willContinue": True}]
    calls += [{"partialArgs": [piece], "willContinue": True} for piece in pieces]
    contents = [{"role": "model", "parts": [{"functionCall": call}]} for call in calls]
    return [_gemini({"content": content}, usage, createTime="2026-04-07T16:49:58.333958Z") for content in contents]


_BUILDERS: dict[str, dict[str, Callable[[Sequence[str]], _Events]]] = {
    "chat": {"text": _chat_text, "arguments": _chat_arguments},
    "responses": {"text": _responses_text, "arguments": _responses_arguments},
    "anthropic": {"text": _anthropic_text, "arguments": _anthropic_arguments},
    "gemini": {"text": _gemini_text, "arguments": _gemini_arguments},
}
WIRES = tuple(_BUILDERS)
