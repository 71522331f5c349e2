"""A call that a model wrote as text, although the server reads calls, is run or reported on each wire."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from agent.providers import Endpoint, HttpClient
from agent.providers.anthropic import AnthropicSession
from agent.providers.gemini import GeminiSession
from agent.providers.openai_chat import OpenAIChatSession
from agent.providers.openai_responses import ResponsesSession
from tests.agent.protocols.markup_answers import TOOLS, answers
from toolcrib import ExecutedCall, ProviderTurn, StreamEvent, ToolCallStatus, ToolResult
from toolcrib.testing import ChatServer, Response

BAR = "\uff5c"
DSML = (
    f'<{BAR}DSML{BAR}tool_calls>\n<{BAR}DSML{BAR}invoke name="terminal">\n<{BAR}DSML{BAR}parameter name="command" string="true">'
    f"ls</{BAR}DSML{BAR}parameter>\n</{BAR}DSML{BAR}invoke>\n</{BAR}DSML{BAR}tool_calls>"
)
KIMI = (
    '<|tool_calls_section_begin|><|tool_call_begin|>functions.terminal:0<|tool_call_argument_begin|>{"command": "ls"}'
    "<|tool_call_end|><|tool_calls_section_end|>"
)
CALLS = (
    '<tool_call>\n{"name": "terminal", "arguments": {"command": "ls"}}\n</tool_call>',
    "<tool_call>\n<function=terminal>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>",
    DSML,
    KIMI,
    '[TOOL_CALLS]terminal[ARGS]{"command": "ls"}',
    '<|channel|>commentary to=functions.terminal <|constrain|>json<|message|>{"command": "ls"}<|call|>',
    '{"name": "terminal", "arguments": {"command": "ls"}}',
)


def _chat(text: str) -> Response:
    return ChatServer.text(text)


def _anthropic(text: str) -> Response:
    events: list[dict[str, Any]] = [
        {"type": "message_start", "message": {"id": "m", "role": "assistant", "content": [], "model": "m", "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        *({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": one}} for one in text),
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
    ]
    return Response("".join(f"event: {one['type']}\ndata: {json.dumps(one)}\n\n" for one in events).encode())


def _responses(text: str) -> Response:
    item = {"type": "message", "id": "i", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
    done = {"id": "r", "object": "response", "model": "m", "status": "completed", "output": [item], "usage": {}}
    return ChatServer.stream(
        {"type": "response.output_text.delta", "item_id": "i", "output_index": 0, "content_index": 0, "delta": text},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
        done=False,
    )


def _gemini(text: str) -> Response:
    reply = {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "finishReason": "STOP"}]}
    return ChatServer.stream(reply, done=False)


WIRES: dict[str, tuple[Any, Callable[[str], Response]]] = {
    "chat": (OpenAIChatSession, _chat),
    "anthropic": (AnthropicSession, _anthropic),
    "responses": (ResponsesSession, _responses),
    "gemini": (GeminiSession, _gemini),
}


def turns(wire: str, texts: Sequence[str], **options: Any) -> tuple[list[ProviderTurn], list[str], list[Any]]:
    """Return the turns of one conversation, the text that each showed, and the requests. Each call gets a result."""
    kind, reply = WIRES[wire]
    shown: list[str] = []

    async def run(base_url: str) -> list[ProviderTurn]:
        session = kind(HttpClient(Endpoint(base_url, "m", None), {}), model="m", tools=options.pop("tools", TOOLS))
        session.steer(**options)
        found = []
        try:
            session.say("go")
            for _ in texts:
                events: list[StreamEvent] = []
                found.append(turn := await session.stream_turn(events.append))
                shown.append("".join(event.text for event in events if event.kind == "assistant_delta"))
                done = [
                    ExecutedCall(one, ToolResult.success(one.name, "ok"), ToolCallStatus.SUCCEEDED) for one in turn.tool_calls
                ]
                if done:
                    await session.append_tool_results(turn, done)
                else:
                    session.say("more")
            return found
        finally:
            await session.close()

    with ChatServer(*map(reply, texts)) as server:
        return asyncio.run(run(server.base_url)), shown, server.requests


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("call", CALLS)
def test_it_runs_on_each_wire(wire: str, call: str) -> None:
    before = "" if call[0] == "{" else "I look.\n\n"
    (first, last), shown, requests = turns(wire, [before + call, "Done."])
    assert [(one.name, one.args, one.fault) for one in first.tool_calls] == [("terminal", {"command": "ls"}, None)]
    assert (first.assistant_text, [one.rstrip() for one in shown]) == (before.strip(), [before.strip(), "Done."])
    assert (last.assistant_text, list(last.tool_calls)) == ("Done.", [])
    sent = json.dumps(requests[1])
    assert sent.count(first.tool_calls[0].id) >= 2 or wire == "gemini"
    assert "terminal" in sent.partition("go")[2]
    assert "<tool_call>" not in sent


FUNCTION = "<function=terminal>\n<parameter=command>\nls\n</parameter>\n</function>"
INVOKE = '<invoke name="terminal"><parameter name="command">ls</parameter></invoke>'


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "text",
    [
        f"{FUNCTION}\n</tool_call>", f"{FUNCTION}</tool_call>", f"{FUNCTION}\n\n</tool_call>\n",
        f"{FUNCTION}\n</function_invocation>",
        f"{INVOKE}\n</tool_call>", f"{INVOKE}\n</function_calls>", f"{FUNCTION}\n</function_invocation>\n</tool_call>",
        f"<tool_call>\n{FUNCTION}\n</function_invocation>\n</tool_call>", f"{CALLS[0]}\n</tool_call>\n</zeta>",
        f"{FUNCTION}\n[/TOOL_CALLS]",
        f"{FUNCTION}\n<|tool_call_end|>", f"{CALLS[0]}<|observation|>", f"{FUNCTION}\n<|eot_id|>", f"{INVOKE}<|user|>",
    ],
)  # fmt: skip
def test_closing_marks_after_it_that_nothing_opens_change_nothing(wire: str, text: str) -> None:
    (turn,), (shown,), _ = turns(wire, [f"I'll write.\n\n{text}"])
    assert [(one.name, one.args, one.fault) for one in turn.tool_calls] == [("terminal", {"command": "ls"}, None)]
    assert turn.assistant_text.strip() == shown.strip() == "I'll write."


@pytest.mark.parametrize(
    "text",
    [
        f"{FUNCTION}\n\nThat is the form.\n</tool_call>",
        f"<b>\n{FUNCTION}\nThat is it.\n</b>",
        f"Models write:\n\n> {FUNCTION}\n> </tool_call>",
    ],
)
def test_closing_marks_do_not_make_a_shown_call_run(text: str) -> None:
    (turn,), _, _ = turns("chat", [text])
    assert not [one for one in turn.tool_calls if one.fault is None]


@pytest.mark.parametrize(
    "text",
    [
        "<tool_call>\n<parameter=command>\nls\n</parameter>\n</tool_call>",
        "<tool_call>\nNow I will read the file\n</tool_call>",
        '<tool_call>tool_exchange>\n<tool_result call_id="c2">\nok\n</tool_result>',
        '[Calling tool: terminal({"command": "ls"})]',
        '[Called function "terminal" with args: {"command": "ls"}]',
        "terminal\nls -la\n[/terminal]",
        '<function_call>\n<name>terminal</name>\n<arguments>{"command": "ls"}</arguments>\n</function_call>',
        '\n```tool_call\n{"name": "terminal", "arguments": {"command": "ls"}}\n```',
        "<terminal_command>\nls -la\n</terminal_command>",
    ],
)
def test_marks_at_the_end_without_a_readable_call_are_reported(text: str) -> None:
    (turn,), _, _ = turns("chat", [f"I look.\n{text}"])
    assert ["written as text" in str(one.fault) for one in turn.tool_calls] == [True]


def test_the_history_holds_it_as_the_wire_s_own_call() -> None:
    (first, _), _, requests = turns("chat", ["I look.\n" + CALLS[0], "Done."])
    _, reply, result = requests[1]["messages"]
    assert reply == first.assistant_turn
    assert (reply["content"], reply["tool_calls"][0]["function"]["name"]) == ("I look.", "terminal")
    assert (result["role"], result["tool_call_id"]) == ("tool", reply["tool_calls"][0]["id"])
    requests = turns("anthropic", [CALLS[0], "Done."])[2]
    assert [block["type"] for block in requests[1]["messages"][1]["content"]] == ["tool_use"]
    assert requests[1]["messages"][2]["content"][0]["type"] == "tool_result"
    requests = turns("responses", [CALLS[0], "Done."])[2]
    assert [item.get("type") for item in requests[1]["input"]] == [None, "function_call", "function_call_output"]
    requests = turns("gemini", [CALLS[0], "Done."])[2]
    assert "functionCall" in requests[1]["contents"][1]["parts"][0]
    assert "functionResponse" in requests[1]["contents"][2]["parts"][0]


@pytest.mark.parametrize(("wire", "key"), [("anthropic", "_top"), ("gemini", "_top"), ("chat", "$top"), ("responses", "$top")])
def test_its_arguments_get_their_own_names(wire: str, key: str) -> None:
    """A wire may send an argument's schema under another name, which the model then writes."""
    call = f"<tool_call>\n<function=page>\n<parameter={key}>\n3\n</parameter>\n</function>\n</tool_call>"
    page = {"$ref": "#/$defs/page", "$defs": {"page": {"type": "object", "properties": {"$top": {"type": "integer"}}}}}
    tools = [{"name": "page", "parameters": page}]
    (first, _), _, requests = turns(wire, [call, "Done."], tools=tools)
    assert [(one.name, one.args, one.fault) for one in first.tool_calls] == [("page", {"$top": 3}, None)]
    assert f'"{key}": 3' in json.dumps(requests[1]).replace("\\", "").partition("go")[2]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("call", CALLS)
