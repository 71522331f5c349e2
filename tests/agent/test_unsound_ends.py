"""Replies that a filter ended, that the server could not read, or whose end is unknown: none of their calls runs, on any wire."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent, assemble
from agent.conversation.limits import NoProgress, RunLimits
from agent.model_choice.retry import RetryPolicy
from agent.providers import Endpoint, HttpClient, HttpLimits
from agent.providers.factory import ModelTarget, ProviderOpening, open_session
from toolcrib import ProviderTurn, ToolCall
from toolcrib.testing import ChatServer, Response, ScriptedSession

WRITES = [{"path": name, "content": "x"} for name in ("a.txt", "b.txt")]
IN_TEXT = "".join(f'<tool_call>{{"name": "write_file", "args": {json.dumps(args)}}}</tool_call>\n' for args in WRITES)
Reply = Callable[..., Response]


def events(*each: dict[str, Any], done: bool = False) -> Response:
    return ChatServer.stream(*each, done=done, pieces=37)


def chat(end: Any, calls: list[dict[str, Any]], text: str, *, whole: bool) -> Response:
    made = [
        {"index": n, "id": f"c{n}", "type": "function", "function": {"name": "write_file", "arguments": json.dumps(args)}}
        for n, args in enumerate(calls)
    ]
    fields: dict[str, Any] = {"content": text, **({"tool_calls": made} if made else {})}
    if whole:
        return ChatServer.body({"choices": [{"index": 0, "message": {"role": "assistant", **fields}, "finish_reason": end}]})
    deltas = [{"content": text}, *({"tool_calls": [one]} for one in made)]
    chunks = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    return events(*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": end}]}, done=True)


def in_text(end: Any, calls: list[dict[str, Any]], text: str, *, whole: bool) -> Response:
    return chat(end, [], IN_TEXT if calls else text, whole=whole)


def anthropic(end: Any, calls: list[dict[str, Any]], text: str, *, whole: bool) -> Response:
    uses = [{"type": "tool_use", "id": f"c{n}", "name": "write_file", "input": args} for n, args in enumerate(calls)]
    if whole:
        message = {"type": "message", "role": "assistant", "content": [{"type": "text", "text": text}, *uses]}
        return ChatServer.body({**message, "stop_reason": end})
    made: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"type": "message", "role": "assistant", "content": [], "stop_reason": None}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": text}},
    ]
    for place, use in enumerate(uses, 1):
        piece = {"type": "input_json_delta", "partial_json": json.dumps(use["input"])}
        made.append({"type": "content_block_start", "index": place, "content_block": {**use, "input": {}}})
        made.append({"type": "content_block_delta", "index": place, "delta": piece})
        made.append({"type": "content_block_stop", "index": place})
    return events(*made, {"type": "message_delta", "delta": {"stop_reason": end}}, {"type": "message_stop"})


def responses(end: Any, calls: list[dict[str, Any]], text: str, *, whole: bool) -> Response:
    """``end`` is STATUS or STATUS:REASON. A stream's last event has the status in its name, unless the status begins with "="."""
    status, _, reason = (end or "").partition(":")
    part = {"type": "output_text", "text": text, "annotations": []}
    output = [{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [part]}]
    output += [
        {"type": "function_call", "id": f"f{n}", "call_id": f"c{n}", "name": "write_file", "arguments": json.dumps(args),
         "status": "completed"} for n, args in enumerate(calls)
    ]  # fmt: skip
    reply: dict[str, Any] = {"id": "r", "output": output, "status": status.removeprefix("=")}
    if end is None:
        del reply["status"]
    if reason:
        reply["incomplete_details"] = {"reason": reason}
    if whole:
        return ChatServer.body(reply)
    items = [{"type": "response.output_item.done", "output_index": n, "item": item} for n, item in enumerate(output)]
    kind = "completed" if status.startswith("=") else status or "done"
    return events(*items, {"type": f"response.{kind}", "response": reply})


def gemini(end: Any, calls: list[dict[str, Any]], text: str, *, whole: bool) -> Response:
    parts = [{"text": text}, *({"functionCall": {"name": "write_file", "args": args}} for args in calls)]
    pieces: list[dict[str, Any]] = [
        {"candidates": [{"content": {"role": "model", "parts": [part]}, "index": 0}]} for part in parts
    ]
    ends = {"finishReason": end, "finishMessage": "because"}
    if whole:
        return ChatServer.body({"candidates": [{"content": {"role": "model", "parts": parts}, **ends}]})
    return events(*pieces, {"candidates": [{"content": {"role": "model", "parts": []}, **ends}]})


