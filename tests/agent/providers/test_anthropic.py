"""The Anthropic session over real HTTP, against a server that fails on request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from agent.providers import Endpoint, HttpClient, HttpLimits, resolve_endpoint
from agent.providers.anthropic import AnthropicSession
from agent.providers.rows import PROVIDERS
from toolcrib import (
    AuthFailed,
    BadRequest,
    ConfigError,
    ContextTooLong,
    ExecutedCall,
    Overloaded,
    ProviderError,
    RateLimited,
    StreamBroken,
    StreamEvent,
    ToolCallStatus,
    ToolResult,
)
from toolcrib.testing import ChatServer, Response

KEY = "sk-ant-very-secret-0123456789"
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object", "properties": {}}}}
    for name in ("read_file", "fs.write")
]
CACHED = {"cache_control": {"type": "ephemeral"}}
SIGNED = {"type": "thinking", "thinking": "hm", "signature": "c2lnbmF0dXJl"}


def converse(server: ChatServer, drive: Callable[[AnthropicSession], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        endpoint = Endpoint(server.base_url, "m", "ANTHROPIC_API_KEY")
        client = HttpClient(endpoint, {"ANTHROPIC_API_KEY": KEY}, options.pop("limits", None))
        session = AnthropicSession(client, **{"model": "m", **options})
        try:
            return await drive(session)
        finally:
            await session.close()
            await session.close()

    return asyncio.run(run())


def ask(server: ChatServer, events: list[StreamEvent] | None = None, **options: Any) -> Any:
    async def drive(session: AnthropicSession) -> Any:
        session.say("hello")
        return await session.stream_turn((events if events is not None else []).append)

    return converse(server, drive, **options)


def reply(*blocks: dict[str, Any], stop: str = "end_turn", **how: Any) -> Response:
    """Return a streamed reply; text and thinking in pieces of four characters, inputs in pieces of five."""
    events: list[dict[str, Any]] = [{"type": "message_start", "message": {"model": "m", "usage": {"input_tokens": 10}}}]
    for index, block in enumerate(blocks):
        kind, size = block["type"], 5 if "input" in block else 4
        key, delta = {"text": ("text", "text"), "thinking": ("thinking", "thinking")}.get(kind, ("input", "partial_json"))
        whole = json.dumps(block[key]) if key == "input" else block[key]
        empty: Any = {} if key == "input" else ""
        events.append({"type": "content_block_start", "index": index, "content_block": {**block, key: empty}})
        named = "input_json_delta" if key == "input" else f"{delta}_delta"
        for at in range(0, len(whole), size):
            piece = {"type": named, delta: whole[at : at + size]}
            events.append({"type": "content_block_delta", "index": index, "delta": piece})
        events.append({"type": "content_block_stop", "index": index})
    events += [{"type": "message_delta", "delta": {"stop_reason": stop}, "usage": {"output_tokens": 5}}, {"type": "message_stop"}]
    lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events)
    return Response("".join(lines).encode(), **how)


def text(said: str, **how: Any) -> Response:
    return reply({"type": "text", "text": said}, **how)


def use(call_id: str, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": arguments}


def refuse(message: str, status: int = 400, kind: str = "invalid_request_error") -> Response:
    return ChatServer.body({"type": "error", "error": {"type": kind, "message": message}, "request_id": "r"}, status)


def ran(turn: Any, *results: ToolResult) -> list[ExecutedCall]:
    return [ExecutedCall(call, result, ToolCallStatus.SUCCEEDED) for call, result in zip(turn.tool_calls, results, strict=False)]


def test_many_blocks_at_once_keep_the_breakpoint_before() -> None:
    """The server searches its cache only a limited number of blocks back, and accepts four breakpoints."""
    many = [use(f"t{number}", "read_file", {}) for number in range(20)]

    async def drive(session: AnthropicSession) -> None:
        session.say("hello")
        first = await session.stream_turn(lambda event: None)
        await session.append_tool_results(first, ran(first, *[ToolResult.success("f", {})] * 20))
        second = await session.stream_turn(lambda event: None)
        await session.append_tool_results(second, ran(second, ToolResult.success("f", {})))
        await session.stream_turn(lambda event: None)

    with ChatServer(reply(*many, stop="tool_use"), reply(use("u", "read_file", {}), stop="tool_use"), text("Done.")) as server:
        converse(server, drive, system="Be brief.", tools=TOOLS)
        sent = server.requests
    marked = [
        [place for place, message in enumerate(one["messages"]) if any("cache_control" in block for block in message["content"])]
        for one in sent
    ]
    assert marked == [[0], [0, 2], [4]]
    assert all(json.dumps(one).count("cache_control") <= 4 for one in sent)


def test_004_14_x_1_blocks_go_back_unchanged_and_results_in_one_message() -> None:
    """004-14, X-1: thinking first with its signature; one user message with all results, including missing ones."""
    first_blocks = (SIGNED, {"type": "text", "text": "Let me"}, use("t1", "read_file", {"p": "ü"}), use("t2", "fs_write", {}))
    server_ran = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"q": 1}}
    replies = (
        reply(*first_blocks, stop="tool_use"),
        reply(server_ran, use("t3", "fs_write", {}), stop="tool_use"),
        text("Done."),
    )

    async def drive(session: AnthropicSession) -> Any:
        session.say("hello")
        first = await session.stream_turn(events.append)
        await session.append_tool_results(first, ran(first, ToolResult.success("f", {"a": 1}), ToolResult.error("f", "no")))
        second = await session.stream_turn(events.append)
        session.say("never mind")
        return first, second, await session.stream_turn(events.append)

    events: list[StreamEvent] = []
    with ChatServer(*replies) as server:
        first, second, third = converse(server, drive, system="Be brief.", tools=TOOLS, thinking=2000, extra={"top_k": 1})
        sent, headers = server.requests, server.headers
        assert server.paths == ["/v1/messages"] * 3
    assert [one.name for one in first.tool_calls] == ["read_file", "fs.write"]
    assert (first.reasoning, [one.id for one in second.tool_calls]) == ("hm", ["t3"])
    assert (third.assistant_text, third.finish, third.usage, third.model) == ("Done.", "stop", {"input": 10, "output": 5}, "m")
    assert headers[0]["x-api-key"] == KEY
    assert headers[0]["anthropic-version"] == "2023-06-01"
    assert "authorization" not in headers[0]
    assert sent[0] == {
        "model": "m",
        "max_tokens": 16384,
        "stream": True,
        "thinking": {"type": "enabled", "budget_tokens": 2000},
        "top_k": 1,
        "tools": [
            {"name": "read_file", "description": "d", "input_schema": {"type": "object", "properties": {}}},
            {"name": "fs_write", "description": "d", "input_schema": {"type": "object", "properties": {}}, **CACHED},
        ],
        "system": [{"type": "text", "text": "Be brief.", **CACHED}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello", **CACHED}]}],
    }
    assert sent[1]["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hello"}]},
        {"role": "assistant", "content": list(first_blocks)},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "t1", "content": '{"a": 1}', "is_error": False},
                {"type": "tool_result", "tool_use_id": "t2", "content": '{"error": "no"}', "is_error": True, **CACHED},
            ],
        },
    ]
    assert sent[2]["messages"][3] == {"role": "assistant", "content": [server_ran, use("t3", "fs_write", {})]}
    missing, said = sent[2]["messages"][4]["content"]
    assert (missing["tool_use_id"], missing["is_error"], "no result" in missing["content"]) == ("t3", True, True)
    assert said == {"type": "text", "text": "never mind", **CACHED}
    assert "".join(one.text for one in events if one.kind == "assistant_delta") == "Let meDone."


def test_records_become_messages() -> None:
    """Native blocks are unchanged; another model's lose their thinking; another wire's are rebuilt, with ids and names of this
    one.
    """
    native = {"role": "assistant", "content": [SIGNED, use("t1", "read_file", {})]}
    kept = {"wire": "anthropic", "message": native}
    call = {"id": "functions.f:0", "name": "fs.write", "args": {"x": 1}}
    records = [
        {"role": "system", "text": "old"},
        {"role": "user", "text": "one"},
        {"role": "assistant", "text": "", "calls": [], "native": kept, "model": "m-2025"},
        {"role": "results", "results": [{"call_id": "t1", "name": "read_file", "text": "r", "is_error": True}]},
        {"role": "assistant", "text": "", "calls": [], "native": kept, "model": "other"},
        {"role": "user", "text": "two"},
        {"role": "assistant", "text": "hm", "calls": [call], "native": {"wire": "chat", "message": {}}},
        {"role": "results", "results": [{"call_id": "functions.f:0", "name": "fs.write", "text": "ok", "is_error": False}]},
    ]
    with ChatServer(text("ok"), text("ok")) as server:
        ask(server, records=records, system="new", tools=TOOLS)
        ask(server, records=records, tools=TOOLS)
        first, second = server.requests
    assert [one["system"][0]["text"] for one in (first, second)] == ["new", "old"]
    messages = first["messages"]
    assert [one["role"] for one in messages] == ["user", "assistant"] * 3 + ["user"]
    assert messages[1]["content"] == native["content"]
    assert messages[2]["content"] == [{"type": "tool_result", "tool_use_id": "t1", "content": "r", "is_error": True}]
    assert messages[3]["content"] == native["content"][1:]
    assert [one["type"] for one in messages[4]["content"]] == ["tool_result", "text"]
    rebuilt = messages[5]["content"][1]
    assert (rebuilt["name"], rebuilt["input"]) == ("fs_write", {"x": 1})
    assert rebuilt["id"].replace("_", "").isalnum()
    assert messages[6]["content"][0] == {"type": "tool_result", "tool_use_id": rebuilt["id"], "content": "ok", "is_error": False}


def test_the_cached_part_of_a_request_keeps_its_bytes() -> None:
    """004-14: the part before a breakpoint is sent again byte for byte, and no empty message is sent."""

    async def drive(session: AnthropicSession) -> None:
        for said in ("one", "two", "  ", "three"):
            session.say(said)
            await session.stream_turn(lambda event: None)

    with ChatServer(text("a"), reply(SIGNED), text(" "), text("d")) as server:
        converse(server, drive, system="s", tools=TOOLS)
        before, after = (json.dumps(one).replace(", " + json.dumps(CACHED)[1:-1], "") for one in server.requests[:2])
        last = server.requests[3]["messages"]
    assert after.startswith(before.removesuffix("]}"))
    assert [(one["role"], len(one["content"])) for one in last] == [("user", 1), ("assistant", 1), ("user", 2)]


def test_a_whole_reply_is_read_too_and_a_refused_limit_lowered() -> None:
    """The reply may be whole although streaming was requested. The accepted limit is remembered."""
    whole = {
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "hi"}],
        "stop_reason": "end_turn",
    }
    usage = {"usage": {"input_tokens": 1, "output_tokens": 2}}

    async def drive(session: AnthropicSession) -> Any:
        session.say("x")
        await session.stream_turn(events.append)
        session.say("y")
        return await session.stream_turn(lambda event: None)

    events: list[StreamEvent] = []
    refused = refuse("max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens for m")
    with ChatServer(refused, ChatServer.body({**whole, **usage}), ChatServer.body({**whole, **usage})) as server:
        turn = converse(server, drive, stream=False)
        assert [one["max_tokens"] for one in server.requests] == [16384, 8192, 8192]
        assert [one["stream"] for one in server.requests] == [False] * 3
    assert (turn.assistant_text, turn.usage, turn.finish) == ("hi", {"input": 1, "output": 2}, "stop")
    assert events == [StreamEvent("assistant_delta", "hi")]


def test_thinking_rests_where_another_model_began_the_task() -> None:
    """The wire refuses to think after calls that followed no thinking; thinking returns with the person's next message."""
    must = refuse(
        "messages.1.content.0.type: When `thinking` is enabled, a final `assistant` message must start with a thinking block"
    )

    async def drive(session: AnthropicSession) -> None:
        await session.stream_turn(lambda event: None)
        session.say("next")
        await session.stream_turn(lambda event: None)

    records = [
        {"role": "user", "text": "one"},
        {"role": "assistant", "text": "", "calls": [{"id": "a", "name": "f", "args": {}}]},
        {"role": "results", "results": [{"call_id": "a", "name": "f", "text": "r", "is_error": False}]},
    ]
    with ChatServer(must, text("ok"), text("ok")) as server:
        converse(server, drive, records=records, thinking=1024)
        assert ["thinking" in one for one in server.requests] == [True, False, True]


