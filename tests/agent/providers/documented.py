"""Chat Completions servers that refuse reasoning, or its absence, as the documents of their vendors describe."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent.providers import Endpoint, HttpClient
from agent.providers._reasoning import FIELDS
from agent.providers.openai_chat import OpenAIChatSession
from toolcrib import ExecutedCall, ToolCallStatus, ToolResult
from toolcrib.testing import ChatServer, Response

TOOLS = [{"type": "function", "function": {"name": "read", "description": "d", "parameters": {"type": "object"}}}]


class Documented(ChatServer):
    """A server that refuses requests by its vendor's rules: ``rules`` returns the refusal of a request, or None."""

    def __init__(self, rules: Callable[[Any], Response | None], *responses: Response) -> None:
        super().__init__(*responses)
        self._rules = rules
        self.refused = 0

    def _posted(self, path: str, headers: dict[str, str], sent: Any) -> Response:
        refusal = self._rules(sent)
        if refusal is None:
            return super()._posted(path, headers, sent)
        self.refused += 1
        self.requests.append(sent)
        return refusal


def refuse(message: Any, status: int = 400, **more: Any) -> Response:
    return ChatServer.body({"error": {"message": message, "type": "invalid_request_error", **more}}, status)


def reply(*deltas: Mapping[str, Any], call: str = "", text: str = "") -> Response:
    """Return a streamed reply: deltas of its reasoning, then a call with this id, or text."""
    last = {"tool_calls": [{"index": 0, "id": call, "function": {"name": "read", "arguments": "{}"}}]}
    pieces = [*deltas, last if call else {"content": text}]
    chunks = [{"choices": [{"index": 0, "delta": dict(one), "finish_reason": None}]} for one in pieces]
    return ChatServer.stream(*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls" if call else "stop"}]})


def talk(
    server: ChatServer, questions: int = 2, *, model: str = "m", records: Sequence[Mapping[str, Any]] = ()
) -> list[Mapping[str, Any]]:
    """Ask questions, run the calls in the replies, and return the native messages."""

    async def run() -> list[Mapping[str, Any]]:
        client = HttpClient(Endpoint(server.base_url, model), {})
        session = OpenAIChatSession(client, model=model, tools=TOOLS, records=records)
        natives = []
        try:
            for _ in range(questions):
                session.say("go on")
                turn = await session.stream_turn(lambda event: None)
                natives.append(turn.assistant_turn)
                while turn.tool_calls:
                    done = [
                        ExecutedCall(one, ToolResult.success("read", {}), ToolCallStatus.SUCCEEDED) for one in turn.tool_calls
                    ]
                    await session.append_tool_results(turn, done)
                    turn = await session.stream_turn(lambda event: None)
                    natives.append(turn.assistant_turn)
        finally:
            await session.close()
        return natives

    return asyncio.run(run())


def replies(sent: Any) -> list[dict[str, Any]]:
    return [one for one in sent["messages"] if one["role"] == "assistant"]


def deepseek(sent: Any) -> Response | None:
    """With tools, each message of the model must have its reasoning: in every later request, and not as empty text."""
    if all(one.get("reasoning_content") for one in replies(sent)):
        return None
    return refuse("The `reasoning_content` in the thinking mode must be passed back to the API.", code="invalid_request_error")


def thinks(*parts: str, key: str = "reasoning_content") -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": None, key: ""}, *({key: part} for part in parts)]


ENCRYPTED = {"type": "reasoning.encrypted", "format": "google-gemini-v1", "index": 0, "id": "tool_0_read", "data": "Zm9v"}
SIGNED = [
    {"type": "reasoning.text", "text": "Let", "format": "anthropic-claude-v1", "index": 0},
    {"type": "reasoning.text", "text": " me compute.", "format": "anthropic-claude-v1", "index": 0, "signature": None},
    {"type": "reasoning.text", "signature": "Et8B", "format": "anthropic-claude-v1", "index": 0},
]
WHOLE = {"type": "reasoning.text", "format": "anthropic-claude-v1", "index": 0, "signature": "Et8B", "text": "Let me compute."}


def forbidden(sent: Any, fields: Sequence[str]) -> list[tuple[int, str, Any]]:
    messages = enumerate(sent["messages"])
    return [(place, field, one[field]) for place, one in messages for field in fields if field in one]


def cerebras(sent: Any) -> Response | None:
    lines = [f"messages.{n}.assistant.{field}" for n, field, _ in forbidden(sent, ["reasoning_content"])]
    said = "\n".join(f"{line}: property '{line}' is unsupported" for line in lines)
    body = {"message": said, "type": "invalid_request_error", "param": "validation_error", "code": "wrong_api_format"}
    return ChatServer.body(body, 400) if lines else None


def groq(sent: Any) -> Response | None:
    found = [f"('messages.{n}' : property '{field}' is unsupported)" for n, field, _ in forbidden(sent, FIELDS)]
    said = f"'messages.1' : for 'role:assistant' the following must be satisfied[{', '.join(found)}]"
    return refuse(said) if found else None


def mistral(sent: Any) -> Response | None:
    """The server repeats the text of the field, which must not be mistaken for the server's own message."""
    detail = [
        {"type": "extraforbidden", "loc": ["body", "messages", n, "assistant", field], "msg": "Extra inputs are not permitted"}
        | {"input": value}
        for n, field, value in forbidden(sent, FIELDS)
    ]
    body = {"object": "error", "message": {"detail": detail}, "type": "invalid_request_error", "code": None}
    return ChatServer.body(body, 422) if detail else None
