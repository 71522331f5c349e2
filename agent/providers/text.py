"""Models without native tool calls: plain chat completions with the calls in the text (000-14, 000-45)."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from agent.providers._calls import bounded, held_back
from agent.providers._text_messages import TextMessages
from agent.providers.http import HttpClient
from agent.providers.openai_chat import OpenAIChatSession
from agent.reply_ends import CAPPED
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import BadRequest, ConfigError, ProviderError
from toolcrib.contract.image import Image
from toolcrib.contract.regex import Regex
from toolcrib.contract.session import ExecutedCall, OnEvent, ProviderTurn, StreamEvent, TextProtocol, TextReader, Thinking
from toolcrib.contract.types import ToolCall

SessionMode: TypeAlias = Literal["fresh", "resume", "stateless"]
"""The server's memory of the conversation: begin a new one, resume a known one, or keep none."""

_ABOUT_ROLES = Regex(r"role|tool|template|jinja", re.IGNORECASE)


class TextSession(OpenAIChatSession):
    """A ProviderSession over Chat Completions without the ``tools`` field: ``protocol`` writes and reads the calls.

    ``system`` are the agent's instructions. The history keeps each reply as the model wrote it, thinking included (000-20). All
    results of a turn are sent back at once (000-38); unreadable calls are answered too. Raises ConfigError if the mode
    ``resume`` has no ``session_id``.
    """

    def __init__(
        self,
        client: HttpClient,
        *,
        protocol: TextProtocol,
        model: str,
        system: str = "",
        tools: Sequence[Mapping[str, Any]] = (),
        records: Iterable[Mapping[str, Any]] = (),
        stream: bool = True,
        session_mode: SessionMode = "stateless",
        session_id: str | None = None,
        thinking: Thinking = "maybe",
        max_tokens: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        session_id = _session_id(session_mode, session_id)
        super().__init__(client, model=model, stream=stream, max_tokens=max_tokens, extra=extra)
        if session_id is not None:
            client.headers["X-Session-ID"] = session_id
        self._protocol = protocol
        self._definitions = list(tools)
        self._thinking = thinking
        self._text = TextMessages(protocol, model)
        self._messages = self._text
        prompt = protocol.render_tools(self._definitions, instructions=system)
        if prompt:
            self._messages.system(prompt)
        self._messages.records(records, skip_system=bool(prompt))

    def say(self, text: str, images: Sequence[Image] = ()) -> None:
        """Add the user's next message and images, with the tool choice in words, as there is no field for it."""
        super().say(text + _wish(self._steer.tool_choice), images)

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        self._text.executed(executed)

    async def _ask(self, on_event: OnEvent) -> ProviderTurn:
        reader = self._protocol.reader(self._definitions, thinking=self._thinking)
        raw = await super()._ask(_reading(reader, on_event))
        reply = reader.finish(truncated=raw.finish in CAPPED)
        if self._thinking == "maybe":
            self._thinking = reply.next_thinking
        for event in reply.events:
            on_event(event)
        calls = bounded(held_back((*raw.tool_calls, *self._without_cut(reply.calls)), self._held))
        return replace(
            raw,
            assistant_text=reply.content,
            tool_calls=calls,
            assistant_turn=self._written(raw),
            reasoning=raw.reasoning + reply.reasoning,
            value=reply.value,
        )

    def _without_cut(self, calls: Sequence[ToolCall]) -> Sequence[ToolCall]:
        """Return the calls. If ``_held`` has the server's reason for a cut-off reply, remove the reader's fault for it."""
        from agent.protocols._made import CUT_REPLY

        return calls if self._held is None else [replace(one, fault=None) if one.fault == CUT_REPLY else one for one in calls]

    def _written(self, raw: ProviderTurn) -> dict[str, Any]:
        """Return the message for the history. Calls that the server itself parsed out of the text are written back into it."""
        text = raw.assistant_text
        return {"role": "assistant", "content": self._protocol.render_reply(text, raw.tool_calls) if raw.tool_calls else text}

    def _adapt_any(self, error: ProviderError) -> bool:
        told = self._text.tool_role and self._text.has_tool_role
        if told and type(error) is BadRequest and _ABOUT_ROLES.search(f"{error} {error.body}"):
            self._text.tool_role = False
            return True
        return super()._adapt_any(error)


def _wish(tool_choice: str) -> str:
    if tool_choice == "auto":
        return ""
    if tool_choice == "none":
        return "\n\nAnswer without calling a tool."
    return "\n\nCall a tool now." if tool_choice == "required" else f"\n\nCall the tool {tool_choice} now."


def _reading(reader: TextReader, on_event: OnEvent) -> OnEvent:
    def read(event: StreamEvent) -> None:
        if event.kind != "assistant_delta":
            on_event(event)
            return
        for shown in reader.feed(event.text):
            on_event(shown)

    return read


def _session_id(mode: SessionMode, given: str | None) -> str | None:
    if mode == "stateless":
        return None
    if mode == "resume":
        if not given:
            raise ConfigError("the session mode resume needs the id of a session")
        return given
    return given or uuid.uuid4().hex
