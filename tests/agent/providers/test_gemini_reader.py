"""Replies as Gemini sends them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers._faults import from_status
from agent.providers._gemini_reader import GeminiReader
from toolcrib import BadRequest, Overloaded, ProviderError, ProviderTurn, RateLimited, StreamBroken, StreamEvent


@pytest.fixture
def recorded(recordings: Any) -> Any:
    return recordings("gemini", GeminiReader)


def signatures(content: dict[str, Any]) -> list[tuple[str, str]]:
    found = []
    for part in content["parts"]:
        if "thoughtSignature" in part:
            kind = next((name for name in ("functionCall", "text") if name in part), "other")
            found.append((kind, part["thoughtSignature"]))
    return found


def differs(row: dict[str, Any], read: Any) -> list[str]:
    expected = row["expected"]
    reader, turn, error, events = read
    if turn is None:
        return [str(error)]
    counted = reader.usage  # the recorded counts are Gemini's own, without thoughts and Google's tools
    usage = {
        "input": counted["input"] - counted.get("tool_input", 0),
        "output": counted["output"] - counted.get("reasoning", 0),
    }
    wrong = [
        name
        for name, got, want in (
            ("text", turn.assistant_text, expected["text"]),
            ("reasoning", turn.reasoning, expected["reasoning"]),
            ("usage", usage, expected["usage"]),
            # We don't use "error": an UNEXPECTED_TOOL_CALL has a call, which is answered like any other (X-5).
            ("finish", turn.finish, "other" if expected["finish_norm"] == "error" else expected["finish_norm"]),
            ("signatures", signatures(turn.assistant_turn), [(one["on"], one["value"]) for one in expected["opaque"]]),
        )
        if got != want
    ]
    for kind, name in (("assistant_delta", "text"), ("thinking_delta", "reasoning")):
        if "".join(event.text for event in events if event.kind == kind) != expected[name]:
            wrong.append(f"events of {name}")
    got = [(one.id, one.name, one.args, one.fault) for one in turn.tool_calls]
    want = [
        (one["id"] or given[0], one["name"], one["arguments"], None)
        for one, given in zip(expected["tool_calls"], got)  # noqa: B905 - differing lengths differ below
    ]
    if got != want or len(turn.tool_calls) != len(expected["tool_calls"]):
        wrong.append("calls")
    texts = {call.id: "".join(one.text for one in events if one.call_id == call.id) for call in turn.tool_calls}
    if any(json.loads(texts[call.id]) != call.args for call in turn.tool_calls):
        wrong.append("events of calls")
    server = [key for part in turn.assistant_turn["parts"] for key in part if key in SERVER_PARTS]
    return wrong if server == [one["type"] for one in expected["server_tool_calls"]] else [*wrong, "server parts"]


SERVER_PARTS = ("executableCode", "codeExecutionResult", "toolCall", "toolResponse")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_x_1_x_2_x_5_x_7_x_10_recorded_replies_are_read_exactly(recorded: Any, seed: int) -> None:
    """X-1, X-2, X-5, X-7, X-8, X-10: text, reasoning, calls and their events, usage, finish, signatures in their places."""
    rows = recorded.rows()
    wrong = {row["id"]: found for row in rows if (found := differs(row, recorded.read(row, seed)))}
    assert not wrong, f"{len(wrong)} of {len(rows)} differ: {wrong}"
    assert len(rows) >= 131


def test_004_15_the_content_of_a_whole_reply_is_kept_as_it_came(recorded: Any) -> None:
    """004-15: no key of a part is added, lost or moved."""
    for row in recorded.rows():
        if not row["stream"] and (turn := recorded.read(row, 1).turn) is not None:
            sent = json.loads(row["response_text"])["candidates"][0]["content"]
            assert json.dumps(turn.assistant_turn["parts"]) == json.dumps(sent.get("parts", [])), row["id"]


def test_recorded_refusals_have_their_kind(recorded: Any) -> None:
    rows = recorded.rows("errors.jsonl")
    assert len(rows) == 4
    for row in rows:
        error = from_status(row["status"], row["response_text"], server="s")
        assert type(error) is BadRequest, row["id"]
        assert (error.status, error.retryable) == (row["status"], False)
        assert row["expected"]["error"]["message"] in str(error)
        assert json.loads(error.body if len(error.body) < 2000 else "{}") in (json.loads(row["response_text"]), {})


# -- cases that are not recorded -------------------------------------------------------------------------------------


def piece(*parts: Any, finish: str | None = None, **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": list(parts)}}
    if finish is not None:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-3-test", **more}


def call(name: str | None = None, **more: Any) -> dict[str, Any]:
    return {"functionCall": {**({} if name is None else {"name": name}), **more}}


def some(path: str, value: Any = None, *, goes_on: bool = False, kind: str = "stringValue") -> dict[str, Any]:
    return {"jsonPath": path, kind: value, **({"willContinue": True} if goes_on else {})}


def partial(*pieces: dict[str, Any], goes_on: bool = True) -> dict[str, Any]:
    return call(partialArgs=list(pieces), **({"willContinue": True} if goes_on else {}))


def stream(*chunks: Any) -> tuple[ProviderTurn, list[StreamEvent]]:
    events: list[StreamEvent] = []
    reader = GeminiReader(events.append)
    reader.read_events([("", json.dumps(one)) for one in chunks])
    return reader.finish(), events


def test_x_7_arguments_in_pieces() -> None:
    """X-7: nested paths, strings that continue, every kind of value, signatures on the first, on a later and on an empty part."""
    turn, events = stream(
        piece({"text": "hm", "thought": True}),
        piece({**call("write", willContinue=True, id="w1"), "thoughtSignature": "s1"}),
        piece(partial(some("$.path", "a/", goes_on=True))),
        piece(partial(some("$.path", 'b"\n'))),
        piece(partial(some("$.opts.deep[0].n", 1.5, kind="numberValue"), some("$.opts.deep[0].ok", True, kind="boolValue"))),
        piece(partial(some("$.opts.deep[1]", "NULL_VALUE", kind="nullValue"), some("$['odd key']", "x"))),
        piece({**partial(some("$.last", "\U0001f600")), "thoughtSignature": "s2"}),
        piece(call()),
        piece(call("now")),
        piece({"text": "", "thoughtSignature": "s3"}, finish="STOP"),
    )
    args = {
        "path": 'a/b"\n',
        "opts": {"deep": [{"n": 1.5, "ok": True}, None]},
        "odd key": "x",
        "last": "\U0001f600",
    }
    assert [(one.name, one.args, one.fault) for one in turn.tool_calls] == [("write", args, None), ("now", {}, None)]
    assert turn.finish == "tool_calls"
    assert turn.assistant_turn["parts"] == [
        {"text": "hm", "thought": True},
        {"functionCall": {"id": "w1", "name": "write", "args": args}, "thoughtSignature": "s1"},
        {"text": "", "thoughtSignature": "s2"},
        {"functionCall": {"name": "now"}},
        {"text": "", "thoughtSignature": "s3"},
    ]
    written = "".join(one.text for one in events if one.call_id == "w1")
    assert json.loads(written) == args
    assert {one.name for one in events if one.call_id == "w1"} == {"write"}
    assert "a/" in written.partition("b")[0], "a preview has what came, before the string is whole"


def test_x_7_the_closing_part_may_be_missing() -> None:
    """X-7: the next call or the reply's end closes the previous call; its signature may arrive late."""
    turn, _ = stream(
        piece(call("f", willContinue=True)),
        piece({**partial(some("$.x", 1, kind="numberValue")), "thoughtSignature": "late"}),
        piece(call("g", willContinue=True)),
        piece(partial(some("$.y", "z")), finish="STOP"),
    )
    assert [(one.name, one.args, one.fault) for one in turn.tool_calls] == [("f", {"x": 1}, None), ("g", {"y": "z"}, None)]
    assert turn.assistant_turn["parts"][0]["thoughtSignature"] == "late"


