"""A delegate: a session of its own, which runs from its task to its outcome, or until it is parked."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from agent.conversation.state import RunResult, RunState
from agent.events import Event, ModelAnswered, ToolFinished, ToolProgressed, ToolStarted
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ToolcribError
from tools.approval.grants import end_session_grants
from tools.judge.findings import visible

if TYPE_CHECKING:
    from agent.conversation.limits import RunLimits
    from agent.conversation.session import Session
    from agent.delegates.budget import Allowance
    from agent.delegates.task import Order
    from agent.events import Emit
    from toolcrib.contract.store import GrantStore
    from toolcrib.contract.types import Json

Report = Callable[[str, "float | None"], object]
MOST_ANSWER = 12_000
"""Characters of an answer that the parent's model reads; a longer one is cut, with a note on how to read the rest."""
_END_SECONDS = 10.0
"""Seconds that a stopped delegate, with its running commands, may take to end."""
_ID_CHARS, _ARGS_CHARS = 12, 100


@dataclass(frozen=True, slots=True)
class DelegateOutcome:
    """Outcome of a delegate. ``ended`` is a RunResult's reason, ``time``, or the class of the error in ``problem``.

    ``place`` is the position of the answer in its session. ``tickets``: the ids of the tickets that it waits for.
    """

    ended: str
    answer: str = ""
    problem: str = ""
    turns: int = 0
    usage: Mapping[str, int] = field(default_factory=dict)
    cost: float | None = None
    place: int = 0
    tickets: Sequence[str] = ()

    def clipped(self, session_id: str, *, searches: bool) -> str:
        """Return the answer for the parent's model, cut to length. ``searches``: that model can read the rest."""
        if len(self.answer) <= MOST_ANSWER:
            return self.answer
        how = f'; session_search with session "{session_id[:_ID_CHARS]}", around {self.place} and page 1, 2 ... reads them'
        return f"{self.answer[:MOST_ANSWER]}\n[... {len(self.answer):,} characters in all{how if searches else ''}]"

    def data(self, session_id: str, name: str, *, searches: bool) -> dict[str, Json]:
        """Return the data of the ``delegate_task`` call's result."""
        return {
            "delegate": session_id[:_ID_CHARS],
            "name": name,
            "ended": self.ended,
            "answer": self.clipped(session_id, searches=searches),
            **({"problem": self.problem} if self.problem else {}),
            "turns": self.turns,
            "usage": dict(self.usage),
            **({} if self.cost is None else {"cost": self.cost}),
        }


