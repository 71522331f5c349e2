"""Guards a plugin's provider: turns its exceptions into errors that name the provider, and checks its turns."""

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
    """The session of the provider ``name``; ``key`` is kept out of messages.

    It has the same optional abilities as the plugin's session (toolcrib.Named, Steerable, Priced, FallsBack).
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
            else:  # a plugin's session need not support images
                self._session.say(text)

    async def stream_turn(self, on_event: Callable[[StreamEvent], None]) -> ProviderTurn:
        """Run a turn. If the plugin streamed no text, the turn's text is sent to ``on_event`` in one piece.

        Raises ProviderError, also for an invalid turn.
        """
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
        """Close the plugin's session, and only log its exceptions: the conversation is over."""
        try:
            with self._named():
                await self._session.close()
        except ToolcribError as error:
            _log.error("%s (while it was being closed)", error)

    @contextmanager
    def _named(self, ours: Sequence[BaseException] = ()) -> Iterator[None]:
        """Raise ProviderError for an exception that is a bug of the plugin; errors in ``ours`` only pass through the plugin."""
        try:
            yield
        except ToolcribError:
            raise
        except BaseException as error:
            if error in ours or _is_for_all(error):
                raise
            shown = str(error).replace(self._key, "[key]") if self._key else str(error)
            _log.debug("the provider %r failed", self._name, exc_info=not self._key)
            cause = None if self._key else error  # a traceback could show the key
            raise ProviderError(f"the plugin's provider {self._name!r} failed: {type(error).__name__}: {shown}") from cause


def _is_for_all(error: BaseException) -> bool:
    """Return whether an error is Ctrl-C, GeneratorExit, or the cancellation of the current task."""
    if not isinstance(error, asyncio.CancelledError):
        return isinstance(error, (KeyboardInterrupt, GeneratorExit))
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _check(turn: object) -> None:
    """Raise TypeError for a turn that can't be shown, run or stored."""
    if not isinstance(turn, ProviderTurn):
        raise TypeError(f"stream_turn returned {type(turn).__name__}; return a ProviderTurn")
    if not isinstance(turn.assistant_text, str):
        raise TypeError(f"assistant_text is {type(turn.assistant_text).__name__}; it must be text, or '' for none")
    for call in turn.tool_calls:
        if not isinstance(call, ToolCall) or not isinstance(call.id, str) or not isinstance(call.name, str):
            raise TypeError(f"tool_calls contains {call!r}; it must be a ToolCall with id and name as text")
    for image in turn.images:
        if not isinstance(image, Image):
            raise TypeError(f"images contains {type(image).__name__}; it must be an Image")
    if not all(isinstance(count, int) for count in turn.usage.values()):
        raise TypeError(f"usage is {dict(turn.usage)!r}; it must count tokens as integers")
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
