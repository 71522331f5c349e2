"""Replies as servers send them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers._chat_reader import ChatReader
from agent.providers._faults import from_status
from toolcrib import BadRequest, ContextTooLong, Overloaded, ProviderError, ProviderTurn, RateLimited, StreamBroken, StreamEvent


@pytest.fixture
def recorded(recordings: Any) -> Any:
    return recordings("chat", ChatReader)


def differs(row: dict[str, Any], read: Any) -> list[str]:
    expected = row["expected"]
    reader, turn, error, events = read
    usage = {name: count for name, count in reader.usage.items() if name in ("input", "output")}
    pairs = {"text": reader.text, "reasoning": reader.reasoning, "usage": usage or None}
    wrong = [name for name, got in pairs.items() if got != expected[name]]
    for kind, name in (("assistant_delta", "text"), ("thinking_delta", "reasoning")):
        if "".join(event.text for event in events if event.kind == kind) != expected[name]:
            wrong.append(f"events of {name}")
    if (wanted := expected.get("error")) is not None:
        if error is None or wanted["message"] not in str(error) or error.failed_generation != wanted.get("failed_generation"):
            wrong.append("error")
        return wrong if error is not None and error.text == expected["text"] else [*wrong, "the error's text"]
    if turn is None:
        return [*wrong, str(error)]
    native = turn.assistant_turn.get("tool_calls") or []
    got = [(one.id, one.name, one.args, one.fault, sent["function"]["arguments"]) for one, sent in zip(turn.tool_calls, native)]  # noqa: B905 - differing lengths differ below
    want = [
        (one["id"] or given[0], one["name"], one["arguments"], None, one["arguments_raw"] or "{}")
        for one, given in zip(expected["tool_calls"], got)  # noqa: B905 - as above
    ]
    counts = len(turn.tool_calls) == len(native) == len(expected["tool_calls"])
    return [
        *wrong,
        *(["calls"] if got != want or not counts else []),
        *(["finish"] if turn.finish != expected["finish_norm"] else []),
    ]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_x_1_to_5_x_8_x_10_recorded_replies_are_read_exactly(recorded: Any, seed: int) -> None:
    """X-1, X-2, X-3, X-4, X-5, X-8, X-10: each recorded reply, cut at random: text, reasoning, calls, usage, finish, errors."""
    rows = recorded.rows()
    wrong = {row["id"]: found for row in rows if (found := differs(row, recorded.read(row, seed)))}
    assert not wrong, f"{len(wrong)} of {len(rows)} differ: {wrong}"
    assert len(rows) >= 217


def test_000_42_recorded_refusals_have_their_kind(recorded: Any) -> None:
    """000-42, X-4: the error has the status and the server's message; also Groq's call that it could not parse."""
    rows = recorded.rows("errors.jsonl")
    assert rows
    for row in rows:
        error = from_status(row["status"], row["response_text"], server="s")
        wanted = row["expected"]["error"]
        assert type(error) is BadRequest, row["id"]
        assert (error.status, error.retryable) == (row["status"], False)
        assert wanted["message"] in str(error)
        assert error.failed_generation == wanted.get("failed_generation")


# -- cases that are not recorded -------------------------------------------------------------------------------------


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> dict[str, Any]:
    return {
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
        **more,
    }


def call(arguments: Any = None, *, name: str | None = None, **more: Any) -> dict[str, Any]:
    function = {key: value for key, value in (("name", name), ("arguments", arguments)) if value is not None}
    return {"function": function, **more}


def stream(*chunks: Any, done: bool = True) -> tuple[ProviderTurn, list[StreamEvent]]:
    events: list[StreamEvent] = []
    reader = ChatReader(events.append)
    reader.read_events([("", json.dumps(one)) for one in chunks] + ([("", "[DONE]")] if done else []))
    return reader.finish(), events


def calls_of(*deltas: list[dict[str, Any]], finish: str = "tool_calls") -> list[tuple[str, Any]]:
    turn, events = stream(*(chunk({"tool_calls": one}) for one in deltas), chunk({}, finish))
    ids = [one.id for one in turn.tool_calls]
    assert len(set(ids)) == len(ids), "X-1 each call has an id of its own"
    assert [one["id"] for one in turn.assistant_turn.get("tool_calls", [])] == ids, "X-2 and it goes back with the same"
    assert set(ids) == {event.call_id for event in events}, "004-11 the events carry it too"
    return [(one.name, one.args if one.fault is None else one.fault) for one in turn.tool_calls]


@pytest.mark.parametrize(
    ("deltas", "calls"),
    [
        ([[call("", name="f", id="a", index=0)], [call('{"x":', index=0)], [call("1}", index=0)]], [("f", {"x": 1})]),
        ([[call('{"x":', name="f", id="a", index=None)], [call("1}", name="f", id="a", index=None)]], [("f", {"x": 1})]),
        ([[call('{"x":', name="f", id="a", index=0)], [call("1}", name="f", id="a", index=0)]], [("f", {"x": 1})]),
        ([[call("{}", name="f", id="a"), call("{}", name="g", id="b")]], [("f", {}), ("g", {})]),
        ([[call("{}", name="f"), call("{}", name="f")]], [("f", {}), ("f", {})]),
        ([[call('{"x":', name="f")], [call("1}")], [call('{"x":2}', name="f")]], [("f", {"x": 1}), ("f", {"x": 2})]),
        ([[call("{}", name="f", id="a", index=0)], [call("{}", name="g", id="b", index=0)]], [("f", {}), ("g", {})]),
        (
            [[call('{"x":1}', name="f", id="", index=0)], [call('{"x":2}', name="f", id="", index=0)]],
            [("f", {"x": 1}), ("f", {"x": 2})],
        ),
        ([[call("{}", name="f", id="same", index=0)], [call("{}", name="g", id="same", index=1)]], [("f", {}), ("g", {})]),
        ([[call({"x": 1}, name="f", id="a", index=0)]], [("f", {"x": 1})]),
        ([[call("", name="f", id="a", index=0)]], [("f", {})]),
        ([[call(None, name="f", id="a", index=0)]], [("f", {})]),
        ([[call("{}", name="f", id="a", index=1)], [call("{}", name="g", id="b", index=0)]], [("f", {}), ("g", {})]),
        ([[{"index": 0, "id": "a", "function": None}], [call("{}", name="f", index=0)]], [("f", {})]),
        (
            [[call("", name="f", id="a"), call("", name="g", id="b")], [call('{"x":'), call("")], [call("1}"), call('{"x":2}')]],
            [("f", {"x": 1}), ("g", {"x": 2})],
        ),
        ([[call("", name="f", id="a"), call('{"x":', name="g", id="b")], [call("1}")]], [("f", {}), ("g", {"x": 1})]),
    ],
)
def test_x_2_x_3_calls_however_they_come(deltas: list[list[dict[str, Any]]], calls: list[tuple[str, Any]]) -> None:
    """X-2, X-3: no index, null index, repeated ids and names, one index for all, whole arguments, none."""
    assert calls_of(*deltas) == calls


HEAD, PIECE = {"name": "f", "id": "a"}, '{"path": "tmp"}'


@pytest.mark.parametrize("begun", [None, ""])
@pytest.mark.parametrize(("named", "other"), [(0, 1), (1, 0), (0, 7)])
def test_arguments_under_another_index_than_their_name_are_joined(begun: str | None, named: int, other: int) -> None:
    turn, _ = stream(
        chunk({"tool_calls": [call(begun, **HEAD, index=named)]}),
        *(chunk({"tool_calls": [call(part, index=other)]}) for part in (PIECE[:6], PIECE[6:])),
        chunk({}, "tool_calls"),
    )
    assert [(one.name, one.args, one.fault) for one in turn.tool_calls] == [("f", {"path": "tmp"}, None)]
    (sent,) = turn.assistant_turn["tool_calls"]
    assert (sent["id"], sent["function"]) == ("a", {"name": "f", "arguments": PIECE})


@pytest.mark.parametrize(
    ("deltas", "runs"),
    [
        ([call("", **HEAD, index=0), call("", name="g", id="b", index=1), call(PIECE, index=2)], []),
        ([call("", **HEAD, index=0), call(PIECE, index=1), call(PIECE, index=2)], []),
        ([call("{}", **HEAD, index=0), call(PIECE, index=1)], []),
        ([call("", **HEAD, index=0), call(PIECE, id="b", index=1)], []),
        ([call(PIECE, **HEAD, index=0), call("{}", name="g", id="b", index=1), call(PIECE, index=2)], ["f"]),
    ],
)
def test_a_call_that_may_have_lost_its_arguments_does_not_run(deltas: list[dict[str, Any]], runs: list[str]) -> None:
    turn, _ = stream(*(chunk({"tool_calls": [one]}) for one in deltas), chunk({}, "tool_calls"))
    assert [one.name for one in turn.tool_calls if one.fault is None] == runs
    assert all("Call again with all its arguments" in str(one.fault) for one in turn.tool_calls if one.name and not one.args)


@pytest.mark.parametrize("pieces", [[PIECE], [PIECE[:6], PIECE[6:]], [PIECE, ""]])
def test_arguments_that_may_belong_to_either_of_two_calls_run_neither(pieces: list[str]) -> None:
    heads = [call("", **HEAD), call("", name="g", id="b")]
    turn, _ = stream(
        *(chunk({"tool_calls": one}) for one in (heads, *([call(part)] for part in pieces))), chunk({}, "tool_calls")
    )
    assert [one.name for one in turn.tool_calls] == ["f", "g", ""]
    assert all(one.fault for one in turn.tool_calls)


def test_comments_that_a_gateway_sent_as_data_are_ignored() -> None:
    reader = ChatReader()
    data = (": PROCESSING", json.dumps(chunk({"content": "hi"})), ": PROCESSING", json.dumps(chunk({}, "stop")), "[DONE]")
    reader.read_events([("", one) for one in data])
    assert reader.finish().assistant_text == "hi"


def test_arguments_of_another_index_are_cut_off_with_their_call() -> None:
    turn, _ = stream(
        chunk({"tool_calls": [call("", **HEAD, index=1)]}), chunk({"tool_calls": [call(PIECE, index=0)]}), chunk({}, "length")
    )
    assert [one.fault is not None for one in turn.tool_calls] == [True]


@pytest.mark.parametrize("place", ["choice", "gateway"])
@pytest.mark.parametrize(
    ("word", "native", "kind", "finish"),
    [
        ("stop", "network_error", "broken", "other"),
        ("tool_calls", "MALFORMED_FUNCTION_CALL", "broken", "other"),
        ("stop", "max_tokens", "cut", "length"),
        ("stop", "SAFETY", "filtered", "content_filter"),
        ("stop", "STOP", "whole", "stop"),
        ("stop", "completed", "whole", "stop"),
        ("stop", None, "whole", "stop"),
        ("length", "stop", "cut", "length"),
    ],
)
def test_the_word_of_the_server_behind_a_gateway_decides_if_it_is_bad(
    word: str, native: str | None, kind: str, finish: str, place: str
) -> None:
    more: dict[str, Any] = {"native_finish_reason": native}
    more = more if place == "choice" else {"provider_specific_fields": more}
    reader = ChatReader()
    reader.read_events(
        [
            ("", json.dumps(one))
            for one in (chunk({"content": "part"}), {"choices": [{"delta": {}, "finish_reason": word, **more}]})
        ]
    )
    turn = reader.finish()
    assert (reader.end.kind, turn.finish) == (kind, "tool_calls" if finish == "stop" and word == "tool_calls" else finish)


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        ('{"x": 1', "not valid JSON"), ("[1]", "not a JSON object but list"), ('{"x": NaN}', "NaN is not JSON"),
        ("{'x': 1", "not valid JSON"), ('{"x": 1}}', "not valid JSON"), ('{"x": "\\ud800"}', "surrogate"),
        ("[" * 100_000, "nested too deeply"), ('{"x": "a\nb', "not valid JSON"), ('"ls -la"', "not a JSON object but str"),
        ('"[1]"', "not a JSON object but str"), ("{'x': 1, 'x': 2}", "not valid JSON"), ('{"x": "it"s"}', "not valid JSON"),
    ],
)  # fmt: skip
def test_004_16_arguments_that_cannot_be_read_are_a_fault(arguments: str, fault: str) -> None:
    """004-16: arguments are never completed, and the call never runs; the raw text is kept in a form that servers accept."""
    turn, _ = stream(chunk({"tool_calls": [call(arguments, name="f", id="a", index=0)]}), chunk({}, "tool_calls"))
    assert fault in (turn.tool_calls[0].fault or "")
    assert turn.tool_calls[0].args == {"INVALID_JSON": arguments}
    sent = turn.assistant_turn["tool_calls"][0]["function"]["arguments"]
    assert json.loads(sent) == {"INVALID_JSON": arguments}


@pytest.mark.parametrize(
    ("arguments", "read"),
    [
        ('{"x": "a\nb\tc"}', {"x": "a\nb\tc"}), ("{'x': 'it\\'s', 'y': True}", {"x": "it's", "y": True}),
        ("{x: 1,}", {"x": 1}), ('"{\\"x\\": 1}"', {"x": 1}), ("null", {}), ('""', {}), ('"{}"', {}), (" ", {}),
    ],
)  # fmt: skip
def test_slips_that_lose_nothing_are_repaired(arguments: str, read: Any) -> None:
    """The repairs are those of the text protocols. Servers get strict JSON back."""
    turn, _ = stream(chunk({"tool_calls": [call(arguments, name="f", id="a", index=0)]}), chunk({}, "tool_calls"))
    [made] = turn.tool_calls
    assert (made.args, made.fault) == (read, None)
    assert json.loads(turn.assistant_turn["tool_calls"][0]["function"]["arguments"]) == read


@pytest.mark.parametrize("arguments", ["", '{"command": "rm -r buil', '{"command": "true"}'])
@pytest.mark.parametrize("finish", ["length", "max_tokens", "model_length"])
def test_x_8_a_call_at_the_token_limit_is_never_run(arguments: str, finish: str) -> None:
    """X-8: the last call of such a reply is not run; earlier complete calls stay valid."""
    deltas = [[call("{}", name="f", id="a", index=0)], [call(arguments, name="g", id="b", index=1)]]
    first, second = calls_of(*deltas, finish=finish)
    assert first == ("f", {})
    assert second[1].startswith("cut off")


@pytest.mark.parametrize("finish", ["stop", "", None, "tool_calls", "weird"])
def test_x_5_the_calls_decide_not_the_finish_reason(finish: str | None) -> None:
    """X-5"""
    turn, _ = stream(chunk({"tool_calls": [call("{}", name="f", id="a", index=0)]}), chunk({}, finish))
    assert [one.name for one in turn.tool_calls] == ["f"]
    assert stream(chunk({"content": "x"}), chunk({}, "tool_calls"))[0].tool_calls == ()


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"message": "busy", "code": 502}, Overloaded), ({"message": "slow down", "code": "rate_limit_exceeded"}, RateLimited),
        ({"message": "maximum context length is 10", "code": 400}, ContextTooLong), ("it broke", StreamBroken),
        ({"message": "bad", "status_code": 400, "failed_generation": "{"}, BadRequest), ({"message": "?"}, StreamBroken),
        ({"message": "try again in 2s", "code": "429"}, RateLimited),
    ],
)  # fmt: skip
def test_x_4_an_error_inside_a_good_stream(error: Any, kind: type[ProviderError]) -> None:
    """X-4: the error is raised, with the text so far."""
    with pytest.raises(kind) as caught:
        stream(chunk({"content": "so "}), chunk({"content": "far"}), {"error": error})
    assert type(caught.value) is kind
    assert caught.value.text == "so far"
    assert caught.value.failed_generation == (error.get("failed_generation") if isinstance(error, dict) else None)


def test_x_4_an_error_in_a_choice_or_a_named_event() -> None:
    """X-4"""
    bad = chunk({"content": ""}, "error")
    bad["choices"][0]["error"] = {"code": 429, "message": "upstream"}
    with pytest.raises(RateLimited, match="upstream"):
        stream(bad)
    with pytest.raises(StreamBroken, match="plain words"):
        ChatReader().read_events([("error", "plain words")])


def test_x_3_parts_usage_and_refusals() -> None:
    """X-3: content as parts, usage without choices; a refusal is text"""
    turn, events = stream(
        chunk({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}),
        chunk({"content": [{"type": "text", "text": "yes"}, {"type": "reference", "reference_ids": [1]}]}),
        chunk({"refusal": " but no"}, "stop"),
        {"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}}},
    )
    assert (turn.assistant_text, turn.reasoning, turn.finish, turn.model) == ("yes but no", "hm", "stop", "m")
    assert turn.usage == {"input": 3, "output": 2, "cached": 1}
    assert [event.kind for event in events] == ["thinking_delta", "assistant_delta", "assistant_delta"]


def test_a_character_in_two_deltas() -> None:
    """Half a surrogate pair is never shown; a lone half becomes U+FFFD."""
    turn, events = stream(chunk({"content": "a\ud83d"}), chunk({"content": "\ude00b"}), chunk({"content": "\ud83d"}, "stop"))
    assert turn.assistant_text == "a\U0001f600b\ufffd"
    assert [event.text for event in events] == ["a", "\U0001f600b", "\ufffd"]


def test_a_stream_without_the_requested_choice_is_said_to_have_none() -> None:
    """An old server counts its pieces in the index of the choice."""
    pieces = [{"choices": [{"index": at + 1, "delta": {"content": "x"}, "finish_reason": None}]} for at in range(3)]
    with pytest.raises(StreamBroken, match="no choice with index 0"):
        stream(*pieces)
    turn, _ = stream(pieces[0], chunk({"content": "y"}), chunk({}, "stop"))
    assert turn.assistant_text == "y"


def test_a_stream_that_ends_early_is_broken() -> None:
    with pytest.raises(StreamBroken, match="before the reply was complete") as caught:
        stream(chunk({"content": "half"}), chunk({"tool_calls": [call("{}", name="f", id="a", index=0)]}), done=False)
    assert caught.value.text == "half"
    assert stream(chunk({"content": "whole"}, "stop"), done=False)[0].assistant_text == "whole"


KEYS = (
    "choices delta content tool_calls function arguments name index id usage error message reasoning finish_reason x_groq "
    "prompt_tokens type text thinking reasoning_details"
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=4),
    max_leaves=15,
)


@given(VALUES)
def test_garbage_is_a_provider_error_or_harmless(value: Any) -> None:
    for read_it in (
        lambda: stream(value),
        lambda: stream(chunk(value)),
        lambda: ChatReader().read_body({"choices": [{"message": value}]}),
    ):
        try:
            read_it()
        except ProviderError:
            continue
