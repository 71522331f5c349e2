"""Images in each wire's own form: from the person, from tools, from the model; live, and from records (004-21)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import pytest

from agent.protocols import find_protocol
from agent.providers import Endpoint, HttpClient
from agent.providers.anthropic import AnthropicSession
from agent.providers.gemini import GeminiSession
from agent.providers.manual import ManualSession
from agent.providers.openai_chat import OpenAIChatSession
from agent.providers.openai_responses import ResponsesSession
from agent.providers.text import TextSession
from toolcrib import ExecutedCall, Image, ProviderTurn, ToolCallStatus, ToolcribError, ToolResult
from toolcrib.testing import ChatServer, Response

PNG = Image.of(b"\x89PNG\r\n\x1a\n first")
JPEG = Image.of(b"\xff\xd8\xff second")
PNG_URL = f"data:image/png;base64,{PNG.base64}"
JPEG_URL = f"data:image/jpeg;base64,{JPEG.base64}"
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object", "properties": {}}}}
    for name in ("plot", "fail")
]


def tagged(client: HttpClient, **options: Any) -> TextSession:
    return TextSession(client, **{"protocol": find_protocol("tags"), **options})


SESSIONS: Mapping[str, Callable[..., Any]] = {
    "chat": OpenAIChatSession,
    "responses": ResponsesSession,
    "anthropic": AnthropicSession,
    "gemini": GeminiSession,
    "text": tagged,
}
HISTORY = {"responses": "input", "gemini": "contents"}


def converse(wire: str, server: ChatServer, drive: Callable[[Any], Awaitable[Any]], **options: Any) -> Any:
    async def run() -> Any:
        client = HttpClient(Endpoint(server.base_url, "m", None), {})
        session = SESSIONS[wire](client, **{"model": "m", "tools": TOOLS, "stream": False, **options})
        try:
            return await drive(session)
        finally:
            await session.close()

    return asyncio.run(run())


def sent(wire: str, request: Any) -> list[Any]:
    """Return a request's conversation, without the system prompt and the cache marks."""
    told = json.loads(json.dumps(request[HISTORY.get(wire, "messages")]).replace(', "cache_control": {"type": "ephemeral"}', ""))
    return [one for one in told if one.get("role") != "system"]


