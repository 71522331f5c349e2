"""The Responses session over real HTTP, against a server that fails on request."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from agent.providers import Endpoint, HttpClient, HttpLimits
from agent.providers.openai_responses import ResponsesSession
from toolcrib import (
    AuthFailed,
    BadRequest,
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
    {"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object", "properties": {}}}}
    for name in ("read_file", "fs.write")
]
REASONED = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "hm"}],
    "encrypted_content": "Z0FBQUE=",
}


def converse(server: ChatServer, drive: Callable[[ResponsesSession], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        endpoint = Endpoint(server.base_url, "m", "OPENAI_API_KEY")
        client = HttpClient(endpoint, {"OPENAI_API_KEY": KEY}, options.pop("limits", None))
        session = ResponsesSession(client, model="m", **options)
        try:
            return await drive(session)
        finally:
            await session.close()
            await session.close()

    return asyncio.run(run())


def ask(server: ChatServer, events: list[StreamEvent] | None = None, **options: Any) -> Any:
    async def drive(session: ResponsesSession) -> Any:
        session.say("hello")
        return await session.stream_turn((events if events is not None else []).append)

    return converse(server, drive, **options)


def message(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [part]}


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    item = {"type": "function_call", "id": f"fc_{call_id}", "call_id": call_id, "name": name, "arguments": arguments}
    return {**item, "status": "completed"}


def whole(*items: dict[str, Any], response_id: str = "resp_1", **more: Any) -> dict[str, Any]:
    usage = {"input_tokens": 10, "output_tokens": 5, "input_tokens_details": {"cached_tokens": 4}}
    head = {"object": "response", "id": response_id, "model": "m", "status": "completed", "error": None}
    return {**head, "output": list(items), "usage": usage, **more}


def reply(*items: dict[str, Any], response_id: str = "resp_1", **how: Any) -> Response:
    """Return a streamed reply; text and arguments in pieces of four characters."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": response_id, "status": "in_progress"}}]
    for index, item in enumerate(items):
        kind, text = "", ""
        if item["type"] == "message":
            kind, text = "output_text", item["content"][0]["text"]
        elif item["type"] == "function_call":
            kind, text = "function_call_arguments", item["arguments"]
        blank = {key: value for key, value in item.items() if key not in ("content", "arguments")}
        events.append({"type": "response.output_item.added", "output_index": index, "item": blank})
        for at in range(0, len(text), 4):
            place = {"output_index": index, "item_id": item["id"], "delta": text[at : at + 4]}
            events.append({"type": f"response.{kind}.delta", **place})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": whole(*items, response_id=response_id)})
    return Response("".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events).encode(), **how)


def text(said: str, **how: Any) -> Response:
    return reply(message(said), **how)


def refuse(said: str, status: int = 400, **more: Any) -> Response:
    return ChatServer.body({"error": {"message": said, "type": "invalid_request_error", **more}}, status)


def ran(turn: Any, *results: ToolResult) -> list[ExecutedCall]:
    return [ExecutedCall(one, result, ToolCallStatus.SUCCEEDED) for one, result in zip(turn.tool_calls, results, strict=False)]


async def task(session: ResponsesSession, events: list[StreamEvent]) -> Any:
    """Run two calls (the second without a result), one more, and a message instead of its result."""
    session.say("hello")
    first = await session.stream_turn(events.append)
    await session.append_tool_results(first, ran(first, ToolResult.success("f", {"a": 1})))
    await session.stream_turn(events.append)
    session.say("never mind")
    return first, await session.stream_turn(events.append)


FIRST = (REASONED, message("Let me"), call("c1", "read_file", '{"p": 1}'), call("c2", "fs_write", "{}"))
SECOND = ({"type": "web_search_call", "id": "ws", "status": "completed"}, call("c1", "fs_write", "{}"))


def test_004_13_x_1_items_go_back_unchanged_and_then_one_output_a_call() -> None:
    """004-13, X-1: reasoning is sent too, and a call id that the server repeats is replaced."""
    events: list[StreamEvent] = []
    with ChatServer(reply(*FIRST), reply(*SECOND), text("Done.")) as server:
        options = {"system": "Be brief.", "tools": TOOLS, "extra": {"reasoning": {"effort": "low"}}, "max_tokens": 99}
        first, last = converse(server, lambda session: task(session, events), **options)
        sent = server.requests
        assert server.paths == ["/v1/responses"] * 3
        assert server.headers[0]["authorization"] == f"Bearer {KEY}"
    assert [(one.name, one.args) for one in first.tool_calls] == [("read_file", {"p": 1}), ("fs.write", {})]
    assert (last.assistant_text, last.finish, last.model) == ("Done.", "stop", "m")
    assert last.usage == {"input": 10, "output": 5, "cached": 4}
    tool = {"type": "function", "name": "read_file", "description": "d", "strict": False}
    assert sent[0]["tools"][0] == {**tool, "parameters": {"type": "object", "properties": {}}}
    assert {key: value for key, value in sent[0].items() if key != "tools"} == {
        "model": "m",
        "stream": True,
        "store": False,
        "instructions": "Be brief.",
        "include": ["reasoning.encrypted_content"],
        "max_output_tokens": 99,
        "reasoning": {"effort": "low"},
        "input": [{"role": "user", "content": "hello"}],
    }
    missing = sent[1]["input"][-1]
    assert sent[1]["input"] == [
        {"role": "user", "content": "hello"},
        *FIRST,
        {"type": "function_call_output", "call_id": "c1", "output": '{"a": 1}'},
        {"type": "function_call_output", "call_id": "c2", "output": missing["output"]},
    ]
    assert "no result" in missing["output"]
    again = sent[2]["input"][8]
    assert again == {**SECOND[1], "call_id": again["call_id"]}
    assert again["call_id"] == sent[2]["input"][9]["call_id"] != "c1"
    assert sent[2]["input"][:7] == sent[1]["input"]
    assert sent[2]["input"][7] == SECOND[0]
    assert sent[2]["input"][10:] == [{"role": "user", "content": "never mind"}]
    assert "".join(one.text for one in events if one.kind == "assistant_delta") == "Let meDone."


