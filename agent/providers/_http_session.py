"""Parts that the sessions of several wires share: ask, read the reply in any form, and retry without refused fields."""

from __future__ import annotations

import logging
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from agent.providers._calls import bounded, held_back
from agent.providers._events import EventReader
from agent.providers._faults import OversizedReply
from agent.providers._history import History
from agent.providers._names import WireNames
from agent.providers._reply import read_reply
from agent.providers._steer import Steer
from agent.providers._text_calls import TextCallWatch, advise, reported
from agent.providers._tool_schemas import simplified
from agent.providers.endpoint import ModelInfo
from agent.providers.http import HttpClient
from agent.reply_ends import WHOLE, ReplyEnd, shortened
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import BadRequest, Overloaded, ProviderError, StreamBroken
from toolcrib.contract.regex import Regex
from toolcrib.contract.session import ExecutedCall, OnEvent, ProviderTurn
from toolcrib.contract.types import ToolCall

_log = logging.getLogger(__name__)
_TOOL_PLACE = Regex(
    r"function_?declarations\[(\d{1,4})\]|\btools(?:\.|\[)(\d{1,4})\b(?!.{0,3}function_?declarations)", re.IGNORECASE
)
_SHOWN_TOOLS = 5
_ABOUT_SCHEMAS = Regex(
    r"schema|unsupported_keyword|function_?declarations.{0,30}parameters|\bgrammar\b|array type must have items"
    r"|\(400: (400:? )?(request contains an )?invalid (argument|param(eter)?)s?( values?)?\.?\)"  # it names no argument
)


