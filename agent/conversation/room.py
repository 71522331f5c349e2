"""Room in the context of a run: measured before each request, and freed by compression when it is short."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.conversation.asking import interruptible
from agent.conversation.state import RunState
from agent.events import CompressionFailed, ContextCompressed, ContextCompressing, Emit
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import ContextTooLong, StoreFailed, ToolcribError

if TYPE_CHECKING:
    from agent.conversation.compressing import Compression, Why
    from agent.conversation.core import SessionCore

_log = logging.getLogger(__name__)
_SHORT = 4_000
"""A context is never full if the session's only message has fewer characters."""
_REFUSALS, _SHRINKS = 3, 0.7
"""Maximum number of compressions after refusals in a row, and the factor that shrinks the assumed window each time.

The assumed window shrinks because an estimate may differ considerably from the server's count.
"""
_AGAIN = 1.05
"""A failed compression is retried when the context has grown by this factor."""


class ContextRoom:
    """The room of one session's runs. It counts tokens as records are ``added``: the server's count at each reply, plus an
    estimate for each later record.
    """

    def __init__(self, session: SessionCore, emit: Emit) -> None:
        self._session = session
        self._emit = emit
        self._tokens: int | None = None
        self._failed_at = 0
        self._largest = 0
        """Tokens of the conversation at the last compression: the server's count, or the estimate if that is larger."""
        self._refused = 0
        """Refusals of the conversation since the server's last answer."""

    def added(self, messages: Sequence[Mapping[str, Any]]) -> None:
        """Count records that were just stored."""
        if self._tokens is None:
            return
        from agent.context.window import tokens_of_record

        for record in messages:
            usage = record.get("usage") or {}
            if usage and record.get("role") == "assistant":
                self._tokens = int(usage.get("input", 0)) + int(usage.get("output", 0))
            else:
                self._tokens += tokens_of_record(record)

    def answered(self) -> None:
        """Reset the count of refusals: the model accepted the conversation."""
        self._refused = 0

    async def kept(self, state: RunState) -> RunState | None:
        """Compress the session if its context is nearly full. Return the run's new state, or None if it was interrupted.

        A failure is reported as an event, and the run continues unchanged. Raises StoreFailed, and LeaseLost.
        """
        window = await self._window()
        if window is None:
            return state
        from agent.context.window import used_now

        if self._tokens is None:
            self._tokens = (await used_now(self._session)).tokens
        least = max(window * self._session.config.compression.threshold, self._failed_at * _AGAIN)
        if self._tokens < least:
            return state
        try:
            made = await self._made("threshold")
        except StoreFailed:
            raise
        except ToolcribError as error:
            self._failed_at = self._tokens
            self._emit(CompressionFailed(str(error)))
            return state
        if made is None:
            self._failed_at = self._tokens  # compression saves nothing
            return None if self._session.scope.cancelled else state
        return await self._keep(state, made, "threshold")

    async def refused(self, state: RunState, error: ContextTooLong) -> RunState:
        """Compress a session that the server just refused as too long; after each further refusal, compress it more.

        Raises ContextTooLong with the reason if that does not help.
        """
        if not self._may():
            raise error
        why = "it is compressed already"
        if self._refused < _REFUSALS:
            self._refused += 1
            try:
                made = await self._made("refused", _SHRINKS ** (self._refused - 1))
            except StoreFailed:
                raise
            except ToolcribError as fault:
                why = str(fault)
            else:
                if made is not None:
                    self._learn(error, self._largest)
                    return await self._keep(state, made, "refused")
                if self._session.scope.cancelled:
                    return state
                why = "nothing in it can be removed"
        words = f"{error}; the context can't be compressed further: {why}"
        raise ContextTooLong(words, status=error.status, body=error.body) from error

    def _learn(self, error: ContextTooLong, tokens: int) -> None:
        """Record the model's window after a refusal, unless it is known, to avoid another refusal."""
        from agent.context.window import window_refused

        link, about = self._session.link, self._session.link.about
        if about not in link.windows:
            link.learned[about] = window_refused(error, tokens)

    def _may(self) -> bool:
        session = self._session
        return session.config.compression.enabled and bool(session.via) and not session.link.is_given

    async def _window(self) -> int | None:
        """Return the model's window in tokens; None if it is unknown, or if the context can't be full."""
        session = self._session
        if not self._may():
            return None
        transcript = session.transcript
        if transcript.count <= 1 and len(await transcript.text_at(0)) < _SHORT:
            return None
        from agent.context.window import reported_window

        about = session.link.about
        if about not in session.link.windows:
            window = (await reported_window(session)).tokens
            if window is None:
                return session.link.learned.get(about) or await _listed(session)
            session.link.windows[about] = window
        return session.link.windows[about]

    async def _made(self, why: Why, share: float = 1.0) -> Compression | None:
        from agent.context.window import measure
        from agent.conversation.compressing import compress

        session = self._session
        used = await measure(session)
        self._largest = max(used.tokens, used.estimated)
        window = session.link.window
        if window is not None and used.window.tokens is None:  # the answer of a server is forgotten after an hour
            used = replace(used, window=replace(used.window, tokens=window))
        return await interruptible(
            session.scope, compress(session, used, why, share, begins=lambda: self._emit(ContextCompressing(why)))
        )

    async def _keep(self, state: RunState, made: Compression, why: Why) -> RunState:
        session = self._session
        usage = Counter(state.usage)
        usage.update(made.usage)
        estimated = max(state.estimated, str(made.record.get("estimated", "")))
        state = state.next(usage=dict(usage), cost=state.cost + made.cost, estimated=estimated)
        state = await session.keep(state, [made.record])
        await session.link.compressed()
        self._tokens, self._failed_at = made.after, 0
        _log.info("session %s: compressed from %d to %d tokens (%s)", session.id[:12], made.before, made.after, why)
        self._emit(ContextCompressed(made.before, made.after, why, made.problem))
        return state


