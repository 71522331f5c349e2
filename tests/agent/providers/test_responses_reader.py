"""OpenAI Responses replies as servers send them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers._faults import from_status
from agent.providers._names import WireNames
from agent.providers._responses_items import ResponsesItems
from agent.providers._responses_reader import ResponsesReader
from toolcrib import (
    BadRequest,
    ContextTooLong,
    Overloaded,
    ProviderError,
    ProviderTurn,
    RateLimited,
    StreamBroken,
    StreamEvent,
)

EXPLAINED = {"responses-2388f5cc4f": ["events"]}
"""Recorded, then shortened by hand: its deltas do not add up to its message. The turn has the message, as in the client."""


@pytest.fixture
def recorded(recordings: Any) -> Any:
    return recordings("responses", ResponsesReader)


def differs(row: dict[str, Any], read: Any) -> list[str]:
    expected = row["expected"]
    _, turn, error, events = read
    if (wanted := expected.get("error")) is not None:
        return [] if error is not None and wanted["message"] in str(error) and error.text == expected["text"] else [repr(error)]
    if turn is None:
        return [repr(error)]
    output = turn.assistant_turn["output"]
    calls = [(one.id, one.name, one.args, one.fault) for one in turn.tool_calls]
    sent = [item for item in output if item["type"] == "function_call"]
    raw = [item["arguments"] for item in sent]
    pieces = ["".join(event.text for event in events if event.call_id == one.id) for one in turn.tool_calls]
    want = expected["tool_calls"]
    shown = {
        name: "".join(event.text for event in events if event.kind == kind)
        for kind, name in (("assistant_delta", "text"), ("thinking_delta", "reasoning"))
    }
    ours = ("message", "reasoning", "function_call")
    servers = [{"id": one.get("id"), "type": one["type"], "name": one.get("name")} for one in output if one["type"] not in ours]
    opaque = [
        {"kind": "encrypted_content", "id": one.get("id"), "value": one["encrypted_content"]}
        for one in output
        if one.get("encrypted_content")
    ]
    usage = {name: count for name, count in turn.usage.items() if name in ("input", "output")} or None
    pairs = {
        "text": (turn.assistant_text, expected["text"]),
        "reasoning": (turn.reasoning, expected["reasoning"]),
        "events": (shown, {"text": expected["text"], "reasoning": expected["reasoning"]}),
        "calls": (calls, [(one["id"], one["name"], one["arguments"], None) for one in want]),
        "arguments": (raw, [one["arguments_raw"] for one in want]),
        "deltas": (pieces, [one["arguments_raw"] for one in want]),
        "item ids": ([one.get("id") for one in sent], [one.get("item_id") for one in want]),
        "server calls": (servers, expected["server_tool_calls"]),
        "usage": (usage, expected["usage"]),
        "finish": (turn.finish, expected["finish_norm"]),
        "opaque": (opaque, expected["opaque"]),
    }
    wrong = [name for name, (got, wanted) in pairs.items() if got != wanted]
    return [] if wrong == EXPLAINED.get(row["id"]) else wrong


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_004_13_x_4_x_5_x_10_recorded_replies_are_read_exactly(recorded: Any, seed: int) -> None:
    """004-13, X-4, X-5, X-10: every recorded reply, with random cuts: text, reasoning, calls, usage, finish, opaque, errors."""
    rows = recorded.rows()
    wrong = {row["id"]: found for row in rows if (found := differs(row, recorded.read(row, seed)))}
    assert not wrong, f"{len(wrong)} of {len(rows)} differ: {wrong}"
    assert len(rows) >= 143


def continued(recorded: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Return each recorded reply with calls, and its client's next request if that continues the conversation."""
    by_place = {(row["cassette"], row["seq"]): row for row in recorded.rows()}
    pairs = [(row, by_place.get((cassette, seq + 1))) for (cassette, seq), row in by_place.items()]
    return [
        (row, after["request"])
        for row, after in pairs
        if after and after["request"] and row["expected"]["tool_calls"]
        if all(one["id"] in json.dumps(after["request"]) for one in row["expected"]["tool_calls"])
    ]


