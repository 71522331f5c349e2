"""Requests of a server to the session's model (MCP calls this sampling). The model gets the server's messages, and no tools."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Protocol

from agent.conversation.single_requests import ModelMessage
from agent.mcp.asking import Declined, Question
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image
from tools.judge.findings import visible

if TYPE_CHECKING:
    from mcp_types import CreateMessageRequestParams, CreateMessageResult, SamplingMessage

    from toolcrib.contract.session import ProviderTurn

_SHOWN, _SHOWN_BEFORE, _MOST_BEFORE = 2_000, 500, 6
"""Characters of the last message, and of each before it, that the user sees; and the number of these."""
_STOPS = {"stop": "endTurn", "length": "maxTokens"}


class AnswersRequests(Protocol):
    """A session's model; see agent.conversation.single_requests.SingleRequests."""

    async def ask(self, system: str, messages: Sequence[ModelMessage], most: int, /) -> ProviderTurn:
        """Return the model's reply. Raises ToolcribError."""
        ...


async def sample(
    params: CreateMessageRequestParams, model: AnswersRequests | None, ask: Callable[[Question], Awaitable[object]] | None
) -> CreateMessageResult:
    """Return the model's answer to a server's request. ``ask`` asks the user before; None if a rule allows it.

    Raises ToolcribError with a reason for the server, also if the user declines.
    """
    from mcp_types import CreateMessageResult, TextContent

    messages, system = [_message(one) for one in params.messages], params.system_prompt or ""
    if not messages or messages[-1].role != "user":
        raise ToolcribError("the last message must be the user's")
    if params.tools:
        raise ToolcribError("the model gets no tools here")
    if model is None:
        raise ToolcribError("no model is connected")
    if ask is not None:
        try:
            answer = await ask(question_of(system, messages))
        except Declined:
            answer = False
        if answer is not True:
            raise ToolcribError("the user declines")
    turn = await model.ask(system, messages, max(params.max_tokens, 1))
    text = "" if turn.tool_calls else turn.assistant_text
    if not text:
        raise ToolcribError("the model wrote no text")
    return CreateMessageResult(
        role="assistant", content=TextContent(text=text), model=turn.model or "unknown", stop_reason=_STOPS.get(turn.finish)
    )


def question_of(system: str, messages: Sequence[ModelMessage]) -> Question:
    """Return the question whether the model may answer."""
    *before, last = messages
    lines = [f"system: {visible(system, _SHOWN_BEFORE)}"] if system else []
    if len(before) > _MOST_BEFORE:
        lines.append(f"({len(before) - _MOST_BEFORE} earlier messages)")
    lines += [_line(one, _SHOWN_BEFORE) for one in before[-_MOST_BEFORE:]] + [_line(last, _SHOWN)]
    text = "\n".join(["", *lines, "May the model answer?"])
    return Question(text, ("yes", "no"), "", {"type": "boolean"}, "asks your model", False)


def _line(message: ModelMessage, most: int) -> str:
    images = f" ({len(message.images)} images)" if message.images else ""
    return f"{message.role}: {visible(message.text, most)}{images}"


def _message(message: SamplingMessage) -> ModelMessage:
    texts: list[str] = []
    images: list[Image] = []
    for part in message.content_as_list:
        if part.type == "text":
            texts.append(part.text)
        elif part.type == "image" and message.role == "user":
            try:
                images.append(Image(part.mime_type, base64.b64decode(part.data, validate=True)))
            except binascii.Error:
                raise ToolcribError("an image is no base64") from None
        else:
            raise ToolcribError(f"the model can't be given content of the type {part.type} in a message of role {message.role}")
    return ModelMessage(message.role, "\n".join(texts), images)
