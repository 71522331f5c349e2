"""X-10: cuts do not change how a reply is read, and no part of a tag is shown."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent.protocols import NAMES, find_protocol
from agent.protocols._fences import FENCES, THINKING

TOOLS = [{"name": name, "parameters": {"type": "object", "properties": {"a": {"type": "string"}}}} for name in ("w", "run")]
TAGS = sorted({tag for fence in FENCES for tag in (fence.opener, *fence.closers)} | {tag for pair in THINKING for tag in pair})
PIECES = st.sampled_from(
    [
        *TAGS,
        '{"name":"w","args":{"a":"b"}}', '{"name": "w", "arguments": {"a": "', '"}}', "call:w{a: 1}", "<function=w>",
        "</function>", "<parameter=a>", "</parameter>", "w<arg_key>a</arg_key><arg_value>", "</arg_value>", "[w(a='",
        "')]", "w[ARGS]{}",
        "<|channel|>analysis", "<|message|>", "<|start|>assistant", "<|end|>",
        "to=functions.w", "\\", '"', "'", "{", "}", "[", "]",
        "(", ")", ",", ":", "`", "\n", "  ", " text ", "<", "<too", "</thi", "@tool w {}", '{"final":{"content":"x"}}', "é🎉",
        "- ", "// ", "/*\n", "*/", "I look: ", "## T\n", "**T**\n", "<doc>\n", "</doc>", "<pre>", "\\begin{v}\n", "\\end{v}",
        "x = ", "---", ">>>all\n", ">>>w\n", "```tool_code\n", "\n```", "Action: ```json\n", "w(a='b')", "@w {}", "and ",
        "I look. ", "\r\n", "Never write ", "> ", "``", "The form is ", "(e.g. ", "I'll use it:\n",
    ]
)  # fmt: skip
REPLIES = st.lists(PIECES, max_size=14).map("".join)


def read(text: str, cuts: list[int], name: str, thinking: Any, *, truncated: bool) -> tuple[Any, str, str, list[str]]:
    reader = find_protocol(name).reader(TOOLS, thinking=thinking)
    shown, thought, states = "", "", []
    places = [0, *sorted(cuts), len(text)]
    for start, end in pairwise(places):
        for event in reader.feed(text[start:end]):
            shown += event.text if event.kind == "assistant_delta" else ""
            thought += event.text if event.kind == "thinking_delta" else ""
        states.append(shown)
    reply = reader.finish(truncated=truncated)
    shown += "".join(event.text for event in reply.events if event.kind == "assistant_delta")
    thought += "".join(event.text for event in reply.events if event.kind == "thinking_delta")
    calls = [(call.name, call.args, call.fault) for call in reply.calls]
    return (reply.content, reply.reasoning, calls, list(reply.faults), reply.error), shown, thought, states


@given(REPLIES, st.data(), st.sampled_from(NAMES), st.sampled_from(["open", "maybe", "unlikely", "closed"]), st.booleans())
def test_x_10_any_cut_is_read_the_same(text: str, data: st.DataObject, name: str, thinking: str, truncated: bool) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(text)), max_size=8))
    whole = read(text, [], name, thinking, truncated=truncated)[:3]
    assert read(text, cuts, name, thinking, truncated=truncated)[:3] == whole
    assert read(text, list(range(len(text))), name, thinking, truncated=truncated)[:3] == whole


@given(REPLIES, st.sampled_from(NAMES))
def test_x_10_what_is_shown_is_the_content(text: str, name: str) -> None:
    reply, shown, _, states = read(text, list(range(len(text))), name, "closed", truncated=False)
    assert shown == reply[0]
    assert all(shown.startswith(state) for state in states)


MARKED = "</ifm|tool_call>" * 3 + "<|tool_call_section_end|>" * 3


@given(REPLIES, st.integers(0, 200), st.sampled_from(NAMES))
@example(f'{MARKED}{{"name":"w","args":{{"a":"b"}}}}\n```', 152, "qwen_xml")
@example('<tool_call>{"name":"w","args":{"a":"b"}}</tool_call> and ', 52, "hermes")
@example("<tool_call>w</tool_call><tool_call>run</tool_call> and ", 40, "glm")
@example('{"action":{"tool":"w","args":{}}}\nSo.', 33, "json_object")
def test_x_8_a_truncated_reply_runs_no_more_than_the_whole(text: str, size: int, name: str) -> None:
    """A truncated reply runs nothing: the text after the cut may show that a call is an example, or part of an argument."""
    reply = read(text[:size], [], name, "closed", truncated=True)[0]
    assert [(call, args) for call, args, fault in reply[2] if fault is None] == []


@pytest.mark.parametrize(
    "fence",
    [fence for fence in FENCES if fence.opener.startswith(("<", "]<", "[TOOL")) and not fence.soft],
    ids=lambda one: one.opener,
)
def test_x_10_no_half_tag_is_ever_shown(fence: Any) -> None:
    text = f"Hello.\n{fence.opener} x"
    reader = find_protocol("auto").reader(TOOLS, thinking="closed")
    shown = ""
    for char in text:
        shown += "".join(event.text for event in reader.feed(char) if event.kind == "assistant_delta")
        assert shown in "Hello.", shown
    assert json.loads(json.dumps(reader.finish().content)) == "Hello."
    for truncated, content in ((True, "Hello"), (False, f"Hello {fence.opener[:-1]}")):
        half = find_protocol("auto").reader(TOOLS)
        half.feed(f"Hello {fence.opener[:-1]}")
        assert half.finish(truncated=truncated).content == content


@given(st.text())
def test_plain_text_comes_through(text: str) -> None:
    text = text.replace("<", "").replace("@", "").replace("[", "").replace("{", "")
    assert read(text, list(range(len(text))), "auto", "maybe", truncated=False)[1] == text.strip()
