"""The session over real HTTP, against a server that fails on request."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from agent.providers import Endpoint, HttpClient, HttpLimits
from agent.providers.openai_chat import OpenAIChatSession
from toolcrib import (
    AuthFailed,
    BadRequest,
    ConnectionFailed,
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

KEY = "sk-very-secret-0123456789"
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object"}}}
    for name in ("read_file", "fs.write", "fs_write")
]
ELSEWHERE = "https://u:p@elsewhere.example/v1/chat/completions"
QUICK = HttpLimits(connect=5, first_byte=20, between=1)


def converse(
    server: ChatServer,
    drive: Callable[[OpenAIChatSession], Awaitable[Any]],
    *,
    limits: HttpLimits | None = None,
    key: bool = False,
    base_url: str = "",
    **options: Any,
) -> Any:
    async def run() -> Any:
        endpoint = Endpoint(base_url or server.base_url, "m", "OPENAI_API_KEY" if key else None)
        session = OpenAIChatSession(HttpClient(endpoint, {"OPENAI_API_KEY": KEY}, limits), model="m", **options)
        try:
            return await drive(session)
        finally:
            await session.close()
            await session.close()

    return asyncio.run(run())


def ask(server: ChatServer, events: list[StreamEvent] | None = None, **options: Any) -> Any:
    async def drive(session: OpenAIChatSession) -> Any:
        session.say("hello")
        return await session.stream_turn((events if events is not None else []).append)

    return converse(server, drive, **options)


def done(turn: Any, *data: Any) -> list[ExecutedCall]:
    return [
        ExecutedCall(call, ToolResult.success(call.name, one), ToolCallStatus.SUCCEEDED)
        for call, one in zip(turn.tool_calls, data, strict=False)
    ]


def test_000_14_x_1_004_12_calls_and_results_go_back_as_the_wire_wants_them() -> None:
    """000-14 the request; X-1 one result per call, in order, including missing ones; 004-12 the native turn unchanged."""
    replies = (
        ChatServer.calls(("read_file", {"path": "ü"}), ("fs_write_93d4a37b", '{"a": 1'), ids=("c1", "c2"), text="Let me"),
        ChatServer.calls(("fs_write", {}), ids=("c3",)),
        ChatServer.text("All done."),
    )

    async def drive(session: OpenAIChatSession) -> Any:
        session.say("hello")
        first = await session.stream_turn(events.append)
        await session.append_tool_results(first, done(first, {"text": "x"})[:1])
        second = await session.stream_turn(events.append)
        session.say("never mind")
        return first, second, await session.stream_turn(events.append)

    events: list[StreamEvent] = []
    with ChatServer(*replies) as server:
        first, _, third = converse(server, drive, system="Be brief.", tools=TOOLS, extra={"temperature": 0})
        sent = server.requests
        assert server.paths == ["/v1/chat/completions"] * 3
    assert first.tool_calls[0].name == "read_file"
    assert first.tool_calls[1].fault is not None
    assert (third.assistant_text, third.finish, third.usage, third.model) == (
        "All done.",
        "stop",
        {"input": 10, "output": 5},
        "test-model",
    )
    assert sent[0] | {"tools": 0} == {
        "model": "m",
        "stream": True,
        "stream_options": {"include_usage": True},
        "temperature": 0,
        "tools": 0,
        "messages": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "hello"}],
    }
    messages = sent[2]["messages"]
    assert [one["role"] for one in messages] == ["system", "user", "assistant", "tool", "tool", "assistant", "tool", "user"]
    assert messages[2] == first.assistant_turn
    assert messages[2]["tool_calls"][0]["function"] == {"name": "read_file", "arguments": '{"path": "\\u00fc"}'}
    assert [one["tool_call_id"] for one in messages if one["role"] == "tool"] == ["c1", "c2", "c3"]
    assert json.loads(messages[3]["content"]) == {"text": "x"}
    assert "no result" in messages[4]["content"]
    assert [one["tools"] for one in sent] == [sent[0]["tools"]] * 3
    assert "".join(one.text for one in events if one.kind == "assistant_delta") == "Let meAll done."


def test_names_that_the_wire_refuses_are_mapped_and_back() -> None:
    with ChatServer(ChatServer.text("ok")) as probe:
        ask(probe, tools=TOOLS)
        names = [one["function"]["name"] for one in probe.requests[0]["tools"]]
    assert (names[0], names[2]) == ("read_file", "fs_write")
    assert names[1] != "fs_write"
    events: list[StreamEvent] = []
    with ChatServer(ChatServer.calls((names[1], {}), ("fs_write", {}), ("unknown", {}))) as server:
        turn = ask(server, events, tools=TOOLS)
    assert [one.name for one in turn.tool_calls] == ["fs.write", "fs_write", "unknown"]
    assert {one.name for one in events} == {"fs.write", "fs_write", "unknown"}
    assert turn.assistant_turn["tool_calls"][0]["function"]["name"] == names[1]


def test_records_become_messages() -> None:
    """Native messages are unchanged, those of other wires rebuilt, and a call without a result is completed."""
    function = {"name": "f", "arguments": "{ }"}
    calls = [{"id": "a", "type": "function", "function": function, "extra_content": 1}]
    native = {"role": "assistant", "content": None, "tool_calls": calls}
    records = [
        {"role": "system", "text": "old"},
        {"role": "user", "text": "one"},
        {"role": "assistant", "text": "", "calls": [], "native": {"wire": "chat", "message": native}, "model": "m-2025"},
        {"role": "results", "results": [{"call_id": "a", "name": "f", "text": "r", "is_error": False}]},
        {"role": "assistant", "text": "", "calls": [], "native": {"wire": "chat", "message": native}, "model": "other"},
        {"role": "user", "text": "two"},
        {
            "role": "assistant",
            "text": "hm",
            "calls": [{"id": "b", "name": "fs.write", "args": {"x": 1}}],
            "native": {"wire": "x"},
        },
    ]
    with ChatServer(ChatServer.text("ok"), ChatServer.text("ok")) as server:
        ask(server, records=records, system="new")
        ask(server, records=records)
        messages, kept = (one["messages"] for one in server.requests)
    assert (messages[0]["content"], kept[0]["content"]) == ("new", "old")
    assert messages[2] == native
    assert messages[3] == {"role": "tool", "tool_call_id": "a", "content": "r"}
    assert "extra_content" not in messages[4]["tool_calls"][0], "one model's signatures are not for another"
    assert "no result" in messages[5]["content"]
    assert messages[7]["content"] == "hm"
    assert messages[7]["tool_calls"][0]["function"] == {"name": "fs_write", "arguments": '{"x": 1}'}
    assert messages[8]["tool_call_id"] == "b"


@pytest.mark.parametrize("pieces", [0, 1, 7])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_x_10_the_same_at_any_framing(pieces: int, newline: str) -> None:
    """X-10 over the socket."""
    with ChatServer(ChatServer.text("Grüße \U0001f600\u2028!", piece=3, pieces=pieces, newline=newline)) as server:
        events: list[StreamEvent] = []
        assert ask(server, events).assistant_text == "Grüße \U0001f600\u2028!"
    assert len(events) == 3


WHOLE = {"model": "m", "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}]}


@pytest.mark.parametrize("content_type", ["application/json", "text/plain"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_whole_reply_is_read_whether_a_stream_was_asked_for_or_not(stream: bool, content_type: str) -> None:
    events: list[StreamEvent] = []
    with ChatServer(replace(ChatServer.body(WHOLE, pieces=5), content_type=content_type)) as server:
        assert ask(server, events, stream=stream).assistant_text == "hi"
        assert server.requests[0]["stream"] is stream
    assert events == [StreamEvent("assistant_delta", "hi")]


def refuse(message: str, status: int = 400, **more: Any) -> Response:
    return ChatServer.body({"error": {"message": message, **more}}, status)


def test_what_a_server_does_not_know_is_left_out_once_and_for_all() -> None:
    refusals = (
        refuse("Unrecognized request argument supplied: stream_options"),
        refuse("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        refuse("this model does not support streaming"),
    )

    async def drive(session: OpenAIChatSession) -> None:
        for text in ("one", "two"):
            session.say(text)
            await session.stream_turn(lambda event: None)

    with ChatServer(*refusals, ChatServer.body(WHOLE), ChatServer.body(WHOLE)) as server:
        converse(server, drive, max_tokens=9)
        sent = server.requests
    assert ["stream_options" in one for one in sent] == [True, False, False, False, False]
    assert [one["stream"] for one in sent] == [True, True, True, False, False]
    assert [one.get("max_completion_tokens") for one in sent] == [None, None, 9, 9, 9]


@pytest.mark.parametrize(
    ("response", "kind", "shown"),
    [
        (refuse("slow down, try again in 1m2.5s", 429), RateLimited, "slow down"),
        (replace(refuse("x", 429), headers={"Retry-After": "7"}), RateLimited, "fewer requests"),
        (refuse("You exceeded", 429, code="insufficient_quota"), RateLimited, "quota is spent"),
        (refuse("broken", 500), Overloaded, "broken"),
        (replace(refuse("busy", 503), headers={"Retry-After": "3"}), Overloaded, "busy"),
        (refuse("Incorrect API key provided: " + KEY, 401), AuthFailed, "OPENAI_API_KEY"),
        (refuse("no", 403), AuthFailed, "OPENAI_API_KEY"),
        (refuse("This model's maximum context length is 8192", code="context_length_exceeded"), ContextTooLong, "too long"),
        (refuse("request (9000 tokens) exceeds the available context size (4096 tokens)", 500), ContextTooLong, "too long"),
        (refuse("Prompt contains 40000 tokens, too large for model with 32768 maximum context length"), ContextTooLong, "40000"),
        (refuse("too big", 413), ContextTooLong, "too long"),
        (refuse("no such model", 404), BadRequest, "check the base URL"),
        (Response(b"<html>Bad gateway</html>", 502, content_type="text/html"), Overloaded, "Bad gateway"),
        (
            Response(b"", 307, {"Location": ELSEWHERE + "?k=1"}),
            BadRequest,
            "https://elsewhere.example/v1/chat/completions, which",
        ),
        (Response(b"<html>Welcome</html>", content_type="text/html"), StreamBroken, "web page"),
        (Response(b"SSH-2.0-OpenSSH\r\n"), StreamBroken, "SSH-2.0"),
        (Response(b"{nonsense", content_type="application/json"), StreamBroken, "not JSON"),
        (Response(b"data: {nonsense\n\n"), StreamBroken, "not JSON"),
        (Response(b"\x00\xff" * 500, content_type="application/octet-stream"), StreamBroken, "not an event stream"),
        (ChatServer.body({"hello": 1}), StreamBroken, "not a chat completion"),
        (Response(b""), StreamBroken, "not an event stream"),
    ],
)
def test_000_42_every_refusal_has_its_kind_and_words(response: Response, kind: type[ProviderError], shown: str) -> None:
    """000-42: the error has status and body. The key is in no header to another host, no error and no repr."""
    with ChatServer(response) as server, pytest.raises(kind) as caught:
        ask(server, key=True)
    assert shown in str(caught.value)
    assert KEY not in f"{caught.value!r} {caught.value.body} {caught.value.__dict__}"
    assert caught.value.status == (response.status if response.status != 200 else 0)
    assert len(server.requests) == 1
    assert server.headers[0]["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    ("response", "seconds"),
    [
        (replace(refuse("x", 429), headers={"Retry-After": "7"}), 7.0),
        (replace(refuse("x", 429), headers={"retry-after-ms": "1500", "Retry-After": "2"}), 1.5),
        (replace(refuse("x", 429), headers={"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}), 0.0),
        (refuse("Please try again in 1m2.5s. Visit", 429), 62.5),
        (refuse("Please try again in 20ms.", 429), 0.02),
        (refuse("x", 429), None),
        (replace(refuse("x", 429), headers={"Retry-After": "soon"}), None),
    ],
)
def test_how_long_to_wait_is_read(response: Response, seconds: float | None) -> None:
    with ChatServer(response) as server, pytest.raises(RateLimited) as caught:
        ask(server)
    assert caught.value.retry_after == seconds
    assert caught.value.retryable


def test_x_4_an_error_after_text_keeps_the_text_and_is_not_asked_again() -> None:
    """X-4: the request is not retried even if the error names a field that could be omitted."""
    error = {"error": {"message": "stream_options broke the stream", "status_code": 400, "failed_generation": "{"}}
    with ChatServer(ChatServer.stream({"choices": [{"delta": {"content": "so far"}}]}, error)) as server:
        with pytest.raises(BadRequest) as caught:
            ask(server)
        assert len(server.requests) == 1
    assert (caught.value.text, caught.value.failed_generation) == ("so far", "{")


def test_a_cut_stream_keeps_its_text_and_can_be_asked_again() -> None:
    async def drive(session: OpenAIChatSession) -> Any:
        session.say("hello")
        with pytest.raises(StreamBroken, match="was lost in the middle") as caught:
            await session.stream_turn(lambda event: None)
        assert caught.value.text.startswith("Once upo")
        assert caught.value.retryable
        return await session.stream_turn(lambda event: None)

    text = ChatServer.text("Once upon a time there was")
    with ChatServer(replace(text, cut=300), text) as server:
        assert converse(server, drive).assistant_text == "Once upon a time there was"
        assert server.requests[0] == server.requests[1]


def test_a_reply_whose_trailer_is_cut_is_whole() -> None:
    text = ChatServer.text("all of it")
    with ChatServer(replace(text, cut=len(text.body) - 8)) as server:
        assert ask(server).assistant_text == "all of it"


def first_event(response: Response) -> int:
    return response.body.index(b"\n\n") + 2


def test_slow_servers_are_given_up_and_slow_streams_are_not() -> None:
    text = ChatServer.text("slow")
    with (
        ChatServer(replace(text, delay=30)) as server,
        pytest.raises(ConnectionFailed, match=r"did not start its answer in 0\.3 s"),
    ):
        ask(server, limits=replace(QUICK, connect=0.1, first_byte=0.3))
    with ChatServer(replace(text, pieces=first_event(text), pause=30)) as server:
        with pytest.raises(StreamBroken, match=r"sent nothing for 1 s") as caught:
            ask(server, limits=QUICK)
        assert caught.value.text == "slow"
    with ChatServer(replace(text, pieces=20, pause=0.02)) as server:
        assert ask(server, limits=QUICK).assistant_text == "slow"


def test_an_endless_answer_is_cut_off() -> None:
    with ChatServer(ChatServer.text("x" * 5000)) as server, pytest.raises(StreamBroken, match="more than 1,000 bytes"):
        ask(server, limits=HttpLimits(max_body=1000))


def test_nobody_listens() -> None:
    with ChatServer() as server:
        address = server.base_url
    with pytest.raises(ConnectionFailed, match=r"could not connect to 127\.0\.0\.1:\d+: .*check that the model server runs"):
        ask(server, base_url=address)


def test_cancelling_closes_the_stream() -> None:
    async def drive(session: OpenAIChatSession) -> list[str]:
        session.say("x")
        seen: list[str] = []
        begun = asyncio.Event()

        def on_event(event: StreamEvent) -> None:
            seen.append(event.text)
            begun.set()

        task = asyncio.create_task(session.stream_turn(on_event))
        await begun.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return seen

    text = ChatServer.text("first and then")
    with ChatServer(replace(text, pieces=first_event(text), pause=30)) as server:
        assert converse(server, drive) == ["first an"]


def test_the_key_is_in_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with ChatServer(ChatServer.text("ok")) as server:
        ask(server, key=True)
    assert caplog.records
    assert KEY not in caplog.text


def test_several_turns_over_one_client() -> None:
    async def drive(session: OpenAIChatSession) -> Sequence[str]:
        texts = []
        for _ in range(3):
            session.say("x")
            texts.append((await session.stream_turn(lambda event: None)).assistant_text)
        return texts

    with ChatServer(*[ChatServer.text("ok")] * 3) as server:
        assert converse(server, drive) == ["ok"] * 3
