"""OpenAI Responses, and servers that speak it: one conversation as a ProviderSession."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.providers._history import History, encode
from agent.providers._http_session import HttpSession, function_of, schema_named
from agent.providers._images import pictured
from agent.providers._names import WireNames
from agent.providers._responses_items import ResponsesItems
from agent.providers._responses_reader import ResponsesReader
from agent.providers._tool_schemas import OPENAI, fitted
from agent.providers.http import HttpClient
from toolcrib.contract.image import Image
from toolcrib.contract.regex import Regex
from toolcrib.contract.session import ExecutedCall, OnEvent, ProviderTurn
from tools.dispatch.json_results import as_json

_ENCRYPTED = "reasoning.encrypted_content"
_NO_ENCRYPTED = Regex(r"encrypted[ _]content|[\"'`]include[\"'`\[]")
_NO_PREVIOUS = Regex(r"previous.response.*(not found|unknown|not supported|unsupported|invalid|expired|cannot)", re.DOTALL)
_REASONING_BACK = Regex(r"reasoning.{0,80}\b(passed|sent) back")


class ResponsesSession(HttpSession):
    """A conversation: ``say`` something, then ``stream_turn``. A failed turn may be retried: only whole turns enter the history.

    ``records`` is a stored conversation to resume. ``stored`` False: the server keeps nothing, and each request has the whole
    conversation, with the model's reasoning encrypted in it. ``stored`` True: the server keeps replies, and a request has only
    new items, or all of them if the server lost the replies. ``extra`` are further fields of every request (reasoning,
    temperature, ...). All methods belong to one event loop.
    """

    path = "responses"

    def __init__(
        self,
        client: HttpClient,
        *,
        model: str,
        system: str = "",
        tools: Sequence[Mapping[str, Any]] = (),
        records: Iterable[Mapping[str, Any]] = (),
        stream: bool = True,
        stored: bool = False,
        max_tokens: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(client, model, stream=stream)
        functions, keys = fitted(map(function_of, tools), OPENAI)
        self._offered = functions
        self._names = WireNames((function["name"] for function in functions), keys)
        self._tools = self._encoded_tools(functions)
        self._items = ResponsesItems(self._names, model, stored=stored)
        if system:
            self._items.system(system)
        self._items.records(records, skip_system=bool(system))
        self._stored = stored
        self._encrypted = not stored
        self._max_tokens = max_tokens
        self._extra = dict(extra or {})

    def say(self, text: str, images: Sequence[Image] = ()) -> None:
        """Add the user's next message and images."""
        self._items.user(text, images)

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        self._items.results(((one.call.id, as_json(one)) for one in executed), pictured(executed))

    # -- the wire ------------------------------------------------------------------------------------------------------

    def _reader(self, on_event: OnEvent) -> ResponsesReader:
        return ResponsesReader(on_event, self._names.own, server=self._server, taken=self._items.ids)

    @property
    def _history(self) -> History:
        return self._items

    def _took(self, turn: ProviderTurn) -> None:
        self._items.assistant(turn.assistant_turn)

    def _body(self) -> bytes:
        fields: dict[str, Any] = {"model": self.model, "stream": self._stream, "store": self._stored}
        if self._items.instructions:
            fields["instructions"] = self._items.instructions
        if self._encrypted:
            fields["include"] = [_ENCRYPTED]
        if self._items.previous_id:
            fields["previous_response_id"] = self._items.previous_id
        if self._max_tokens is not None:
            fields["max_output_tokens"] = self._max_tokens
        if self._tools:
            fields.update(self._steer.choice())
        fields.update({**self._steer.format(), **self._extra})
        tools = b',"tools":' + self._tools if self._tools else b""
        return encode(fields)[:-1] + tools + b',"input":' + self._items.joined() + b"}"

    def _choice_fields(self, choice: str) -> dict[str, Any]:
        if choice in ("none", "required"):
            return {"tool_choice": choice}
        return {"tool_choice": {"type": "function", "name": self._names.wire(choice)}}

    def _schema_fields(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {"text": {"format": {"type": "json_schema", **schema_named(schema)}}}

    def _adapt(self, said: str) -> bool:
        if self._encrypted and _NO_ENCRYPTED.search(said):
            self._encrypted = False  # the model has no reasoning, or the server does not know the field
        elif self._items.previous_id and _NO_PREVIOUS.search(said):
            self._items.forget_previous()
        elif _REASONING_BACK.search(said) and self._items.repeat_reasoning():
            pass
        else:
            return "no tool output found" in said and self._items.pair()
        return True

    def _encoded_tools(self, functions: Sequence[Mapping[str, Any]]) -> bytes:
        return encode([self._tool(function) for function in functions]) if functions else b""

    def _tool(self, function: Mapping[str, Any]) -> dict[str, Any]:
        """Return a tool, marked as not strict: strict is this wire's default, and refuses schemas with optional arguments."""
        tool: dict[str, Any] = {"type": "function", "name": self._names.wire(function["name"])}
        if function.get("description"):
            tool["description"] = function["description"]
        return {**tool, "parameters": function.get("parameters") or {"type": "object", "properties": {}}, "strict": False}
