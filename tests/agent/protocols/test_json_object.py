"""The JSON tool protocol, and the command protocol beside it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.protocols import find_protocol
from toolcrib import ConfigError, ExecutedCall, ToolCall, ToolCallStatus, ToolResult
from toolcrib.contract.session import ParsedReply

UPSERT = "kom.memory.v1.upsert_memory"
TOOLS = [
    {"name": "run", "description": "Run.", "parameters": {
        "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}},
    {"name": UPSERT, "description": "Keep.", "parameters": {
        "type": "object", "properties": {"namespace": {"type": "string"}, "items": {"type": "array"}}}},
]  # fmt: skip
PROTOCOL = find_protocol("json_object")


def read(text: str, protocol: Any = PROTOCOL, **flags: Any) -> ParsedReply:
    reader = protocol.reader(TOOLS, **flags)
    reader.feed(text)
    reply: ParsedReply = reader.finish()
    return reply


def test_001_15_001_16_the_template_and_every_schema() -> None:
    prompt = PROTOCOL.render_tools(TOOLS, instructions="Be kind.")
    assert prompt.startswith(
        "You are a coding assistant that can call tools via a JSON protocol. Available tools (names & schema will be provided). "
        "Always reply with a single JSON object. No markdown. No commentary. Use this schema: "
        '{ "thought": string (short), "action": { "tool": string, "args": object } } OR { "final": { "content": any } }. '
        "If a tool result is needed, emit action. If done, emit final. Never invent tool names or fields."
    )
    for tool in TOOLS:
        assert json.dumps(tool["parameters"]) in prompt
        assert tool["name"] in prompt
    assert "Be kind." in prompt


def test_001_1_001_3_an_action() -> None:
    reply = read('\n{"thought":"%s","action":{"tool":"run","args":{"command":"ls"}}} ' % ("x" * 300))
    assert [(call.name, call.args, call.fault) for call in reply.calls] == [("run", {"command": "ls"}, None)]
    assert (reply.content, reply.reasoning, reply.error) == ("", "x" * 200, "")


@pytest.mark.parametrize(
    "text",
    [
        '{"action": {"tool": "run", "args": {"command": "}}}"}}}',
        ' {"thought": "x", "action" : {"tool":"run","args": {"command": "}}}"} } }\n',
        '{"action": {"tool": "run", "args": {"command": "}}}"}}, "thought": "}}}"}',
        '{"thought": "\\"args\\": {", "action": {"args": {"command": "}}}"}, "tool": "run"}}',
        r'{"\u0061ction": {"tool": "run", "args": {"command": "}}}"}}}',
    ],
)
def test_001_3_the_delta_of_an_action_is_its_arguments(text: str) -> None:
    """The action may be at any position in the object."""
    (delta,) = (event for event in read(text).events if event.kind == "tool_call_delta")
    assert (delta.text, delta.name) == ('{"command": "}}}"}', "run")


@pytest.mark.parametrize("content", ["done", {"status": "ok", "upserted": 1}, [1, 2], None, 5])
def test_001_5_001_8_a_final_answer_is_any_json(content: Any) -> None:
    reply = read(json.dumps({"final": {"content": content}}))
    assert (reply.value, reply.calls, reply.error) == (content, (), "")
    assert reply.content == (content if isinstance(content, str) else "" if content is None else json.dumps(content))


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('Sure: {"final":{"content":1}}', "invalid_json"),
        ('{"final":{"content":1}} done', "invalid_json"),
        ('```json\n{"final":{"content":1}}\n```', "invalid_json"),
        ('{"final":{"content":1}}{"final":{"content":2}}', "invalid_json"),
        ('{"action":{"tool":"run","args":{"command":"a"},}}', "invalid_json"),
        ('{"action":{"tool":"run","args":{"command":"a"', "invalid_json"),
        ('{"action":{"tool":"run","tool":"run","args":{"command":"a"}}}', "invalid_json"),
        ("", "invalid_json"),
        ('"final"', "invalid_protocol"),
        ("{}", "invalid_protocol"),
        ('{"thought":"x"}', "invalid_protocol"),
        ('{"action":{"tool":"run","args":{"command":"a"}},"final":{"content":1}}', "invalid_protocol"),
        ('{"action":{"tool":"run","args":{"command":"a"}},"mood":"good"}', "invalid_protocol"),
        ('{"action":{"tool":"run","args":{"command":"a"},"why":"x"}}', "invalid_protocol"),
        ('{"action":{"tool":5,"args":{}}}', "invalid_protocol"),
        ('{"final":{"content":1,"more":2}}', "invalid_protocol"),
        ('{"final":"done"}', "invalid_protocol"),
        ('{"action":{"tool":"delete_everything","args":{}}}', "unknown_tool"),
        ('{"action":{"tool":"Run","args":{"command":"a"}}}', "unknown_tool"),
        ('{"action":{"tool":"run","args":{}}}', "args_mismatch"),
        ('{"action":{"tool":"run","args":["ls"]}}', "args_mismatch"),
    ],
)
def test_001_2_001_4_001_6_001_9_001_10_001_11_what_is_refused(text: str, code: str) -> None:
    """No part of it runs; the model learns the reason and must send it again (the loop limits how often)."""
    reply = read(text)
    (call,) = reply.calls
    assert reply.error == code
    assert call.fault is not None
    assert "exactly one JSON object" in call.fault
    if code == "args_mismatch":
        assert '"command"' in call.fault or "object" in call.fault
    assert read(text, find_protocol("auto")).error in (code, "")


def test_thinking_before_the_object_is_no_prose() -> None:
    final = '{"final":{"content":"x"}}'
    assert read(f"<think>hm</think>{final}").content == "x"
    assert read(f"hm</think>{final}", thinking="open").reasoning == "hm"
    assert read(f"<think>hm</think>{final}", find_protocol("auto")).content == "x"
    assert read(f"<think>{final}").error == "invalid_json"


def test_001_7_results_have_the_role_tool() -> None:
    done = ExecutedCall(ToolCall("1", UPSERT), ToolResult.success(UPSERT, {"upserted": 1}), ToolCallStatus.SUCCEEDED)
    refused = read("no").calls[0]
    told = ExecutedCall(refused, ToolResult.error("", "x"), ToolCallStatus.FAILED)
    assert PROTOCOL.render_results([done, told]) == [
        {"role": "tool", "name": UPSERT, "content": '{"upserted": 1}'},
        {"role": "user", "content": refused.fault},
    ]


@pytest.mark.parametrize("name", ["command", "auto"])
def test_001_13_001_14_the_command_protocol(name: str) -> None:
    protocol = find_protocol(name)
    search = '{"namespace":"project:metal", "query":{"text":"embedding model"}}'
    reply = read(f"I'll look.\n@tool kom.memory.v1.search_memory {search}\nThen more.", protocol)
    assert [(call.name, call.args, call.fault) for call in reply.calls] == [
        ("kom.memory.v1.search_memory", json.loads(search), None)
    ]
    assert reply.content == "I'll look.\nThen more."
    assert read("You can use @tool to call tools.", protocol).calls == []
    for broken in ('@tool run ["ls"]', "@tool run {command ls}", "@tool run {command: 'ls'}"):
        reply = read(broken, protocol)
        assert [call.fault is None for call in reply.calls] == [False], broken
    assert read("@tool run {", find_protocol("command")).error == "invalid_json"
    assert "@tool" in find_protocol("command").render_tools(TOOLS)


def test_001_13_lines_of_the_command_protocol_are_the_fallback() -> None:
    """001-13, 001-14: these lines get all checks of an action."""
    reply = read('@tool run {"command": "ls"}\n')
    assert [(call.name, call.args, call.fault) for call in reply.calls] == [("run", {"command": "ls"}, None)]
    assert [event.kind for event in reply.events] == ["tool_call_delta"]
    assert len(read('<think>hm</think>\n @tool run {"command": "a"}\n\n@tool run {"command": "b"}').calls) == 2
    for text, code in (
        ("@tool run {}", "args_mismatch"),
        ("@tool rm {}", "unknown_tool"),
        ("@tool run {command: ls}", "invalid_json"),
        ('I look.\n@tool run {"command": "ls"}', "invalid_json"),
        ('{"final":{"content":"x"}}\n@tool run {"command": "ls"}', "invalid_json"),
    ):
        reply = read(text)
        assert (reply.error, [call.fault is None for call in reply.calls]) == (code, [False])


@given(st.text() | st.text(alphabet='{}":,actionfl []'))
def test_any_text_is_read_or_refused(text: str) -> None:
    reply = read(text)
    assert reply.error or reply.calls or reply.value is not None or "null" in text


def test_an_unknown_protocol_names_those_there_are() -> None:
    with pytest.raises(ConfigError, match="json_object"):
        find_protocol("nope")
