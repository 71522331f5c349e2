"""Cases from public reports: formats that no reader knew, and calls in forms that are slightly off."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent.protocols._profile import protocol_of
from tests.agent.protocols.reading import ran, read_whole, whole_calls
from toolcrib.contract.session import ParsedReply


def rows(name: str, kind: str) -> list[Any]:
    """Return the rows of a file of the reports as parameters, or one skipped parameter if the file is missing."""
    file = Path(os.environ.get("TOOLCRIB_CORPORA", "/nonexistent"), "reports", name)
    if not file.is_file():
        absent = pytest.mark.skip(reason="TOOLCRIB_CORPORA is not set, or has no reports")
        return [pytest.param({}, id="absent", marks=absent)]
    found = [row for row in map(json.loads, file.read_text("utf-8").splitlines()) if row["kind"] == kind]
    return [pytest.param(row, id=row["id"]) for row in found]


def read(text: str, tools: Any, name: str, *, truncated: bool = False) -> ParsedReply:
    return read_whole(tools, text, protocol_of(name).name, truncated=truncated)


@pytest.mark.parametrize("row", rows("formats_missing.jsonl", "format"))
def test_a_format_of_a_report_is_read(row: dict[str, Any]) -> None:
    reply = read(row["text"], row["tools"], row["format"].split()[0])
    assert ran(reply) == [(call["name"], call["arguments"]) for call in row["expected_calls"]]
    assert (reply.content, list(reply.faults)) == ("", [])


@pytest.mark.parametrize("row", rows("models.jsonl", "text-protocol"))
def test_a_call_of_a_report_is_read(row: dict[str, Any]) -> None:
    """000-21..31. Of a truncated reply, no call runs that its source does not have (X-8)."""
    case, expected = row["input"], row["expected"]
    truncated = bool(case["flags"].get("truncated"))
    reply = read(case["text"], case["tools"], case["format"], truncated=truncated)
    if "calls" in expected:
        calls = [(call["name"], call["arguments"]) for call in expected["calls"]]
        assert (ran(reply), whole_calls(reply)) == (([], calls[: len(whole_calls(reply))]) if truncated else (calls, calls))
    for key in ("content", "reasoning"):
        if key in expected:
            assert getattr(reply, key) == expected[key]
    if expected.get("faults"):
        assert reply.faults


TOOLS: list[dict[str, Any]] = [
    {"name": "find", "parameters": {"type": "object", "properties": {
        "query": {"type": "string"}, "count": {"type": "integer"}, "tags": {"type": "array", "items": {"type": "string"}}}}},
    {"name": "ping", "parameters": {"type": "object", "properties": {}}},
]  # fmt: skip
Q = '<|"|>'
K3 = "<|open|>call tool='functions.find'<|sep|><|open|>argument key='count'<|sep|>3<|close|>argument<|sep|><|close|>call<|sep|>"


@pytest.mark.parametrize(
    ("braces", "args"),
    [
        (f"query:a, b and c{Q}", {"query": "a, b and c"}),
        (f"query:rain{Q},count:3", {"query": "rain", "count": 3}),
        (f"count:3,query:rain in May{Q}", {"count": 3, "query": "rain in May"}),
        (f"tags:[a{Q},b{Q}],query:x{Q}", {"tags": ["a", "b"], "query": "x"}),
        (f"query:{Q}rain{Q}count:3", {"query": "rain", "count": 3}),
        ("query='rain',count=3", {"query": "rain", "count": 3}),
        (f"count:3{Q}", {"count": 3}),
    ],
)
def test_a_string_without_its_opening_mark_is_read(braces: str, args: dict[str, Any]) -> None:
    reply = read(f"<|tool_call>call:find{{{braces}}}<tool_call|>", TOOLS, "gemma")
    assert (ran(reply), list(reply.faults), reply.content) == ([("find", args)], [], "")


@pytest.mark.parametrize(
    "braces",
    [f"query:a.txt,tags:{Q},{Q}", f"query:a,count:b{Q}", f"query:{Q}a", "query:rain", f"query:a{Q}b{Q}", "count:3 tags:[]"],
)
def test_one_whose_end_is_not_clear_is_refused(braces: str) -> None:
    reply = read(f"<|tool_call>call:find{{{braces}}}<tool_call|>", TOOLS, "gemma")
    assert ran(reply) == []
    assert reply.faults


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ('<tool_call>{"name": "find", "arguments": {"input": {"query": "x"}}}</tool_call>', [("find", {"query": "x"})]),
        ('<tool_call>{"name": "find", "arguments": {"input": "{\\"query\\": \\"x\\"}"}}</tool_call>', [("find", {"query": "x"})]),
        ('<tool_call>{"name": "ping", "arguments": {"arguments": {}}}</tool_call>', [("ping", {})]),
        ('<tool_call>{"name": "find", "arguments": {"input": {"other": "x"}}}</tool_call>',
         [("find", {"input": {"other": "x"}})]),
        ('<tool_call>{"name": "other", "arguments": {"input": {}}}</tool_call>', [("other", {"input": {}})]),
        ('<tool_call>{"name": "find",\\n "arguments": {\\n"query": "a\\nb"\\n}}</tool_call>', [("find", {"query": "a\nb"})]),
        ("<tool_call>find<arg_key><arg_key>query</arg_key><arg_value>x</arg_value></tool_call>", [("find", {"query": "x"})]),
        ("<tool_call>find<arg_key>query</arg_key><arg_value>'<arg_value>'</arg_value></tool_call>",
         [("find", {"query": "'<arg_value>'"})]),
        ("<tool_call>find<arg_key>query</arg_key><arg_value><arg_value>x</arg_value></tool_call>", []),
        ("<tool_call>find<arg_key>query</arg_key><arg_value>a <arg_value> b</arg_value></tool_call>", []),
        ("<function=find><parameter=query>x</parameter></parameter></function>", [("find", {"query": "x"})]),
        ("<function=find><parameter=query><b>x</parameter></parameter></function>", []),
        ("<tool_call:x1>ping<tool_sep:x1></tool_call:x1>", [("ping", {})]),
        ('<tool_call:x1>find<tool_sep:x1>{"query": "x"}</tool_call:x1>', [("find", {"query": "x"})]),
        ("<think:x1>so</think:x1><answer:x1></answer:x1><tool_call:x1>ping</tool_call:x1>", [("ping", {})]),
        ('find<|content_invoke_tool_json|>{"name": "find", "args": {"query": "x"}}', [("find", {"query": "x"})]),
        ('<minimax:tool_call><invoke name="ping.ping"></invoke></minimax:tool_call>', [("ping", {})]),
        ("<assistant>\n<think>so</think>\n<tool_call>ping</tool_call>\n</assistant>", [("ping", {})]),
        ("<think:x1>so</think:x1><tool_call:x1>ping</tool_call:x1>", [("ping", {})]),
        ("so</think:x1><tool_calls:x1><tool_call:x1>ping</tool_call:x1></tool_calls:x1>", [("ping", {})]),
        ('function call{"name": "find", "arguments": {"query": "x"}}', [("find", {"query": "x"})]),
        ('<ifm|think_fast>so</ifm|think_fast><ifm|tool_call>{"name": "ping", "arguments": {}}</ifm|tool_call>', [("ping", {})]),
        ("so</think><tool_call>find\n<arg_key>query</arg_key>\n<arg_value>x</arg_value>\n</tool_call>",
         [("find", {"query": "x"})]),
        (K3,
         [("find", {"count": 3})]),
    ],
)  # fmt: skip
def test_a_slip_that_loses_nothing_is_read(text: str, calls: list[Any]) -> None:
    reply = read(text, TOOLS, "auto")
    assert (ran(reply), reply.content) == (calls, "")
    assert bool(reply.faults) is not bool(calls)


@pytest.mark.parametrize("opened", ["So.", "<think>So.", "<think>", "<|content_thinking|>So."])
def test_a_call_that_ends_the_thinking_of_an_empty_answer_runs(opened: str) -> None:
    end = "<|end_message|>" if "content" in opened else "</think>"
    call = '<tool_call>\n{"name": "find", "arguments": {"query": "x"}}\n</tool_call>'
    assert ran(read(f"{opened}\n{call}\n{end}", TOOLS, "auto")) == [("find", {"query": "x"})]
    for other in (
        f"{opened}\n{call}\nNo.\n{end}", f"{opened}\n{call}\n{end}Done.", f"{opened}\n{call.replace('find', 'other')}\n{end}",
        f"{opened}\nI must never write\n{call}\n{end}", f"<think>so\n{call}", f"{opened}\nI call\n{call}\n{end}",
    ):  # fmt: skip
        assert ran(read(other, TOOLS, "auto")) == []


@pytest.mark.parametrize(
    ("text", "content", "reasoning"),
    [
        (
            "I think.<|close|>think<|sep|><|open|>response<|sep|>Yes.<|close|>response<|sep|><|close|>message<|sep|>",
            "Yes.",
            "I think.",
        ),
        ("I think.\n[BEGIN FINAL RESPONSE]\nYes.\n[END FINAL RESPONSE]\n<|end|>", "Yes.", "I think."),
        (
            "Here are my reasoning steps:\nI think.\n[BEGIN FINAL RESPONSE]\nYes.",
            "Yes.",
            "Here are my reasoning steps:\nI think.",
        ),
        ("I think.</think:ab12>Yes.", "Yes.", "I think."),
        ("I think.</ifm|think>Yes.", "Yes.", "I think."),
        ("I think.<|end|><|begin|>assistant<|content|>Yes.<|flush|>", "Yes.", "I think."),
        ("I think.<|end_message|><|message_model|><|content_text|>Yes.<|end_message|>", "Yes.", "I think."),
    ],
)
def test_thinking_that_the_prompt_opened_ends(text: str, content: str, reasoning: str) -> None:
    for thinking in ("open", *(() if "<|end" in text.partition("Yes")[0] else ("maybe",))):
        reply = read_whole(TOOLS, text, "auto", thinking=thinking)
        assert (reply.content, reply.reasoning, list(reply.faults)) == (content, reasoning, [])


@pytest.mark.parametrize(
    "mark",
    [
        "<tool_ca",
        "<|tool_calls_section_be",
        "<\uff5cDSML\uff5cfunction_calls",
        "[TOOL_CAL",
        "]<]minimax[",
        "<minimax:to",
        "<tool_call:a",
    ],
)
def test_half_a_mark_of_a_call_is_reported_and_not_shown(mark: str) -> None:
    reply = read(f"Let me look.\n{mark}", TOOLS, "auto")
    assert (reply.content, ran(reply)) == ("Let me look.", [])
    assert "within the mark of a call" in reply.faults[0]


@pytest.mark.parametrize("end", ["2 <", "see <t", "an array a[", "the tag `<tool_ca", 'write "<tool_ca', "a <b"])
def test_the_end_of_a_sentence_is_no_half_mark(end: str) -> None:
    reply = read(f"It is {end}", TOOLS, "auto")
    assert (reply.content, list(reply.faults)) == (f"It is {end}", [])