def same_where_told(recorded: Any, ours: Any) -> bool:
    """Clients omit fields that the server does not need (status, logprobs); the others must match ours."""
    if isinstance(recorded, dict) and isinstance(ours, dict):
        return all(same_where_told(value, ours.get(key)) for key, value in recorded.items())
    if isinstance(recorded, list) and isinstance(ours, list):
        return len(recorded) == len(ours) and all(map(same_where_told, recorded, ours))
    return bool(recorded == ours)


def test_004_13_the_next_request_has_the_same_items_as_the_recorded_one(recorded: Any) -> None:
    """004-13: the output items unchanged and in order, opaque ones byte for byte; then one output per call."""
    pairs = continued(recorded)
    for row, request in pairs:
        turn = recorded.read(row, 1).turn
        assert turn is not None
        ids = {item.get("id") for item in turn.assistant_turn["output"]} | {one.id for one in turn.tool_calls}
        text = json.dumps(request["input"]).replace(turn.assistant_turn["id"] + ":", "")  # one server repeats an id each turn
        sent = [item for item in json.loads(text) if ids & {item.get("id", ""), item.get("call_id", "")}]
        outputs = {item["call_id"]: item["output"] for item in sent if item["type"] == "function_call_output"}
        items = ResponsesItems(WireNames(()), "m", stored="reasoning.encrypted_content" not in (request.get("include") or ()))
        items.assistant(turn.assistant_turn)
        items.results(outputs.items())
        items.forget_previous()
        ours = json.loads(items.joined())
        names = [(item["type"], item.get("call_id") or item.get("id")) for item in ours]
        for item in sent:
            mine = ours[names.index((item["type"], item.get("call_id") or item.get("id")))]
            if item["type"] == "tool_search_call":
                item = {
                    "type": item["type"],
                    "id": item.get("id"),
                }  # one client rewrites its arguments: {"paths"} became {"queries"}
            if item["type"] == "function_call" and json.loads(item["arguments"]) == json.loads(mine["arguments"]):
                item = {**item, "arguments": mine["arguments"]}  # another rewrites them; ours stay unchanged
            if "namespace" not in mine:
                item.pop("namespace", None)  # and adds a namespace that the server did not send
            assert same_where_told(item, mine), (row["id"], item["type"])
        wanted = [(item["type"], item.get("call_id") or item.get("id")) for item in sent]
        assert wanted == [name for name in names if name in wanted], row["id"]
        assert [one for one in ours if one["type"] == "reasoning"] == [
            one for one in turn.assistant_turn["output"] if one["type"] == "reasoning"
        ]
        assert {one.id for one in turn.tool_calls} == set(outputs), row["id"]
    assert len(pairs) >= 39


def test_000_42_recorded_refusals_have_their_kind(recorded: Any) -> None:
    """000-42: the error has the status and the server's message."""
    rows = recorded.rows("errors.jsonl")
    assert rows
    for row in rows:
        error = from_status(row["status"], row["response_text"], server="s")
        assert (type(error), error.status, error.retryable) == (BadRequest, row["status"], False), row["id"]
        assert row["expected"]["error"]["message"] in str(error)
        assert error.body.strip() == row["response_text"].strip()


# -- cases that are not recorded -------------------------------------------------------------------------------------


