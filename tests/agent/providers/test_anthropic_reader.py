"""Anthropic replies as servers send them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers._anthropic_messages import AnthropicMessages
from agent.providers._anthropic_reader import AnthropicReader
from agent.providers._names import WireNames
from toolcrib import (
    AuthFailed,
    ContextTooLong,
    Overloaded,
    ProviderError,
    ProviderTurn,
    RateLimited,
    StreamBroken,
    StreamEvent,
)


@pytest.fixture
def recorded(recordings: Any) -> Any:
    return recordings("anthropic", AnthropicReader)


def opaque(content: list[dict[str, Any]]) -> list[dict[str, str]]:
    found = []
    for block in content:
        found += [{"kind": "signature", "value": block["signature"]}] if block.get("signature") else []
        found += [{"kind": "redacted_thinking", "value": block["data"]}] if block["type"] == "redacted_thinking" else []
    return found


def servers(content: list[dict[str, Any]]) -> list[dict[str, Any]]:
    ours = ("text", "thinking", "redacted_thinking", "tool_use")
    return [
        {"id": block.get("tool_use_id") or block.get("id"), "type": block["type"], "name": block.get("name")}
        for block in content
        if block["type"] not in ours
    ]


def differs(row: dict[str, Any], read: Any) -> list[str]:
    expected = row["expected"]
    _, turn, error, events = read
    if turn is None:
        return [repr(error)]
    content = turn.assistant_turn["content"]
    usage = turn.usage
    # The recordings count like the wire, without cached input; a turn counts all input.
    fresh = usage["input"] - usage.get("cached", 0) - usage.get("cache_written", 0)
    calls = [(one.id, one.name, one.args, one.fault) for one in turn.tool_calls]
    raw = {one.id: "".join(event.text for event in events if event.call_id == one.id) for one in turn.tool_calls}
    shown = {
        name: "".join(event.text for event in events if event.kind == kind)
        for kind, name in (("assistant_delta", "text"), ("thinking_delta", "reasoning"))
    }
    pairs = {
        "text": (turn.assistant_text, expected["text"]),
        "reasoning": (turn.reasoning, expected["reasoning"]),
        "events": (shown, {"text": expected["text"], "reasoning": expected["reasoning"]}),
        "calls": (calls, [(one["id"], one["name"], one["arguments"], None) for one in expected["tool_calls"]]),
        "native": (
            [b["input"] for b in content if b["type"] == "tool_use"],
            [one["arguments"] for one in expected["tool_calls"]],
        ),
        "deltas": ([json.loads(raw[one[0]] or "{}") for one in calls], [one["arguments"] for one in expected["tool_calls"]]),
        "server calls": (servers(content), expected["server_tool_calls"]),
        "usage": ({"input": fresh, "output": usage["output"]}, expected["usage"]),
        "finish": (turn.finish, expected["finish_norm"]),
        "opaque": (opaque(content), expected["opaque"]),
    }
    return [name for name, (got, want) in pairs.items() if got != want]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_004_14_x_5_x_6_x_10_recorded_replies_are_read_exactly(recorded: Any, seed: int) -> None:
    """004-14, X-5, X-6, X-10: every recorded reply, with random cuts: text, reasoning, calls, usage, finish, opaque."""
    rows = recorded.rows()
    wrong = {row["id"]: found for row in rows if (found := differs(row, recorded.read(row, seed)))}
    assert not wrong, f"{len(wrong)} of {len(rows)} differ: {wrong}"
    assert len(rows) >= 158


def continued(recorded: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return each recorded reply with calls, and its client's next request."""
    by_place = {(row["cassette"], row["seq"]): row for row in recorded.rows()}
    pairs = [(row, by_place.get((cassette, seq + 1))) for (cassette, seq), row in by_place.items()]
    return [(row, after) for row, after in pairs if after and after["request"] and row["expected"]["tool_calls"]]


