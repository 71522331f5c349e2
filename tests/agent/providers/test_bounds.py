"""Replies that do not begin, stall or do not end: each is limited, whatever keeps its connection alive."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent
from agent.config import Config, config_path
from agent.providers import Endpoint, HttpClient, HttpLimits
from agent.providers.factory import ModelTarget, ProviderOpening, open_session
from toolcrib import ConnectionFailed, Overloaded, ProviderTurn, StreamBroken, StreamEvent
from toolcrib.testing import ChatServer, Response, ScriptedSession

WIRES = ["chat", "responses", "anthropic", "gemini", "text"]
SHORT = HttpLimits(connect=10, first_byte=0.5, between=30, total=60)
BEGUN = replace(SHORT, first_byte=3)
"""Limits for replies that must begin in time: a busy machine may take a while."""
TIMES = 600
"""Number of pieces of an endless drip, 30 ms apart."""


def ask(base_url: str, wire: str = "chat", limits: HttpLimits = SHORT, *, stream: bool = True) -> ProviderTurn:
    async def go() -> ProviderTurn:
        endpoint = Endpoint(base_url, "m")
        opening = ProviderOpening(stream=stream)
        session = open_session(ModelTarget(wire, endpoint), opening, {}, client=HttpClient(endpoint, {}, limits))
        try:
            session.say("go")  # type: ignore[attr-defined]  # all of our sessions have it
            return await session.stream_turn(lambda event: None)
        finally:
            await session.close()

    return asyncio.run(go())


def sse(*events: Any) -> bytes:
    return b"".join(f"data: {json.dumps(event)}\n\n".encode() for event in events)


def delta(delta: Any, finish: str | None = None) -> Any:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


def parts(*found: Any, **more: Any) -> Any:
    return {"candidates": [{"content": {"role": "model", "parts": [*found]}, **more}]}


SAID = {
    "chat": (sse(delta({"content": "Well"})), sse(delta({"content": ", yes."}, "stop"))),
    "text": (sse(delta({"content": "Well "})), sse(delta({"content": "yes."}, "stop"))),
    "anthropic": (
        sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Well"}}),
        sse(
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ", yes."}},
            {"type": "message_stop"},
        ),
    ),
    "responses": (
        sse({"type": "response.output_text.delta", "output_index": 0, "delta": "Well"}),
        sse(
            {"type": "response.output_text.delta", "output_index": 0, "delta": ", yes."},
            {"type": "response.completed", "response": {}},
        ),
    ),
    "gemini": (sse(parts({"text": "Well"})), sse(parts({"text": ", yes."}, finishReason="STOP"))),
}
ALIVE: list[tuple[str, Sequence[bytes]]] = [
    *((wire, (b": ping\n\n",)) for wire in WIRES),
    *((wire, (b"data:\n\n",)) for wire in WIRES),
    *((wire, (b"\r\n",)) for wire in WIRES),
    *((wire, (b"d", b"a", b"t", b"a", b":", *[b" "] * TIMES)) for wire in WIRES),
    ("chat", (sse({"choices": []}),)),
    ("chat", (sse(delta({"role": "assistant", "content": ""})),)),
    ("chat", (sse(delta({"reasoning_content": "", "tool_calls": []})),)),
    ("text", (sse(delta({"content": None})),)),
    ("anthropic", (b'event: ping\ndata: {"type": "ping"}\n\n',)),
    ("anthropic", (sse({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": ""}}),)),
    ("responses", (sse({"type": "response.in_progress", "response": {"status": "in_progress"}}),)),
    ("responses", (sse({"type": "response.output_text.delta", "output_index": 0, "delta": ""}),)),
    ("gemini", (sse(parts({"text": ""})),)),
    ("gemini", (sse(parts({})),)),
    ("gemini", (sse({"usageMetadata": {"promptTokenCount": 1}}),)),
]


@pytest.mark.parametrize(
    ("wire", "drip"), [pytest.param(*each, marks=[pytest.mark.full] if place % 5 else []) for place, each in enumerate(ALIVE)]
)
def test_what_keeps_the_connection_alive_is_no_beginning(wire: str, drip: Sequence[bytes], dripping: Any) -> None:
    with dripping(b"", drip, b"\n\n" + b"".join(SAID[wire])) as server:
        with pytest.raises(ConnectionFailed, match=r"did not start its answer in 0\.5 s.*first_byte_timeout") as caught:
            ask(server.base_url, wire)
        assert not caught.value.retryable


@pytest.mark.full
@pytest.mark.parametrize(("wire", "drip"), [ALIVE[0], ALIVE[-1], *(ALIVE[place] for place in (8, 15, 17, 20, 22))])
def test_nor_is_it_more_of_a_reply_that_has_begun(wire: str, drip: Sequence[bytes], dripping: Any) -> None:
    """The text that arrived is kept."""
    first, rest = SAID[wire]
    with dripping(first, drip, b"\n\n" + rest) as server:
        with pytest.raises(StreamBroken, match="sent nothing more of its answer in 3 s") as caught:
            ask(server.base_url, wire, BEGUN)
        assert not caught.value.retryable
        assert caught.value.text.startswith("Well")


@pytest.mark.parametrize("wire", WIRES)
def test_silence_after_the_headers_is_no_beginning(wire: str, dripping: Any) -> None:
    with dripping(b"", (), b"".join(SAID[wire])) as server, pytest.raises(ConnectionFailed, match="did not start") as caught:
        ask(server.base_url, wire)
    assert not caught.value.retryable


@pytest.mark.full
def test_white_space_before_a_whole_reply_is_none_either(dripping: Any) -> None:
    body = json.dumps({"choices": [{"message": {"content": "Well."}, "finish_reason": "stop"}]}).encode()
    with dripping(b"", (b"\n", b"  "), body, kind="application/json") as server, pytest.raises(ConnectionFailed):
        ask(server.base_url, stream=False)
    with dripping(body[:5], (b" ",), body[5:], kind="application/json") as server, pytest.raises(StreamBroken):
        ask(server.base_url, limits=BEGUN, stream=False)


@pytest.mark.full
@pytest.mark.parametrize("wire", WIRES)
def test_a_reply_without_end_is_ended(wire: str, dripping: Any) -> None:
    first, rest = SAID[wire]
    with (
        dripping(first, (first,), rest) as server,
        pytest.raises(StreamBroken, match=r"did not finish its answer in 3 s.*reply_timeout") as caught,
    ):
        ask(server.base_url, wire, replace(SHORT, first_byte=30, total=3))
    assert not caught.value.retryable
    assert caught.value.text.startswith("WellWell" if wire != "text" else "Well Well")


@pytest.mark.full
@pytest.mark.parametrize("wire", WIRES)
def test_a_slow_model_is_waited_for(wire: str, dripping: Any) -> None:
    """A model that sends pings for most of its time, and then writes one letter at a time."""
    first, rest = SAID[wire]
    with dripping(b": ping\n\n" * 5, (b": ping\n\n",), first + rest, times=20) as server:
        turn = ask(server.base_url, wire, replace(SHORT, first_byte=20))
        assert turn.assistant_text.startswith("Well")
    slow = Response(first + rest, pieces=7, pause=0.01)
    with ChatServer(slow) as quick:
        assert ask(quick.base_url, wire, replace(SHORT, first_byte=20)).assistant_text == turn.assistant_text


def test_the_limits_are_those_of_the_configuration() -> None:
    """Five minutes to begin, an hour in total: a model on a slow machine thinks for minutes."""
    model, limits = Config().model, HttpLimits()
    configured = (model.first_byte_timeout, model.between_bytes_timeout, model.reply_timeout)
    assert configured == (limits.first_byte, limits.between, limits.total) == (300, 300, 3600)


@pytest.mark.parametrize(
    ("settings", "first", "drip", "words"),
    [
        ({"first_byte_timeout": 0.5}, b"", b": ping\n\n", "did not start its answer in 0.5 s"),
        pytest.param({"reply_timeout": 3}, b"", SAID["chat"][0], "did not finish its answer in 3 s", marks=pytest.mark.full),
        ({"between_bytes_timeout": 0.5}, SAID["chat"][0], b"", r"sent nothing for 0.5 s.*between_bytes_timeout"),
    ],
)
def test_a_run_asks_once_and_ends(
    settings: dict[str, float], first: bytes, drip: bytes, words: str, dripping: Any, tmp_path: Path
) -> None:
    """Another attempt would take as long, and four attempts four times that."""
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text(json.dumps({"model": settings}))
    with (
        dripping(first, (drip,), SAID["chat"][1]) as server,
        Agent(model="m", base_url=server.base_url, project_dir=tmp_path) as agent,
    ):
        with pytest.raises((ConnectionFailed, StreamBroken), match=words):
            agent.ask("go")
        assert server.requests == 1


def test_a_reply_of_too_many_bytes_is_not_asked_for_again() -> None:
    """The size is limited, and so is the part that is held in memory."""
    endless = sse(delta({"content": "x" * 10_000})) * 200
    with ChatServer(Response(endless)) as server:
        with pytest.raises(StreamBroken, match="more than 1,000,000 bytes") as caught:
            ask(server.base_url, limits=replace(SHORT, first_byte=30, max_body=1_000_000))
        assert not caught.value.retryable
        assert len(caught.value.text) < 1_000_000


@pytest.mark.parametrize("streams", [True, False])
def test_a_reply_that_says_more_than_any_model_is_not_taken(streams: bool) -> None:
    """The text is limited even if its bytes are few. Other parts, such as a picture, may be longer."""
    pieces = ["x" * 10_000] * 30
    whole = {"choices": [{"message": {"content": "".join(pieces)}, "finish_reason": "stop"}]}
    said = sse(*(delta({"content": one}) for one in pieces), delta({}, "stop")) if streams else json.dumps(whole).encode()
    limits = replace(SHORT, first_byte=30, max_text=250_000)
    answer = Response(said, content_type="text/event-stream" if streams else "application/json")
    with ChatServer(answer, answer) as server:
        with pytest.raises(StreamBroken, match="more than 250,000 characters") as caught:
            ask(server.base_url, limits=limits)
        assert not caught.value.retryable
        assert ask(server.base_url, limits=replace(limits, max_text=300_000)).assistant_text == "".join(pieces)


def test_the_next_model_goes_on_where_nothing_came(dripping: Any, tmp_path: Path) -> None:
    with dripping(b"", (b": ping\n\n",), b"") as server, ChatServer(ChatServer.text("Here I am.")) as other:
        fallback = [{"name": "n", "base_url": other.base_url}]
        config_path().parent.mkdir(parents=True, exist_ok=True)
        config_path().write_text(json.dumps({"model": {"first_byte_timeout": 0.5, "fallback": fallback}}))
        with Agent(model="m", base_url=server.base_url, project_dir=tmp_path) as agent:
            assert agent.ask("go").text == "Here I am."


def test_a_refusal_that_does_not_end_is_one_all_the_same(dripping: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has the part of the server's text that arrived in time."""
    monkeypatch.setattr("agent.providers.http._ERROR_SECONDS", 0.5)
    with (
        dripping(b"out of memory", (b".",), b"", status=500) as server,
        pytest.raises(Overloaded, match="out of memory") as caught,
    ):
        ask(server.base_url, limits=replace(SHORT, first_byte=30))
    assert caught.value.status == 500