@pytest.mark.parametrize(("thinking", "max_tokens"), [(10, None), (4000, 4000)])
def test_a_thinking_budget_that_cannot_be_is_refused_at_once(thinking: int, max_tokens: int | None) -> None:
    with ChatServer() as server, pytest.raises(ConfigError, match=r"set it to more than|give at least"):
        ask(server, thinking=thinking, max_tokens=max_tokens)


@pytest.mark.parametrize(
    ("response", "kind", "shown"),
    [
        (replace(refuse("Number of requests exceeded", 429, "rate_limit_error"), headers={"retry-after": "7"}), RateLimited, "7"),
        (refuse("Overloaded", 529, "overloaded_error"), Overloaded, "Overloaded"),
        (refuse("Internal server error", 500, "api_error"), Overloaded, "Internal"),
        (refuse("invalid x-api-key " + KEY, 401, "authentication_error"), AuthFailed, "ANTHROPIC_API_KEY"),
        (refuse("prompt is too long: 210000 tokens > 200000 maximum"), ContextTooLong, "too long"),
        (refuse("input length and `max_tokens` exceed context limit: 9 + 9 > 8"), ContextTooLong, "too long"),
        (refuse("Request exceeds the maximum size", 413, "request_too_large"), ContextTooLong, "too long"),
        (refuse("model: nope", 404, "not_found_error"), BadRequest, "check the base URL"),
        (Response(b"<html>hi</html>", content_type="text/html"), StreamBroken, "web page"),
        (ChatServer.body({"hello": 1}), StreamBroken, "not a message"),
        (refuse("Overloaded", 200, "overloaded_error"), Overloaded, "Overloaded"),
    ],
)
def test_000_42_every_refusal_has_its_kind_and_words(response: Response, kind: type[ProviderError], shown: str) -> None:
    """000-42: errors are typed, with status and body, and never contain the key."""
    with ChatServer(response) as server, pytest.raises(kind) as caught:
        ask(server)
    error = caught.value
    assert shown in f"{error} {error.retry_after}"
    assert KEY not in f"{error!r} {error.body} {error.__dict__}"
    assert error.status == (response.status if response.status != 200 else 0)
    assert error.retryable == (kind in (RateLimited, Overloaded, StreamBroken))


