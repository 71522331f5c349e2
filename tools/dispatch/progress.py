"""A call in progress, and the precomputed facts about its tool."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import field
from types import CoroutineType
from typing import Any, TypeVar

from toolcrib.contract.after import After
from toolcrib.contract.context import ToolCallContext, own_state
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.decision import Block, SetResult, Suspend
from toolcrib.contract.entry import ToolEntry
from toolcrib.contract.errors import InvalidTransition, LeaseLost, StoreFailed
from toolcrib.contract.passing import SHORTAGE, is_passing
from toolcrib.contract.private import Private
from toolcrib.contract.registry import ToolRegistry
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.state import StateScope
from toolcrib.contract.store import CallLedger
from toolcrib.contract.types import ToolCall, ToolCallStatus, ToolOutput, ToolResult, ToolStatus
from tools.arguments import ArgumentCheck, not_json
from tools.dispatch.bridge import run_async
from tools.dispatch.hooks import ToolHookPlan
from tools.dispatch.scope import CallScope
from tools.dispatch.states import CallGroup
from tools.time_limit import TimeLimit

T = TypeVar("T")
_log = logging.getLogger(__name__)
PLAIN = frozenset({str, dict, list, tuple, int, bool, type(None), SetResult, Suspend, Block, ToolResult, ToolOutput, After})
"""Common types that are not awaitable. Asking ``inspect`` would take longer than the rest of ``await_value``."""

SUCCESS, PENDING = ToolStatus.SUCCESS, ToolStatus.PENDING
"""Enum members that every call uses: Python 3.11 needs a tenth of a microsecond to look up one in its class."""

LIMIT = "toolcrib: time limit"
"""The only argument of toolcrib's own TimeoutError, which distinguishes it from one that the awaited code raises."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Facts about a tool that are computed once, before its calls.

    ``inline`` means that no code of plugins or tools can await, so that no loop is needed. Driving a coroutine by hand is only
    safe then: asyncio's own helpers raise without a loop, after side effects have happened.
    """

    entry: ToolEntry
    registry: ToolRegistry
    check: ArgumentCheck
    hooks: ToolHookPlan
    acts: bool
    inline: bool
    shared: tuple[StateScope, ...] = ()
    """The scopes of the tool's state keys that other sessions write too. The values of these keys are read before each call."""


