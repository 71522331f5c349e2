"""Parts that the sessions of several wires share: ask, read the reply in any form, ask again without what was refused."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from agent.providers._events import EventReader
from agent.providers._reply import read_reply
from agent.providers._steer import Steer
from agent.providers.endpoint import ModelInfo
from agent.providers.http import HttpClient
from toolcrib.contract.errors import BadRequest, Overloaded, ProviderError
from toolcrib.contract.regex import Regex
from toolcrib.contract.session import ExecutedCall, OnEvent, ProviderTurn


class HttpSession:
    """``stream_turn`` over one HttpClient, which it closes. What failed may be asked again: only a whole turn enters the history.

    A wire gives ``path``, ``_body``, ``_reader``, ``_took``, ``_adapt``, ``_choice_fields`` and ``_schema_fields``. The key goes
    in ``key_header``; ``headers`` go with each request. ``refuses_stream`` is how its servers say, in lower case, that they do
    not stream.
    """

    path: ClassVar[str] = ""
    key_header: ClassVar[str] = "Authorization"
    headers: ClassVar[Mapping[str, str]] = {}
    refuses_stream: ClassVar[Regex[str]] = Regex(r"\bstream(ing)?\b.{0,40}(support|allow)")

    def __init__(self, client: HttpClient, model: str, *, stream: bool) -> None:
        self.prepare(client)
        self._client = client
        self._steer = Steer(self._choice_fields, self._schema_fields)
        self._server = client.endpoint.server
        self.model = model
        self._stream = stream
        self._held: str | None = None  # of the last reply: see EventReader
        self._answered = False  # the last request: an error in its answer is no refusal of a field

    @classmethod
    def prepare(cls, client: HttpClient) -> None:
        """Set the client's headers to those of the wire."""
        client.key_header = cls.key_header
        client.headers.update(cls.headers)

    @classmethod
    async def list_models(cls, client: HttpClient) -> tuple[ModelInfo, ...] | None:
        """List the models of the client's server; None for a wire whose servers list them as OpenAI's do."""
        return None

    def steer(self, tool_choice: str = "auto", schema: Mapping[str, Any] | None = None) -> None:
        """Steer the coming replies: "none", "required" or a tool's name for their calls, a JSON Schema for their text."""
        self._steer.set(tool_choice, schema)

    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        """Raises a ProviderError kind; its ``text`` is what had come. Cancelling closes the connection at once."""
        while True:
            try:
                turn = await self._ask(on_event)
            except (BadRequest, Overloaded) as error:
                if self._answered or not self._adapt_any(error):
                    raise
            else:
                self._took(turn)
                return turn

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        raise NotImplementedError

    async def close(self) -> None:
        await self._client.aclose()

    # -- what a wire gives -----------------------------------------------------------------------------------------

    def _body(self) -> bytes:
        raise NotImplementedError

    def _reader(self, on_event: OnEvent) -> EventReader:
        raise NotImplementedError

    def _took(self, turn: ProviderTurn) -> None:
        """Take a whole turn into the history."""
        raise NotImplementedError

    def _adapt(self, said: str) -> bool:
        """Leave out what the server just refused with these words (lower case); False where there is nothing to leave out."""
        raise NotImplementedError

    def _choice_fields(self, choice: str) -> dict[str, Any]:
        """Return fields that forbid calls ("none"), demand one ("required"), or demand one of the tool of that name."""
        raise NotImplementedError

    def _schema_fields(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return fields that hold the text to a JSON Schema."""
        raise NotImplementedError

    # -- one request -----------------------------------------------------------------------------------------------

    async def _ask(self, on_event: OnEvent) -> ProviderTurn:
        reader = self._reader(on_event)
        self._answered = False
        try:
            async with self._client.post(self.path, self._body()) as reply:
                self._answered = True
                await read_reply(reply, reader, server=self._server, stream=self._stream)
                reply.require_bounded(reader.size)
            turn = reader.finish()
            self._held = reader.held
            return turn
        except ProviderError as error:
            error.text = error.text or reader.text
            raise

    def _adapt_any(self, error: ProviderError) -> bool:
        said = f"{error} {error.body}".lower()
        if self._adapt(said) or self._steer.adapt(said):
            return True
        if self._stream and isinstance(error, BadRequest) and self.refuses_stream.search(said):
            self._stream = False
            return True
        return False


def function_of(definition: Any) -> dict[str, Any]:
    """A tool's schema, bare or in its ``{"type": "function"}`` wrapper."""
    inner = definition.get("function")
    return dict(inner if isinstance(inner, dict) else definition)


def schema_named(schema: dict[str, Any]) -> dict[str, Any]:
    """Return a schema for the text as OpenAI's wires want it.

    Not strict: that is refused for schemas with optional fields, and the reply is checked by us anyway.
    """
    return {"name": "answer", "schema": schema, "strict": False}