def test_stored_replies_are_named_and_all_goes_where_the_server_forgot_them() -> None:
    gone = refuse("Previous response with id 'resp_b' not found.", code="previous_response_not_found")
    replies = (reply(*FIRST, response_id="resp_a"), reply(*SECOND, response_id="resp_b"), gone, text("Done."))
    with ChatServer(*replies) as server:
        converse(server, lambda session: task(session, []), stored=True)
        sent = server.requests
    assert [one["store"] for one in sent] == [True] * 4
    assert all("include" not in one for one in sent)
    assert [one.get("previous_response_id") for one in sent] == [None, "resp_a", "resp_b", None]
    assert [[item.get("type", item.get("role")) for item in one["input"]] for one in sent] == [
        ["user"],
        ["function_call_output"] * 2,
        ["function_call_output", "user"],
        ["user", "reasoning", "message", "function_call", "function_call"]
        + ["function_call_output"] * 2
        + ["web_search_call", "function_call", "function_call_output", "user"],
    ]


def test_records_become_items() -> None:
    """Native items are unchanged; another model's and another wire's rebuilt; for stored conversations only new ones are sent."""
    native = {"id": "resp_9", "output": [REASONED, call("c1", "read_file", "{ }")]}
    kept = {"wire": "responses", "message": native}
    neutral = [{"id": "x" * 70, "name": "fs.write", "args": {"x": 1}}]
    records = [
        {"role": "system", "text": "old"},
        {"role": "user", "text": "one"},
        {"role": "assistant", "text": "hm", "calls": neutral, "native": kept, "model": "other"},
        {"role": "results", "results": [{"call_id": "x" * 70, "name": "fs.write", "text": "ok", "is_error": False}]},
        {"role": "assistant", "text": "", "calls": [], "native": kept, "model": "m-2025"},
        {"role": "results", "results": [{"call_id": "c1", "name": "read_file", "text": "r", "is_error": False}]},
    ]
    with ChatServer(text("ok"), text("ok"), text("ok")) as server:
        ask(server, records=records, system="new", tools=TOOLS)
        ask(server, records=records, tools=TOOLS)
        ask(server, records=records, stored=True)
        first, second, stored = server.requests
    assert [one["instructions"] for one in (first, second, stored)] == ["new", "old", "old"]
    items = first["input"]
    assert items[1] == {"role": "assistant", "content": "hm"}
    assert (items[2]["name"], items[2]["arguments"], len(items[2]["call_id"])) == ("fs_write", '{"x": 1}', 64)
    assert items[3] == {"type": "function_call_output", "call_id": items[2]["call_id"], "output": "ok"}
    assert items[4:6] == native["output"]
    assert items[6] == {"type": "function_call_output", "call_id": "c1", "output": "r"}
    assert stored["previous_response_id"] == "resp_9"
    assert stored["input"] == [items[6], {"role": "user", "content": "hello"}]


LATER = ["function_call_output", "user", "message", "user"]


def test_reasoning_that_the_server_could_not_find_is_left_out() -> None:
    """The server stores nothing, so it can't find the item; it also refuses reasoning without a following item."""
    bare = {"type": "reasoning", "id": "rs_2", "summary": []}

    async def drive(session: ResponsesSession) -> None:
        for said in ("one", "two", "three"):
            session.say(said)
            await session.stream_turn(lambda event: None)

    with ChatServer(reply(bare, message("a"), call("c1", "f", "{}")), reply(message("b"), REASONED), text("c")) as server:
        converse(server, drive)
        items = server.requests[2]["input"]
    assert [item.get("type", item.get("role")) for item in items] == ["user", "assistant", "function_call", *LATER]
    assert items[1] == {"role": "assistant", "content": "a"}
    assert ["id" in item for item in items] == [False, False, False, False, False, True, False]