# -- calls -------------------------------------------------------------------------------------------------------------


def chat_calls(number: int) -> bytes:
    function = {"name": "count", "arguments": "{}"}
    each = ({"index": at, "id": f"c{at}", "type": "function", "function": function} for at in range(number))
    return sse(*(delta({"tool_calls": [one]}) for one in each), delta({}, "tool_calls"))


def anthropic_calls(number: int) -> bytes:
    heads = ({"type": "tool_use", "id": f"c{at}", "name": "count", "input": {}} for at in range(number))
    starts = ({"type": "content_block_start", "index": at, "content_block": head} for at, head in enumerate(heads))
    piece = {"type": "input_json_delta", "partial_json": "{}"}
    pieces = ({"type": "content_block_delta", "index": at, "delta": piece} for at in range(number))
    ends = ({"type": "content_block_stop", "index": at} for at in range(number))
    stop = {"type": "message_delta", "delta": {"stop_reason": "tool_use"}}
    return sse(*(event for events in zip(starts, pieces, ends, strict=True) for event in events), stop)


def responses_calls(number: int) -> bytes:
    events: list[Any] = []
    for at in range(number):
        head = {"type": "function_call", "id": f"f{at}", "call_id": f"c{at}", "name": "count"}
        about = {"item_id": f"f{at}", "output_index": at}
        events += [
            {"type": "response.output_item.added", **about, "item": head},
            {"type": "response.function_call_arguments.delta", **about, "delta": "{}"},
            {"type": "response.output_item.done", **about, "item": {**head, "arguments": "{}", "status": "completed"}},
        ]
    return sse(*events, {"type": "response.completed", "response": {"id": "r", "status": "completed"}})


