"""Reasoning goes back as the reply carried it, against servers that answer as the documents of their vendors describe."""

from __future__ import annotations

from typing import Any

import pytest

from agent.providers import _reasoning
from agent.providers._reasoning import FIELDS, DetailReader, ReasoningBack
from tests.agent.providers.documented import (
    ENCRYPTED,
    SIGNED,
    WHOLE,
    Documented,
    cerebras,
    deepseek,
    forbidden,
    groq,
    mistral,
    refuse,
    replies,
    reply,
    talk,
    thinks,
)
from toolcrib import BadRequest
from toolcrib.testing import Response

# -- servers that require reasoning --------------------------------------------------------------------------------------


def test_deepseek_gets_its_reasoning_in_every_later_question() -> None:
    turns = (
        reply(*thinks("I must ", "read."), call="a"),
        reply(*thinks("I know."), text="It is 5."),
        reply(*thinks("Again."), text="Still 5."),
    )
    with Documented(deepseek, *turns) as server:
        natives = talk(server, model="deepseek-v4-flash")
        assert server.refused == 0
        assert [one["reasoning_content"] for one in replies(server.requests[2])] == ["I must read.", "I know."]
    records = [{"role": "user", "text": "x"}, {"role": "assistant", "text": "It is 5.", "native": natives[1], "model": "m"}]
    with Documented(deepseek, reply(text="6")) as server:
        talk(server, 1, records=records)
        assert [one["reasoning_content"] for one in replies(server.requests[0])] == ["I know."]


def test_deepseek_gets_a_blank_for_messages_without_reasoning() -> None:
    """They are another model's messages, and a reply with empty reasoning. The server's refusal shows that it needs the field."""
    records: list[dict[str, Any]] = [
        {"role": "user", "text": "x"},
        {"role": "assistant", "text": "", "calls": [{"id": "c", "name": "read", "args": {}}], "via": {"model": "gpt-9"}},
        {"role": "results", "results": [{"call_id": "c", "text": "{}"}]},
    ]
    turns = reply(*thinks(), call="a"), reply(*thinks("b"), text="done")
    with Documented(deepseek, *turns) as server:
        talk(server, 1, records=records)
        assert server.refused == 1
        assert [one["reasoning_content"] for one in replies(server.requests[-1])] == [" ", " "]
        assert "reasoning_content" not in replies(server.requests[0])[0]


@pytest.mark.parametrize(
    "words",
    [
        "Missing reasoning_content field in the assistant message at message index 2",
        "thinking is enabled but reasoning_content is missing in assistant tool call message at index 2",
        "Error from provider: The reasoning content in the thinking mode must be passed back to the API.",
    ],
)
def test_a_gateway_that_renames_reasoning_gets_it_under_the_name_that_it_requires(words: str) -> None:
    """OpenRouter answers with `reasoning`; DeepSeek behind it requires `reasoning_content`."""

    def rules(sent: Any) -> Response | None:
        return None if all("reasoning_content" in one for one in replies(sent)) else refuse(words)

    with Documented(rules, reply(*thinks("hm", key="reasoning"), call="a"), reply(text="done")) as server:
        talk(server, 1)
        assert server.refused == 1
        assert [(one["reasoning"], one["reasoning_content"]) for one in replies(server.requests[-1])] == [("hm", "hm")]


@pytest.mark.parametrize(
    "words", ["思考模式下必须回传 reasoning_content", "reasoning_content fehlt", "reasoning_content is unsupported"]
)
@pytest.mark.parametrize("key", ["reasoning", "reasoning_content"])
def test_a_demand_in_any_words_is_no_refusal_of_a_field_that_was_not_sent(words: str, key: str) -> None:
    """The field is missing in all messages, or in one of them."""

    def rules(sent: Any) -> Response | None:
        return None if all("reasoning_content" in one for one in replies(sent)) else refuse(words)

    records: list[dict[str, Any]] = [
        {"role": "user", "text": "x"},
        {"role": "assistant", "text": "old", "via": {"model": "gpt-9"}},
    ]
    records = records if key == "reasoning_content" and "unsupported" not in words else []
    key = key if records else "reasoning"
    turns = [reply(*thinks("hm", key=key), call="a"), reply(text="done")]
    with Documented(rules, *turns) as server:
        talk(server, 1, records=records)
        assert server.refused == 1
        assert [one["reasoning_content"] for one in replies(server.requests[-1])][-1:] == ["hm"]


