"""A plugin's provider, at arm's length: what it raises is an error that names it, and what it answers is checked."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from agent.providers import abilities
from toolcrib.contract.errors import ProviderError, ToolcribError
from toolcrib.contract.image import Image
from toolcrib.contract.session import ExecutedCall, ProviderSession, ProviderTurn, StreamEvent, TokenPrices
from toolcrib.contract.types import ToolCall

_log = logging.getLogger(__name__)


class PluginSession:
    """``session`` of the provider ``name``; ``key`` is kept out of messages. What it can
    besides (toolcrib.Named, Steerable, Priced, FallsBack) it can through this, too.
    """

    def __init__(self, name: str, session: ProviderSession, key: str = "") -> None:
        self._name = name
        self._session = session
        self._key = key

    @property
    def model(self) -> str:
        with self._named():
            return abilities.model_of(self._session)

    @property
    def prices(self) -> TokenPrices | None:
        with self._named():
            return abilities.prices_of(self._session)

    def steer(self, tool_choice: str = "auto", schema: Mapping[str, Any] | None = None) -> None:
        with self._named():
            abilities.steer(self._session, tool_choice, schema)

    async def fall_back(self, error: ProviderError) -> str | None:
        with self._named([error]):
            return await abilities.fall_back(self._session, error)

    def say(self, text: str, images: Sequence[Image] = ()) -> None:
        with self._named():
            if images:
                self._session.say(text, images)
            else:  # it need not know of them
                self._session.say(text)

    async def stream_turn(self, on_event: Callable[[StreamEvent], None]) -> ProviderTurn:
        """Text that it did not stream is sent in one piece."""
        told = False
        ours: list[BaseException] = []

        def forward(event: StreamEvent) -> None:
            nonlocal told
            if not isinstance(event, StreamEvent):
                raise TypeError(f"on_event takes a StreamEvent, not {type(event).__name__}")
            told = told or event.kind == "assistant_delta"
            try:
                on_event(event)
            except BaseException as error:
                ours.append(error)
                raise

        with self._named(ours):
            turn = await self._session.stream_turn(forward)
            _check(turn)
        if turn.assistant_text and not told:
            on_event(StreamEvent("assistant_delta", turn.assistant_text))
        return turn

    async def append_tool_results(self, turn: ProviderTurn, executed: Sequence[ExecutedCall]) -> None:
        with self._named():
            await self._session.append_tool_results(turn, executed)

    async def close(self) -> None:
        """Close the plugin's session; log what it raises: the conversation is over."""
        try:
            with self._named():
                await self._session.close()
        except ToolcribError as error:
            _log.error("%s (as it was closed)", error)

    @contextmanager
    def _named(self, ours: Sequence[BaseException] = ()) -> Iterator[None]:
        """Raises ProviderError for what only a bug of the plugin raises. ``ours`` are errors that came through it."""
        try:
            yield
        except ToolcribError:
            raise
        except BaseException as error:
            if error in ours or _is_for_all(error):
                raise
            shown = str(error).replace(self._key, "[key]") if self._key else str(error)
            _log.debug("the provider %r failed", self._name, exc_info=not self._key)
            cause = None if self._key else error  # a trace could show it
            raise ProviderError(f"the plugin's provider {self._name!r} failed: {type(error).__name__}: {shown}") from cause


def _is_for_all(error: BaseException) -> bool:
    """Ctrl-C, and the cancellation of this very task."""
    if not isinstance(error, asyncio.CancelledError):
        return isinstance(error, (KeyboardInterrupt, GeneratorExit))
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _check(turn: object) -> None:
    """Raises TypeError for what could not be shown, run or stored."""
    if not isinstance(turn, ProviderTurn):
        raise TypeError(f"stream_turn answered {type(turn).__name__}; return a ProviderTurn")
    if not isinstance(turn.assistant_text, str):
        raise TypeError(f"assistant_text is {type(turn.assistant_text).__name__}; it is text, and empty where there is none")
    for call in turn.tool_calls:
        if not isinstance(call, ToolCall) or not isinstance(call.id, str) or not isinstance(call.name, str):
            raise TypeError(f"tool_calls holds {call!r}; make a ToolCall with id and name as text")
    for image in turn.images:
        if not isinstance(image, Image):
            raise TypeError(f"images holds {type(image).__name__}; make an Image of it")
    if not all(isinstance(count, int) for count in turn.usage.values()):
        raise TypeError(f"usage counts tokens: {dict(turn.usage)!r}")
    try:
        json.dumps([turn.assistant_turn, [call.args for call in turn.tool_calls]], default=_mapping)
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"assistant_turn and the arguments of calls must be JSON, to be stored: {error}") from None


def _mapping(value: object) -> dict[Any, Any]:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


if TYPE_CHECKING:

    def _conforms(session: PluginSession) -> ProviderSession:
        return session