def gemini_calls(number: int) -> bytes:
    call = {"functionCall": {"name": "count", "args": {}}}
    return sse(*(parts(call) for _ in range(number)), parts(finishReason="STOP"))


def text_calls(number: int) -> bytes:
    call = '<tool_call>{"name": "count", "args": {}}</tool_call>\n'
    return sse(*(delta({"content": call}) for _ in range(number)), delta({}, "stop"))


CALLS = {
    "chat": chat_calls,
    "anthropic": anthropic_calls,
    "responses": responses_calls,
    "gemini": gemini_calls,
    "text": text_calls,
}
LONG = HttpLimits(total=600)


@pytest.mark.parametrize("wire", WIRES)
def test_of_too_many_calls_one_more_than_may_run_is_kept(wire: str) -> None:
    """X-1: from the extra call's fault the model learns that this call and the others did not run."""
    with ChatServer(Response(CALLS[wire](400))) as server:
        turn = ask(server.base_url, wire, LONG)
    assert len(turn.tool_calls) == 129
    assert [call.fault for call in turn.tool_calls[:128]] == [None] * 128
    assert "at most 128 calls of one reply are run" in str(turn.tool_calls[128].fault)


@pytest.mark.parametrize("wire", WIRES)
def test_a_hundred_and_twenty_eight_are_not_too_many(wire: str) -> None:
    with ChatServer(Response(CALLS[wire](128))) as server:
        turn = ask(server.base_url, wire, LONG)
    assert [call.fault for call in turn.tool_calls] == [None] * 128


