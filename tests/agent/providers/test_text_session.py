"""Tool calls in plain text over real HTTP, against a server in the role of a model without native calls."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.conversation.limits import NoProgress
from agent.protocols import find_protocol
from agent.providers.endpoint import Endpoint
from agent.providers.http import HttpClient
from agent.providers.text import TextSession
from toolcrib import BadRequest, ConfigError, ExecutedCall, ExecutionFailed, StreamEvent, ToolCall, ToolCallStatus, ToolResult
from toolcrib.testing import ChatServer, Response

TOOLS = [
    {"type": "function", "function": {"name": "run", "description": "Run a command.", "parameters": {
        "type": "object", "properties": {"command": {"type": "string"}}}}},
]  # fmt: skip
UPSERT = "kom.memory.v1.upsert_memory"
MEMORY = [{"name": UPSERT, "description": "Keep.", "parameters": {"type": "object", "required": ["namespace"]}}]
CALL = '<think>Let me <tool_call>x</tool_call></think>One moment.\n<tool_call>{"name":"run","args":{"command":"ls"}}</tool_call>'


def converse(server: ChatServer, drive: Callable[[TextSession], Awaitable[Any]], protocol: str = "tags", **options: Any) -> Any:
    async def run() -> Any:
        client = HttpClient(Endpoint(server.base_url, "m", None), {})
        session = TextSession(client, protocol=find_protocol(protocol), model="m", **{"tools": TOOLS, **options})
        try:
            return await drive(session)
        finally:
            await session.close()

    return asyncio.run(run())


def done(turn: Any, *data: Any) -> list[ExecutedCall]:
    return [
        ExecutedCall(call, ToolResult.success(call.name, one), ToolCallStatus.SUCCEEDED)
        for call, one in zip(turn.tool_calls, data, strict=True)
    ]


def whole(text: str) -> Response:
    body = {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3},
    }
    return Response(json.dumps(body).encode(), content_type="application/json")


def test_000_14_000_20_000_38_000_39_000_45_a_conversation_in_tags() -> None:
    """No tools field; the raw content in the history, including thinking; all results as one user message."""
    events: list[StreamEvent] = []

    async def drive(session: TextSession) -> Any:
        session.say("What is here?")
        first = await session.stream_turn(events.append)
        await session.append_tool_results(first, done(first, "a.txt"))
        return first, await session.stream_turn(events.append)

    with ChatServer(ChatServer.text(CALL, piece=3), ChatServer.text("A file.")) as server:
        first, second = converse(server, drive, system="Be brief.")
        sent = server.requests
    assert first.assistant_text == "One moment."
    assert [(call.name, call.args, call.fault) for call in first.tool_calls] == [("run", {"command": "ls"}, None)]
    assert (second.assistant_text, list(second.tool_calls)) == ("A file.", [])
    assert sorted(sent[0]) == ["messages", "model", "stream", "stream_options"]
    system = find_protocol("tags").render_tools(TOOLS, instructions="Be brief.")
    assert sent[1]["messages"] == [
        {"role": "system", "content": system},
        {"role": "user", "content": "What is here?"},
        {"role": "assistant", "content": CALL},
        {"role": "user", "content": "Tool results:\n\n[run] a.txt"},
    ]
    shown = "".join(event.text for event in events if event.kind == "assistant_delta")
    assert shown == "One moment.A file."
    assert [event.name for event in events if event.kind == "tool_call_delta"] == ["run"]


def test_000_19_what_was_shown_stays_once_a_reply_has_shown_that_the_model_does_not_think() -> None:
    """Until then a stray end of thinking counts, and a call before it never runs."""

    async def drive(session: TextSession) -> Any:
        found = []
        for _ in range(3):
            shown: list[StreamEvent] = []
            session.say("hi")
            turn = await session.stream_turn(shown.append)
            text = "".join(event.text for event in shown if event.kind == "assistant_delta")
            assert text == turn.assistant_text
            assert list(turn.tool_calls) == []
            found.append(text)
        return found

    stray = 'Hm <tool_call>{"name": "run"}</tool_call></think>Hello.'
    with ChatServer(*(ChatServer.text(one, piece=3) for one in (stray, "Hello.", stray))) as server:
        assert converse(server, drive) == ["Hello.", "Hello.", "Hm Hello."]


def test_000_14_not_streamed() -> None:
    async def drive(session: TextSession) -> Any:
        session.say("hi")
        return await session.stream_turn(lambda event: None)

    with ChatServer(whole(CALL)) as server:
        turn = converse(server, drive, stream=False)
        assert server.requests[0]["stream"] is False
        assert "tools" not in server.requests[0]
    assert [call.name for call in turn.tool_calls] == ["run"]
    assert turn.usage["input"] == 3


def test_000_15_session_modes() -> None:
    async def drive(session: TextSession) -> Any:
        for _ in range(2):
            session.say("hi")
            await session.stream_turn(lambda event: None)

    def ids(**options: Any) -> list[str | None]:
        with ChatServer(ChatServer.text("a"), ChatServer.text("b")) as server:
            converse(server, drive, **options)
            return [headers.get("x-session-id") for headers in server.headers]

    assert ids() == ids(session_mode="stateless", session_id="s1") == [None, None]
    assert ids(session_mode="resume", session_id="s1") == ["s1", "s1"]
    first, again = ids(session_mode="fresh")
    assert first == again
    assert first
    assert ids(session_mode="fresh") != [first, first]
    with ChatServer() as server, pytest.raises(ConfigError, match="resume"):
        converse(server, drive, session_mode="resume")


def test_000_30_x_1_x_8_what_can_not_be_run_is_answered() -> None:
    broken = '<tool_call>{"name":"run","args":oops}</tool_call><tool_call>{"name":"run","args":{"command":"l'

    async def drive(session: TextSession) -> Any:
        session.say("hi")
        turn = await session.stream_turn(lambda event: None)
        results = [ToolResult.error(call.name, f"the call was not run: {call.fault}") for call in turn.tool_calls]
        executed = [
            ExecutedCall(call, result, ToolCallStatus.FAILED) for call, result in zip(turn.tool_calls, results, strict=True)
        ]
        await session.append_tool_results(turn, executed)
        await session.stream_turn(lambda event: None)
        return turn

    chunk = {"choices": [{"index": 0, "delta": {"content": broken}, "finish_reason": None}]}
    cut = {"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}
    with ChatServer(ChatServer.stream(chunk, cut), ChatServer.text("Sorry.")) as server:
        turn = converse(server, drive)
        told = server.requests[1]["messages"][-1]
    assert [call.fault is None for call in turn.tool_calls] == [False, False]
    assert "cut off" in turn.tool_calls[1].fault
    assert told["role"] == "user"
    assert told["content"].count("[run] Error: the call was not run") == 2


@pytest.mark.parametrize("takes_role", [True, False])
def test_001_7_001_8_001_12_001_18_the_example_session(takes_role: bool) -> None:
    """The result is in the next request with the role tool, or user if the server refuses that role."""
    items = {"namespace": "project:metal", "items": [{"text": "Embedding model comparison takeaways"}]}
    action = json.dumps({"thought": "need to upsert note", "action": {"tool": UPSERT, "args": items}})
    final = '{"final":{"content":{"status":"ok","upserted":1}}}'
    refusal = Response(b'{"error": {"message": "unknown role: tool"}}', status=400, content_type="application/json")

    async def drive(session: TextSession) -> Any:
        session.say("Save this note")
        first = await session.stream_turn(lambda event: None)
        await session.append_tool_results(first, done(first, {"upserted": 1}))
        return first, await session.stream_turn(lambda event: None)

    replies = [ChatServer.text(action), *([] if takes_role else [refusal]), ChatServer.text(final)]
    with ChatServer(*replies) as server:
        first, second = converse(server, drive, "json_object", tools=MEMORY)
        messages = server.requests[-1]["messages"]
    assert [(call.name, call.args) for call in first.tool_calls] == [(UPSERT, items)]
    assert json.loads(second.assistant_text) == second.value == {"status": "ok", "upserted": 1}
    assert json.dumps(MEMORY[0]["parameters"]) in messages[0]["content"]
    assert messages[2] == {"role": "assistant", "content": action}
    if takes_role:
        assert messages[3] == {"role": "tool", "name": UPSERT, "content": '{"upserted": 1}'}
    else:
        assert messages[3] == {"role": "user", "content": f'Tool result ({UPSERT}): {{"upserted": 1}}'}


def test_another_refusal_is_raised() -> None:
    refusal = Response(b'{"error": {"message": "no such model"}}', status=400, content_type="application/json")

    async def drive(session: TextSession) -> Any:
        session.say("hi")
        await session.stream_turn(lambda event: None)

    with ChatServer(refusal) as server, pytest.raises(BadRequest, match="no such model"):
        converse(server, drive)


RECORDS: list[dict[str, Any]] = [
    {"role": "system", "text": "old"},
    {"role": "user", "text": "hi"},
    {
        "role": "assistant",
        "text": "Look.",
        "calls": [{"id": "c1", "name": "run", "args": {"command": "ls"}}],
        "native": {"wire": "anthropic", "message": {"role": "assistant", "content": []}},
        "model": "other",
    },
    {"role": "results", "results": [
        {"call_id": "c1", "name": "run", "text": '"a.txt"', "is_error": False},
        {"call_id": "c2", "name": "run", "text": '{"error": "no"}', "is_error": True},
    ]},
    {"role": "assistant", "text": "Done.", "native": {"wire": "text", "message": {"role": "assistant", "content": CALL}}},
]  # fmt: skip


@pytest.mark.parametrize(
    ("protocol", "reply", "results"),
    [
        (
            "tags",
            'Look.\n<tool_call>{"name": "run", "args": {"command": "ls"}}</tool_call>',
            [{"role": "user", "content": "Tool results:\n\n[run] a.txt\n\n[run] Error: no"}],
        ),
        (
            "command",
            'Look.\n@tool run {"command": "ls"}',
            [{"role": "user", "content": "Tool results:\n\n[run] a.txt\n\n[run] Error: no"}],
        ),
        (
            "json_object",
            '{"thought": "Look.", "action": {"tool": "run", "args": {"command": "ls"}}}',
            [
                {"role": "tool", "name": "run", "content": '"a.txt"'},
                {"role": "tool", "name": "run", "content": '{"error": "no"}'},
            ],
        ),
    ],
)
def test_000_20_a_stored_conversation_goes_on(protocol: str, reply: str, results: list[Any]) -> None:
    """Text of this wire is sent unchanged; another wire's calls are written in this wire's form."""

    async def drive(session: TextSession) -> Any:
        session.say("go on")
        return await session.stream_turn(lambda event: None)

    with ChatServer(ChatServer.text("ok")) as server:
        converse(server, drive, protocol, records=RECORDS)
        messages = server.requests[0]["messages"]
    assert messages[1:] == [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": reply},
        *results,
        {"role": "assistant", "content": CALL},
        {"role": "user", "content": "go on"},
    ]


def test_calls_that_a_server_reads_out_of_the_text_by_itself_are_kept() -> None:
    async def drive(session: TextSession) -> Any:
        session.say("hi")
        first = await session.stream_turn(lambda event: None)
        await session.append_tool_results(first, done(first, "a.txt"))
        await session.stream_turn(lambda event: None)
        return first

    with ChatServer(ChatServer.calls(("run", {"command": "ls"})), ChatServer.text("ok")) as server:
        first = converse(server, drive)
        messages = server.requests[1]["messages"]
    assert [call.name for call in first.tool_calls] == ["run"]
    assert messages[2] == {"role": "assistant", "content": '<tool_call>{"name": "run", "args": {"command": "ls"}}</tool_call>'}
    assert messages[3]["content"] == "Tool results:\n\n[run] a.txt"


def loop(server: ChatServer, folder: Path, protocol: str) -> str:
    """Run a whole conversation with the real tools."""

    async def go() -> str:
        with assemble(project_dir=folder) as crib:
            session = await crib.open()
            client = HttpClient(Endpoint(server.base_url, "m", None), {})
            provider = TextSession(client, protocol=find_protocol(protocol), model="m", tools=session.definitions)
            session.link.use(provider)
            try:
                return (await session.ask("go")).text
            finally:
                await session.close()

    return asyncio.run(go())


@pytest.mark.parametrize(
    ("protocol", "call", "final"),
    [
        ("tags", '<tool_call>{"name":"terminal","args":{"command":"echo hi"}}</tool_call>', "It says hi."),
        ("tags", '<|tool_call>call:terminal{command: "echo hi"}<tool_call|>', "It says hi."),
        ("json_object", '{"action":{"tool":"terminal","args":{"command":"echo hi"}}}', '{"final":{"content":"It says hi."}}'),
        ("command", '@tool terminal {"command": "echo hi"}', "It says hi."),
        (
            "qwen_xml",
            "<tool_call><function=terminal><parameter=command>echo hi</parameter></function></tool_call>",
            "It says hi.",
        ),
    ],
)
def test_000_30_000_36_000_40_a_run_of_three_turns(tmp_path: Path, protocol: str, call: str, final: str) -> None:
    unknown = find_protocol(protocol).render_reply("", [ToolCall("1", "no_such_tool", {})])
    with ChatServer(ChatServer.text(unknown), ChatServer.text(call), ChatServer.text(final)) as server:
        assert loop(server, tmp_path, protocol) == "It says hi."
        unknown_told, told = (request["messages"][-1]["content"] for request in server.requests[1:])
    assert "no_such_tool" in unknown_told
    assert "hi" in told
    assert "rror" not in told
    if protocol != "json_object":
        assert unknown_told.startswith("Tool results:\n\n[no_such_tool] Error: Unknown tool: no_such_tool")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (ValueError("boom"), "Error: boom"),
        (ValueError("Error: boom"), "Error: boom"),
        (KeyError("x: y"), "Error: 'x: y'"),
        (RuntimeError(), "Error: RuntimeError"),
        (ExecutionFailed("two\nlines"), "Error: two\nlines"),
    ],
    ids=str,
)
@pytest.mark.parametrize("protocol", ["tags", "command", "hermes"])
def test_000_36_an_exception_is_its_message(tmp_path: Path, protocol: str, fault: Exception, words: str) -> None:
    """000-36: without a wrapper, both live and when the conversation is resumed."""

    def fail(args: Any) -> Any:
        raise fault

    assert told(tmp_path, protocol, fail) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [("", "OK"), (None, "OK"), (" ", " "), ("hi", "hi"), (0, "0"), (False, "false"), ([], "[]"), ({"a": [1]}, '{"a": [1]}')],
)
@pytest.mark.parametrize("protocol", ["tags", "command", "hermes"])
def test_000_35_a_result_is_its_text(tmp_path: Path, protocol: str, value: Any, words: str) -> None:
    """000-35: an empty result is sent as OK, both live and when the conversation is resumed."""
    assert told(tmp_path, protocol, lambda args: value) == words


def told(folder: Path, protocol: str, handler: Any) -> str:
    """Return the text of a tool's result for the model; the same in a resumed conversation."""
    text = find_protocol(protocol).render_reply("", [ToolCall("1", "fail", {})])
    with ChatServer(*map(ChatServer.text, (text, "I see.", "Yes."))) as server, assemble(project_dir=folder) as crib:
        take_back = crib.registry.checkpoint()
        crib.registry.register("fail", "terminal", {"description": "d"}, handler)

        async def ask(task: str, resume: str = "") -> str:
            session = await crib.open(resume=resume)
            session.scope.granted = None
            client = HttpClient(Endpoint(server.base_url, "m", None), {})
            definitions, records = crib.registry.get_definitions(["fail"]), list(await session.records())
            provider = TextSession(client, protocol=find_protocol(protocol), model="m", tools=definitions, records=records)
            session.link.use(provider)
            try:
                await session.ask(task)
                return session.id
            finally:
                await session.close()

        begun = asyncio.run(ask("go"))
        asyncio.run(ask("once more", begun))
        take_back()
        fresh, stored = server.requests[1]["messages"][3], server.requests[2]["messages"][3]
    assert fresh == stored
    return str(fresh["content"].removeprefix("Tool results:\n\n[fail] "))


def test_001_9_001_11_a_refused_reply_is_asked_for_again_but_not_for_ever(tmp_path: Path) -> None:
    prose, mismatch = "Sure, I will.", '{"action":{"tool":"terminal","args":{"cmd":"ls"}}}'
    with ChatServer(*map(ChatServer.text, (prose, mismatch, prose, prose, prose))) as server:
        with pytest.raises(NoProgress):
            loop(server, tmp_path, "json_object")
        told = [request["messages"][-1]["content"] for request in server.requests[1:]]
    assert len(server.requests) == 4
    assert "exactly one JSON object" in told[0]
    assert '"command"' in told[1]