@dataclass(slots=True, eq=False)
class CallInProgress:
    """A call in progress. ``offload`` runs sync handlers in a thread.

    ``plan``, ``ctx`` and ``args`` are set when it is ``prepared``.
    """

    call: ToolCall
    scope: CallScope
    extra: Mapping[str, Any]
    inline: bool
    offload: bool
    started: float
    found: Plan | None = None
    """The plan that ``call_sync`` used to decide whether the call runs inline; a plan made later may differ."""
    prepared: bool = False
    turn: str = ""
    """The model's reply that requested the call, for the ledger (CallRecord)."""
    opened: bool = False
    """True when the ledger has a record of it."""
    opening: bool = False
    """True once recording has begun. If that was interrupted, the record may exist."""
    begun: bool = False
    """True when its handler may have done something; from the start if an earlier process, which ended, ran it."""
    parked: bool = False
    """True while the ledger's record, which is older than this object, is still SUSPENDED."""
    trial: bool = False
    """True if it is only gated as a trial: the ledger records a suspension or an end, but not that it may run."""
    ended: ExecutedCall | None = None
    """The end of the call, set before it is recorded, so that an interrupt in between does not change it."""
    end_run: bool = False
    group: CallGroup | None = None
    """The state that it shares with the calls that run beside it."""
    wrote: Mapping[tuple[StateScope, str], int] | None = None
    """The versions of the state that it wrote itself."""
    own: Mapping[str, Any] | None = None
    """The call's state of scope ``call``, as stored before the call waited."""
    later: Sequence[tuple[str, Callable[[], object]]] = ()
    """Actions that plugins (by name) scheduled for when the results are complete; see ``after.run_later``."""
    plan: Plan = field(init=False)
    ctx: ToolCallContext = field(init=False)
    args: dict[str, Any] = field(init=False)
    """The handler's own copy of the checked arguments, so that hooks cannot change the judged arguments through ``call.args``."""

    @property
    def is_cancelled(self) -> bool:
        """True if this call is being cancelled. If not, a CancelledError is the fault of the handler or hook that raised it."""
        task = None if self.inline else asyncio.current_task()
        return task is not None and task.cancelling() > 0

    def let_pass(self, error: BaseException) -> None:
        """Raise the error again if it must not stop here: Ctrl-C, GeneratorExit, or the cancellation of this call."""
        if isinstance(error, (KeyboardInterrupt, GeneratorExit)) or (
            isinstance(error, asyncio.CancelledError) and self.is_cancelled
        ):
            raise error

    def log_failure(self, error: BaseException, message: str, *args: object) -> None:
        """Log an error of a plugin or handler with its traceback, without secrets.

        An error of the store is logged on one line without a traceback, because its message has the advice; repetitions are
        logged at DEBUG level. If this machine is short of file descriptors, memory or threads, that is logged on one line too.
        """
        if isinstance(error, StoreFailed):
            said, self.scope.said_of_store = self.scope.said_of_store, str(error)
            level = logging.DEBUG if said == str(error) else logging.ERROR
            _log.log(level, f"{message}: %s", *args, self.scope.redactor.text(str(error)))
            return
        if is_passing(error):
            _log.error(f"{message}: %s; %s", *args, self.scope.redactor.text(str(error)), SHORTAGE)
            return
        trace = "".join(traceback.format_exception(error))
        _log.error(f"{message}\n%s", *args, Private(self.scope.redactor.text(trace)))

    async def open(self) -> None:
        """Record the call as RUNNING. Raises InvalidTransition if another call with its id is in progress."""
        if self.scope.ledger is None or self.opened:
            return
        again, self.opening = self.opening, True
        try:
            await self._record_opening(self.scope.ledger)
        except InvalidTransition:
            self.opening = False
            if not again or not await self._is_mine():
                raise
        self.opened = True

    async def _record_opening(self, ledger: CallLedger) -> None:
        """Record the call. Arguments that are not JSON are left out and reported as its ``fault``, so that it never runs."""
        session, status = self.scope.identity.session_id, ToolCallStatus.RUNNING
        try:
            await ledger.open(self.call, session, status, turn=self.turn, handler_started=self.begun)
        except (TypeError, ValueError, RecursionError) as error:
            self.call = replace(self.call, args={}, fault=not_json(error))
            await ledger.open(self.call, session, status, turn=self.turn, handler_started=self.begun)

    async def _is_mine(self) -> bool:
        """Return whether the existing record is this call's, from an attempt whose outcome is unknown."""
        assert self.scope.ledger is not None  # noqa: S101 - open checked it
        known = await self.scope.ledger.get(self.scope.identity.session_id, self.call.id)
        mine = self.call, self.turn, self.begun
        return known is not None and (known.call, known.turn, known.handler_started) == mine

    async def move(self, status: ToolCallStatus) -> None:
        """Move the call to ``status`` in the ledger."""
        if self.scope.ledger is not None:
            await self.scope.ledger.move(self.scope.identity.session_id, self.call.id, status)

    async def wake(self) -> None:
        """Record that a suspended call continues."""
        if self.parked:
            await self.move(ToolCallStatus.RESUMING)
            self.parked = False

    async def finish(self, result: ToolResult, status: ToolCallStatus) -> bool:
        """Record the end, and return whether the ledger has it.

        A failure is logged and the result stands, because the call has acted. The scope keeps the record until the store is
        writable again. Raises LeaseLost: the process that took the session over decides about the call.
        """
        if self.scope.ledger is None:
            return True
        try:
            await self.open()
            if status is not ToolCallStatus.CANCELLED:
                await self.wake()
            await self._record(result, status)
        except LeaseLost:
            raise
        except Exception as error:
            self.log_failure(error, "the end of %s could not be recorded", self.call.name)
            if isinstance(error, StoreFailed) and status.is_terminal:
                self.scope.unrecorded.append(ExecutedCall(self.call, result, status, end_run=self.end_run))
            return False
        self.scope.said_of_store = ""
        return True

    async def wait(self, result: ToolResult) -> None:
        """Record that the call waits for an answer, with its own state, so that any process can continue it."""
        if self.prepared and own_state(self.ctx):
            await self._record(result, ToolCallStatus.SUSPENDED)
        else:
            await self.move(ToolCallStatus.SUSPENDED)

    async def _record(self, result: ToolResult, status: ToolCallStatus) -> None:
        assert self.scope.ledger is not None  # noqa: S101 - the caller checked
        own = own_state(self.ctx) if self.prepared and status is ToolCallStatus.SUSPENDED else {}
        more: dict[str, Any] = {"state": dict(own)} if own else {}
        session_id = self.scope.identity.session_id
        await self.scope.ledger.finish(session_id, self.call.id, status, result, end_run=self.end_run, **more)

    async def await_value(self, value: Any, seconds: float | None = None) -> Any:
        """Await an awaitable; return any other value as it is. Raises TimeoutError(LIMIT) if that takes more than ``seconds``."""
        if type(value) is not CoroutineType and (type(value) in PLAIN or not inspect.isawaitable(value)):
            return value
        if self.inline:  # sync code returned an awaitable after all, and no loop drives this call: use the bridge
            return run_async(limited(value, seconds))
        return await limited(value, seconds)


async def limited(awaitable: Awaitable[T], seconds: float | None) -> T:
    """Await within ``seconds``. Raises TimeoutError with LIMIT. The awaited code can call ``seconds_left``."""
    if seconds is None:
        return await awaitable
    with TimeLimit(seconds):
        if type(awaitable) is CoroutineType:  # no timer for a coroutine that ends at its first step, as most do
            try:
                waits_for = awaitable.send(None)
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # a coroutine's StopIteration carries its T
            awaitable = _Rest(awaitable, waits_for)
        timer = asyncio.timeout(seconds)
        try:
            async with timer:
                return await awaitable
        except TimeoutError:
            if timer.expired():
                raise TimeoutError(LIMIT) from None
            raise


class _Rest(Awaitable[T]):
    """A coroutine after its first step, which waits for ``waits_for``. Awaiting this continues it, as ``yield from`` would."""

    __slots__ = ("_coroutine", "_waits_for")

    def __init__(self, coroutine: Coroutine[Any, Any, T], waits_for: Any) -> None:
        self._coroutine = coroutine
        self._waits_for = waits_for

    def __await__(self) -> Generator[Any, Any, T]:
        coroutine, waits_for = self._coroutine, self._waits_for
        while True:
            try:
                sent = yield waits_for
            except GeneratorExit:
                coroutine.close()
                raise
            except BaseException as error:
                step = functools.partial(coroutine.throw, error)
            else:
                step = functools.partial(coroutine.send, sent)
            try:
                waits_for = step()
            except StopIteration as stop:
                return stop.value  # type: ignore[no-any-return]  # as above