def added(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.added", "output_index": index, "item": item}


def done(index: int, **item: Any) -> dict[str, Any]:
    return {"type": "response.output_item.done", "output_index": index, "item": {"status": "completed", **item}}


def delta(kind: str, text: str, index: int = 0, **more: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}.delta", "output_index": index, "delta": text, **more}


def end(kind: str = "completed", **response: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "response": {"id": "resp_1", "model": "m", "status": kind, "output": [], **response}}


def call(index: int = 0, arguments: str = "{}", **more: Any) -> dict[str, Any]:
    item = {"type": "function_call", "id": f"fc_{index}", "call_id": f"c{index}", "name": "f", "arguments": arguments}
    return {**item, **more}


def message(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "content": [part]}


def stream(*events: dict[str, Any], taken: tuple[str, ...] = ()) -> tuple[ProviderTurn, list[StreamEvent]]:
    seen: list[StreamEvent] = []
    reader = ResponsesReader(seen.append, taken=taken)
    reader.read_events([("", json.dumps(one)) for one in events])
    return reader.finish(), seen


def test_events_say_once_what_came_in_whatever_form() -> None:
    """The arguments arrive in deltas, only in the item, or only in the last event."""
    arguments = "function_call_arguments"
    ways = (
        (added(0, **call(arguments="")), delta(arguments, '{"x"'), delta(arguments, ":1}"), done(0, **call(arguments='{"x":1}'))),
        (added(0, **call(arguments="")), delta(arguments, '{"x":1}', index=0, item_id="fc_0")),
        (added(0, **call(arguments="")), {"type": f"response.{arguments}.done", "output_index": 0, "arguments": '{"x":1}'}),
        (done(0, **call(arguments='{"x":1}')),),
        (),
    )
    for way in ways:
        turn, seen = stream(*way, end(output=[call(arguments='{"x":1}')]))
        assert [(one.id, one.name, one.args, one.fault) for one in turn.tool_calls] == [("c0", "f", {"x": 1}, None)]
        assert "".join(one.text for one in seen) == '{"x":1}'
        assert {one.call_id for one in seen} == {"c0"}
        assert (turn.finish, turn.model, turn.assistant_turn["id"]) == ("tool_calls", "m", "resp_1")
        assert turn.assistant_turn["output"][0]["arguments"] == '{"x":1}'


def test_text_comes_with_deltas_without_and_with_no_end_of_its_item() -> None:
    whole = stream(done(0, **message("hi")), end())
    pieces = stream(added(0, type="message"), delta("output_text", "h"), delta("output_text", "i"), end())
    at_end = stream(end(output=[message("hi")]))
    for turn, seen in (whole, pieces, at_end):
        assert turn.assistant_text == "hi" == "".join(one.text for one in seen)
        assert turn.assistant_turn["output"][0]["content"][0]["text"] == "hi"
    turn, _ = stream(delta("refusal", "no"), delta("reasoning_summary_text", "hm", index=1), end())
    assert (turn.assistant_text, turn.reasoning) == ("no", "hm")


def test_places_and_ids_that_servers_use_twice() -> None:
    """All items at one position (distinguished by id); another id in each event (distinguished by position)."""
    one_place = (
        added(0, **call(1, arguments="")), added(0, **call(2, arguments="")),
        delta("function_call_arguments", '{"x":1}', item_id="fc_1"), delta("function_call_arguments", '{"x":2}', item_id="fc_2"),
    )  # fmt: skip
    assert [one.args for one in stream(*one_place, end())[0].tool_calls] == [{"x": 1}, {"x": 2}]
    other_ids = (added(0, **call(arguments="", id="a")), delta("function_call_arguments", '{"x":1}', item_id="b"))
    turn, _ = stream(*other_ids, done(0, **call(arguments='{"x":1}', id="c")), end(output=[call(arguments='{"x":1}', id="d")]))
    assert [one.args for one in turn.tool_calls] == [{"x": 1}]


def test_x_1_x_2_ids_are_unique_and_go_back_the_same() -> None:
    """X-1, X-2: ids are unique even if a server starts with call_0 in each reply."""
    turn, seen = stream(*(done(place, **call(place, call_id="c")) for place in range(3)), end(), taken=("c",))
    ids = [one.id for one in turn.tool_calls]
    assert len({*ids, "c"}) == 4
    assert [one["call_id"] for one in turn.assistant_turn["output"]] == ids
    assert {one.call_id for one in seen} == set(ids)


@pytest.mark.parametrize("arguments", ["", '{"command": "rm -r buil', '{"command": "true"}'])
@pytest.mark.parametrize("status", ["completed", "incomplete", "in_progress"])
def test_x_8_a_call_at_the_token_limit_is_never_run(arguments: str, status: str) -> None:
    """X-8: the last call of such a reply is not run; earlier complete calls stay valid."""
    last = end("incomplete", incomplete_details={"reason": "max_output_tokens"})
    turn, _ = stream(done(0, **call()), done(1, **call(1, arguments, status=status)), last)
    assert [one.fault is None for one in turn.tool_calls] == [True, False]
    assert turn.finish == "length"
    assert all(json.loads(one["arguments"]) is not None for one in turn.assistant_turn["output"])
    opened, _ = stream(added(0, **call(arguments="")), delta("function_call_arguments", arguments), done(1, **message("x")), last)
    assert opened.tool_calls[0].fault is not None


@pytest.mark.parametrize(("arguments", "fault"), [('{"x": 1', "not valid JSON"), ("[1]", "not a JSON object")])
def test_004_16_arguments_that_cannot_be_read_are_a_fault(arguments: str, fault: str) -> None:
    """004-16: arguments are never completed, and the call never runs; the raw text is kept in a form that the server accepts."""
    turn, _ = stream(done(0, **call(arguments=arguments)), end())
    assert fault in (turn.tool_calls[0].fault or "")
    assert json.loads(turn.assistant_turn["output"][0]["arguments"]) == {"INVALID_JSON": arguments} == turn.tool_calls[0].args


def test_what_the_server_ran_is_no_call_of_ours() -> None:
    items = [{"type": kind, "id": kind, "call_id": kind, "name": "f"} for kind in ("web_search_call", "mcp_call", "shell_call")]
    turn, _ = stream(*(done(place, **item) for place, item in enumerate(items)), end())
    assert turn.tool_calls == ()
    assert [one["type"] for one in turn.assistant_turn["output"]] == [one["type"] for one in items]


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        ({"type": "error", "error": {"type": "insufficient_quota", "message": "said"}}, RateLimited),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "said"}, RateLimited),
        ({"type": "error", "code": "context_length_exceeded", "message": "said"}, ContextTooLong),
        (end("failed", error={"code": "server_error", "message": "said"}), Overloaded),
        (end("failed", error={"code": "rate_limit_exceeded", "message": "said"}), RateLimited),
        (end("failed", error=None), StreamBroken),
        ({"error": {"code": "invalid_prompt", "type": "invalid_request_error", "message": "said"}}, BadRequest),
    ],
)
def test_x_4_an_error_inside_a_good_stream(event: dict[str, Any], expected: type[ProviderError]) -> None:
    """X-4: the error is raised, with the text so far."""
    with pytest.raises(expected, match=r"said|no reason") as caught:
        stream(delta("output_text", "so "), delta("output_text", "far"), event)
    assert caught.value.text == "so far"


def test_a_stream_that_ends_early_is_broken() -> None:
    with pytest.raises(StreamBroken, match="before the reply was complete") as caught:
        stream(delta("output_text", "half"), done(1, **call()))
    assert caught.value.text == "half"


KEYS = "type output_index item_id delta item response output error id call_id name arguments content summary text status".split()
KINDS = (
    "response.created response.output_item.added response.output_item.done response.output_text.delta response.completed "
    "response.function_call_arguments.delta response.function_call_arguments.done function_call message reasoning"
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.sampled_from(KINDS.split()),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=15,
)


@given(VALUES, VALUES, st.sampled_from(KINDS.split()))
def test_garbage_is_a_provider_error_or_harmless(value: Any, other: Any, kind: str) -> None:
    event = {"type": kind, "output_index": 0, "delta": other, "item": value, "response": value}
    for read_it in (lambda: stream(value), lambda: stream(event, event, end()), lambda: ResponsesReader().read_body(value)):
        try:
            read_it()
        except ProviderError:
            continue