class HttpSession(ABC):
    """A session over one HttpClient, which it closes. A failed turn may be retried: only whole turns enter the history.

    A wire provides ``path``, ``_names``, ``_body``, ``_reader``, ``_history``, ``_took``, ``_adapt``, ``_encoded_tools``,
    ``_choice_fields`` and ``_schema_fields``. The key goes in ``key_header``; ``headers`` go with each request.
    ``refuses_stream`` matches, in lower case, a server's message that it does not stream.
    """

    path: ClassVar[str] = ""
    key_header: ClassVar[str] = "Authorization"
    headers: ClassVar[Mapping[str, str]] = {}
    _names: WireNames
    refuses_stream: ClassVar[Regex[str]] = Regex(r"\bstream(ing)?\b.{0,40}(support|allow)")

    def __init__(self, client: HttpClient, model: str, *, stream: bool) -> None:
        self.prepare(client)
        self._client = client
        self._steer = Steer(self._choice_fields, self._schema_fields)
        self._server = client.endpoint.server
        self.model = model
        self._stream = stream
        self._held: str | None = None  # ``held`` of the last reply: see EventReader
        self._offered: Sequence[Mapping[str, Any]] = ()  # tools whose calls the server reads
        self._tools = b""  # as they are sent
        self._simplified = False
        self._advised = self._reported = False  # calls as text: logged once; reported to the model in the last turn
        self._end: ReplyEnd = WHOLE
        self._end_word = ""
        self._answered = False  # whether the last request got a reply: an error inside it refuses no field

    @classmethod
    def prepare(cls, client: HttpClient) -> None:
        """Set the client's headers to those of the wire."""
        client.key_header = cls.key_header
        client.headers.update(cls.headers)

    @classmethod
    async def list_models(cls, client: HttpClient) -> tuple[ModelInfo, ...] | None:
        """Return the models of the client's server; None for a wire whose servers list them as OpenAI's do."""
        return None

    def steer(self, tool_choice: str = "auto", schema: Mapping[str, Any] | None = None) -> None:
        """Steer the next replies: "none", "required" or a tool's name for their calls, a JSON Schema for their text."""
        self._steer.set(tool_choice, schema)

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        """Run a turn. Raises a subclass of ProviderError, with the ``text`` so far. Cancelling closes the connection at once."""
        while True:
            try:
                turn = await self._ask(on_event)
            except (BadRequest, Overloaded) as error:
                if self._answered or not self._adapt_any(error):
                    raise
            else:
                if self._end.kind == "broken" and not turn.tool_calls:
                    words = f"{self._server} interrupted the reply ({self._end_word})"
                    raise StreamBroken(words, text=turn.assistant_text)
                if self._end.kind == "unknown":
                    _log.warning("%s ended a reply with %r, which toolcrib does not know", self._server, self._end_word)
                if turn.assistant_turn is None:
                    self._history.records([record_of(turn)], skip_system=False)
                else:
                    self._took(turn)
                return turn

    @abstractmethod
    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None: ...

    async def close(self) -> None:
        await self._client.aclose()

    # -- provided by a wire ----------------------------------------------------------------------------------------

    @abstractmethod
    def _body(self) -> bytes: ...

    @abstractmethod
    def _reader(self, on_event: OnEvent) -> EventReader: ...

    @property
    @abstractmethod
    def _history(self) -> History: ...

    @abstractmethod
    def _took(self, turn: ProviderTurn) -> None:
        """Add a whole turn to the history."""

    @abstractmethod
    def _adapt(self, said: str) -> bool:
        """Leave out the field that the server refused in these words (lower case); return False if there is none."""

    @abstractmethod
    def _encoded_tools(self, functions: Sequence[Mapping[str, Any]]) -> bytes:
        """Return the tools in the form of the wire."""

    @abstractmethod
    def _choice_fields(self, choice: str) -> dict[str, Any]:
        """Return fields that forbid calls ("none"), require one ("required"), or require a call of the named tool."""

    @abstractmethod
    def _schema_fields(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return fields that restrict the text to a JSON Schema."""

    # -- one request -----------------------------------------------------------------------------------------------

    async def _ask(self, on_event: OnEvent) -> ProviderTurn:
        watches = self._offered and self._steer.schema is None and self._steer.tool_choice != "none"
        watch = TextCallWatch(self._offered, on_event) if watches else None
        reader = self._reader(watch or on_event)
        self._answered = False
        try:
            async with self._client.post(self.path, self._body()) as reply:
                self._answered = True
                await read_reply(reply, reader, server=self._server, stream=self._stream)
                reply.require_bounded(reader.size)
            turn = reader.finish()
            if reader.held is not None:
                turn = replace(turn, tool_calls=held_back(turn.tool_calls, reader.held))
            elif turn.finish == "other":  # the server gave no usable reason
                turn = replace(turn, finish="tool_calls" if turn.tool_calls else "")
            self._held, self._end, self._end_word = reader.held, reader.end, reader.end_word
            return self._with_own_names(turn if watch is None else self._with_text_calls(turn, watch))
        except ProviderError as error:
            error.text = error.text or reader.text
            if isinstance(error, OversizedReply):
                error.text = shortened(error.text)
            self._name_tools(error)
            raise

    def _with_text_calls(self, turn: ProviderTurn, watch: TextCallWatch) -> ProviderTurn:
        """Return the turn with the calls at the end of its text.

        Unreadable calls are reported to the model. If the reply to such a report has unreadable calls too, its text counts as
        an answer.
        """
        reply = watch.finish(turn)
        readable = reply is not None and all(call.fault is None for call in reply.calls)
        if reply is None or (self._reported and not readable):
            self._reported = False
            watch.release()
            return turn
        watch.accept(reply)
        self._reported = not readable
        if not self._advised:
            self._advised = True
            advise(self._server, self.model, read=readable)
        calls = bounded(held_back([reported(call) for call in reply.calls], self._held))
        native = self._native_calls(turn.assistant_turn, reply.content, calls)
        finish = "tool_calls" if self._held is None else turn.finish
        return replace(turn, assistant_text=reply.content, tool_calls=calls, assistant_turn=native, finish=finish)

    def _native_calls(self, native: Any, text: str, calls: Sequence[ToolCall]) -> Any:
        """Return the wire's form of a reply with these calls instead of their text; None to make it from the turn itself."""
        return None

    def _with_own_names(self, turn: ProviderTurn) -> ProviderTurn:
        """Return the turn with the tools' own names for arguments; its ``assistant_turn`` keeps those of the wire."""
        own = [(call, self._names.own_args(call.name, call.args)) for call in turn.tool_calls if call.fault is None]
        if all(args is call.args for call, args in own):
            return turn
        changed = {call.id: replace(call, args=args) for call, args in own}
        return replace(turn, tool_calls=tuple(changed.get(call.id, call) for call in turn.tool_calls))

    def _name_tools(self, error: ProviderError) -> None:
        """Add the names of the tools that a refusal mentions by their numbers."""
        places = {int(found[1] or found[2]) for found in _TOOL_PLACE.finditer(f"{error} {error.body}")}
        named = [
            f"number {place} is the tool {self._names.order[place]!r}"
            for place in sorted(places)[:_SHOWN_TOOLS]
            if place < len(self._names.order)
        ]
        if named and isinstance(error, BadRequest):
            error.args = (f"{error}; of the tools, {', '.join(named)}", *error.args[1:])

    def _adapt_any(self, error: ProviderError) -> bool:
        said = f"{error} {error.body}".lower()
        if self._adapt(said) or self._steer.adapt(said):
            return True
        if self._stream and isinstance(error, BadRequest) and self.refuses_stream.search(said):
            self._stream = False
            return True
        return isinstance(error, BadRequest) and _ABOUT_SCHEMAS.search(said) is not None and self._simplify_tools()

    def _simplify_tools(self) -> bool:
        """Send the tools with simpler schemas from now on; return False if they are simple already."""
        if self._simplified or (made := simplified(self._offered)) == list(self._offered):
            return False
        self._simplified = True
        self._tools = self._encoded_tools(made)
        return True


def record_of(turn: ProviderTurn) -> dict[str, Any]:
    """Return a turn as a stored reply without a native form."""
    calls = [{"id": call.id, "name": call.name or "unnamed", "args": call.args} for call in turn.tool_calls]
    return {"role": "assistant", "text": turn.assistant_text, "calls": calls}


def function_of(definition: Any) -> dict[str, Any]:
    """Return a tool's schema without its ``{"type": "function"}`` wrapper, if it has one."""
    inner = definition.get("function")
    return dict(inner if isinstance(inner, dict) else definition)


def schema_named(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema for the text in the form of OpenAI's wires.

    It is not strict, because strict is refused for schemas with optional fields, and the reply is checked here anyway.
    """
    return {"name": "answer", "schema": schema, "strict": False}
