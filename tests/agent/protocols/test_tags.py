"""The tags protocol of the specification, and the behaviour that it shares with the others."""

from __future__ import annotations

from typing import Any

import pytest

from agent.protocols import find_protocol
from toolcrib import ExecutedCall, ToolCall, ToolCallStatus, ToolResult
from toolcrib.contract.session import ParsedReply

TOOLS = [
    {"name": "run", "description": "Run a shell command and return its output.",
     "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}},
    {"type": "function", "function": {"name": "search", "description": "Search for a text pattern in files.",
     "parameters": {"type": "object", "properties": {"path": {"type": "string"}, "pattern": {"type": "string"}}}}},
    {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}},
]  # fmt: skip


def read(text: str, name: str = "tags", **flags: Any) -> ParsedReply:
    truncated = flags.pop("truncated", False)
    reader = find_protocol(name).reader(TOOLS, **flags)
    reader.feed(text)
    return reader.finish(truncated=truncated)


def good(text: str, name: str = "tags", **flags: Any) -> list[tuple[str, Any]]:
    return [(call.name, call.args) for call in read(text, name, **flags).calls if call.fault is None]


def test_000_10_000_11_000_12_the_tools_prompt() -> None:
    protocol = find_protocol("tags")
    section = (
        'You have tools. To use one: <tool_call>{"name":"tool_name","args":{...}}</tool_call>\n'
        "When done, respond without tool_call tags.\n\n"
        "- run(command): Run a shell command and return its output.\n"
        "- search(path, pattern): Search for a text pattern in files.\n"
        "- now: The time.\n"
    )
    assert protocol.render_tools(TOOLS) == section
    assert protocol.render_tools(TOOLS, instructions="Be kind.\n") == f"Be kind.\n\n{section}"
    assert protocol.render_tools([], instructions="Be kind.") == "Be kind."
    assert protocol.render_tools([]) == ""


def test_000_11_the_list_of_tools_follows_references() -> None:
    page = {"type": "object", "properties": {"top": {"type": "integer"}, "sort": {}}}
    tool = {"name": "page", "description": "Show.", "parameters": {"$ref": "#/$defs/page", "$defs": {"page": page}}}
    assert find_protocol("tags").render_tools([tool]).endswith("- page(top, sort): Show.\n")


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("<think>a</think>X<think>b</think>Y", "XY"),
        ("X <think>never closed <tool_call>{}</tool_call>", "X"),
        ('<think>I could <tool_call>{"name":"run"}</tool_call></think>No.', "No."),
    ],
)
def test_000_17_000_18_000_19_thinking_is_no_text_and_its_calls_do_not_run(text: str, content: str) -> None:
    assert (read(text).content, good(text)) == (content, [])


def test_000_19_thinking_that_the_prompt_opened() -> None:
    text = 'Maybe <tool_call>{"name":"run"}</tool_call></think>Done.'
    for thinking in ("open", "maybe"):
        reply = read(text, thinking=thinking)
        assert (reply.content, list(reply.calls)) == ("Done.", []), thinking
        assert reply.reasoning.startswith("Maybe")
    assert "so it was not run" in read(text, thinking="maybe").faults[0]
    assert good('<tool_call>{"name":"run"}</tool_call>', thinking="open") == []
    assert read("It is </think> there.", thinking="closed").content == "It is </think> there."


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ('<tool_call>{"name":"read_file","args":{"path":"/tmp/foo.py"}}</tool_call>', ("read_file", {"path": "/tmp/foo.py"})),
        ('<tool_call>{"name":"run","arguments":{"command":"ls"}}</tool_call>', ("run", {"command": "ls"})),
        ('<tool_call>call:run{command: "ls"}</tool_call>', ("run", {"command": "ls"})),
        ('<|tool_call>call:run{command: "ls /Applications"}<tool_call|>', ("run", {"command": "ls /Applications"})),
        ('<|tool_call|>call:read_file{"path": "/tmp/x"}<|/tool_call|>', ("read_file", {"path": "/tmp/x"})),
        ('<|tool_call>call:search{path: "/tmp", pattern: "x",}<tool_call|>', ("search", {"path": "/tmp", "pattern": "x"})),
        ('<|tool_call>call:run{args: {"command": "ls"}}<tool_call|>', ("run", {"args": {"command": "ls"}})),
        ('<tool_call>{name: "run", args: {command: "a: b, {c,} ]"}}</tool_call>', ("run", {"command": "a: b, {c,} ]"})),
        ("<tool_call>{'name': 'run', 'args': {'command': 'ls'}}</tool_call>", ("run", {"command": "ls"})),
        ('<tool_call>{"name":"run"}</tool_call>', ("run", {})),
    ],
)
def test_000_21_to_000_28_each_form(text: str, call: tuple[str, Any]) -> None:
    """000-22 JSON, then call:name{...}; 000-23, 000-24 the variants; 000-25 braces are the arguments; 000-26, 27 the repair."""
    assert good(text) == [call]
    assert good(text, "auto") == [call]


