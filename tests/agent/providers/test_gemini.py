"""The Gemini session over real HTTP: its requests, how it continues, and what it does after a refusal."""

from __future__ import annotations

import asyncio
import base64
import json
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.providers import Endpoint, HttpClient, HttpLimits
from agent.providers._history import NO_SIGNATURE
from agent.providers.gemini import GeminiSession
from toolcrib import (
    AuthFailed,
    BadRequest,
    ExecutedCall,
    ProviderTurn,
    StreamBroken,
    StreamEvent,
    ToolCall,
    ToolCallStatus,
    ToolResult,
)
from toolcrib.testing import ChatServer, Response

KEY = "very-secret-0123456789"
SCHEMA = {"$schema": "x", "type": "object", "properties": {"path": {"type": "string"}}, "additionalProperties": False}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": SCHEMA}}
    for name in ("read_file", "fs.write")
]


def converse(
    server: ChatServer,
    drive: Callable[[GeminiSession], Awaitable[Any]],
    *,
    limits: HttpLimits | None = None,
    model: str = "gemini-3-test",
    **options: Any,
) -> Any:
    async def run() -> Any:
        client = HttpClient(Endpoint(server.base_url, model, "GEMINI_API_KEY"), {"GEMINI_API_KEY": KEY}, limits)
        session = GeminiSession(client, model=model, **options)
        try:
            return await drive(session)
        finally:
            await session.close()
            await session.close()

    return asyncio.run(run())


def ask(server: ChatServer, text: str = "hi", events: list[StreamEvent] | None = None, **options: Any) -> ProviderTurn:
    async def drive(session: GeminiSession) -> Any:
        session.say(text)
        return await session.stream_turn((events if events is not None else []).append)

    turn = converse(server, drive, **options)
    assert isinstance(turn, ProviderTurn)
    return turn


def reply(*parts: dict[str, Any], finish: str = "STOP") -> dict[str, Any]:
    return {
        "candidates": [{"content": {"role": "model", "parts": list(parts)}, "finishReason": finish}],
        "modelVersion": "gemini-3-test-001",
        "usageMetadata": {"promptTokenCount": 7, "candidatesTokenCount": 3, "thoughtsTokenCount": 4},
    }


def streamed(*replies: dict[str, Any], **how: Any) -> Response:
    return ChatServer.stream(*replies, done=False, newline="\r\n", **how)


