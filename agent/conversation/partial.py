"""Partial replies: the text of an interrupted reply is stored, so that the model sees it when the conversation continues.

Only text is kept: an incomplete call never runs, and servers refuse thinking without the signature of a complete reply.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from agent.conversation.transcript import Record
from agent.events import Emit, Event, Retrying, TextDelta, ToolCallDelta
from agent.providers._faults import OversizedReply
from agent.reply_ends import shortened
from toolcrib.contract.errors import ProviderError, ToolcribError

if TYPE_CHECKING:
    from agent.conversation.core import SessionCore
    from agent.conversation.state import RunState

_EVERY = 1.0
"""Seconds between two writes of an unfinished reply; a reply that takes less time is written only when it is complete."""
_WRITES_A_SECOND = 100
"""Writes per second for all replies of the process; with more replies, each is written less often."""
_CHARS_A_SECOND = 100_000
"""Characters per second that the writes of a long reply may have, because each write contains all the text so far."""
INTERRUPTED = "interrupted by the user"
UNREACHABLE = "the connection to the model ended here"
STOPPED = "the reply repeated itself or exceeded its limit, so it was stopped here"
KILLED = "interrupted here, before it was complete"
_log = logging.getLogger(__name__)


def broken_record(text: str, why: str, via: Mapping[str, Any]) -> Record:
    """Return the record of an interrupted reply. The model reads ``why`` after the text, so the text's bytes stay the same."""
    record: Record = {"role": "assistant", "text": text, "broken": why, "usage": {}, "at": time.time()}
    return {**record, "model": via.get("model", ""), "via": dict(via)} if via else record


async def left_over(session: SessionCore, state: RunState) -> list[Record]:
    """Return the records that end a run of a dead process: its partial reply, or what is known of its calls."""
    turn = await session.transcript.unanswered()
    if turn is not None:
        return [await session.transcript.missing_results(turn)]
    if state.phase != "asking":
        return []
    return [broken_record(state.said, KILLED, await session.transcript.talked_to())]


async def broken_off(session: SessionCore) -> list[Record]:
    """Return the reply that a killed process left, as the next message will record it; [] if there is none."""
    from agent.conversation.state import RunState

    run = await session.store.runs.current(session.id)
    state = None if run is None or run.status != "running" else RunState.of(run)
    return [] if state is None or state.phase != "asking" or not state.said else [broken_record(state.said, KILLED, {})]


class PartialReply:
    """Stores one reply while it arrives, and passes its events on to ``emit``. ``state`` is the run as stored now.

    It writes the text with the run about once a second, and less often while very many replies arrive at once. If the process is
    killed, the text written so far remains in the store.
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
        """The text so far."""
        return "".join(self._pieces)

    @property
    def has_begun(self) -> bool:
        """True once the model has sent text or begun a call."""
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

    def failed(self, error: ProviderError) -> Record:
        """Return the record of a reply that ``error`` ended. An oversized reply is shortened to its beginning and its end."""
        if not isinstance(error, OversizedReply):
            return self.record(UNREACHABLE)
        self._pieces = [shortened(self.text)]
        return self.record(STOPPED)

    def record(self, why: str) -> Record:
        """Return the record of the reply so far."""
        if self._call:
            why = f"{why}, while a call of {self._call} was being written; it did not run"
        return broken_record(self.text, why, self._session.via)

    def begin(self) -> None:
        """Start the regular writes. Called in the session's event loop."""
        PartialReply._coming += 1
        self._timer = asyncio.get_running_loop().call_later(_EVERY, self._tick)

    async def end(self) -> None:
        """Stop writing. Returns once the last write is done."""
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
        except ToolcribError as error:  # storing the next step will report the failure
            _log.debug("session %s: a partial reply was not stored: %s", self._session.id[:12], error)