async def _listed(session: SessionCore) -> int | None:
    """Return the window in the vendors' lists, and keep it for the session."""
    from agent.context.window import listed_window

    window = (await listed_window(session)).tokens
    if window is not None:
        session.link.listed[session.link.about] = window
    return window


async def compress_now(session: SessionCore, wish: str = "", emit: Emit = lambda event: None) -> ContextCompressed:
    """Compress a session at the user's request; ``wish`` describes what the summary should keep.

    Raises ToolcribError if there is nothing to compress or a run waits for an answer; NotSummarised, ConfigError,
    ProviderError, StoreFailed, and LeaseLost.
    """
    from agent.context.window import measure
    from agent.conversation.compressing import compress
    from agent.events import SessionBusy

    async with session.turnstile:
        session.scope.clear_interrupt()
        await session.start()
        async with session.holding.held(lambda: emit(SessionBusy(session.id))):
            await session.refresh()
            run = await session.store.runs.current(session.id)
            if run is not None and run.status == "parked":
                raise ToolcribError("a run of this session waits for an answer; answer it first")
            if run is not None or await session.transcript.unanswered() is not None:
                raise ToolcribError("the last run was interrupted; send a message first")
            await session.provider()
            if session.link.is_given or not session.via:
                raise ToolcribError("no model is connected that could write a summary")
            used = await measure(session, asks=True)
            made = await interruptible(
                session.scope, compress(session, used, "asked", wish=wish, begins=lambda: emit(ContextCompressing("asked")))
            )
            if made is None:
                cancelled = session.scope.cancelled
                raise ToolcribError("interrupted; nothing was compressed" if cancelled else "there is nothing to compress yet")
            await session.store.sessions.append(session.id, made.record)
            session.transcript.added([made.record])
            await session.link.compressed()
    return ContextCompressed(made.before, made.after, "asked")