def test_000_21_the_first_variant_that_gives_a_call_counts() -> None:
    both = '<|tool_call>call:run{command: "b"}<tool_call|><tool_call>{"name":"run","args":{"command":"a"}}</tool_call>'
    assert good(both) == [("run", {"command": "a"})]
    assert "so it was not run" in read(both).faults[0]
    broken = '<tool_call>oh no</tool_call><|tool_call>call:run{command: "b"}<tool_call|>'
    assert good(broken) == [("run", {"command": "b"})]


@pytest.mark.parametrize(
    "block",
    [
        "",
        "oh no",
        '{"name": ""}',
        '{"name": 5}',
        '{"args": {}}',
        '{"name": "run", "args": [1]}',
        "[]",
        '{"name":"run","args":{"command":"ls"}} and more',
        "call:run{command: ls -l}",
        "call:run no",
    ],
)
def test_000_28_000_30_a_malformed_block_is_answered_and_loses_no_other(block: str) -> None:
    text = f'A<tool_call>{block}</tool_call>B<tool_call>{{"name":"run"}}</tool_call>C'
    reply = read(text)
    assert [call.fault is None for call in reply.calls] == [False, True]
    assert reply.content == "ABC"
    assert len(reply.faults) == 1


def test_000_29_000_31_several_calls_in_order_and_the_text_around_them() -> None:
    text = 'One <tool_call>{"name":"run","args":{"command":"a"}}</tool_call>\ntwo\n<tool_call>{"name":"now"}</tool_call>'
    reply = read(text)
    assert [(call.name, call.args) for call in reply.calls] == [("run", {"command": "a"}), ("now", {})]
    assert reply.content == "One \ntwo"


def test_000_40_the_final_text_is_trimmed_and_bare() -> None:
    assert read("\n <think>x</think>\n The answer. \n").content == "The answer."


def test_a_closing_tag_inside_a_string_is_text() -> None:
    inner = 'echo \'</tool_call>\' <tool_call>{\\"name\\":\\"now\\"}</tool_call>'
    assert [call for call, _ in good(f'<tool_call>{{"name":"run","args":{{"command":"{inner}"}}}}</tool_call>')] == ["run"]


def test_a_tag_in_a_code_span_is_only_spoken_of() -> None:
    text = "Write `<tool_call>` and then JSON."
    assert (read(text).content, list(read(text).calls)) == (text, [])


@pytest.mark.parametrize("name", ["tags", "auto", "hermes"])
def test_x_8_what_is_cut_off_does_not_run(name: str) -> None:
    whole = '<tool_call>{"name":"run","args":{"command":"ls"}}</tool_call>'
    for size in range(12, len(whole)):
        assert good(whole[:size], name, truncated=True) == [], whole[:size]
    assert read(whole[:30], name).calls[0].fault is not None
    without_tag = whole.removesuffix("</tool_call>")
    assert good(without_tag, name) == [("run", {"command": "ls"})]  # some servers stop at the tag and drop it


def test_x_8_a_string_that_is_cut_off_gives_no_call_out_of_what_it_holds() -> None:
    text = '<tool_call>{"name":"run","args":{"command":"<tool_call>call:now{}</tool_call> or <tool_call>call:now{}</tool_call> b'
    assert good(text) == []
    assert good(text, truncated=True) == []


def test_x_2_ids_are_made_once() -> None:
    reply = read('<tool_call>{"name":"now","id":"1"}</tool_call><tool_call>{"name":"now","id":"1"}</tool_call>')
    ids = [call.id for call in reply.calls]
    assert len(set(ids)) == 2
    reader = find_protocol("tags").reader(TOOLS, thinking="closed")
    events = reader.feed('<tool_call>{"name":"now"}</tool_call>')
    reply = reader.finish()
    assert [event.call_id for event in (*events, *reply.events)] == [call.id for call in reply.calls]


def test_000_35_000_36_000_38_the_results_message() -> None:
    def done(name: str, result: ToolResult) -> ExecutedCall:
        return ExecutedCall(ToolCall("1", name), result, ToolCallStatus.SUCCEEDED)

    executed = [
        done("read_file", ToolResult.success("read_file", "pub fn main() {}")),
        done("run", ToolResult.success("run", None)),
        done("run", ToolResult.success("run", {"code": 0})),
        done("nope", ToolResult.error("nope", "there is no tool nope")),
        done("", ToolResult.error("", "Error: unreadable")),
    ]
    assert find_protocol("tags").render_results(executed) == [
        {
            "role": "user",
            "content": 'Tool results:\n\n[read_file] pub fn main() {}\n\n[run] OK\n\n[run] {"code": 0}\n\n'
            "[nope] Error: there is no tool nope\n\n[unreadable call] Error: unreadable",
        }
    ]