def test_x_4_an_error_in_the_middle_keeps_the_text_and_can_be_asked_again() -> None:
    """X-4: the same holds for a stream that is cut. The second request equals the first."""
    said = text("Once upon a time")
    middle = said.body.index(b"event: content_block_stop")
    error = b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}\n\n'

    async def drive(session: AnthropicSession) -> Any:
        session.say("hello")
        for kind in (Overloaded, StreamBroken):
            with pytest.raises(kind) as caught:
                await session.stream_turn(lambda event: None)
            assert caught.value.text == "Once upon a time"
            assert caught.value.retryable
        return await session.stream_turn(lambda event: None)

    with ChatServer(replace(said, body=said.body[:middle] + error), replace(said, cut=middle), said) as server:
        assert converse(server, drive).assistant_text == "Once upon a time"
        assert server.requests[0] == server.requests[1] == server.requests[2]


def test_a_stalled_stream_is_given_up_and_cancelling_closes_it() -> None:
    said = text("first and then")
    paused = replace(said, pieces=said.body.index(b"\n\n", said.body.index(b'"firs"')) + 2, pause=30)
    with ChatServer(paused) as server, pytest.raises(StreamBroken, match=r"sent nothing for 1 s"):
        ask(server, limits=HttpLimits(connect=5, first_byte=20, between=1))

    async def drive(session: AnthropicSession) -> None:
        session.say("x")
        begun = asyncio.Event()
        task = asyncio.create_task(session.stream_turn(lambda event: begun.set()))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with ChatServer(paused) as server:
        converse(server, drive)