def reply(wire: str, *calls: str, said: str = "Hm.") -> Response:
    """Return a whole reply with text and calls."""
    body: dict[str, Any]
    if wire == "chat":
        made = [{"id": f"c_{n}", "type": "function", "function": {"name": n, "arguments": "{}"}} for n in calls]
        message = {"role": "assistant", "content": said, **({"tool_calls": made} if calls else {})}
        body = {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}]}
    elif wire == "text":
        content = said + "".join(f'<tool_call>{{"name": "{name}", "args": {{}}}}</tool_call>' for name in calls)
        body = {"model": "m", "choices": [{"message": {"role": "assistant", "content": content}, "finish_reason": "stop"}]}
    elif wire == "responses":
        part = {"type": "output_text", "text": said, "annotations": []}
        output = [{"type": "message", "role": "assistant", "status": "completed", "id": "msg", "content": [part]}]
        output += [{"type": "function_call", "call_id": f"c_{name}", "name": name, "arguments": "{}"} for name in calls]
        body = {"id": "r", "model": "m", "status": "completed", "output": output}
    elif wire == "anthropic":
        blocks = [{"type": "tool_use", "id": f"c_{name}", "name": name, "input": {}} for name in calls]
        body = {"model": "m", "content": [{"type": "text", "text": said}, *blocks], "stop_reason": "end_turn"}
    else:
        parts = [{"text": said}, *({"functionCall": {"id": f"c_{name}", "name": name, "args": {}}} for name in calls)]
        body = {"modelVersion": "m", "candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    return ChatServer.body(body)


def block(image: Image) -> dict[str, Any]:
    return {"type": "image", "source": {"type": "base64", "media_type": image.media_type, "data": image.base64}}


def inline(image: Image) -> dict[str, Any]:
    return {"inlineData": {"mimeType": image.media_type, "data": image.base64}}


def url(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": {PNG: PNG_URL, JPEG: JPEG_URL}[image]}}


def input_image(image: Image) -> dict[str, Any]:
    return {"type": "input_image", "image_url": {PNG: PNG_URL, JPEG: JPEG_URL}[image], "detail": "auto"}


SAID = {
    "chat": {"role": "user", "content": [{"type": "text", "text": "look"}, url(PNG), url(JPEG)]},
    "text": {"role": "user", "content": [{"type": "text", "text": "look"}, url(PNG), url(JPEG)]},
    "responses": {"role": "user", "content": [{"type": "input_text", "text": "look"}, input_image(PNG), input_image(JPEG)]},
    "anthropic": {"role": "user", "content": [block(PNG), block(JPEG), {"type": "text", "text": "look"}]},
    "gemini": {"role": "user", "parts": [inline(PNG), inline(JPEG), {"text": "look"}]},
}
RECORD = {"role": "user", "text": "look", "images": [PNG.to_json(), JPEG.to_json()]}


@pytest.mark.parametrize("wire", SAID)
def test_004_21_what_the_person_shows(wire: str) -> None:
    """Live and from a record the request is the same; an image may be sent without text."""

    async def drive(session: Any) -> None:
        session.say("look", [PNG, JPEG])
        await session.stream_turn(lambda event: None)
        session.say("", (PNG,))
        await session.stream_turn(lambda event: None)

    async def go_on(session: Any) -> None:
        await session.stream_turn(lambda event: None)

    with ChatServer(*(reply(wire) for _ in range(3))) as server:
        converse(wire, server, drive)
        converse(wire, server, go_on, records=[RECORD])
        first, second, recorded = (sent(wire, request) for request in server.requests)
    assert first == recorded == [SAID[wire]]
    alone = second[-1].get("content") or second[-1]["parts"]
    assert len(alone) == 1
    assert PNG.base64 in json.dumps(alone)


def test_a_person_who_types_the_calls_is_told() -> None:
    with pytest.raises(ToolcribError, match="no model is connected"):
        ManualSession(["plot"]).say("look", [PNG])


# -- results ---------------------------------------------------------------------------------------------------------------

PLOTTED = '{"points": 3}'


def outcome(turn: ProviderTurn) -> list[ExecutedCall]:
    """Return two outcomes: a success with two images, and a failure whose image must never be shown."""
    one, two = turn.tool_calls
    plotted = ToolResult.success_with_images("plot", {"points": 3}, [PNG, JPEG])
    failed = ToolResult("fail", plotted.status.ERROR, None, "no paper", images=[PNG])
    return [ExecutedCall(one, plotted, ToolCallStatus.SUCCEEDED), ExecutedCall(two, failed, ToolCallStatus.FAILED)]


FAILED = '{"error": "no paper"}'
LABEL = "images from plot:"
RESULTS: Mapping[str, list[Any]] = {
    "chat": [
        {"role": "tool", "tool_call_id": "c_plot", "content": PLOTTED},
        {"role": "tool", "tool_call_id": "c_fail", "content": FAILED},
        {"role": "user", "content": [{"type": "text", "text": LABEL}, url(PNG), url(JPEG)]},
    ],
    "responses": [
        {
            "type": "function_call_output",
            "call_id": "c_plot",
            "output": [{"type": "input_text", "text": PLOTTED}, input_image(PNG), input_image(JPEG)],
        },
        {"type": "function_call_output", "call_id": "c_fail", "output": FAILED},
    ],
    "gemini": [
        {
            "role": "user",
            "parts": [
                {"functionResponse": {"id": "c_plot", "name": "plot", "response": {"points": 3}}},
                {"functionResponse": {"id": "c_fail", "name": "fail", "response": {"error": "no paper"}}},
                {"text": LABEL},
                inline(PNG),
                inline(JPEG),
            ],
        }
    ],
    "anthropic": [
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c_plot",
                    "content": [block(PNG), block(JPEG), {"type": "text", "text": PLOTTED}],
                    "is_error": False,
                },
                {"type": "tool_result", "tool_use_id": "c_fail", "content": FAILED, "is_error": True},
            ],
        }
    ],
}