@pytest.mark.untraced
@pytest.mark.full
@pytest.mark.parametrize("wire", [wire for wire in WIRES if wire != "text"])
def test_ten_thousand_calls_are_read_without_holding_them(wire: str) -> None:
    """Neither the calls nor other parts of them are sent to the server: it gets no call that was not kept."""
    events: list[StreamEvent] = []

    async def go(base_url: str) -> ProviderTurn:
        endpoint = Endpoint(base_url, "m")
        session = open_session(ModelTarget(wire, endpoint), ProviderOpening(), {}, client=HttpClient(endpoint, {}, LONG))
        try:
            session.say("go")  # type: ignore[attr-defined]  # all of our sessions have it
            return await session.stream_turn(events.append)
        finally:
            await session.close()

    with ChatServer(Response(CALLS[wire](10_000))) as server:
        turn = asyncio.run(go(server.base_url))
    assert len(turn.tool_calls) == 129
    assert {event.call_id for event in events} == {call.id for call in turn.tool_calls}
    assert len(json.dumps(turn.assistant_turn)) < 50_000


@pytest.mark.parametrize("provider", [*WIRES, "scripted"])
def test_a_run_runs_a_hundred_and_twenty_eight_and_tells_of_the_rest(provider: str, tmp_path: Path) -> None:
    """X-1: each kept call has its result, and the server accepts the next request."""
    ran: list[Any] = []
    said = b"".join(SAID[provider]) if provider in SAID else b""
    replies = (Response(CALLS[provider](400)), Response(said)) if said else ()
    with ChatServer(*replies) as server, Agent(model="m", base_url=server.base_url, project_dir=tmp_path,
                                               provider=provider if said else "") as agent:  # fmt: skip
        take_back = agent.crib.registry.checkpoint()
        agent.crib.registry.register("count", "terminal", {"description": "d"}, ran.append)
        agent.session.scope.granted = None
        agent.session.names.append("count")
        if not said:
            model = ScriptedSession([("count", {})] * 400, "Well, yes.")
            agent.session.link.use(model)
        answer = agent.ask("go").text
        take_back()
        requests = list(server.requests)
    assert answer.replace(" yes", ", yes").replace(",,", ",") == "Well, yes."
    assert len(ran) == 128
    if said:
        assert json.dumps(requests[1]).count("at most 128 calls of one reply are run") == 1
    else:
        assert [one.result.is_success for one in model.results[0]] == [True] * 128 + [False] * 272