def test_the_vendors_key_goes_to_its_server_only() -> None:
    environ = {"ANTHROPIC_API_KEY": KEY, "OPENAI_API_KEY": "sk-other"}

    def found(base_url: str | None, **more: str) -> tuple[str, str | None]:
        endpoint = resolve_endpoint(base_url, "claude", None, {**environ, **more}, vendor=PROVIDERS["anthropic"].vendor)
        assert endpoint is not None
        return endpoint.base_url, endpoint.key_env

    vendor = "https://api.anthropic.com/v1"
    assert found(None) == (vendor, "ANTHROPIC_API_KEY")
    assert found("https://api.anthropic.com/v1/messages") == (vendor, "ANTHROPIC_API_KEY")
    assert found("https://elsewhere.example") == ("https://elsewhere.example/v1", None)
    proxy = "https://proxy.example/anthropic"
    assert found(None, ANTHROPIC_BASE_URL=proxy) == (proxy + "/v1", "ANTHROPIC_API_KEY")
    assert found(vendor, ANTHROPIC_BASE_URL=proxy) == (vendor, None)
    with pytest.raises(ConfigError, match="set ANTHROPIC_API_KEY"):
        resolve_endpoint(None, "claude", None, {"OPENAI_API_KEY": "sk-other"}, vendor=PROVIDERS["anthropic"].vendor)


@pytest.mark.parametrize(
    ("recorded", "same"),
    [("", True), ("claude-x-4-20250929", True), ("claude-x-4-latest", True), ("claude-x-4-5", False), ("claude-x", False)],
)
def test_only_the_same_models_thinking_goes_back(recorded: str, same: bool) -> None:
    native = {"wire": "anthropic", "message": {"content": [SIGNED, {"type": "text", "text": "t"}]}}
    records = [{"role": "user", "text": "x"}, {"role": "assistant", "text": "t", "native": native, "model": recorded}]
    with ChatServer(text("ok")) as server:
        ask(server, records=records, model="claude-x-4")
        sent = server.requests[0]["messages"][1]["content"]
    assert [one["type"] for one in sent] == (["thinking", "text"] if same else ["text"])
