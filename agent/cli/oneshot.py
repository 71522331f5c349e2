"""Run one task with a model, and determine the exit code."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any

from agent.cli.app import CAPPED, FAILED, INTERRUPTED, OK, PARKED, TIMED_OUT, UNASKED
from agent.cli.refusing import Refuser
from agent.conversation.asking import interruptible
from agent.conversation.state import RunResult, tokens_used
from agent.events import Event, TurnFinished
from agent.model_choice.models import ModelChoice
from agent.reply_ends import CAPPED as CUT_OFF
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.image import Image

if TYPE_CHECKING:
    from agent.cli.trace import Tracer
    from agent.conversation.session import Session
    from toolcrib.contract.store import TicketRecord

Watch = Callable[[Event], None]


@dataclass(slots=True)
class Tally:
    """Totals of a run so far; correct even if the run is interrupted."""

    turns: int = 0
    text: str = ""
    finish: str = ""
    usage: Counter[str] = field(default_factory=Counter)

    def __call__(self, event: Event) -> None:
        if isinstance(event, TurnFinished):
            self.turns, self.text, self.finish = event.number, event.text, event.finish
            self.usage.update(event.usage)


@dataclass(frozen=True, slots=True)
class TaskOutcome:
    """The outcome of a task, with its exit code."""

    stopped: str
    text: str
    code: int
    empty: bool = False
    """True if the run ended normally with neither text nor image."""
    session: str = ""
    tickets: Sequence[TicketRecord] = ()
    """Tickets that the parked run waits for."""
    spent: str = ""
    """The used tokens, as text, of a run that answered but used up its limit of tokens; "" if it did not."""
    queued: int = 0
    """Number of messages that wait until the parked run ends."""
    data: Any = None
    """The answer as JSON; see RunResult."""
    rules: Sequence[str] = ()
    """Options that allow the calls that this run denied, see agent.cli.refusing.Refuser."""


class Fan:
    """Passes events to several watchers. If the reader of our output is gone, interrupts the run and sets ``broken``."""

    def __init__(self, watches: Sequence[Watch], interrupt: Callable[[], None]) -> None:
        self._watches = watches
        self._interrupt = interrupt
        self.broken: OSError | None = None

    def __call__(self, event: Event) -> None:
        if self.broken is not None:
            return
        try:
            for watch in self._watches:
                watch(event)
        except OSError as error:
            self._gone(error)

    def _gone(self, error: OSError) -> None:
        self.broken = self.broken or error
        self._interrupt()

    @contextmanager
    def heeding_the_reader(self) -> Iterator[None]:
        """Interrupt the run as soon as the reader of the output pipe is gone. Writing would notice that too late: the answer is
        written only at the end.
        """
        out = _piped_output()
        if out is None:
            yield
            return
        loop = asyncio.get_running_loop()

        def check_reader() -> None:
            loop.remove_reader(out)
            if _has_no_reader(out):
                self._gone(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))

        loop.add_reader(out, check_reader)
        try:
            yield
        finally:
            loop.remove_reader(out)


def _piped_output() -> int | None:
    """Return the descriptor of standard output if it is a pipe; None for a file, a terminal, or no descriptor."""
    try:
        out = sys.stdout.fileno()
        return out if stat.S_ISFIFO(os.fstat(out).st_mode) else None
    except (AttributeError, OSError, ValueError):
        return None


def _has_no_reader(descriptor: int) -> bool:
    import select

    poll = select.poll()
    poll.register(descriptor, 0)
    return any(told & (select.POLLERR | select.POLLHUP) for _, told in poll.poll(0))


class TaskRun:
    """Runs one task. ``timeout`` limits the run in seconds. ``images`` are sent with the task.

    The task "" continues the session's unfinished run.
    """

    def __init__(self, session: Session, choice: ModelChoice, *, timeout: float | None, images: Sequence[Image] = ()) -> None:
        self._session = session
        self._choice = choice
        self._timeout = timeout
        self._images = images
        self._timed_out = False
        self._interrupted = False

    def interrupt(self) -> None:
        """Interrupt the run. Safe in a signal handler."""
        self._interrupted = True
        self._session.interrupt()

    async def run(
        self, task: str, watches: Sequence[Watch], started: Callable[[str], None], tracer: Tracer | None = None
    ) -> TaskOutcome:
        """Run the task and return its outcome. ``started`` is called with the model's name. Raises RunError, ProviderError and
        ConfigError, and OSError if the output can't be written.
        """
        timer = None
        if self._timeout is not None:
            timer = asyncio.get_running_loop().call_later(self._timeout, self._time_is_up)
        try:
            return await self._run(task, watches, started, tracer)
        except ToolcribError as error:
            if tracer is not None:
                tracer.failed(error)
            raise
        finally:
            if timer is not None:
                timer.cancel()

    async def _run(
        self, task: str, watches: Sequence[Watch], started: Callable[[str], None], tracer: Tracer | None
    ) -> TaskOutcome:
        session = self._session
        await interruptible(session.scope, session.connect(self._choice))
        if self._interrupted:
            return self._outcome("interrupted", "")
        fan = Fan([*watches, *([tracer] if tracer is not None else [])], self.interrupt)
        if tracer is not None:
            await tracer.set_up(session.prompt.text(), session.model)
            if task:
                tracer.said(task, self._images)
        if session.scope.cancelled or not task:
            started(session.model)
        if session.scope.cancelled:
            return self._outcome("interrupted", "")
        with fan.heeding_the_reader():
            if task:  # ``started`` prints the session's id only when another process could continue the task
                result: RunResult | None = await session.ask(task, self._images, emit=fan, said=lambda: started(session.model))
            else:
                result = await session.advance(fan)
        if fan.broken is not None:
            raise fan.broken
        if result is None:
            from agent.cli.faults import NoRunToContinue

            raise NoRunToContinue("this session has no run to continue; give a task: toolcrib run --resume ID TASK")
        return await self._came_to(result)

    async def _came_to(self, result: RunResult) -> TaskOutcome:
        outcome, session = self._outcome(result.stopped, result.text), self._session
        if outcome.stopped == "parked":
            from agent.cli.parked import still_open

            queued = len(await session.store.inbox.waiting(session.id))
            return replace(outcome, session=session.id, tickets=await still_open(session, result.tickets), queued=queued)
        if outcome.stopped == "done":
            limit, used = session.limits.max_tokens, tokens_used(result.usage)
            spent = f"{used:,} tokens used of {limit:,}" if limit is not None and used >= limit else ""
            code = CAPPED if spent or result.finish in CUT_OFF else outcome.code
            empty = not result.text.strip() and not result.images
            return replace(outcome, code=code, spent=spent, empty=empty, data=result.data)
        return replace(outcome, data=result.data)

    def _time_is_up(self) -> None:
        self._timed_out = True
        self.interrupt()

    def _outcome(self, stopped: str, text: str) -> TaskOutcome:
        if self._timed_out and stopped == "interrupted":
            return TaskOutcome("timeout", text, TIMED_OUT)
        from agent.policy.smart import person_behind

        refuser = person_behind(self._session.scope.asker)
        unasked = isinstance(refuser, Refuser) and refuser.refused > 0
        codes = {"interrupted": INTERRUPTED, "max_turns": CAPPED, "ended": FAILED, "parked": PARKED}
        rules = refuser.rules if isinstance(refuser, Refuser) else ()
        return TaskOutcome(stopped, text, codes.get(stopped, UNASKED if unasked else OK), rules=rules)