WIRES: dict[str, Reply] = {"chat": chat, "text": in_text, "anthropic": anthropic, "responses": responses, "gemini": gemini}
GOOD = {"chat": "stop", "text": "stop", "anthropic": "end_turn", "responses": "completed", "gemini": "STOP"}
CHAT_ENDS = [
    "content_filter", "content-filter", "CONTENT_FILTER", "SAFETY", "safety", "refusal", "sensitive", "blocked", "abort",
    "timeout", "insufficient_system_resource", "network_error", "repetition", "malformed_function_call", "incomplete", "unknown",
    "other", "null", "STOPPED", "stop ", " ", 1, ["stop"],
]  # fmt: skip
UNSOUND: dict[str, list[Any]] = {
    "chat": CHAT_ENDS,
    "text": CHAT_ENDS,
    "anthropic": [
        "refusal", "pause_turn", "compaction", "content_filter", "error", "safety", "unknown", "null", None, "", "End_Turn", 0,
        "tool_use_error", "cancelled", "aborted", "stop", "STOP", "malformed_tool_use", "guardrail_intervened", "filtered",
    ],
    "responses": [
        "incomplete:content_filter", "incomplete:safety", "incomplete:unknown", "incomplete", "cancelled", "=cancelled",
        "=incomplete:content_filter", "=queued", "=unknown", "=", "=stop", "=COMPLETED", "=expired", "=incomplete", "=paused",
        "=blocked", "=content_filter", "=refused", "=requires_action", "=timeout",
    ],
    "gemini": [
        "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY", "MALFORMED_FUNCTION_CALL", "LANGUAGE",
        "OTHER", "FINISH_REASON_UNSPECIFIED", "IMAGE_PROHIBITED_CONTENT", "NO_IMAGE", "TOO_MANY_TOOL_CALLS",
        "MALFORMED_RESPONSE", "MODEL_ARMOR", "stop", "STOPPED", "tool_calls", "completed", "safety", 1,
    ],
}  # fmt: skip
SOUND: dict[str, list[Any]] = {
    "chat": ["stop", "tool_calls", "function_call", "end_turn", "eos", "", None],
    "text": ["stop", "end_turn", "eos", "", None],
    "anthropic": ["end_turn", "tool_use", "stop_sequence"],
    "responses": ["completed", "=in_progress"],
    "gemini": ["STOP"],
}


def each(ends: dict[str, list[Any]]) -> list[Any]:
    cases = [(wire, end) for wire, words in ends.items() for end in words]
    return [pytest.param(wire, end, id=f"{wire}-{end!r}") for wire, end in cases]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., tuple[Agent, ChatServer]]]:
    """Return a function that starts an agent in ``tmp_path`` and its server, which sends these responses."""
    with ExitStack() as stack:

        def begin(wire: str, *replies: Response, **options: Any) -> tuple[Agent, ChatServer]:
            server = stack.enter_context(ChatServer(*replies))
            limits = RunLimits(retry=RetryPolicy(attempts=1))
            agent = Agent(model="m", provider=wire, base_url=server.base_url, project_dir=tmp_path, limits=limits, **options)
            return stack.enter_context(agent), server

        yield begin


def turn_of(wire: str, reply: Response) -> ProviderTurn:
    """Return what a wire's session makes of a reply. A call with a fault is not run."""

    async def go(endpoint: Endpoint) -> ProviderTurn:
        client = HttpClient(endpoint, {}, HttpLimits())
        session = open_session(ModelTarget(wire, endpoint), ProviderOpening(), {}, client=client)
        try:
            session.say("go")  # type: ignore[attr-defined]  # all of our sessions have it
            return await session.stream_turn(lambda event: None)
        finally:
            await session.close()

    with ChatServer(reply) as server:
        return asyncio.run(go(Endpoint(server.base_url, "m")))


@pytest.mark.parametrize(("wire", "end"), each(UNSOUND))
def test_each_call_has_a_fault_after_a_bad_or_unknown_end(wire: str, end: Any) -> None:
    """X-1, X-8: whole or streamed."""
    for whole in (True, False):
        turn = turn_of(wire, WIRES[wire](end, WRITES, "I write.", whole=whole))
        assert [call.args for call in turn.tool_calls] == WRITES
        assert all("none of its calls was run" in str(call.fault) for call in turn.tool_calls)
        assert turn.finish not in ("stop", "tool_calls")