@pytest.mark.parametrize("words", ["reasoning_content 不支持", "bad reasoning_content"])
def test_a_refusal_of_a_field_in_each_message_leaves_it_out(words: str) -> None:
    def rules(sent: Any) -> Response | None:
        return refuse(words) if forbidden(sent, ["reasoning_content"]) else None

    with Documented(rules, reply(*thinks("hm"), call="a"), reply(text="done")) as server:
        talk(server, 1)
        assert server.refused == 1


def test_a_first_request_has_no_reasoning_to_add() -> None:
    with Documented(lambda sent: refuse("reasoning_content is required")) as server:
        with pytest.raises(BadRequest):
            talk(server, 1)
        assert server.refused == 1


@pytest.mark.parametrize(
    ("model", "details", "whole"),
    [
        ("google/gemini-3-pro-preview", [ENCRYPTED], [ENCRYPTED]),
        ("anthropic/claude-sonnet-5", SIGNED, [WHOLE]),
        ("MiniMax-M2.5", SIGNED, [WHOLE]),
        (
            "openai/gpt-5.6",
            [
                {"type": "reasoning.summary", "index": 0, "summary": "a"},
                {"type": "reasoning.summary", "index": 0, "summary": "b"},
                {"type": "reasoning.encrypted", "index": 1, "id": "rs_1", "data": "x"},
                {"type": "reasoning.summary", "index": 2, "summary": "c"},
            ],
            [
                {"type": "reasoning.summary", "index": 0, "summary": "ab"},
                {"type": "reasoning.encrypted", "index": 1, "id": "rs_1", "data": "x"},
                {"type": "reasoning.summary", "index": 2, "summary": "c"},
            ],
        ),
    ],
)
def test_openrouter_gets_whole_reasoning_details(model: str, details: list[dict[str, Any]], whole: list[dict[str, Any]]) -> None:
    """A call without its signature, or with pieces of a signed text, is refused."""

    def rules(sent: Any) -> Response | None:
        calling = [one for one in replies(sent) if one.get("tool_calls")]
        return None if all(one.get("reasoning_details") == whole for one in calling) else refuse("Invalid signature in thinking")

    thought = [{"reasoning": one.get("text", ""), "reasoning_details": [one]} for one in details]
    with Documented(rules, reply(*thought, call="a"), reply(text="x"), reply(text="y")) as server:
        talk(server, model=model)
        assert server.refused == 0


# -- servers that refuse reasoning ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
@pytest.mark.parametrize("rules", [cerebras, groq, mistral])
def test_a_refused_field_is_left_out_and_remembered_for_the_server(rules: Any, key: str) -> None:
    thought = thinks("A file is missing; the answer is required and must be passed back.", key=key)
    turns = [reply(*thought, call="a"), reply(*thought, text="x"), reply(*thought, text="y")]
    with Documented(rules, *turns, *turns) as server:
        talk(server)
        assert server.refused == (0 if rules is cerebras and key == "reasoning" else 1)
        assert len(server.requests) == 3 + server.refused
        before = server.refused
        talk(server)
        assert server.refused == before