def recorded(turn: ProviderTurn, wire: str) -> list[Any]:
    """Return the conversation of the test below as the session stores it."""
    calls = [{"id": call.id, "name": call.name, "args": {}} for call in turn.tool_calls]
    shown = [image.to_json() for image in (PNG, JPEG)]
    results = [
        {"call_id": calls[0]["id"], "name": "plot", "text": PLOTTED, "is_error": False, "images": shown},
        {"call_id": calls[1]["id"], "name": "fail", "text": FAILED, "is_error": True, "images": shown[:1]},
    ]
    native = {"wire": wire, "message": turn.assistant_turn}
    return [
        {"role": "user", "text": "draw"},
        {"role": "assistant", "text": "Hm.", "calls": calls, "native": native, "model": "m"},
        {"role": "results", "results": results},
    ]


@pytest.mark.parametrize("wire", RESULTS)
def test_004_21_what_a_tool_brings_back(wire: str) -> None:
    """The image is beside the result if the wire supports that, else after all results. A failed call is only text."""

    async def drive(session: Any) -> ProviderTurn:
        session.say("draw")
        turn: ProviderTurn = await session.stream_turn(lambda event: None)
        await session.append_tool_results(turn, outcome(turn))
        await session.stream_turn(lambda event: None)
        return turn

    async def go_on(session: Any) -> None:
        await session.stream_turn(lambda event: None)

    with ChatServer(reply(wire, "plot", "fail"), reply(wire), reply(wire)) as server:
        turn = converse(wire, server, drive)
        converse(wire, server, go_on, records=recorded(turn, wire))
        _, live, again = (sent(wire, request) for request in server.requests)
    assert live[-len(RESULTS[wire]) :] == RESULTS[wire]
    assert again == live


@pytest.mark.parametrize(("protocol", "after"), [("tags", False), ("hermes", False), ("json_object", True)])
def test_004_21_a_text_protocol_shows_what_a_tool_brings_back(protocol: str, after: bool) -> None:
    """The image is in the results' message if its role is user, and in a message after it if its role is tool."""
    written = '{"action": {"tool": "plot", "args": {}}}'
    if not protocol.startswith("json"):
        written = '<tool_call>{"name": "plot", "arguments": {}}</tool_call>'

    async def drive(session: Any) -> None:
        session.say("draw")
        turn = await session.stream_turn(lambda event: None)
        (call,) = turn.tool_calls
        plotted = ToolResult.success_with_images("plot", {"points": 3}, [PNG, JPEG])
        await session.append_tool_results(turn, [ExecutedCall(call, plotted, ToolCallStatus.SUCCEEDED)])
        await session.stream_turn(lambda event: None)

    with ChatServer(reply("text", said=written), reply("text", said='{"final": {"content": "x"}}')) as server:
        converse("text", server, drive, protocol=find_protocol(protocol))
        _, second = (sent("text", request) for request in server.requests)
    *_, before, last = second
    assert last["role"] == "user"
    *told, label, one, two = last["content"]
    assert [label, one, two] == [{"type": "text", "text": LABEL}, url(PNG), url(JPEG)]
    assert (before["role"] == "tool", len(told)) == ((True, 0) if after else (False, 1))
    assert "points" in (before["content"] if after else told[0]["text"])


# -- images that a model draws ---------------------------------------------------------------------------------------------


def chat_delta(**delta: Any) -> dict[str, Any]:
    return {"model": "m", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}


DONE = {"model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
FAR = {"type": "image_url", "image_url": {"url": "https://example.org/far.png"}}
IMAGE_CALL = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG.base64}
RESPONSE = {"id": "r", "model": "m", "status": "completed", "output": [IMAGE_CALL]}
PARTS = [{"thought": True, **inline(JPEG)}, {"text": "Here:"}, {"thoughtSignature": "c2ln", **inline(PNG)}]
CONTENT = {"role": "model", "parts": PARTS}