def test_what_a_server_does_not_know_is_left_out_once_and_for_all() -> None:
    refusals = (
        refuse("Encrypted content is not supported with this model.", param="include"),
        refuse("Your organization must be verified to stream this model; streaming is not allowed", param="stream"),
    )

    async def drive(session: ResponsesSession) -> Any:
        session.say("one")
        await session.stream_turn(events.append)
        session.say("two")
        return await session.stream_turn(lambda event: None)

    events: list[StreamEvent] = []
    answers = [ChatServer.body(whole(message("hi")))] * 2
    with ChatServer(*refusals, *answers) as server:
        turn = converse(server, drive)
        assert ["include" in one for one in server.requests] == [True, False, False, False]
        assert [one["stream"] for one in server.requests] == [True, True, False, False]
    assert turn.assistant_text == "hi"
    assert events == [StreamEvent("assistant_delta", "hi")]


@pytest.mark.parametrize("stored", [False, True])
def test_an_output_follows_its_call_if_the_server_requires_it(stored: bool) -> None:
    refusal = refuse("No tool output found for tool call c1")

    async def drive(session: ResponsesSession) -> None:
        for said in ("one", "two", "three"):
            session.say(said)
            await session.stream_turn(lambda event: None)

    first = reply(call("c1", "f", "{}"), message("a"), call("c2", "f", "{}"))
    records = [
        {"role": "user", "text": "zero"},
        {"role": "assistant", "text": "", "calls": [{"id": one, "name": "f", "args": {}} for one in ("d1", "d2")]},
    ]
    with ChatServer(first, refusal, text("b"), refusal) as server:
        with pytest.raises(BadRequest):
            converse(server, drive, records=records if stored else [])
        sent = [[item.get("call_id", item.get("role")) for item in one["input"]] for one in server.requests]
    before = ["user", "d1", "d1", "d2", "d2"] if stored else []
    assert sent[1][-5:] == ["assistant", "c2", "c1", "c2", "user"]
    assert sent[2] == [*before, "user", "c1", "c1", "assistant", "c2", "c2", "user"]
    assert sent[3][: len(sent[2])] == sent[2]
    assert len(sent) == 4, "the same request is not sent twice"


def test_reasoning_goes_before_each_call_if_the_server_requires_it() -> None:
    reasoning = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    refusal = refuse("The `reasoning_text` in the thinking mode must be passed back to the API.")

    async def drive(session: ResponsesSession) -> None:
        for said in ("one", "two", "three"):
            session.say(said)
            await session.stream_turn(lambda event: None)

    first = reply(message("a"), reasoning, call("c1", "f", "{}"), call("c2", "f", "{}"))
    with ChatServer(first, refusal, text("b"), refusal, refusal) as server:
        with pytest.raises(BadRequest):
            converse(server, drive)
        sent = [[item.get("type", item.get("role")) for item in one["input"]] for one in server.requests]
    calls = ["user", "message", "reasoning", "function_call"]
    assert sent[1][:5] == [*calls, "function_call"]
    assert sent[2][:6] == sent[3][:6] == [*calls, "reasoning", "function_call"]
    assert len(sent) == 4, "the same request is not sent twice"


@pytest.mark.parametrize(
    ("response", "kind", "shown"),
    [
        (replace(refuse("slow down", 429), headers={"retry-after": "7"}), RateLimited, "7"),
        (refuse("busy", 503), Overloaded, "busy"),
        (refuse("Overloaded", 529), Overloaded, "Overloaded"),
        (refuse("Incorrect API key provided: " + KEY, 401), AuthFailed, "OPENAI_API_KEY"),
        (
            refuse("Your input exceeds the context window of this model.", code="context_length_exceeded"),
            ContextTooLong,
            "too long",
        ),
        (refuse("no such model", 404), BadRequest, "check the base URL"),
        (refuse("bad temperature"), BadRequest, "bad temperature"),
        (Response(b"<html>hi</html>", content_type="text/html"), StreamBroken, "web page"),
        (ChatServer.body({"hello": 1}), StreamBroken, "not a response"),
        (ChatServer.body(whole(status="failed", error={"code": "server_error", "message": "it broke"})), Overloaded, "it broke"),
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


def test_x_4_an_error_in_the_middle_keeps_the_text_and_can_be_asked_again() -> None:
    """X-4: the same holds for a stream that is cut or stalls. The second request equals the first."""
    said = text("Once upon a time")
    middle = said.body.index(b"event: response.output_item.done")
    error = b'event: error\ndata: {"type": "error", "error": {"code": "rate_limit_exceeded", "message": "slow down"}}\n\n'

    async def drive(session: ResponsesSession) -> Any:
        session.say("hello")
        for kind, retryable in ((RateLimited, True), (StreamBroken, True), (StreamBroken, False)):
            with pytest.raises(kind) as caught:
                await session.stream_turn(lambda event: None)
            assert caught.value.text == "Once upon a time"
            assert caught.value.retryable is retryable
        return await session.stream_turn(lambda event: None)

    broken = (replace(said, body=said.body[:middle] + error), replace(said, cut=middle), replace(said, pieces=middle, pause=30))
    with ChatServer(*broken, said) as server:
        turn = converse(server, drive, limits=HttpLimits(connect=5, first_byte=20, between=1))
        assert turn.assistant_text == "Once upon a time"
        assert all(one == server.requests[0] for one in server.requests)
