"""X-5, X-8: ends of replies with calls, in each wire's words: no call runs after a filtered, malformed, cut or unknown end."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.conversation.limits import RunLimits
from agent.model_choice.models import ModelChoice
from agent.model_choice.retry import RetryPolicy
from agent.providers import Endpoint, HttpClient
from agent.providers.factory import ModelTarget, ProviderOpening, open_session
from toolcrib import ProviderError, ProviderTurn, ToolcribError
from toolcrib.testing import ChatServer, Response
from tools.dispatch.bridge import run_async

Json = dict[str, Any]
Made = Callable[[Sequence[str], Any], tuple[list[Json], Json]]
TOOL = {"type": "function", "function": {"name": "run", "description": "Run a command.", "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}  # fmt: skip
ONE, TWO = ['{"command": "ls"}'], ['{"command": "ls"}', '{"command": "rm"}']
CUT = ['{"command": "rm -r /tm']


def chat(arguments: Sequence[str], end: Any) -> tuple[list[Json], Json]:
    """Return the pieces of a streamed reply, and the whole reply. ``end`` is a finish_reason, or a list of them in order."""
    calls = [
        {"index": at, "id": f"c{at}", "type": "function", "function": {"name": "run", "arguments": raw}}
        for at, raw in enumerate(arguments)
    ]
    deltas = [{"role": "assistant", "content": "I look."}, *({"tool_calls": [call]} for call in calls)]
    pieces = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    ends = end if isinstance(end, list) else [end]
    pieces += [{"choices": [{"index": 0, "delta": {}, "finish_reason": one}]} for one in ends]
    message = {"role": "assistant", "content": "I look.", "tool_calls": calls}
    return pieces, {"choices": [{"index": 0, "message": message, "finish_reason": ends[-1]}]}


def text(arguments: Sequence[str], end: Any) -> tuple[list[Json], Json]:
    """Return a reply as ``chat`` does, with the calls in its text."""
    calls = "\n".join(f'<tool_call>{{"name": "run", "args": {raw}}}</tool_call>' for raw in arguments)
    said = f"I look.\n{calls}"
    parts = [said[at : at + 9] for at in range(0, len(said), 9)]
    pieces = [{"choices": [{"index": 0, "delta": {"content": part}, "finish_reason": None}]} for part in parts]
    pieces.append({"choices": [{"index": 0, "delta": {}, "finish_reason": end}]})
    return pieces, {"choices": [{"index": 0, "message": {"role": "assistant", "content": said}, "finish_reason": end}]}


def gemini(arguments: Sequence[str], end: Any) -> tuple[list[Json], Json]:
    """Return a reply as ``chat`` does. ``end`` is a finishReason, or a list of them in order."""
    parts: list[Json] = [{"text": "I look."}]
    parts += [{"functionCall": {"name": "run", "args": json.loads(raw)}} for raw in arguments]
    ends = end if isinstance(end, list) else [end]
    pieces: list[Json] = [{"candidates": [{"content": {"role": "model", "parts": [part]}}]} for part in parts]
    pieces += [{"candidates": [{"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": one}]} for one in ends]
    return pieces, {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": ends[-1]}]}


def anthropic(arguments: Sequence[str], end: Any) -> tuple[list[Json], Json]:
    """Return a reply as ``chat`` does. ``end`` is a stop_reason."""
    start = {"type": "message", "role": "assistant", "model": "m", "content": [], "stop_reason": None}
    events: list[Json] = [{"type": "message_start", "message": start}]
    content: list[Json] = []
    for at, raw in enumerate(arguments):
        head: Json = {"type": "tool_use", "id": f"c{at}", "name": "run", "input": {}}
        delta = {"type": "input_json_delta", "partial_json": raw}
        events += [
            {"type": "content_block_start", "index": at, "content_block": head},
            {"type": "content_block_delta", "index": at, "delta": delta},
            {"type": "content_block_stop", "index": at},
        ]
        content.append({**head, "input": json.loads(raw) if raw.endswith("}") else raw})
    events += [{"type": "message_delta", "delta": {"stop_reason": end}}, {"type": "message_stop"}]
    return events, {**start, "content": content, "stop_reason": end}


def responses(arguments: Sequence[str], end: Any) -> tuple[list[Json], Json]:
    """Return a reply as ``chat`` does. ``end`` is (the kind of the last event, fields of its response)."""
    kind, fields = end
    events: list[Json] = [{"type": "response.created", "response": {"id": "r", "status": "in_progress", "output": []}}]
    output: list[Json] = []
    for at, raw in enumerate(arguments):
        whole = raw.endswith("}")
        item = {"type": "function_call", "id": f"i{at}", "call_id": f"c{at}", "name": "run"}
        events += [
            {"type": "response.output_item.added", "output_index": at, "item": {**item, "arguments": ""}},
            {"type": "response.function_call_arguments.delta", "item_id": f"i{at}", "output_index": at, "delta": raw},
        ]
        output.append({**item, "arguments": raw, "status": "completed" if whole else "incomplete"})
        events.append({"type": "response.output_item.done", "output_index": at, "item": output[-1]})
    response = {"id": "r", "model": "m", "output": output, **fields}
    return [*events, {"type": f"response.{kind}", "response": response}], response


def incomplete(reason: str) -> tuple[str, Json]:
    return "incomplete", {"status": "incomplete", "incomplete_details": {"reason": reason}}


WIRES: dict[str, Made] = {"chat": chat, "text": text, "gemini": gemini, "anthropic": anthropic, "responses": responses}
HOSTILE: dict[str, list[Any]] = {
    "chat": [
        "content_filter", "Content_Filter", "content-filter", "sensitive", "safety", "SAFETY", "RECITATION", "PROHIBITED_CONTENT",
        "refusal", "blocked", "guardrail_intervened", "malformed_function_call", "MALFORMED_FUNCTION_CALL",
        "insufficient_system_resource", "network_error", "abort", "cancelled", "unknown", "mumble", 1,
        ["tool_calls", "content_filter"],
    ],
    "text": ["content_filter", "sensitive", "SAFETY", "refusal", "abort", "mumble"],
    "gemini": [
        "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MALFORMED_FUNCTION_CALL", "IMAGE_SAFETY",
        "IMAGE_PROHIBITED_CONTENT", "IMAGE_OTHER", "LANGUAGE", "OTHER", "FINISH_REASON_UNSPECIFIED", "MALFORMED_RESPONSE",
        "MODEL_ARMOR", "MUMBLE", "safety", ["STOP", "SAFETY"],
    ],
    "anthropic": [
        "refusal", "content_filter", "content_filtered", "guardrail_intervened", "sensitive", "safety", "malformed_tool_use",
        "malformed_model_output", "error", "mumble", 7,
    ],
    "responses": [
        incomplete("content_filter"), incomplete("safety"), incomplete("mumble"), ("incomplete", {"status": "incomplete"}),
        ("failed", {"status": "failed", "error": {"code": "content_filter", "message": "filtered"}}),
        ("failed", {"status": "failed"}), ("cancelled", {"status": "cancelled"}), ("done", {"status": "incomplete"}),
        ("done", {"status": "mumble"}), ("completed", {"status": "failed"}),
    ],
}  # fmt: skip
"""Ends of replies whose calls do not run, though each call is complete."""

CUT_OFF: list[tuple[str, Any]] = [
    ("chat", "length"),
    ("chat", "max_tokens"),
    ("chat", "content_filter"),
    ("anthropic", "max_tokens"),
    ("anthropic", "model_context_window_exceeded"),
    ("anthropic", "refusal"),
    ("responses", incomplete("max_output_tokens")),
    ("responses", incomplete("content_filter")),
    ("text", "length"),
]
"""Ends of replies whose last call is incomplete."""

ORDINARY: dict[str, list[Any]] = {
    "chat": ["tool_calls", "stop", "function_call", "end_turn", "eos"],
    "text": ["stop", "end_turn", "eos"],
    "gemini": ["STOP"],
    "anthropic": ["tool_use", "end_turn", "stop_sequence"],
    "responses": [("completed", {"status": "completed"}), ("done", {"status": "completed"})],
}
"""Ends of replies whose calls run."""


def served(made: tuple[list[Json], Json], *, stream: bool) -> Response:
    return ChatServer.stream(*made[0], done=False) if stream else ChatServer.body(made[1])


@pytest.fixture(scope="module")
def server() -> Iterator[ChatServer]:
    with ChatServer() as made:
        yield made


Ran = Callable[..., list[Any]]


@pytest.fixture
def ran(server: ChatServer) -> Ran:
    """Return ``ran(wire, response, stream=...)``: the arguments of the calls that would run; none if the reply is an error."""

    async def ask(wire: str, *, stream: bool) -> ProviderTurn:
        endpoint = Endpoint(server.base_url, "m")
        opening = ProviderOpening(tools=[TOOL], stream=stream)
        session = open_session(ModelTarget(wire, endpoint), opening, {}, client=HttpClient(endpoint, {}))
        try:
            session.say("go")  # type: ignore[attr-defined]  # all of our sessions have it
            return await session.stream_turn(lambda event: None)
        finally:
            await session.close()

    def run(wire: str, response: Response, *, stream: bool) -> list[Any]:
        server.responses[:] = [response]
        try:
            turn = asyncio.run(ask(wire, stream=stream))
        except ProviderError:
            return []
        finally:
            assert server.responses == []
        return [call.args for call in turn.tool_calls if call.fault is None]

    return run


def named(end: Any) -> str:
    return json.dumps(end).translate(str.maketrans("", "", '"{}[]'))


def rows(table: dict[str, list[Any]]) -> list[Any]:
    return [pytest.param(wire, end, id=f"{wire}: {named(end)}") for wire, ends in table.items() for end in ends]


both_ways = pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])


@pytest.mark.parametrize(("wire", "end"), rows(HOSTILE))
def test_no_call_of_such_an_end_runs(wire: str, end: Any, ran: Ran) -> None:
    assert ran(wire, served(WIRES[wire](TWO, end), stream=True), stream=True) == []


@pytest.mark.parametrize(("wire", "end"), rows({wire: ends[:4] for wire, ends in HOSTILE.items()}))
def test_no_call_of_such_an_end_runs_in_a_whole_reply(wire: str, end: Any, ran: Ran) -> None:
    assert ran(wire, served(WIRES[wire](ONE, end), stream=False), stream=False) == []


@both_ways
@pytest.mark.parametrize(("wire", "end"), [pytest.param(*row, id=f"{row[0]}: {named(row[1])}") for row in CUT_OFF])
def test_no_call_that_is_cut_off_runs(wire: str, end: Any, ran: Ran, *, stream: bool) -> None:
    assert ran(wire, served(WIRES[wire](CUT, end), stream=stream), stream=stream) == []


@pytest.mark.parametrize("wire", WIRES)
def test_no_call_of_a_stream_without_an_end_runs(wire: str, ran: Ran) -> None:
    pieces = WIRES[wire](TWO, ORDINARY[wire][0])[0]
    assert ran(wire, ChatServer.stream(*pieces[: -2 if wire == "anthropic" else -1], done=False), stream=True) == []


def test_an_event_that_says_incomplete_is_enough(ran: Ran) -> None:
    assert ran("responses", served(responses(TWO, ("incomplete", {})), stream=True), stream=True) == []
    assert len(ran("responses", served(responses(TWO, ("completed", {})), stream=True), stream=True)) == 2


@both_ways
@pytest.mark.parametrize(("wire", "end"), rows(ORDINARY))
def test_calls_of_an_ordinary_end_run(wire: str, end: Any, ran: Ran, *, stream: bool) -> None:
    assert ran(wire, served(WIRES[wire](TWO, end), stream=stream), stream=stream) == [json.loads(raw) for raw in TWO]


@pytest.mark.parametrize(
    ("wire", "choices", "reason"), [("gemini", "candidates", "finishReason"), ("chat", "choices", "finish_reason")]
)
def test_an_end_beside_a_call_counts_as_one_behind_it(wire: str, choices: str, reason: str, ran: Ran) -> None:
    for end, wanted in ((ORDINARY[wire][0], [{"command": "ls"}]), (HOSTILE[wire][0], [])):
        *_, called, _ = WIRES[wire](ONE, end)[0]
        called[choices][0][reason] = end
        assert ran(wire, ChatServer.stream(called, done=False), stream=True) == wanted


@pytest.mark.parametrize(
    ("wire", "end", "times"),
    [("chat", "content_filter", 0), ("chat", "mumble", 0), ("chat", "tool_calls", 1)],
)
def test_a_tool_s_handler_is_called_for_an_ordinary_end_alone(wire: str, end: str, times: int, tmp_path: Path) -> None:
    ran_with: list[Any] = []
    replies = (served(WIRES[wire](ONE, end), stream=True), *(ChatServer.text("done") for _ in range(3)))
    with ChatServer(*replies) as server, assemble(project_dir=tmp_path) as crib:
        crib.registry.register("run", "terminal", TOOL["function"], ran_with.append)
        session = crib.open_session()
        session.link.choice = ModelChoice("m", server.base_url)
        with contextlib.suppress(ToolcribError):
            run_async(session.ask("go", limits=RunLimits(retry=RetryPolicy(attempts=1))))
        session.close_sync()
    assert ran_with == [{"command": "ls"}] * times
