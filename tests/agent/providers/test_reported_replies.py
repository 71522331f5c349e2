"""Replies, continuations, counts and refusals of the public reports."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from agent.model_choice.retry import RetryPolicy
from agent.providers import Endpoint, HttpClient
from agent.providers._faults import from_status
from agent.providers.rows import WIRES, load
from agent.providers.sse import SseReader
from tests.agent.providers.documented import ENCRYPTED, SIGNED, WHOLE, Documented, deepseek, refuse, replies, reply, talk, thinks
from tests.agent.providers.reports import reported
from toolcrib import ProviderError, RateLimited
from toolcrib.testing import ChatServer

_MENDED = {"w29"}
"""Rows of wires that were wrong or refused when the reports were tried, and are read now."""


def _read(wire: str, body: str, *, stream: bool = True) -> dict[str, Any]:
    reader = load(WIRES[wire].reader)()
    try:
        if stream:
            sse = SseReader()
            reader.read_events(sse.feed(body.encode("utf-8", "surrogatepass")))
            reader.read_events(sse.close())
        else:
            reader.read_body(json.loads(body))
        turn = reader.finish()
    except ProviderError as error:
        return {"calls": [], "error": True, "content": error.text}
    runs = [{"name": call.name, "arguments": call.args} for call in turn.tool_calls if call.fault is None]
    more = {"content": turn.assistant_text, "reasoning": turn.reasoning, "finish": turn.finish, "usage": turn.usage}
    return {"calls": runs, "error": False, **more}


def _is_read(row: dict[str, Any]) -> bool:
    return row["kind"].startswith("wire-") and (row["verdict"] == "right" or row["id"] in _MENDED)


@pytest.mark.parametrize("row", reported(_is_read))
def test_a_reported_reply_is_read(row: dict[str, Any]) -> None:
    found = _read(row["kind"].removeprefix("wire-"), row["input"]["body"], stream="--stream" in row["how"])
    assert found | row["expected"] == found


# -- counts --------------------------------------------------------------------------------------------------------------


def _usage(wire: str, *events: Mapping[str, Any]) -> dict[str, int]:
    found: dict[str, int] = _read(wire, "".join(f"data: {json.dumps(event)}\n\n" for event in events))["usage"]
    return found


def _anthropic(started: Mapping[str, int], *later: Mapping[str, int]) -> dict[str, int]:
    deltas = [{"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": one} for one in later]
    return _usage("anthropic", {"type": "message_start", "message": {"usage": started}}, *deltas, {"type": "message_stop"})


def _chat(*counted: Mapping[str, Any]) -> dict[str, int]:
    choice = {"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}
    return _usage("chat", *({"choices": [choice], "usage": one} for one in counted))


def _gemini(*counted: Mapping[str, Any]) -> dict[str, int]:
    part = {"content": {"parts": [{"text": "x"}]}}
    pieces = [{"candidates": [part], "usageMetadata": one} for one in counted]
    return _usage("gemini", *pieces, {"candidates": [{**part, "finishReason": "STOP"}]})


def _responses(*counted: Mapping[str, Any]) -> dict[str, int]:
    kinds = ["response.in_progress"] * (len(counted) - 1) + ["response.completed"]
    status = {"status": "completed", "output": []}
    return _usage(
        "responses", *({"type": kind, "response": {**status, "usage": one}} for kind, one in zip(kinds, counted, strict=True))
    )


def _counts_once() -> None:
    assert _anthropic({"input_tokens": 50, "output_tokens": 1}, {"output_tokens": 7}) == {"input": 50, "output": 7}
    growing = [{"prompt_tokens": 5, "completion_tokens": count} for count in (1, 2, 3)]
    assert _chat(*growing) == {"input": 5, "output": 3}
    thoughts = {"promptTokenCount": 5, "candidatesTokenCount": 2, "thoughtsTokenCount": 3}
    assert _gemini(thoughts, thoughts) == {"input": 5, "output": 5, "reasoning": 3}


def _keeps_counts_before_zero() -> None:
    full, none = {"input_tokens": 50, "output_tokens": 7}, {"input_tokens": 0, "output_tokens": -1}
    assert _anthropic(full, none) == {"input": 50, "output": 7}
    assert _anthropic({"input_tokens": 0}, full) == {"input": 50, "output": 7}
    assert _responses(full, none) == {"input": 50, "output": 7}
    chat = {"prompt_tokens": 50, "completion_tokens": 7}
    assert _chat(chat, {"prompt_tokens": 0, "completion_tokens": -1}) == {"input": 50, "output": 7}
    gemini = {"promptTokenCount": 50, "candidatesTokenCount": 7}
    for last in ({"promptTokenCount": 0, "candidatesTokenCount": -1}, {"promptTokenCount": -1}, {"candidatesTokenCount": 0}):
        assert _gemini(gemini, last) == {"input": 50, "output": 7}


def _counts_negative_as_zero() -> None:
    assert _chat({"prompt_tokens": -1, "completion_tokens": 2}) == {"input": 0, "output": 2}
    assert _anthropic({"input_tokens": -1}, {"output_tokens": 2}) == {"input": 0, "output": 2}
    assert _responses({"input_tokens": -1, "output_tokens": 2}) == {"input": 0, "output": 2}
    assert _gemini({"promptTokenCount": -1, "candidatesTokenCount": 2}) == {"input": 0, "output": 2}


# -- continuations -------------------------------------------------------------------------------------------------------


def _gets_reasoning_in_the_second_question() -> None:
    turns = reply(*thinks("I must read."), call="a"), reply(*thinks("So."), text="5"), reply(text="6")
    with Documented(deepseek, *turns) as server:
        talk(server, model="deepseek-v4-flash")
        assert server.refused == 0
        assert replies(server.requests[2])[0]["reasoning_content"] == "I must read."


def _gets_the_encrypted_details() -> None:
    with ChatServer(reply({"reasoning_details": [ENCRYPTED]}, call="a"), reply(text="x")) as server:
        talk(server, 1, model="google/gemini-3-pro-preview")
        assert replies(server.requests[1])[0]["reasoning_details"] == [ENCRYPTED]


def _gets_joined_details() -> None:
    with ChatServer(reply(*({"reasoning_details": [one]} for one in SIGNED), call="a"), reply(text="x")) as server:
        talk(server, 1, model="MiniMax-M2.5")
        assert replies(server.requests[1])[0]["reasoning_details"] == [WHOLE]


def _gets_a_stored_reply_unchanged() -> None:
    call = {"id": "c1", "name": "read", "args": {}}
    function = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    thinking = [{"type": "thinking", "thinking": "hm", "signature": "S"}, {"type": "redacted_thinking", "data": "D"}]
    item = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "E"}
    used = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
    natives = {
        "chat": {"role": "assistant", "content": None, "tool_calls": [function], "reasoning_content": "hm"},
        "anthropic": {"role": "assistant", "content": [*thinking, {"type": "tool_use", "id": "c1", "name": "read", "input": {}}]},
        "responses": {"output": [item, used]},
    }
    for wire, native in natives.items():
        reply_row = {"role": "assistant", "text": "", "calls": [call], "native": {"wire": wire, "message": native}, "model": "m"}
        results = {"role": "results", "results": [{"call_id": "c1", "name": "read", "text": "{}", "ok": True}]}
        sent = json.dumps(_resumed(wire, [{"role": "user", "text": "x"}, reply_row, results]))
        kept = {"chat": ['"reasoning_content": "hm"'], "responses": [json.dumps(item)]}
        for part in kept.get(wire, [json.dumps(one) for one in thinking]):
            assert part in sent, wire


def _resumed(wire: str, records: list[dict[str, Any]]) -> Any:
    async def run(server: ChatServer) -> None:
        session = load(WIRES[wire].session)(HttpClient(Endpoint(server.base_url, "m"), {}), model="m", records=records)
        session.say("go on")
        with pytest.raises(ProviderError):
            await session.stream_turn(lambda event: None)
        await session.close()

    other = {path: refuse("enough", 400) for path in ("/v1/messages", "/v1/responses")}
    with ChatServer(refuse("enough"), answers=other) as server:
        asyncio.run(run(server))
        return server.requests[0] if server.requests else server.asides[0][2]


# -- refusals, and calls in an older field -------------------------------------------------------------------------------


def _is_not_asked_again() -> None:
    said = json.dumps({"error": {"code": "1113", "message": "Insufficient balance or no resource package"}})
    assert RetryPolicy().wait(1, from_status(429, said)) is None


def _is_asked_again_after_the_wait() -> None:
    error = from_status(429, "{}", {"Retry-After": "1"})
    assert isinstance(error, RateLimited)
    assert RetryPolicy().wait(1, error) == 1.0
    assert 0 < (RetryPolicy().wait(1, from_status(503, "{}", {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"})) or 0) <= 0.5


def _is_a_call() -> None:
    for pieces in (["{}"], ['{"path":', ' "a"}'], ["", '{"path": "a"}']):
        first = [{"function_call": {"name": "read", "arguments": pieces[0]}}]
        deltas = first + [{"function_call": {"arguments": piece}} for piece in pieces[1:]]
        chunks = [{"choices": [{"index": 0, "delta": one}]} for one in deltas]
        end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "function_call"}]}
        found = _read("chat", "".join(f"data: {json.dumps(one)}\n\n" for one in (*chunks, end)))
        assert found["calls"] == [{"name": "read", "arguments": json.loads("".join(pieces))}]
    message = {"role": "assistant", "content": None, "function_call": {"name": "read", "arguments": "{}"}}
    whole = {"choices": [{"index": 0, "message": message, "finish_reason": "function_call"}]}
    assert _read("chat", json.dumps(whole), stream=False)["calls"] == []
    with ChatServer(ChatServer.body(whole), reply(text="x")) as server:
        assert [one["tool_calls"][0]["function"]["name"] for one in talk(server, 1)[:1]] == ["read"]
        assert [one["role"] for one in server.requests[1]["messages"]] == ["user", "assistant", "tool"]
    call = {"index": 0, "id": "x", "function": {"name": "read", "arguments": "{}"}}
    both = {"choices": [{"index": 0, "delta": {"tool_calls": [call]}}]}, {"choices": [{"index": 0, "delta": deltas[0]}]}
    assert len(_read("chat", "".join(f"data: {json.dumps(one)}\n\n" for one in (*both, end)))["calls"]) == 1


_CHECKS: dict[str, Callable[[], None]] = {
    "usage-cumulative": _counts_once,
    "usage-zero-delta": _keeps_counts_before_zero,
    "usage-negative": _counts_negative_as_zero,
    "deepseek-second-turn": _gets_reasoning_in_the_second_question,
    "openrouter-gemini-details": _gets_the_encrypted_details,
    "details-fragments": _gets_joined_details,
    "park-reasoning": _gets_a_stored_reply_unchanged,
    "balance-1113": _is_not_asked_again,
    "retry-after": _is_asked_again_after_the_wait,
    "legacy-function_call": _is_a_call,
}
_ELSEWHERE = {"native-text-call"}
"""Rows whose tests are with the tests of the code concerned."""


@pytest.mark.parametrize("name", _CHECKS)
def test_a_reported_case_is_right(name: str) -> None:
    """Each check asserts what the row of this id describes in prose."""
    _CHECKS[name]()


@pytest.mark.parametrize("row", reported(lambda row: row["kind"] in ("usage", "continuation", "retry", "leak")))
def test_each_row_in_prose_has_a_check(row: dict[str, Any]) -> None:
    assert row["id"] in _CHECKS.keys() | _ELSEWHERE