def same_where_told(recorded: Any, ours: Any) -> bool:
    """Clients omit fields that the server does not need (``caller``, null citations); the others must match ours."""
    if isinstance(recorded, dict) and isinstance(ours, dict):
        return all(same_where_told(value, ours.get(key)) for key, value in recorded.items() if key != "cache_control")
    if isinstance(recorded, list) and isinstance(ours, list):
        return len(recorded) == len(ours) and all(map(same_where_told, recorded, ours))
    return bool(recorded == ours)


def blocks_of(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def test_004_14_the_next_request_has_the_same_blocks_as_the_recorded_one(recorded: Any) -> None:
    """004-14: the model's blocks in order, signatures byte for byte; all results in the one user message after them."""
    pairs = continued(recorded)
    for row, after in pairs:
        turn = recorded.read(row, 1).turn
        ids = {one.id for one in turn.tool_calls}
        sent = after["request"]["messages"]
        place = next(i for i, one in enumerate(sent) if ids & {block.get("id") for block in blocks_of(one)})
        answer = next(one for one in sent[place:] if one["role"] == "user")  # one client put its own call in between
        wanted = [block for block in blocks_of(answer) if block.get("tool_use_id") in ids]
        messages = AnthropicMessages(WireNames(()), "m")
        messages.user("x")
        messages.assistant(turn.assistant_turn)
        messages.results((one["tool_use_id"], one["content"], one.get("is_error", False)) for one in wanted)
        ours = json.loads(b"{" + messages.joined() + b"}")["messages"]
        assert [one["role"] for one in ours] == ["user", "assistant", "user"], row["id"]
        said = [block for block in blocks_of(sent[place]) if block.get("text") != " "]  # one client adds a space
        assert same_where_told(said, ours[1]["content"]), row["id"]
        assert same_where_told(wanted, ours[2]["content"]), row["id"]
        assert opaque(ours[1]["content"]) == row["expected"]["opaque"], row["id"]
    assert len(pairs) >= 43


# -- cases that are not recorded -------------------------------------------------------------------------------------


def start(*content: dict[str, Any], **more: Any) -> dict[str, Any]:
    message = {"type": "message", "role": "assistant", "model": "m", "content": list(content), "usage": {"input_tokens": 1}}
    return {"type": "message_start", "message": {**message, **more}}


def block(index: int, head: dict[str, Any], *deltas: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": head},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def tool(index: int, *pieces: str, head: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    given = {"type": "tool_use", "id": f"t{index}", "name": "f", "input": {}} if head is None else head
    return block(index, given, *({"type": "input_json_delta", "partial_json": piece} for piece in pieces))


def say(*pieces: str, index: int = 0) -> list[dict[str, Any]]:
    return block(index, {"type": "text", "text": ""}, *({"type": "text_delta", "text": piece} for piece in pieces))


def stop(reason: str = "end_turn", **usage: int) -> list[dict[str, Any]]:
    return [{"type": "message_delta", "delta": {"stop_reason": reason}, "usage": usage}, {"type": "message_stop"}]


def stream(*events: dict[str, Any]) -> tuple[ProviderTurn, list[StreamEvent]]:
    seen: list[StreamEvent] = []
    reader = AnthropicReader(seen.append)
    reader.read_events([("", json.dumps(one)) for one in events])
    return reader.finish(), seen


def test_x_6_whole_calls_may_be_in_message_start() -> None:
    """X-6: no deltas follow the calls, which come with the stop reason; an empty input may be a string."""
    head = {"type": "tool_use", "id": "a", "name": "f", "input": {"x": 1}, "caller": {"type": "direct"}}
    turn, seen = stream(start(head, {**head, "id": "b", "input": ""}, stop_reason="tool_use"), {"type": "message_stop"})
    assert [(one.id, one.args, one.fault) for one in turn.tool_calls] == [("a", {"x": 1}, None), ("b", {}, None)]
    assert turn.finish == "tool_calls"
    assert turn.assistant_turn["content"] == [head, {**head, "id": "b", "input": {}}]
    assert [(one.call_id, one.text) for one in seen] == [("a", '{"x": 1}'), ("b", "")]


@pytest.mark.parametrize("pieces", [(), ("",), ('{"command": "rm -r buil',), ('{"command": "true"}',)])
@pytest.mark.parametrize("reason", ["max_tokens", "model_context_window_exceeded"])
def test_x_8_a_call_at_the_token_limit_is_never_run(pieces: tuple[str, ...], reason: str) -> None:
    """X-8: the last call of such a reply is not run; earlier complete calls stay valid."""
    turn, _ = stream(start(), *tool(0, "{}"), *tool(1, *pieces), *stop(reason))
    assert [one.fault is None for one in turn.tool_calls] == [True, False]
    assert turn.finish == "length"
    assert all(isinstance(one["input"], dict) for one in turn.assistant_turn["content"])
    opened, _ = stream(start(), tool(0)[0], *stop("odd"))
    assert (opened.tool_calls[0].fault or "").startswith("cut off")
    whole, _ = stream(start(), *tool(0, "{}"), *say("and so", index=1), *stop(reason))
    assert whole.tool_calls[0].fault is None


@pytest.mark.parametrize(
    ("pieces", "fault"),
    [(('{"x": 1',), "not valid JSON"), (("[1]",), "not a JSON object"), (('{"x"', ": NaN}"), "NaN"), (("[" * 99_999,), "deeply")],
)
def test_004_16_arguments_that_cannot_be_read_are_a_fault(pieces: tuple[str, ...], fault: str) -> None:
    """004-16: arguments are never completed, and the call never runs; the raw text is kept in a form that the server accepts."""
    turn, _ = stream(start(), *tool(0, *pieces), *stop("tool_use"))
    assert fault in (turn.tool_calls[0].fault or "")
    assert turn.assistant_turn["content"][0]["input"] == {"INVALID_JSON": "".join(pieces)} == turn.tool_calls[0].args


def test_x_1_x_2_ids_are_unique_and_go_back_the_same() -> None:
    """X-1, X-2: a missing or repeated id becomes a new one, in the events, the call and the native block."""
    heads = ({"type": "tool_use", "name": "f", "input": {}}, {"type": "tool_use", "id": "a", "name": "f"})
    turn, seen = stream(start(), *tool(0, head=heads[0]), *tool(1, head=heads[1]), *tool(2, head=heads[1]), *stop())
    ids = [one.id for one in turn.tool_calls]
    assert len(set(ids)) == 3
    assert ids[1] == "a"
    assert [one["id"] for one in turn.assistant_turn["content"]] == ids == [one.call_id for one in seen]
    assert turn.finish == "tool_calls"


def test_004_14_thinking_keeps_its_place_and_signature() -> None:
    """004-14: this includes redacted thinking, and thinking between calls. A call that the server ran is not one of ours."""
    signed = block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "hm"},
        {"type": "signature_delta", "signature": "c2ln"},
    )
    redacted = {"type": "redacted_thinking", "data": "b3BhcXVl"}
    ran = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": [{"encrypted_content": "e"}]}
    cited = block(5, {"type": "text", "text": ""}, {"type": "citations_delta", "citation": {"url": "u"}})
    turn, _ = stream(
        start(),
        *signed,
        *block(1, redacted),
        *tool(2, '{"q": 1}', head=ran),
        *block(3, found),
        *tool(4),
        *cited,
        *stop("tool_use"),
    )
    assert turn.reasoning == "hm"
    assert [one.id for one in turn.tool_calls] == ["t4"]
    assert turn.assistant_turn["content"] == [
        {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
        redacted,
        {**ran, "input": {"q": 1}},
        found,
        {"type": "tool_use", "id": "t4", "name": "f", "input": {}},
        {"type": "text", "text": "", "citations": [{"url": "u"}]},
    ]


def test_usage_counts_all_input_and_what_of_it_the_cache_gave() -> None:
    usage = {"input_tokens": 3, "cache_read_input_tokens": 100, "cache_creation_input_tokens": 20, "output_tokens": 1}
    turn, _ = stream(start(usage=usage), *say("x"), *stop(output_tokens=7))
    assert turn.usage == {"input": 123, "output": 7, "cached": 100, "cache_written": 20}


@pytest.mark.parametrize(
    ("kind", "message", "expected"),
    [
        ("overloaded_error", "Overloaded", Overloaded), ("rate_limit_error", "slow down", RateLimited),
        ("api_error", "Internal server error", StreamBroken), ("authentication_error", "bad key", AuthFailed),
        ("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum", ContextTooLong), ("odd", "?", StreamBroken),
        ("invalid_request_error", "input length and `max_tokens` exceed context limit: 9 + 9 > 8", ContextTooLong),
    ],
)  # fmt: skip
def test_x_4_an_error_inside_a_good_stream(kind: str, message: str, expected: type[ProviderError]) -> None:
    """X-4: the error is raised, with the text so far."""
    with pytest.raises(expected, match=r"s.*") as caught:
        stream(start(), *say("so ", "far"), {"type": "error", "error": {"type": kind, "message": message}})
    assert (type(caught.value), caught.value.text) == (expected, "so far")
    assert message in str(caught.value)


def test_a_stream_that_ends_early_is_broken() -> None:
    with pytest.raises(StreamBroken, match="before the reply was complete") as caught:
        stream(start(stop_reason="tool_use"), *say("half"), *tool(1, "{}"))
    assert caught.value.text == "half"
    assert stream(start(), *say("whole"), stop()[0])[0].assistant_text == "whole"


def test_a_character_in_two_deltas() -> None:
    """Half a surrogate pair is never shown, and the block that is sent back has the character."""
    turn, seen = stream(start(), *say("a\ud83d", "\ude00b"), *tool(1, '{"x": "\ud83d', '\ude00"}'), *stop())
    assert turn.assistant_text == "a\U0001f600b" == turn.assistant_turn["content"][0]["text"]
    assert [one.text for one in seen if one.kind == "assistant_delta"] == ["a", "\U0001f600b"]
    assert turn.tool_calls[0].args == {"x": "\U0001f600"}


KEYS = "type index delta content_block message content usage error text thinking partial_json input id name stop_reason".split()
KINDS = (
    "message_start content_block_start content_block_delta message_delta message_stop ping text tool_use text_delta thinking "
    "input_json_delta citations_delta signature_delta server_tool_use"
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(KINDS.split()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=15,
)


@given(VALUES, VALUES, st.sampled_from(KINDS.split()))
def test_garbage_is_a_provider_error_or_harmless(value: Any, other: Any, kind: str) -> None:
    event = {"type": kind, "index": 0, "delta": other, "content_block": value, "message": value}
    for read_it in (lambda: stream(value), lambda: stream(start(), event, *stop()), lambda: AnthropicReader().read_body(value)):
        try:
            read_it()
        except ProviderError:
            continue


@pytest.mark.parametrize("place", [0, 5])
def test_a_call_whose_arguments_have_another_index_does_not_run(place: int) -> None:
    """Index 0 is a text block; index 5 was not begun."""
    reader = AnthropicReader()
    events: list[dict[str, Any]] = [
        {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I delete."}},
        {
            "type": "content_block_start",
            "index": 1,
            "content_block": {"type": "tool_use", "id": "a", "name": "wipe", "input": {}},
        },
        {"type": "content_block_delta", "index": place, "delta": {"type": "input_json_delta", "partial_json": '{"path": "t"}'}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}},
        {"type": "message_stop"},
    ]
    reader.read_events([("", json.dumps(one)) for one in events])
    turn = reader.finish()
    assert turn.assistant_text == "I delete."
    assert [one.name for one in turn.tool_calls] == ["wipe", ""]
    assert all(one.fault is not None for one in turn.tool_calls)
    assert "Call again with all its arguments" in str(turn.tool_calls[0].fault)
