"""A call in progress, and the facts about its tool that are worked out beforehand."""

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

T = TypeVar("T")
_log = logging.getLogger(__name__)
PLAIN = frozenset({str, dict, list, tuple, int, bool, type(None), SetResult, Suspend, Block, ToolResult, ToolOutput, After})
"""The usual things that are not awaitable: asking ``inspect`` takes longer than everything else here."""

SUCCESS, PENDING = ToolStatus.SUCCESS, ToolStatus.PENDING
"""Members for every call: Python 3.11 needs a tenth of a microsecond to find a member in its class."""

LIMIT = "toolcrib: time limit"
"""The one argument of a TimeoutError that is ours and not the awaited thing's own."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Facts about a tool that are worked out once, before its calls.

    ``inline`` means that no code of plugins or tools can await, so that no loop is needed. Driving a coroutine by hand is sound
    only then: asyncio's own helpers raise without a loop, after side effects have happened.
    """

    entry: ToolEntry
    registry: ToolRegistry
    check: ArgumentCheck
    hooks: ToolHookPlan
    acts: bool
    inline: bool
    shared: tuple[StateScope, ...] = ()
    """The scopes of the tool's keys whose values others write too: they are read before each call."""


@dataclass(slots=True, eq=False)
class CallInProgress:
    """A call in progress. ``offload`` puts sync handlers into a thread.

    ``plan``, ``ctx`` and ``args`` are set when it is ``prepared``.
    """

    call: ToolCall
    scope: CallScope
    extra: Mapping[str, Any]
    inline: bool
    offload: bool
    started: float
    found: Plan | None = None
    """The tool's plan when the call was found to run inline: that is true of no later plan."""
    prepared: bool = False
    turn: str = ""
    """The model's reply that asked for it, as the ledger is to have it (CallRecord)."""
    opened: bool = False
    """True once the ledger has a record of it."""
    opening: bool = False
    """True while that is under way, and after it was broken off, when the record may be there all the same."""
    begun: bool = False
    """True once its handler may have done something; from the start where a process that ended ran it before."""
    parked: bool = False
    """True while that record says SUSPENDED, from before this object."""
    trial: bool = False
    """Gated only to see what the gates say: the ledger hears of it where it is suspended or ended, not where it may run."""
    ended: ExecutedCall | None = None
    """The end of it, set before that is recorded: an interrupt in between does not change it."""
    end_run: bool = False
    group: CallGroup | None = None
    """The state that it sees together with the calls that it runs beside."""
    wrote: Mapping[tuple[StateScope, str], int] | None = None
    """The versions of the state that it wrote itself."""
    own: Mapping[str, Any] | None = None
    """The values of its own keys, from before it waited."""
    later: Sequence[tuple[str, Callable[[], object]]] = ()
    """Actions that plugins (by name) scheduled for the time when the results are complete; see ``after.run_later``."""
    plan: Plan = field(init=False)
    ctx: ToolCallContext = field(init=False)
    args: dict[str, Any] = field(init=False)
    """The handler's own copy of the checked arguments: what hooks do to ``call.args`` does not change what was judged."""

    @property
    def is_cancelled(self) -> bool:
        """Return True if somebody cancels this call. If not, a CancelledError is the fault of the handler or hook that raised
        it.
        """
        task = None if self.inline else asyncio.current_task()
        return task is not None and task.cancelling() > 0

    def let_pass(self, error: BaseException) -> None:
        """Raise again what must not end with a handler or hook: Ctrl-C, and the cancellation of this very call."""
        if isinstance(error, (KeyboardInterrupt, GeneratorExit)) or (
            isinstance(error, asyncio.CancelledError) and self.is_cancelled
        ):
            raise error

    def log_failure(self, error: BaseException, message: str, *args: object) -> None:
        """Log what a plugin or handler raised, with its trace, and without the secrets that either may hold.

        An error of the store is one line, and only the first of several alike: it says what to do, and where it came up helps
        nobody.
        """
        if isinstance(error, StoreFailed):
            said, self.scope.said_of_store = self.scope.said_of_store, str(error)
            level = logging.DEBUG if said == str(error) else logging.ERROR
            _log.log(level, f"{message}: %s", *args, self.scope.redactor.text(str(error)))
            return
        trace = "".join(traceback.format_exception(error))
        _log.error(f"{message}\n%s", *args, Private(self.scope.redactor.text(trace)))

    async def open(self) -> None:
        """Record it as RUNNING. Raises InvalidTransition where another call of that id is under way."""
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
        """Record the call. Arguments that are not JSON are left out and become its fault, so that it never runs."""
        session, status = self.scope.identity.session_id, ToolCallStatus.RUNNING
        try:
            await ledger.open(self.call, session, status, turn=self.turn, handler_started=self.begun)
        except (TypeError, ValueError, RecursionError) as error:
            self.call = replace(self.call, args={}, fault=not_json(error))
            await ledger.open(self.call, session, status, turn=self.turn, handler_started=self.begun)

    async def _is_mine(self) -> bool:
        """Return whether the record under way is this call's, from an attempt whose end was not heard."""
        assert self.scope.ledger is not None  # noqa: S101 - open looked
        known = await self.scope.ledger.get(self.scope.identity.session_id, self.call.id)
        mine = self.call, self.turn, self.begun
        return known is not None and (known.call, known.turn, known.handler_started) == mine

    async def move(self, status: ToolCallStatus) -> None:
        """Move the call to ``status`` in the ledger."""
        if self.scope.ledger is not None:
            await self.scope.ledger.move(self.scope.identity.session_id, self.call.id, status)

    async def wake(self) -> None:
        """Record that a call which was left suspended goes on."""
        if self.parked:
            await self.move(ToolCallStatus.RESUMING)
            self.parked = False

    async def finish(self, result: ToolResult, status: ToolCallStatus) -> bool:
        """Record the end, and return whether the ledger has it. Where that fails, it is logged and the result stands: what was
        done was done. The scope keeps it, to record it once the store can be written again.

        Raises LeaseLost: whoever took the session over says what becomes of the call.
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
        """Record that the call waits while somebody is asked, with its own state: whoever goes on with it has that."""
        if self.prepared and own_state(self.ctx):
            await self._record(result, ToolCallStatus.SUSPENDED)
        else:
            await self.move(ToolCallStatus.SUSPENDED)

    async def _record(self, result: ToolResult, status: ToolCallStatus) -> None:
        assert self.scope.ledger is not None  # noqa: S101 - the caller looked
        own = own_state(self.ctx) if self.prepared and status is ToolCallStatus.SUSPENDED else {}
        more: dict[str, Any] = {"state": dict(own)} if own else {}
        session_id = self.scope.identity.session_id
        await self.scope.ledger.finish(session_id, self.call.id, status, result, end_run=self.end_run, **more)

    async def await_value(self, value: Any, seconds: float | None = None) -> Any:
        """Await what is awaitable, within a time limit (TimeoutError(LIMIT)); a plain value is returned as it is."""
        if type(value) is not CoroutineType and (type(value) in PLAIN or not inspect.isawaitable(value)):
            return value
        if self.inline:  # something declared sync gave an awaitable after all: no loop drives this call, so bridge
            return run_async(limited(value, seconds))
        return await limited(value, seconds)


async def limited(awaitable: Awaitable[T], seconds: float | None) -> T:
    """Await within ``seconds``. Raises TimeoutError with LIMIT."""
    if seconds is None:
        return await awaitable
    if type(awaitable) is CoroutineType:  # no timer for what is done at its first step, as most gates and many handlers are
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
    """A coroutine after its first step, now waiting for ``waits_for``; awaiting this goes on with it, as ``yield from`` would."""

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