@pytest.mark.parametrize("host", ["api.cerebras.ai", "api.groq.com", "api.mistral.ai", "codestral.mistral.ai:443"])
def test_a_server_that_is_known_to_refuse_reasoning_never_gets_it(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not any(ReasoningBack(host).sends(field) for field in FIELDS)
    assert all(
        ReasoningBack(other).sends(field) for other in ("openrouter.ai", "notgroq.com", "groq.com.example") for field in FIELDS
    )
    monkeypatch.setattr(_reasoning, "_REFUSING", ("127.0.0.1",))
    with Documented(groq, reply({"reasoning": "hm", "reasoning_details": SIGNED}, call="a"), reply(text="x")) as server:
        talk(server, 1)
        assert server.refused == 0


def test_a_refused_signature_is_left_out_for_the_session_only() -> None:
    def rules(sent: Any) -> Response | None:
        return refuse("Corrupted reasoning_details: bad signature") if forbidden(sent, ["reasoning_details"]) else None

    thought = {"reasoning": "hm", "reasoning_details": [ENCRYPTED]}
    with Documented(rules, *[reply(thought, call="a"), reply(text="x")] * 2) as server:
        talk(server, 1)
        assert replies(server.requests[-1])[0]["reasoning"] == "hm"
        talk(server, 1)
        assert server.refused == 2


@pytest.mark.parametrize("words", ["Provider returned error", "Bad Request"])
def test_a_refusal_without_a_reason_leaves_the_details_out_for_the_session_only(words: str) -> None:
    def rules(sent: Any) -> Response | None:
        return refuse(words) if forbidden(sent, ["reasoning_details"]) else None

    thought = {"reasoning": "hm", "reasoning_details": [ENCRYPTED]}
    with Documented(rules, *[reply(thought, call="a"), reply(text="x")] * 2) as server:
        talk(server, 2)
        assert server.refused == 1
    with Documented(lambda sent: refuse(words) if replies(sent) else None, reply(thought, call="a")) as server:
        with pytest.raises(BadRequest, match=words):
            talk(server, 1)
        assert server.refused == 2


def test_a_template_that_takes_text_or_reasoning_gets_text() -> None:
    def rules(sent: Any) -> Response | None:
        both = any(one.get("content") and one.get("reasoning_content") and one.get("tool_calls") for one in replies(sent))
        return refuse("Cannot pass both content and thinking in an assistant message with tool calls!", 500) if both else None

    silent, spoken = reply({"content": "I look."}, call="a"), reply({"content": "I look."}, *thinks("hm"), call="b")
    with Documented(rules, silent, spoken, reply(text="x")) as server:
        talk(server, 1)
        assert server.refused == 1
        assert [one["content"] for one in replies(server.requests[-1])] == ["I look.", "I look."]


def test_a_server_that_requires_and_refuses_reasoning_is_not_asked_for_ever() -> None:
    def rules(sent: Any) -> Response | None:
        if not replies(sent):
            return None
        return groq(sent) or deepseek(sent)

    with Documented(rules, reply(*thinks("hm"), call="a")) as server:
        with pytest.raises(BadRequest, match="must be passed back"):
            talk(server, 1)
        assert server.refused <= 4


@pytest.mark.parametrize("words", ["unsupported value: 'reasoning_effort'", "this model has no reasoning", "bad temperature"])
def test_other_refusals_do_not_leave_reasoning_out(words: str) -> None:
    refusals = [refuse(words)]

    def rules(sent: Any) -> Response | None:
        return refusals.pop() if replies(sent) and refusals else None

    with Documented(rules, reply({"reasoning": "hm"}, call="a")) as server:
        with pytest.raises(BadRequest):
            talk(server, 1)
        assert server.refused == 1


# -- joining details -----------------------------------------------------------------------------------------------------


TEXT = {"index": 0, "type": "reasoning.text"}
SECRET = {"index": 0, "type": "reasoning.encrypted"}


@pytest.mark.parametrize(
    ("pieces", "whole"),
    [
        ([[TEXT | {"text": "a"}], [TEXT | {"text": "b"}]], [TEXT | {"text": "ab"}]),
        ([[TEXT | {"text": "a"}], [{"index": 0, "signature": "S"}]], [TEXT | {"text": "a", "signature": "S"}]),
        ([TEXT | {"text": "a"}], [TEXT | {"text": "a"}]),
        ([["odd", None, {"text": "a"}, {"text": "b"}]], ["odd", None, {"text": "a"}, {"text": "b"}]),
        ([[{"index": 1, "data": "x"}, {"index": 0, "data": "y"}]], [{"index": 1, "data": "x"}, {"index": 0, "data": "y"}]),
        ([[SECRET | {"data": "x"}], [SECRET | {"data": "x"}]], [SECRET | {"data": "x"}]),
        ([[SECRET | {"data": "x"}], [SECRET | {"data": "y"}]], [SECRET | {"data": "xy"}]),
        ([[SECRET | {"id": "1", "data": "x"}, SECRET | {"id": "2"}]], [SECRET | {"id": "1", "data": "x"}, SECRET | {"id": "2"}]),
        (
            [[TEXT | {"text": "x"}], [SECRET | {"data": "d"}], [TEXT | {"text": "y"}]],
            [TEXT | {"text": "xy"}, SECRET | {"data": "d"}],
        ),
        ([[TEXT | {"text": None, "signature": "S"}], [TEXT | {"signature": ""}]], [TEXT | {"text": None, "signature": "S"}]),
        ([[TEXT | {"text": "\ud83d"}], [TEXT | {"text": "\ude4f"}]], [TEXT | {"text": "\U0001f64f"}]),
    ],
)
def test_details_are_joined_by_index(pieces: list[Any], whole: list[Any]) -> None:
    reader = DetailReader()
    for piece in pieces:
        reader.feed(piece)
    assert reader.size > 0
    assert reader.finish() == whole
