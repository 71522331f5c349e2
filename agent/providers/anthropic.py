"""Anthropic Messages: one conversation as a ProviderSession."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, ClassVar
from urllib.parse import quote

from agent.providers._anthropic_messages import BREAKPOINT, AnthropicMessages
from agent.providers._anthropic_reader import AnthropicReader
from agent.providers._history import History, encode
from agent.providers._http_session import HttpSession, function_of
from agent.providers._images import pictured
from agent.providers._model_rows import MOST_PAGES, described, get_json, rows_of
from agent.providers._names import WireNames
from agent.providers._tool_schemas import ANTHROPIC, fitted
from agent.providers.endpoint import ModelInfo
from agent.providers.http import HttpClient
from toolcrib.contract.errors import ConfigError
from toolcrib.contract.image import Image
from toolcrib.contract.regex import Regex
from toolcrib.contract.session import ExecutedCall, OnEvent, ProviderTurn
from tools.dispatch.json_results import as_json

MAX_TOKENS = 16_384
"""The default limit of a reply, because the wire requires one in each request. A model's lower limit replaces it."""

_MIN_THINKING = 1024
_LIMIT = Regex(r"max_tokens: (\d+) > (\d+)")


class AnthropicSession(HttpSession):
    """A conversation: ``say`` something, then ``stream_turn``. A failed turn may be retried: only whole turns enter the history.

    ``records`` is a stored conversation to resume. ``max_tokens`` limits a reply; ``thinking`` is how many of these tokens the
    model may use to think, None for no thinking. ``extra`` are further fields of every request. Tools, system prompt and the last
    user message end in cache breakpoints. A ``max_tokens`` that the server refuses is lowered to the limit that the refusal
    names. All methods belong to one event loop.
    """

    path = "messages"
    key_header = "x-api-key"
    headers: ClassVar[Mapping[str, str]] = {"anthropic-version": "2023-06-01"}

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
        thinking: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Prepare the conversation. Raises ConfigError if ``thinking`` is too small, or not below ``max_tokens``."""
        super().__init__(client, model, stream=stream)
        functions, keys = fitted(map(function_of, tools), ANTHROPIC)
        self._offered = functions
        self._names = WireNames((function["name"] for function in functions), keys)
        self._tools = self._encoded_tools(functions)
        self._messages = AnthropicMessages(self._names, model)
        if system:
            self._messages.system(system)
        self._messages.records(records, skip_system=bool(system))
        if thinking is not None and thinking < _MIN_THINKING:
            raise ConfigError(f"a thinking budget of {thinking} tokens is too small: give at least {_MIN_THINKING}, or none")
        self._max_tokens = max_tokens or max(MAX_TOKENS, 2 * (thinking or 0))
        if thinking is not None and self._max_tokens <= thinking:
            raise ConfigError(f"max_tokens is {self._max_tokens} and includes thinking; set it to more than {thinking}")
        self._thinking = thinking
        self._without_thinking = False  # until the user's next message
        self._extra = dict(extra or {})

    @classmethod
    async def list_models(cls, client: HttpClient) -> tuple[ModelInfo, ...]:
        """Return the models of the server's list, which has several pages."""
        found: list[ModelInfo] = []
        path = "models?limit=1000"
        for _ in range(MOST_PAGES):
            body = await get_json(client, path)
            found += [described(row, "id") for row in rows_of(body, "data", client)]
            last = body.get("last_id")
            if not body.get("has_more") or not isinstance(last, str):
                break
            path = f"models?limit=1000&after_id={quote(last, safe='')}"
        return tuple(found)

    def say(self, text: str, images: Sequence[Image] = ()) -> None:
        """Add the user's next message and images."""
        self._without_thinking = False
        self._messages.user(text, images)

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        self._messages.results(((one.call.id, as_json(one), one.result.is_error) for one in executed), pictured(executed))

    # -- the wire ------------------------------------------------------------------------------------------------------

    def _reader(self, on_event: OnEvent) -> AnthropicReader:
        return AnthropicReader(on_event, self._names.own, server=self._server, taken=self._messages.ids)

    @property
    def _history(self) -> History:
        return self._messages

    def _took(self, turn: ProviderTurn) -> None:
        self._messages.assistant(turn.assistant_turn)

    def _body(self) -> bytes:
        fields: dict[str, Any] = {"model": self.model, "max_tokens": self._max_tokens, "stream": self._stream}
        if self._thinks():
            fields["thinking"] = {"type": "enabled", "budget_tokens": self._thinking}
        if self._tools:
            fields.update(self._steer.choice())
        fields.update({**self._steer.format(), **self._extra})
        tools = b',"tools":' + self._tools if self._tools else b""
        return encode(fields)[:-1] + tools + b"," + self._messages.joined() + b"}"

    def _choice_fields(self, choice: str) -> dict[str, Any]:
        plain = {"none": {"type": "none"}, "required": {"type": "any"}}
        return {"tool_choice": plain.get(choice) or {"type": "tool", "name": self._names.wire(choice)}}

    def _schema_fields(self, schema: dict[str, Any]) -> dict[str, Any]:
        return {"output_config": {"format": {"type": "json_schema", "schema": schema}}}

    def _adapt(self, said: str) -> bool:
        if (found := _LIMIT.search(said)) and int(found[2]) < self._max_tokens and int(found[2]) > (self._thinking or 0):
            self._max_tokens = int(found[2])
        elif self._thinks() and "must start with a thinking block" in said:
            self._without_thinking = True  # another model began this task, and its thinking cannot be sent
        else:
            return False
        return True

    def _thinks(self) -> bool:
        if self._steer.forces:  # this wire allows no thinking with a forced call
            return False
        return self._thinking is not None and not self._without_thinking

    def _encoded_tools(self, functions: Sequence[Mapping[str, Any]]) -> bytes:
        tools: list[dict[str, Any]] = []
        for function in functions:
            tool: dict[str, Any] = {"name": self._names.wire(function["name"])}
            if function.get("description"):
                tool["description"] = function["description"]
            tool["input_schema"] = {"type": "object", **(function.get("parameters") or {})}
            tools.append(tool)
        if not tools:
            return b""
        tools[-1]["cache_control"] = BREAKPOINT
        return encode(tools)
