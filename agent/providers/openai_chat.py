"""OpenAI Chat Completions, and the many servers that speak it: one conversation as a ProviderSession."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from agent.providers._chat_messages import ChatMessages
from agent.providers._chat_reader import ChatReader
from agent.providers._images import pictured
from agent.providers._names import WireNames
from agent.providers._steer import Steer
from agent.providers.http import HttpClient, Reply
from agent.providers.sse import SseReader
from toolcrib import BadRequest, ExecutedCall, Image, Overloaded, ProviderError, ProviderTurn, StreamBroken
from toolcrib._session import OnEvent
from tools.dispatch.faces import as_json

_WANTS_REASONING = re.compile(r"deepseek|kimi|moonshot|minimax", re.IGNORECASE)
"""Servers that refuse a call's message, within one task, without the reasoning that led to it."""


class OpenAIChatSession:
    """``say`` something, then ``stream_turn``. What failed may be asked again: a turn enters the history when it is whole.

    ``records`` is a stored conversation to go on with. ``extra`` are further fields of every request (temperature, seed, ...).
    A server that refuses a field which only some know (stream_options, max_tokens, stream) is asked again without it, once, and
    not bothered with it again. All methods belong to one event loop.
    """

    def __init__(
        self,
        client: HttpClient,
        *,
        model: str,
        system: str = "",
        tools: Sequence[Mapping[str, Any]] = (),
        records: Iterable[Mapping[str, Any]] = (),
        stream: bool = True,
        session_id: str | None = None,
        max_tokens: int | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self._client = client
        self._server = client.endpoint.server
        self.model = model
        self.session_id = session_id
        self._names = WireNames(_function(tool)["name"] for tool in tools)
        self._tools = _encode([self._tool(tool) for tool in tools]) if tools else b""
        self._steer = Steer("chat", self._names.wire)
        self._messages = ChatMessages(self._names, model)
        if system:
            self._messages.system(system)
        self._messages.records(records, skip_system=bool(system))
        self._answered = False  # the last request: an error in its answer is no refusal of a field
        self._stream = stream
        self._max_tokens = max_tokens
        self._limit_field = "max_tokens"
        self._stream_options = True
        self._reasoning_back = bool(_WANTS_REASONING.search(f"{self._server} {model}"))
        self._extra = dict(extra or {})

    def say(self, text: str, images: Sequence[Image] = ()) -> None:
        """What the person says and shows next."""
        self._messages.user(text, images)

    def steer(self, tool_choice: str = "auto", schema: Mapping[str, Any] | None = None) -> None:
        """What the replies are from now on: "none", "required" or a tool's name for their calls, a JSON Schema for their text."""
        self._steer.set(tool_choice, schema)

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        """Raises a ProviderError kind; its ``text`` is what had come. Cancelling closes the connection at once."""
        while True:
            try:
                turn = await self._ask(on_event)
            except (BadRequest, Overloaded) as error:
                if self._answered or not self._adapt(error):
                    raise
            else:
                self._messages.assistant(turn.assistant_turn)
                return turn

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        self._messages.results(((one.call.id, as_json(one)) for one in executed), pictured(executed))

    async def close(self) -> None:
        await self._client.aclose()

    # -- one request ---------------------------------------------------------------------------------------------

    async def _ask(self, on_event: OnEvent) -> ProviderTurn:
        reader = ChatReader(on_event, self._names.own, server=self._server)
        self._answered = False
        try:
            async with self._client.post("chat/completions", self._body()) as reply:
                self._answered = True
                await self._read(reply, reader)
            return reader.finish()
        except ProviderError as error:
            error.text = error.text or reader.text
            raise

    async def _read(self, reply: Reply, reader: ChatReader) -> None:
        kind = reply.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind.endswith("json") or (not self._stream and kind != "text/event-stream"):
            reader.read_body(self._parsed(await reply.whole()))
            return
        if kind == "text/html":
            raise StreamBroken(f"{self._server} answered with a web page; check the base URL, which usually ends in /v1")
        sse, start = SseReader(), b""
        try:
            async for chunk in reply.chunks():
                start = start or chunk[:200]
                if start.lstrip()[:1] == b"{":
                    reader.read_body(self._parsed(chunk + await reply.whole()))
                    return
                reader.read_events(sse.feed(chunk))
                if reader.done:
                    await reply.drain()
                    return
            reader.read_events(sse.close())
        except StreamBroken:
            if not reader.ended:  # else the reply was whole, and only its trailer is missing
                raise
        if not reader.begun:
            shown = start.decode("utf-8", "replace")
            raise StreamBroken(f"{self._server} answered with something that is no event stream: {shown!r}; check the base URL")

    def _parsed(self, body: bytes) -> Any:
        try:
            return json.loads(body)
        except (ValueError, RecursionError):
            shown = body[:200].decode("utf-8", "replace")
            raise StreamBroken(
                f"{self._server} answered with something that is not JSON: {shown!r}; check the base URL"
            ) from None

    def _body(self) -> bytes:
        fields: dict[str, Any] = {"model": self.model, "stream": self._stream}
        if self._stream and self._stream_options:
            fields["stream_options"] = {"include_usage": True}
        if self._max_tokens is not None:
            fields[self._limit_field] = self._max_tokens
        if self._tools:
            fields.update(self._steer.choice())
        fields.update({**self._steer.format(), **self._extra})
        messages = self._messages.joined(with_reasoning=self._reasoning_back)
        tools = b',"tools":' + self._tools if self._tools else b""
        return _encode(fields)[:-1] + b',"messages":' + messages + tools + b"}"

    def _adapt(self, error: ProviderError) -> bool:
        """Leave out what the server just refused; False where there is nothing more to leave out."""
        said = f"{error} {error.body}".lower()
        if self._steer.adapt(said):
            return True
        if self._stream and self._stream_options and ("stream_options" in said or "include_usage" in said):
            self._stream_options = False
        elif self._max_tokens is not None and self._limit_field == "max_tokens" and "max_completion_tokens" in said:
            self._limit_field = "max_completion_tokens"
        elif not self._reasoning_back and "reasoning_content" in said and ("passed back" in said or "missing" in said):
            self._reasoning_back = True
        elif self._stream and isinstance(error, BadRequest) and re.search(r"\bstream(ing)?\b", said):
            self._stream = False
        else:
            return False
        return True

    def _tool(self, definition: Mapping[str, Any]) -> dict[str, Any]:
        function = dict(_function(definition))
        function["name"] = self._names.wire(function["name"])
        return {"type": "function", "function": function}


def _function(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tool's schema, bare or in its ``{"type": "function"}`` wrapper."""
    inner = definition.get("function")
    return inner if isinstance(inner, Mapping) else definition


def _encode(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