def call(name: str, signature: str | None = None, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": name, **more}, **({} if signature is None else {"thoughtSignature": signature})}


def done(calls: Iterable[ToolCall], *data: Any) -> list[ExecutedCall]:
    results = zip(calls, data, strict=True)
    return [ExecutedCall(one, ToolResult.success(one.name, value), ToolCallStatus.SUCCEEDED) for one, value in results]


def refuse(message: str, status: int = 400) -> Response:
    return ChatServer.body({"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}}, status)


# -- a conversation ----------------------------------------------------------------------------------------------------


def test_004_12_004_15_x_1_x_2_a_conversation() -> None:
    """004-12, 004-15, X-1, X-2: the request; the content unchanged; one content of role user with a part for each result."""
    first = [
        {"text": "hm", "thought": True, "thoughtSignature": "t+/="},
        call("read_file", "sig+/==", args={"path": "a"}, id="g1"),
        call("fs_write", args={"path": "ü"}),
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"text": "", "thoughtSignature": "end"},
    ]
    events: list[StreamEvent] = []

    async def drive(session: GeminiSession) -> Any:
        session.say("hello")
        one = await session.stream_turn(events.append)
        await session.append_tool_results(one, done(one.tool_calls, {"text": "x"}, "plain"))
        two = await session.stream_turn(events.append)
        session.say("never mind")
        return one, two, await session.stream_turn(events.append)

    replies = (streamed(reply(*first)), streamed(reply(call("read_file", "s2"))), streamed(reply({"text": "All done."})))
    options = {
        "system": "Be brief.",
        "tools": TOOLS,
        "max_tokens": 99,
        "thinking": 512,
        "extra": {"generationConfig": {"temperature": 0}, "tools": [{"googleSearch": {}}], "safetySettings": []},
    }
    with ChatServer(*replies) as server:
        one, _, three = converse(server, drive, **options)
        sent, headers = server.requests, server.headers
        assert server.paths == ["/v1/models/gemini-3-test:streamGenerateContent?alt=sse"] * 3
    assert [(done.name, done.args) for done in one.tool_calls] == [("read_file", {"path": "a"}), ("fs.write", {"path": "ü"})]
    assert one.tool_calls[0].id == "g1"
    assert (one.reasoning, three.assistant_text, three.finish, three.model) == ("hm", "All done.", "stop", "gemini-3-test-001")
    assert three.usage == {"input": 7, "output": 7, "reasoning": 4}
    assert headers[0]["x-goog-api-key"] == KEY
    assert "authorization" not in headers[0]
    declared = {key: value for key, value in SCHEMA.items() if key != "$schema"}
    assert sent[0] == {
        "contents": [{"role": "user", "parts": [{"text": "hello"}]}],
        "systemInstruction": {"parts": [{"text": "Be brief."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {"name": name, "description": "d", "parametersJsonSchema": declared} for name in ("read_file", "fs_write")
                ]
            },
            {"googleSearch": {}},
        ],
        "safetySettings": [],
        "generationConfig": {
            "maxOutputTokens": 99,
            "temperature": 0,
            "thinkingConfig": {"includeThoughts": True, "thinkingBudget": 512},
        },
    }
    contents = sent[2]["contents"]
    assert [one["role"] for one in contents] == ["user", "model", "user", "model", "user", "user"]
    assert contents[1] == {"role": "model", "parts": first}
    assert contents[2]["parts"] == [
        {"functionResponse": {"id": "g1", "name": "read_file", "response": {"text": "x"}}},
        {"functionResponse": {"name": "fs_write", "response": {"result": "plain"}}},
    ]
    assert "no result" in contents[4]["parts"][0]["functionResponse"]["response"]["error"], "X-1"
    assert [one["tools"] for one in sent] == [sent[0]["tools"]] * 3
    assert {event.name for event in events if event.call_id} == {"read_file", "fs.write"}


def test_004_15_results_without_the_models_content_are_refused() -> None:
    """004-15: missing model content is an error; content that is not yet at the end of the history is sent before its results."""
    calls = (ToolCall("g1", "read_file", {}),)

    async def drive(session: GeminiSession) -> Any:
        session.say("hi")
        for content in (None, {}, {"role": "model"}, {"role": "model", "parts": [{"text": "no call"}]}):
            with pytest.raises(BadRequest, match="content is missing"):
                await session.append_tool_results(ProviderTurn("", calls, content), done(calls, {}))
        turn = ProviderTurn("", calls, {"role": "model", "parts": [call("read_file", "s", id="g1")]})
        await session.append_tool_results(turn, done(calls, {"x": 1}))
        return await session.stream_turn(lambda event: None)

    with ChatServer(streamed(reply({"text": "ok"}))) as server:
        converse(server, drive)
        contents = server.requests[0]["contents"]
    assert [one["role"] for one in contents] == ["user", "model", "user"]
    assert contents[1]["parts"][0]["thoughtSignature"] == "s"


@pytest.mark.parametrize("model", ["gemini-3-test", "gemini-2.5-flash"])
def test_records_become_contents(model: str) -> None:
    """Own content is unchanged; content of another wire or model is rebuilt, and its first call says why it has no signature."""
    content = {"role": "model", "parts": [{"text": "t", "thoughtSignature": "a"}, call("f", "b", args={"x": 1})]}
    native = {"wire": "gemini", "message": content}
    two = [{"id": "b1", "name": "fs.write", "args": {"x": 1}}, {"id": "b2", "name": "g", "args": {}}]
    records: list[dict[str, Any]] = [
        {"role": "system", "text": "old"},
        {"role": "user", "text": "one"},
        {
            "role": "assistant",
            "text": "t",
            "calls": [{"id": "a1", "name": "f", "args": {"x": 1}}],
            "native": native,
            "model": model,
        },
        {"role": "results", "results": [{"call_id": "a1", "name": "f", "text": '{"r": 1}', "is_error": False}]},
        {"role": "assistant", "text": "hm", "calls": two, "native": {"wire": "chat", "message": {}}, "model": "gpt"},
        {"role": "results", "results": [{"call_id": "b2", "name": "g", "text": "[1]", "is_error": False}]},
        {"role": "assistant", "text": "other", "calls": [], "native": native, "model": "gemini-other"},
    ]
    with ChatServer(streamed(reply({"text": "ok"})), streamed(reply({"text": "ok"}))) as server:
        ask(server, "go on", records=records, system="new", model=model, tools=TOOLS)
        ask(server, "go on", records=records, model=model, tools=TOOLS)
        new, old = server.requests
    assert new["systemInstruction"]["parts"][0]["text"] == "new"
    assert old["systemInstruction"]["parts"][0]["text"] == "old"
    contents = new["contents"]
    assert [one["role"] for one in contents] == ["user", "model", "user", "model", "user", "model", "user"]
    assert contents[1] == content
    assert contents[2]["parts"] == [{"functionResponse": {"name": "f", "response": {"r": 1}}}]
    converted = [{"text": "hm"}, call("fs_write", args={"x": 1}), call("g", args={})]
    if model.startswith("gemini-3"):
        converted[1]["thoughtSignature"] = NO_SIGNATURE
    assert contents[3]["parts"] == converted
    assert "no result" in contents[4]["parts"][0]["functionResponse"]["response"]["error"]
    assert contents[4]["parts"][1] == {"functionResponse": {"name": "g", "response": {"result": [1]}}}
    assert contents[5]["parts"] == [{"text": "other"}]


@pytest.mark.parametrize("pieces", [0, 1, 7])
def test_x_10_the_same_at_any_framing(pieces: int) -> None:
    """X-10 over the socket."""
    events: list[StreamEvent] = []
    with ChatServer(streamed(reply({"text": "Grüße \u2028"}), reply({"text": "\U0001f600!"}), pieces=pieces)) as server:
        assert ask(server, events=events).assistant_text == "Grüße \u2028\U0001f600!"
    assert len(events) == 2


@pytest.mark.parametrize("stream", [True, False])
def test_a_whole_reply_or_a_list_of_pieces(stream: bool) -> None:
    """The reply comes without streaming, or from a server that streams without alt=sse."""
    body: Any = [reply({"text": "h"}), reply({"text": "i"})] if stream else reply({"text": "hi"})
    with ChatServer(ChatServer.body(body, pieces=5)) as server:
        assert ask(server, stream=stream, model="tunedModels/x y").assistant_text == "hi"
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        assert server.paths == [f"/v1/tunedModels/x%20y:{method}"]


def test_what_a_server_does_not_know_is_left_out_once_and_for_all() -> None:
    refusals = (
        refuse("Invalid JSON payload received. Unknown name \"parametersJsonSchema\" at 'tools[0].function_declarations[0]'"),
        refuse("Unable to submit request because thinking is not supported by this model."),
    )
    good = streamed(reply({"text": "ok"}))

    async def drive(session: GeminiSession) -> None:
        for _ in range(2):
            session.say("hi")
            await session.stream_turn(lambda event: None)

    with ChatServer(*refusals, good, good) as server:
        converse(server, drive, tools=TOOLS, thinking="low")
        first, _, third, fourth = server.requests
    assert first["generationConfig"] == {"thinkingConfig": {"includeThoughts": True, "thinkingLevel": "low"}}
    assert "generationConfig" not in third
    plain = {"type": "object", "properties": {"path": {"type": "string"}}}
    assert third["tools"][0]["functionDeclarations"][0] == {"name": "read_file", "description": "d", "parameters": plain}
    assert fourth["tools"] == third["tools"]


def test_a_call_whose_signature_was_lost_is_sent_with_a_substitute() -> None:
    """A gateway dropped it. Only the first of parallel calls needs one, and no signature is replaced."""
    told = "Unable to submit request because function call read_file in the 2. content block is missing a `thought_signature`."
    results = [{"call_id": name, "name": "fs.write", "text": "1", "is_error": False} for name in "ab"]
    records: list[dict[str, Any]] = [{"role": "user", "text": "one"}]
    for first in (call("fs_write"), call("fs_write", "sig")):
        native = {"wire": "gemini", "message": {"role": "model", "parts": [first, call("fs_write")]}}
        calls = [{"id": name, "name": "fs.write", "args": {}} for name in "ab"]
        records += [
            {"role": "assistant", "text": "", "calls": calls, "native": native, "model": "gemini-3-test"},
            {"role": "results", "results": results},
        ]
    with ChatServer(refuse(told), streamed(reply({"text": "ok"}))) as server:
        assert ask(server, "go on", records=records, tools=TOOLS).assistant_text == "ok"
        before, after = (one["contents"] for one in server.requests)
    signatures = [[part.get("thoughtSignature") for part in content["parts"]] for content in after if content["role"] == "model"]
    assert signatures == [[NO_SIGNATURE, None], ["sig", None]]
    assert [one for one in before if one["role"] == "user"] == [one for one in after if one["role"] == "user"]
    with ChatServer(refuse(told), refuse(told)) as server, pytest.raises(BadRequest, match="thought_signature"):
        ask(server, "go on", records=records, tools=TOOLS)


def test_refusals_are_typed_and_show_no_key() -> None:
    with ChatServer(refuse(f"API key not valid: {KEY}", 403), streamed(reply({"text": "ha"}), cut=60)) as server:
        with pytest.raises(AuthFailed, match="GEMINI_API_KEY") as caught:
            ask(server)
        assert KEY not in f"{caught.value} {caught.value.body}"
        with pytest.raises(StreamBroken):
            ask(server)


def test_a_turn_that_failed_is_not_in_the_history() -> None:
    async def drive(session: GeminiSession) -> Any:
        session.say("hi")
        with pytest.raises(StreamBroken) as caught:
            await session.stream_turn(lambda event: None)
        assert caught.value.text == "so far"
        return await session.stream_turn(lambda event: None)

    half = streamed({"candidates": [{"content": {"parts": [{"text": "so far"}]}}]})
    with ChatServer(half, streamed(reply({"text": "ok"}))) as server:
        converse(server, drive)
        assert server.requests[0] == server.requests[1]


# -- recorded continuations --------------------------------------------------------------------------------------------


def continuations(corpora: Path) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield recorded turns with calls, and the requests that followed them."""
    source = corpora / "wire" / "exchanges.jsonl"
    if not source.is_file():
        pytest.skip(f"{source} is not there")
    cassettes: dict[tuple[str, str], dict[int, Any]] = defaultdict(dict)
    with source.open(encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["api"] == "gemini":
                cassettes[row["source_repo"], row["cassette"]][row["seq"]] = row
    for rows in cassettes.values():
        for seq, row in rows.items():
            after = rows.get(seq + 1)
            if row["expected"]["tool_calls"] and after is not None and after["request"]:
                yield row, after["request"]


SNAKE = {"function_call": "functionCall", "function_response": "functionResponse", "thought_signature": "thoughtSignature"}


def plain_parts(parts: Sequence[dict[str, Any]], *, keep_id: bool = True) -> list[Any]:
    """Return parts in one spelling for comparison: names of keys, and base64 (clients use both alphabets)."""
    found = []
    for part in parts:
        made = {SNAKE.get(key, key): value for key, value in part.items()}
        if "thoughtSignature" in made:
            made["thoughtSignature"] = base64.b64decode(made["thoughtSignature"].replace("-", "+").replace("_", "/") + "==")
        for key in ("functionCall", "functionResponse"):
            if key in made:
                made[key] = {name: value for name, value in made[key].items() if keep_id or name != "id"}
        found.append(made)
    return found


def test_004_15_recorded_continuations(corpora: Path) -> None:
    """004-15, X-2: after each recorded turn our next request has the parts that Gemini accepted."""
    pairs = list(continuations(corpora))
    assert len(pairs) >= 56
    responses = []
    for row, _ in pairs:
        kind = "text/event-stream" if row["response_text"].startswith("data") else "application/json"
        responses += [Response(row["response_text"].encode(), content_type=kind), streamed(reply({"text": "ok"}))]
    with ChatServer(*responses) as server:
        wrong = {row["id"]: found for row, wanted in pairs if (found := goes_on(server, row, wanted))}
    assert not wrong, f"{len(wrong)} of {len(pairs)} differ: {wrong}"


def goes_on(server: ChatServer, row: dict[str, Any], wanted: dict[str, Any]) -> str:
    contents = wanted["contents"]
    place = max(at for at, one in enumerate(contents) if one["role"] == "model")
    after = plain_parts([part for one in contents[place + 1 :] for part in one["parts"]])
    answers = [part["functionResponse"] for part in after if "functionResponse" in part]

    async def drive(session: GeminiSession) -> None:
        session.say("hi")
        turn = await session.stream_turn(lambda event: None)
        await session.append_tool_results(turn, done(turn.tool_calls, *(one["response"] for one in answers)))
        await session.stream_turn(lambda event: None)

    converse(server, drive, stream=row["stream"])
    model, results = server.requests[-1]["contents"][1:]
    own = [part["functionCall"] for part in model["parts"] if "functionCall" in part]
    with_id = [call for call in own if "id" in call]
    if plain_parts(model["parts"], keep_id=bool(with_id)) != plain_parts(contents[place]["parts"], keep_id=bool(with_id)):
        return f"content: {json.dumps(model)[:300]}"
    signatures = [one["value"] for one in row["expected"]["opaque"]]
    if [part["thoughtSignature"] for part in model["parts"] if "thoughtSignature" in part] != signatures:
        return "signatures"
    sent = [part["functionResponse"] for part in results["parts"]]
    kept = ("id", "name", "response") if with_id else ("name", "response")  # if Gemini gave no id, other clients invented one
    good = [{key: one[key] for key in kept} for one in answers]
    return "" if (results["role"], sent) == ("user", good) else f"results: {json.dumps(sent)[:300]}"