class Delegate:
    """Runs one delegate in its own session. ``session_id`` is the id of that session, always the same for its call.

    ``report`` receives a line about its current work, and the share done from 0 to 1, None if unknown. ``grants`` are the
    store's. ``watch`` receives the events that the parent's user sees.
    """

    def __init__(
        self,
        session_id: str,
        order: Order,
        allowance: Allowance,
        grants: GrantStore,
        watch: Emit,
        report: Report = lambda line, share: None,
    ) -> None:
        self.id = session_id
        self.order = order
        self.outcome: DelegateOutcome | None = None
        """Outcome of its work, once it has ended; also if the caller was cancelled meanwhile."""
        self._allowance = allowance
        self._grants = grants
        self._watch = watch
        self._report = report
        self._does: dict[str, str] = {}
        """Lines about its running calls, by call id."""
        self._last = f"{order.name}: begins"

    @contextlib.contextmanager
    def waiting(self, why: str) -> Iterator[None]:
        """Report that the delegate waits; afterwards report its previous line again."""
        self._report(f"{self.order.name}: {why}", None)
        try:
            yield
        finally:
            self._report(self._last, None)

    async def run(self, child: Session, limits: RunLimits) -> DelegateOutcome:
        """Run the task to its outcome, or resume it after its process ended, and close the session. Raises StoreFailed.

        If the caller is cancelled, the delegate is stopped and its end awaited first, so that it never continues unnoticed.
        """
        child.watch = self._seen
        work = asyncio.create_task(self._drive(child, limits))
        late = False
        try:
            while not work.done():
                left = self._allowance.left
                if left <= 0:
                    late = True
                    child.stop()
                await asyncio.wait({work}, timeout=_END_SECONDS if late else min(max(left, 0.01), 1.0))
                if late:
                    break
        except asyncio.CancelledError:
            child.stop()
            await _ended(work)
            if work.done() and not work.cancelled():
                self.outcome = await self._outcome(child, work, late=False)
            raise
        finally:
            if not work.done():
                work.cancel()
            with contextlib.suppress(ToolcribError):
                await child.close()
        self.outcome = await self._outcome(child, work, late=late)
        if self.outcome.ended != "parked":
            await end_session_grants(self._grants, self.id)  # no other session uses its grants
        return self.outcome

    async def _drive(self, child: Session, limits: RunLimits) -> RunResult | None:
        await self.say(child, limits)
        return await child.advance()

    async def say(self, child: Session, limits: RunLimits) -> None:
        """Put the task into the delegate's inbox, once. Raises StoreFailed."""
        await child.say(self.order.message, key="task", limits=limits)

    async def _outcome(self, child: Session, work: asyncio.Task[RunResult | None], *, late: bool) -> DelegateOutcome:
        problem, ended = "", "interrupted"
        tickets: Sequence[str] = ()
        result: RunResult | None = None
        try:
            result = None if not work.done() or work.cancelled() else work.result()
        except ToolcribError as error:
            problem, ended = str(error), type(error).__name__
        last = await child.transcript.last()
        answer = str(last.get("text", "")) if last.get("role") == "assistant" and not last.get("calls") else ""
        run = child.run
        if result is not None:
            ended, answer, tickets = result.stopped, result.text, tuple(result.tickets)
        elif not problem and run is None and answer:
            ended = "done"  # in a process that ended before it could report
        turns, usage, cost = await self._used(child, run)
        if late and ended == "interrupted":
            ended, problem = "time", "its time is up; its changes stay"
        return DelegateOutcome(ended, answer, problem, turns, usage, cost, max(child.transcript.count - 1, 0), tickets)

    async def _used(self, child: Session, run: RunState | None) -> tuple[int, Mapping[str, int], float | None]:
        if run is not None:
            priced = run.limits.prices is not None or run.cost > 0
            return run.turn, dict(run.usage), run.cost if priced else None
        sums = [one for one in await child.store.usage.sums(session_id=self.id) if not one.tool]
        usage = {name: sum(getattr(one, name) for one in sums) for name in ("input", "output", "cached", "reasoning")}
        costs = [one.cost for one in sums if one.cost is not None]
        used = {name: count for name, count in usage.items() if count}
        return sum(one.count for one in sums), used, sum(costs) if costs else None

    def _seen(self, event: Event) -> None:
        if isinstance(event, ModelAnswered):
            self._watch(event)
        elif isinstance(event, ToolStarted) and event.call.fault is None:
            line = f"{self.order.name}: {event.emoji} {event.call.name} {_about(event.call.args)}".rstrip()
            self._does[event.call.id] = self._last = line
            self._report(line, None)
        elif isinstance(event, ToolProgressed) and (line := self._does.get(event.call_id, "")):
            self._report(f"{line}: {event.message}" if event.message else line, event.share)
        elif isinstance(event, ToolFinished):
            self._does.pop(event.executed.call.id, None)


def _about(args: Any) -> str:
    """Return the first text among a call's arguments, in one short line."""
    texts = [value for value in args.values() if isinstance(value, str)] if isinstance(args, Mapping) else []
    text = " ".join(texts[0].split()) if texts else ""
    return visible(text if len(text) <= _ARGS_CHARS else f"{text[:_ARGS_CHARS]}…", _ARGS_CHARS + 1)


async def _ended(work: asyncio.Task[Any]) -> None:
    """Wait some seconds for the work to end, even if the waiter is cancelled again."""
    give_up = time.monotonic() + _END_SECONDS
    while not work.done() and (left := give_up - time.monotonic()) > 0:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({work}, timeout=left)