def test_its_tool_s_name_on_the_wire_is_known(wire: str, call: str) -> None:
    """The model only read the name on the wire, which has no dot."""
    tools = [{**TOOLS[0], "name": "file.read"}]
    (first, _), _, _ = turns(wire, [call.replace("terminal", "file_read"), "Done."], tools=tools)
    assert [(one.name, one.args, one.fault) for one in first.tool_calls] == [("file.read", {"command": "ls"}, None)]


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize(
    "end", ["<tool_call>", "<tool_call>terminal", "<tool_ca", f"<{BAR}DSML{BAR}tool_calls", '<|zeta|>terminal {"command": "ls"}']
)
def test_one_that_cannot_be_read_is_reported_once(wire: str, end: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        (first, second, third), shown, _ = turns(wire, [f"I look.\n{end}", f"So.\n{end}", "Done."])
    assert ["written as text" in str(one.fault) for one in first.tool_calls] == [True]
    assert (list(second.tool_calls), second.assistant_text) == ([], f"So.\n{end}")
    assert third.assistant_text == "Done."
    assert shown[1:] == [f"So.\n{end}", "Done."]
    assert shown[0].rstrip() == (f"I look.\n{end}" if "zeta" in end else "I look.")
    assert [record.getMessage().count("--provider text") for record in caplog.records] == [1]


ANSWERS = (
    f"Models write this:\n\n```\n{CALLS[0]}\n```\n", f"```json\n{CALLS[-1]}\n```", f"It quotes `{CALLS[-1]}`", "2 < 3 and [1, 2]",
    f"> {CALLS[-1]}", f"Never write {CALLS[-1]}",
    f"```tool_call\n{CALLS[-1]}\n```\n\nThat is the form.", '```tool_call\n{"name": "unknown", "arguments": {}}\n```',
    f"{CALLS[0]}\n\nThat is the form.", "  a\n<b>\n  ", "<think>so</think>Yes.", "Yes.</s>",
    "GLM writes <arg_key> and <arg_value>", "The marks are [TOOL_CALLS] and [ARGS]", "Use <|im_start|> (as in the terminal)",
    '{"name": "unknown", "arguments": {}}', '{"a": [1, 2]}', "[1, 2]", "def f(x):\n    return x[0] < 1\n", "Use <terminal>.",
)  # fmt: skip


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_stays_as_it_is(text: str) -> None:
    (turn,), (shown,), _ = turns("chat", [text])
    assert (turn.assistant_text, shown, list(turn.tool_calls)) == (text, text, [])
    assert turn.assistant_turn == {"role": "assistant", "content": text}


def test_answers_about_markup_are_shown_as_they_are() -> None:
    """They contain no call, and no character of them changes."""
    texts = answers()
    found, shown, _ = turns("chat", texts)
    assert [turn.assistant_text for turn in found] == texts
    assert shown == texts
    assert not any(turn.tool_calls for turn in found)


def test_text_is_read_only_if_tools_were_offered() -> None:
    for options in ({"tools": ()}, {"tool_choice": "none"}, {"schema": {"type": "object"}}):
        (turn,), (shown,), _ = turns("chat", [CALLS[0]], **options)
        assert (turn.assistant_text, shown, list(turn.tool_calls)) == (CALLS[0], CALLS[0], [])