@pytest.mark.parametrize(
    ("pieces", "finish"),
    [
        ([some("$.command", "rm -r buil", goes_on=True)], "MAX_TOKENS"),
        ([some("$.command", "true")], "MAX_TOKENS"),
        ([], "MAX_TOKENS"),
        ([some("$.command", "rm -r buil", goes_on=True)], "STOP"),
    ],
)
def test_x_8_an_open_call_at_the_end_never_runs(pieces: list[dict[str, Any]], finish: str) -> None:
    """X-8: a call that is still open when the reply ends is answered with an error; an earlier complete call stays valid."""
    turn, _ = stream(
        piece(call("f", args={"x": 1})), piece(call("terminal", willContinue=True)), piece(partial(*pieces), finish=finish)
    )
    first, second = turn.tool_calls
    assert (first.fault, first.args) == (None, {"x": 1})
    assert second.fault is not None
    assert second.fault.startswith("cut off" if finish == "MAX_TOKENS" else "the reply ended")
    assert list(second.args) == ["INVALID_JSON"]


@pytest.mark.parametrize(
    "pieces",
    [
        [some("$.a[1]", "x")], [some("$.a", "x"), some("$.a.b", "y")], [some("$.a[0]", "x"), some("$.a.b", "y")],
        [some("a", "x")], [some("$.a.b", "y"), some("$.a", "x")],
        [some("$", "x")], [some("$[0]", "x")], [some("$..a", "x")], [{"stringValue": "x"}], [some("$.a" * 200, "x")], ["junk"],
        [some("$.a[999999999]", "x")],
    ],
)  # fmt: skip
def test_x_7_pieces_that_do_not_fit_are_a_fault(pieces: list[Any]) -> None:
    """X-7, 004-16: such a call does not run; the others do."""
    turn, _ = stream(piece(call("f", willContinue=True)), piece(partial(*pieces)), piece(call()), piece(call("g"), finish="STOP"))
    first, second = turn.tool_calls
    assert "do not fit" in (first.fault or "")
    assert (second.name, second.fault) == ("g", None)


