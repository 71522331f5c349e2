"""OpenAI Chat Completions, and the many servers that speak it: one conversation as a ProviderSession."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.providers._chat_messages import ChatMessages
from agent.providers._chat_reader import ChatReader
from agent.providers._history import UNSIGNED, History, encode
from agent.providers._http_session import HttpSession, function_of, schema_named
from agent.providers._images import pictured
from agent.providers._names import WireNames
from agent.providers._reasoning import ReasoningBack
from agent.providers._tool_schemas import OPENAI, fitted
from agent.providers.http import HttpClient
from toolcrib.contract.image import Image
from toolcrib.contract.regex import Regex
from toolcrib.contract.session import ExecutedCall, OnEvent, ProviderTurn
from toolcrib.contract.types import ToolCall
from tools.dispatch.json_results import as_json

_ALTERNATE = Regex(r"(?:must|should) alternate")
"""A chat template's refusal of two messages of the user in a row: after a failed or interrupted run."""
_CONTENT = Regex(r"\bcontent\b.{0,80}?\b(?:string|null|none|empty|required)\b", re.DOTALL)
"""A refusal of null as the content of a message with only calls."""
_CALL_ID = Regex(
    r"(tool[ _]calls?(\[\d+\]\.|[ _])|tool_use\.)id\b.{0,120}(with a length|maximum length|too long|match pattern)", re.DOTALL
)


class OpenAIChatSession(HttpSession):
    """A conversation: ``say`` something, then ``stream_turn``. A failed turn may be retried: only whole turns enter the history.

    ``records`` is a stored conversation to resume. ``extra`` are further fields of every request (temperature, seed, ...). If a
    server refuses a field that not all servers know (stream_options, stream, reasoning), the request is repeated without it, and
    the field is left out from then on. If it refuses max_tokens, the field is renamed to max_completion_tokens; if it refuses
    call ids, they get Mistral's form. All methods belong to one event loop.
    """

    path = "chat/completions"
    refuses_stream = Regex(r"\bstream(ing)?\b")  # small servers use any wording

    def __init__(
        self,
        client: HttpClient,
        *,
        model: str,
        system: str = "",
        tools: Sequence[Mapping[str, Any]] = (),
        records: Iterable[Mapping[str, Any]] = (),
        stream: bool = True,
        max_tokens: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(client, model, stream=stream)
        functions, keys = fitted(map(function_of, tools), OPENAI)
        self._offered = functions
        self._names = WireNames((function["name"] for function in functions), keys)
        self._tools = self._encoded_tools(functions)
        self._messages = ChatMessages(self._names, model, self._server)
        if system:
            self._messages.system(system)
        self._messages.records(records, skip_system=bool(system))
        self._max_tokens = max_tokens
        self._limit_field = "max_tokens"
        self._stream_options = True
        self._reasoning = ReasoningBack(self._server)
        self._extra = dict(extra or {})

    def say(self, text: str, images: Sequence[Image] = ()) -> None:
        """Add the user's next message and images."""
        self._messages.user(text, images)

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        self._messages.results(((one.call.id, as_json(one)) for one in executed), pictured(executed))

    # -- the wire ------------------------------------------------------------------------------------------------------

    def _reader(self, on_event: OnEvent) -> ChatReader:
        reader = ChatReader(on_event, self._names.own, server=self._server, taken=self._messages.ids)
        reader.sent_tools = bool(self._tools)
        return reader

    @property
    def _history(self) -> History:
        return self._messages

    def _took(self, turn: ProviderTurn) -> None:
        self._messages.assistant(turn.assistant_turn)

    def _native_calls(self, native: Any, text: str, calls: Sequence[ToolCall]) -> Any:
        listed = [self._messages.native_call(call.id, call.name or "unnamed", call.args) for call in calls]
        return {**native, "content": text or None, "tool_calls": listed}

    def _body(self) -> bytes:
        fields: dict[str, Any] = {"model": self.model, "stream": self._stream}
        if self._stream and self._stream_options:
            fields["stream_options"] = {"include_usage": True}
        if self._max_tokens is not None:
            fields[self._limit_field] = self._max_tokens
        if self._tools:
            fields.update(self._steer.choice())
        fields.update({**self._steer.format(), **self._extra})
        messages = self._messages.joined(self._reasoning)
        tools = b',"tools":' + self._tools if self._tools else b""
        # constant parts go first: a cache that compares requests as bytes then covers the tools too
        return encode(fields)[:-1] + tools + b',"messages":' + messages + b"}"

    def _choice_fields(self, choice: str) -> dict[str, Any]:
        if choice in ("none", "required"):
            return {"tool_choice": choice}
        return {"tool_choice": {"type": "function", "function": {"name": self._names.wire(choice)}}}

    def _schema_fields(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {"response_format": {"type": "json_schema", "json_schema": schema_named(schema)}}

    def _adapt(self, said: str) -> bool:
        if self._stream and self._stream_options and ("stream_options" in said or "include_usage" in said):
            self._stream_options = False
        elif self._max_tokens is not None and self._limit_field == "max_tokens" and "max_completion_tokens" in said:
            self._limit_field = "max_completion_tokens"
        elif _CALL_ID.search(said) and self._messages.shorten_ids():
            pass
        elif _ALTERNATE.search(said):
            return self._messages.alternate()
        elif UNSIGNED.search(said):
            return self._messages.sign()
        elif "<|channel|> tags" in said:
            return self._messages.bare()
        elif not self._reasoning.adapt(said, self._messages.carried):
            return _CONTENT.search(said) is not None and self._messages.fill()
        return True

    def _encoded_tools(self, functions: Sequence[Mapping[str, Any]]) -> bytes:
        return encode([self._tool(function) for function in functions]) if functions else b""

    def _tool(self, function: Mapping[str, Any]) -> dict[str, Any]:
        return {"type": "function", "function": {**function, "name": self._names.wire(function["name"])}}
