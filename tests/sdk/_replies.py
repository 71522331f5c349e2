"""Replies in the form of the four servers: text, two calls, and opaque data that is sent back; streamed and whole."""

from __future__ import annotations

import json
from typing import Any

from toolcrib.testing import ChatServer, Response

TEXT = "Grüße — I look at both files. 🦀"
CALLS = [("read_file", {"path": "a b.txt", "lines": [1, 2.5, None]}), ("fs_write", {"path": "ü", "content": 'x\n"y"\u2028'})]


def _cut(text: str, size: int = 5) -> list[str]:
    return [text[at : at + size] for at in range(0, len(text), size)]


def _sse(*events: dict[str, Any]) -> Response:
    frames = (f"event: {event['type']}\ndata: {json.dumps(event, ensure_ascii=False)}\n\n" for event in events)
    return Response("".join(frames).encode(), pieces=61)


def chat() -> tuple[Response, Response]:
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    calls = [
        {"id": f"call_{place}", "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for place, (name, args) in enumerate(CALLS)
    ]
    head: dict[str, Any] = {"id": "chatcmpl-1", "created": 1741570283, "model": "m", "service_tier": "default"}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return {**head, "object": "chat.completion.chunk", "choices": [choice], "obfuscation": "x"}

    chunks = [chunk({"role": "assistant", "content": "", "refusal": None})]
    chunks += [chunk({"content": piece}) for piece in _cut(TEXT)]
    for place, call in enumerate(calls):
        chunks.append(chunk({"tool_calls": [{"index": place, **call, "function": {**call["function"], "arguments": ""}}]}))  # type: ignore[dict-item] # a dict of its own
        for piece in _cut(json.dumps(CALLS[place][1])):
            chunks.append(chunk({"tool_calls": [{"index": place, "function": {"arguments": piece}}]}))
    chunks += [chunk({}, "tool_calls"), {**head, "object": "chat.completion.chunk", "choices": [], "usage": usage}]
    message = {"role": "assistant", "content": TEXT, "refusal": None, "tool_calls": calls}
    choices = [{"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}]
    whole = {**head, "object": "chat.completion", "choices": choices, "usage": usage}
    return ChatServer.stream(*chunks, pieces=61), ChatServer.body(whole)


def responses() -> tuple[Response, Response]:
    part: dict[str, Any] = {"type": "output_text", "text": TEXT, "annotations": [], "logprobs": []}
    output: list[dict[str, Any]] = [
        {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "Z0FBQUE="},
        {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [part]},
    ]
    for place, (name, args) in enumerate(CALLS):
        call = {"type": "function_call", "status": "completed", "name": name, "arguments": json.dumps(args)}
        output.append({"id": f"fc_{place}", "call_id": f"call_{place}", **call})
    details = {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 2}}
    usage = {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15, **details}
    head = {"id": "resp_1", "object": "response", "created_at": 1741570283, "model": "m", "parallel_tool_calls": True}
    head |= {"tool_choice": "auto", "tools": [], "error": None, "incomplete_details": None, "metadata": {}}
    whole = {**head, "status": "completed", "output": output, "usage": usage}
    began = {**head, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [{"type": f"response.{kind}", "response": began} for kind in ("created", "in_progress")]
    for index, item in enumerate(output):
        events += _item_events(index, item)
    events.append({"type": "response.completed", "response": whole})
    return _sse(*({**event, "sequence_number": place} for place, event in enumerate(events))), ChatServer.body(whole)


def _item_events(index: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    where: dict[str, Any] = {"item_id": item["id"], "output_index": index}
    begun, inner = {**item, "status": "in_progress"}, []
    if item["type"] == "message":
        begun["content"], part = [], item["content"][0]
        at = {**where, "content_index": 0}
        inner.append({"type": "response.content_part.added", **at, "part": {**part, "text": ""}})
        inner += [{"type": "response.output_text.delta", **at, "delta": one, "logprobs": []} for one in _cut(TEXT)]
        inner.append({"type": "response.output_text.done", **at, "text": TEXT, "logprobs": []})
        inner.append({"type": "response.content_part.done", **at, "part": part})
    elif item["type"] == "function_call":
        begun["arguments"], raw, kind = "", item["arguments"], "response.function_call_arguments"
        inner += [{"type": f"{kind}.delta", **where, "delta": one} for one in _cut(raw)]
        inner.append({"type": f"{kind}.done", **where, "name": item["name"], "arguments": raw})
    else:
        del begun["status"]
    added = {"type": "response.output_item.added", "output_index": index, "item": begun}
    return [added, *inner, {"type": "response.output_item.done", "output_index": index, "item": item}]


_EMPTY: dict[str, dict[str, Any]] = {
    "thinking": {"thinking": "", "signature": ""},
    "text": {"text": ""},
    "tool_use": {"input": {}},
}


def anthropic() -> tuple[Response, Response]:
    content: list[dict[str, Any]] = [
        {"type": "thinking", "thinking": "hm, both", "signature": "c2lnbmF0dXJl"},
        {"type": "text", "text": TEXT},
        *({"type": "tool_use", "id": f"toolu_{place}", "name": name, "input": args} for place, (name, args) in enumerate(CALLS)),
    ]
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 0, "output_tokens": 5}
    message = {**head, "content": [], "stop_reason": None, "usage": {**usage, "output_tokens": 1}}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    for index, block in enumerate(content):
        events.append({"type": "content_block_start", "index": index, "content_block": {**block, **_EMPTY[block["type"]]}})
        events += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in _deltas(block)]
        events.append({"type": "content_block_stop", "index": index})
    end = {"stop_reason": "tool_use", "stop_sequence": None}
    events += [{"type": "message_delta", "delta": end, "usage": {"output_tokens": 5}}, {"type": "message_stop"}]
    whole = {**head, "content": content, "stop_reason": "tool_use", "usage": usage}
    return _sse(*events), ChatServer.body(whole)


def _deltas(block: dict[str, Any]) -> list[dict[str, Any]]:
    if block["type"] == "text":
        return [{"type": "text_delta", "text": piece} for piece in _cut(block["text"])]
    if block["type"] == "tool_use":
        return [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *_cut(json.dumps(block["input"]))]]
    thought = [{"type": "thinking_delta", "thinking": piece} for piece in _cut(block["thinking"])]
    return [*thought, {"type": "signature_delta", "signature": block["signature"]}]


def gemini() -> tuple[Response, Response]:
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15, "thoughtsTokenCount": 2}

    def piece(*parts: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
        if finish:
            candidate["finishReason"] = finish
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m", "responseId": "J3dH"}

    thought = {"text": "hm", "thought": True}
    calls: list[dict[str, Any]] = [{"functionCall": {"name": name, "args": args}} for name, args in CALLS]
    calls[0]["thoughtSignature"] = "c2lnbmF0dXJl"
    pieces = [piece(thought), *(piece({"text": one}) for one in _cut(TEXT)), *(piece(call) for call in calls)]
    pieces.append(piece({"text": ""}, finish="STOP"))
    streamed = ChatServer.stream(*pieces, done=False, newline="\r\n", pieces=61)
    return streamed, ChatServer.body(piece(thought, {"text": TEXT}, *calls, finish="STOP"))