@pytest.mark.parametrize("finish", ["STOP", "UNEXPECTED_TOOL_CALL", "MALFORMED_FUNCTION_CALL", "OTHER", 1])
def test_x_5_the_calls_decide_not_the_finish_reason(finish: Any) -> None:
    """X-5"""
    turn, _ = stream(piece(call("f", args={}), finish=finish))
    assert [one.name for one in turn.tool_calls] == ["f"]
    assert turn.finish == ("tool_calls" if finish == "STOP" else "other")


def test_x_2_ids_are_made_where_there_are_none_and_never_twice() -> None:
    """X-2, X-1"""
    turn, events = stream(piece(call("f", id="a"), call("f", id="a"), call("f"), call("f", id=""), finish="STOP"))
    ids = [one.id for one in turn.tool_calls]
    assert ids[0] == "a"
    assert len(set(ids)) == 4
    assert [one.call_id for one in events] == ids


def test_a_call_that_the_server_could_not_read() -> None:
    """An error of the reply, with the model's words; a retry may help."""
    reader = GeminiReader()
    reader.read_body({"candidates": [{"finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": "print(f(x=)"}]})
    with pytest.raises(StreamBroken, match="could not read the model's call") as caught:
        reader.finish()
    assert caught.value.failed_generation == "print(f(x=)"
    assert caught.value.retryable


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}}, r"does not answer.*SAFETY"),
        ({"promptFeedback": {"blockReason": "OTHER", "blockReasonMessage": "no names"}}, "OTHER: no names"),
    ],
)
def test_a_refused_prompt_says_so(body: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        GeminiReader().read_body(body)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}, Overloaded),
        ({"code": 429, "message": "slow down", "status": "RESOURCE_EXHAUSTED"}, RateLimited),
        ({"code": 400, "message": "bad", "status": "INVALID_ARGUMENT"}, BadRequest),
        ("it broke", StreamBroken),
    ],
)
def test_x_4_an_error_inside_a_good_stream(error: Any, kind: type[ProviderError]) -> None:
    """X-4: the error may be in a stream that is a list, or in a named event"""
    for read_it in (
        lambda: stream(piece({"text": "so "}), piece({"text": "far"}), {"error": error}),
        lambda: GeminiReader().read_body([piece({"text": "so far"}), {"error": error}]),
        lambda: GeminiReader().read_events(
            [("", json.dumps(piece({"text": "so far"}))), ("error", json.dumps({"error": error}))]
        ),
    ):
        with pytest.raises(kind) as caught:
            read_it()
        assert type(caught.value) is kind
        assert caught.value.text == "so far"


def test_what_is_no_reply_is_broken() -> None:
    for body in ({"choices": []}, "text", 1, [], {"candidates": "x"}):
        with pytest.raises(StreamBroken):
            GeminiReader().read_body(body)
    with pytest.raises(StreamBroken, match="before the reply was complete") as caught:
        stream(piece({"text": "half"}))
    assert caught.value.text == "half"
    with pytest.raises(StreamBroken, match="not JSON"):
        GeminiReader().read_events([("", "{")])
    with pytest.raises(StreamBroken, match="plain words"):
        GeminiReader().read_events([("error", "plain words")])


def test_texts_of_a_stream_are_joined_and_signed_ones_stay_apart() -> None:
    """A character in two pieces is shown whole; joining parts loses nothing."""
    turn, events = stream(
        piece({"text": "a\ud83d"}), piece({"text": "\ude00b"}), piece({"text": "c", "thoughtSignature": "s"}),
        piece({"text": "d"}), piece({"text": "t", "thought": True}), piece({"text": ""}),
        piece({"text": "\ud83d"}, finish="STOP"),
    )  # fmt: skip
    assert turn.assistant_text == "a\U0001f600bcd\ufffd"
    assert [one.text for one in events] == ["a", "\U0001f600b", "c", "d", "t", "\ufffd"]
    assert [one["text"] for one in turn.assistant_turn["parts"]] == ["a\U0001f600b", "c", "d", "t", "\ufffd"]
    assert turn.assistant_turn["parts"][1] == {"text": "c", "thoughtSignature": "s"}


NAMES = (
    "candidates content parts text thought functionCall name args id partialArgs jsonPath stringValue willContinue finishReason "
    "error message usageMetadata promptFeedback blockReason thoughtSignature index"
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES.split()), inner, max_size=4),
    max_leaves=15,
)


@given(VALUES)
def test_garbage_is_a_provider_error_or_harmless(value: Any) -> None:
    for read_it in (
        lambda: stream(value),
        lambda: stream(piece(value), piece(finish="STOP")),
        lambda: stream(piece({"functionCall": value}), piece(finish="STOP")),
        lambda: stream(piece(call("f", partialArgs=[value])), piece(finish="STOP")),
        lambda: GeminiReader().read_body(value),
    ):
        try:
            read_it()
        except ProviderError:
            continue