def pieces(*parts: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"modelVersion": "m", "candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts
    ]
    found[-1]["candidates"][0]["finishReason"] = "STOP"
    return found


DRAWN: Mapping[str, tuple[list[Response], list[Any]]] = {
    "chat": (
        [
            # The last piece may repeat all of them.
            ChatServer.stream(chat_delta(content=""), chat_delta(images=[url(PNG), FAR]), chat_delta(images=[url(PNG)]), DONE),
            ChatServer.body(
                {"model": "m", "choices": [{"message": {"content": "", "images": [url(PNG), FAR]}, "finish_reason": "stop"}]}
            ),
        ],
        [{"role": "assistant", "content": "", "images": [url(PNG), FAR]}],
    ),
    "responses": (
        [
            ChatServer.stream(
                {"type": "response.output_item.added", "output_index": 0, "item": {**IMAGE_CALL, "result": None}},
                {"type": "response.image_generation_call.partial_image", "output_index": 0, "partial_image_b64": JPEG.base64},
                {"type": "response.output_item.done", "output_index": 0, "item": IMAGE_CALL},
                {"type": "response.completed", "response": RESPONSE},
                done=False,
            ),
            ChatServer.body(RESPONSE),
        ],
        [IMAGE_CALL],
    ),
    "gemini": (
        [
            ChatServer.stream(*pieces(*PARTS), done=False),
            ChatServer.body({"modelVersion": "m", "candidates": [{"content": CONTENT, "finishReason": "STOP"}]}),
        ],
        [CONTENT],
    ),
}


@pytest.mark.parametrize("streamed", [True, False])
@pytest.mark.parametrize("wire", DRAWN)
def test_004_21_what_the_model_draws(wire: str, streamed: bool) -> None:
    """The image is part of the turn. Its native form is sent back unchanged, live and from a record."""
    replies, native = DRAWN[wire]

    async def drive(session: Any) -> Any:
        session.say("draw")
        turn = await session.stream_turn(lambda event: None)
        session.say("bigger")
        await session.stream_turn(lambda event: None)
        return turn

    async def go_on(session: Any) -> None:
        session.say("bigger")
        await session.stream_turn(lambda event: None)

    with ChatServer(replies[0 if streamed else 1], reply(wire), *(reply(other) for other in SESSIONS if other != wire)) as server:
        turn = converse(wire, server, drive, stream=streamed)
        assert turn.images == (PNG,)
        record = {"role": "assistant", "text": turn.assistant_text, "calls": [], "model": "m", "images": [PNG.to_json()]}
        record["native"] = {"wire": wire, "message": turn.assistant_turn}
        records = [{"role": "user", "text": "draw"}, record]
        live = sent(wire, server.requests[1])
        assert live[1:-1] == native
        for other in SESSIONS:
            if other != wire:  # those wires take no assistant images: the user message has it
                converse(other, server, go_on, records=[*records, {"role": "user", "text": "look"}])
                told = json.dumps(sent(other, server.requests[-1]))
                assert told.count(PNG.base64) == 1
                assert JPEG.base64 not in told
        server.responses.append(reply(wire))
        converse(wire, server, go_on, records=records)
        assert sent(wire, server.requests[-1]) == live


def test_what_is_no_image_stays_in_the_native_reply_alone() -> None:
    odd = [{"type": "image_url", "image_url": address} for address in ("data:image/png;base64,!", {"url": 1}, PNG_URL)]
    svg = {"type": "image_url", "image_url": {"url": f"data:image/svg+xml;base64,{base64.b64encode(b'<svg/>').decode()}"}}
    images = [*odd, svg, "x", {"image_url": None}]
    message = {"role": "assistant", "content": "Two.", "images": images}

    async def drive(session: Any) -> Any:
        session.say("draw")
        return await session.stream_turn(lambda event: None)

    with ChatServer(ChatServer.body({"model": "m", "choices": [{"message": message, "finish_reason": "stop"}]})) as server:
        turn = converse("chat", server, drive)
    assert turn.images == (PNG,)
    assert turn.assistant_turn["images"] == images
