"""The part of a reply that had come when it was broken off: kept, so that the model knows of it when the conversation goes on.

Text alone: half a call is never run, and servers refuse thinking without the signature that only a whole reply has.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.conversation.transcript import Record
from agent.events import Emit, Event, Retrying, TextDelta, ToolCallDelta
from toolcrib.contract.errors import ToolcribError

if TYPE_CHECKING:
    from agent.conversation.core import SessionCore
    from agent.conversation.state import RunState

_EVERY = 1.0
"""Seconds between two writes of a reply that is still coming; a shorter one is never written before it is whole."""
_WRITES_A_SECOND = 100
"""Writes of all replies of the process: while more come at once, each is written less often."""
_CHARS_A_SECOND = 100_000
"""Each write has all the text: of a longer one there are fewer."""
INTERRUPTED = "interrupted by the user"
UNREACHABLE = "the connection to the model ended here"
KILLED = "broken off here, before it was whole"
_log = logging.getLogger(__name__)


def broken_record(text: str, why: str, via: Mapping[str, Any]) -> Record:
    """A reply that was broken off. ``why`` is read by the model behind the text, so that the bytes stay what they were."""
    record: Record = {"role": "assistant", "text": text, "broken": why, "usage": {}, "at": time.time()}
    return {**record, "model": via.get("model", ""), "via": dict(via)} if via else record


async def left_over(session: SessionCore, state: RunState) -> list[Record]:
    """Return the records that end a run whose process ended: what its reply said by then, or what is known of its calls."""
    turn = await session.transcript.unanswered()
    if turn is not None:
        return [await session.transcript.missing_results(turn)]
    if state.phase != "asking":
        return []
    return [broken_record(state.said, KILLED, await session.transcript.talked_to())]


async def broken_off(session: SessionCore) -> list[Record]:
    """Return the reply that a killed process left, as the next message will record it; [] where there is none."""
    from agent.conversation.state import RunState

    run = await session.store.runs.current(session.id)
    state = None if run is None or run.status != "running" else RunState.of(run)
    return [] if state is None or state.phase != "asking" or not state.said else [broken_record(state.said, KILLED, {})]


class PartialReply:
    """A listener for the events of one reply, which passes them on to ``emit``. ``state`` is the run as it is stored by now.

    Text is written with the run about once a second while more comes, less often while very many replies come at once: should the
    process be killed, that much is known.
    """

    _coming = 0

    def __init__(self, session: SessionCore, state: RunState, emit: Emit) -> None:
        self.state = state
        self._session = session
        self._emit = emit
        self._pieces: list[str] = []
        self._call = ""
        self._written = 0
        self._timer: asyncio.TimerHandle | None = None
        self._writing: asyncio.Task[None] | None = None

    @property
    def text(self) -> str:
        """All that was said so far."""
        return "".join(self._pieces)

    @property
    def has_begun(self) -> bool:
        """True once the model has said something, or begun to write a call."""
        return bool(self._pieces or self._call)

    def __call__(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self._pieces.append(event.text)
        elif isinstance(event, ToolCallDelta):
            self._call = event.name or self._call or "a tool"
        elif isinstance(event, Retrying):
            self._pieces.clear()
            self._call = ""
        self._emit(event)

    def record(self, why: str) -> Record:
        """Return the record of what came until now."""
        if self._call:
            why = f"{why}, while a call of {self._call} was being written; it did not run"
        return broken_record(self.text, why, self._session.via)

    def begin(self) -> None:
        """Begin to write from time to time. Called in the session's loop."""
        PartialReply._coming += 1
        self._timer = asyncio.get_running_loop().call_later(_EVERY, self._tick)

    async def end(self) -> None:
        """Write no more. Returns once the last write is done."""
        if self._timer is not None:
            PartialReply._coming -= 1
            self._timer.cancel()
            self._timer = None
        if self._writing is not None:
            await asyncio.wait([self._writing])

    def _tick(self) -> None:
        count = len(self._pieces)
        if count != self._written and (self._writing is None or self._writing.done()):
            self._written = count
            self._writing = asyncio.ensure_future(self._write(self.text))
        length = sum(map(len, self._pieces))
        pause = max(_EVERY, length / _CHARS_A_SECOND, self._coming / _WRITES_A_SECOND)
        self._timer = asyncio.get_running_loop().call_later(pause, self._tick)

    async def _write(self, text: str) -> None:
        try:
            self.state = await self._session.keep(self.state.next(said=text))
        except ToolcribError as error:  # the next step is stored too, and says so where it can't be
            _log.debug("session %s: a reply was not stored while it came: %s", self._session.id[:12], error)