@pytest.mark.parametrize(("wire", "end"), each({wire: ends[::6] for wire, ends in UNSOUND.items()}))
def test_no_call_runs_after_a_bad_or_unknown_end(start: Any, tmp_path: Path, wire: str, end: Any) -> None:
    """X-1, X-8: whole or streamed; each call has one result with the reason, and the run continues."""
    for whole in (True, False):
        reply, good = WIRES[wire](end, WRITES, "I write.", whole=whole), WIRES[wire](GOOD[wire], [], "Well.", whole=whole)
        agent, server = start(wire, reply, good)
        assert agent.ask("go").text.strip() == "Well."
        sent = json.dumps(server.requests[-1])
        assert sent.count("none of its calls was run") == len(WRITES)
        assert list(tmp_path.glob("*.txt")) == []


@pytest.mark.parametrize(("wire", "end"), each(SOUND))
def test_calls_run_after_a_good_end(start: Any, tmp_path: Path, wire: str, end: Any) -> None:
    """X-5: on wires with servers that may give no reason, calls run without one too."""
    for whole in (True, False):
        if whole and end == "=in_progress":
            continue  # only a stream's event has more than the status
        reply, good = WIRES[wire](end, WRITES, "I write.", whole=whole), WIRES[wire](GOOD[wire], [], "Well.", whole=whole)
        agent, server = start(wire, reply, good)
        assert agent.ask("go").text.strip() == "Well."
        assert "none of its calls was run" not in json.dumps(server.requests[-1])
        assert sorted(path.name for path in tmp_path.glob("*.txt")) == ["a.txt", "b.txt"]
        for path in tmp_path.glob("*.txt"):
            path.unlink()


@pytest.mark.parametrize("wire", WIRES)
def test_no_call_of_a_reply_that_the_limit_of_tokens_cut_runs(start: Any, tmp_path: Path, wire: str) -> None:
    """X-8, ADR 0032: not even a whole call runs, on any wire: the missing part may belong to it or to its neighbours."""
    words = {"anthropic": "max_tokens", "responses": "incomplete:max_output_tokens", "gemini": "MAX_TOKENS"}
    reply = WIRES[wire](words.get(wire, "length"), WRITES, "I write.", whole=False)
    agent, server = start(wire, reply, WIRES[wire](GOOD[wire], [], "Well.", whole=False))
    agent.ask("go")
    assert list(tmp_path.glob("*.txt")) == []
    assert json.dumps(server.requests[-1]).count("cut off") >= len(WRITES)


@pytest.mark.parametrize("wire", WIRES)
def test_a_filter_that_ends_every_reply_ends_the_run_with_its_word(start: Any, tmp_path: Path, wire: str) -> None:
    word = next(end for end in UNSOUND[wire] if isinstance(end, str))
    agent, _ = start(wire, *(WIRES[wire](word, WRITES, "I write.", whole=True) for _ in range(9)))
    with pytest.raises(NoProgress, match=word.partition(":")[2] or word):
        agent.ask("go")
    assert list(tmp_path.glob("*.txt")) == []


@pytest.mark.parametrize("wire", WIRES)
def test_a_filtered_reply_without_calls_is_an_answer(start: Any, wire: str) -> None:
    """The reply's end is reported as above, and the text so far stays."""
    word = next(end for end in UNSOUND[wire] if isinstance(end, str))
    agent, _ = start(wire, WIRES[wire](word, [], "So far", whole=True))
    assert agent.ask("go").text.strip() == "So far"


@pytest.mark.parametrize(("finish", "runs"), [("content_filter", False), ("SAFETY", False), ("stop", True), ("", True)])
def test_a_plugins_provider_is_held_to_it_too(tmp_path: Path, finish: str, runs: bool) -> None:
    class Plugin(ScriptedSession):
        async def stream_turn(self, on_event: Any) -> ProviderTurn:
            if self.results:
                return ProviderTurn("done")
            return ProviderTurn("", [ToolCall(f"c{n}", "write_file", args) for n, args in enumerate(WRITES)], finish=finish)

    async def go() -> Any:
        with assemble(project_dir=tmp_path) as crib:
            session = await crib.open()
            session.link.use(Plugin())
            try:
                return await session.ask("go")
            finally:
                await session.close()

    assert asyncio.run(go()).text == "done"
    assert len(list(tmp_path.glob("*.txt"))) == (2 if runs else 0)
