"""One task for a model, from its start to an exit code."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from agent.cli.app import CAPPED, FAILED, INTERRUPTED, OK, TIMED_OUT, UNASKED
from agent.cli.ask import Refuser
from agent.events import Event, TurnFinished
from agent.fallback import say_to
from agent.loop import Loop, LoopLimits
from agent.models import ModelChoice, find_endpoint, open_provider, own_choice
from agent.providers.endpoint import same_server
from toolcrib import Image, ProviderSession, ToolcribError

if TYPE_CHECKING:
    from agent.cli.trace import Tracer
    from agent.session import Session

T = TypeVar("T")
Watch = Callable[[Event], None]


@dataclass(slots=True)
class Tally:
    """What a run came to so far; it is right also where the run breaks off."""

    turns: int = 0
    text: str = ""
    usage: Counter[str] = field(default_factory=Counter)

    def __call__(self, event: Event) -> None:
        if isinstance(event, TurnFinished):
            self.turns, self.text = event.number, event.text
            self.usage.update(event.usage)


@dataclass(frozen=True, slots=True)
class Outcome:
    stopped: str
    text: str
    code: int
    empty: bool = False
    """Whether it is done and came to neither text nor image."""


class Fan:
    """Tells several watchers. When whoever reads our output has gone, the run is interrupted, and ``broken`` says why."""

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
            self.broken = error
            self._interrupt()


async def connect(session: Session, choice: ModelChoice) -> ProviderSession:
    """The session's provider. A session that goes on keeps its model and provider, where nobody names another.

    Raises as open_provider.
    """
    choice = own_choice(session, choice)
    endpoint = find_endpoint(session.config, choice)
    via = session.talked_to()
    if endpoint is not None and not endpoint.model and via and same_server(str(via["base_url"]), endpoint.base_url):
        choice = replace(choice, model=str(via["model"]))
    return await open_provider(session, choice)


class OneShot:
    """``interrupt`` ends it from a signal handler; ``timeout`` in seconds ends all of it. ``images`` go with the task."""

    def __init__(
        self,
        session: Session,
        choice: ModelChoice,
        limits: LoopLimits,
        *,
        timeout: float | None,
        images: Sequence[Image] = (),
    ) -> None:
        self._session = session
        self._choice = choice
        self._limits = limits
        self._timeout = timeout
        self._images = images
        self._timed_out = False
        self._interrupted = False

    def interrupt(self) -> None:
        self._interrupted = True
        self._session.interrupt()

    async def run(
        self, task: str, watches: Sequence[Watch], started: Callable[[str], None], tracer: Tracer | None = None
    ) -> Outcome:
        """``started`` is told the model's name. Raises LoopError, ProviderError and ConfigError kinds, and OSError where our
        output can't be written."""
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

    async def _run(self, task: str, watches: Sequence[Watch], started: Callable[[str], None], tracer: Tracer | None) -> Outcome:
        session = self._session
        provider = await self._unless_interrupted(connect(session, self._choice))
        if provider is None:
            return self._outcome("interrupted", "")
        fan = Fan([*watches, *([tracer] if tracer is not None else [])], self.interrupt)
        try:
            model = str(getattr(provider, "model", ""))
            started(model)
            if tracer is not None:
                tracer.set_up(session.system_prompt(), model)
                tracer.said(task, self._images)
            task = session.with_news(task)
            session.say(task, self._images)
            say_to(provider, task, self._images)
            if self._interrupted:
                return self._outcome("interrupted", "")
            result = await Loop(provider, session, fan, self._limits).run()
        finally:
            await provider.close()
        if fan.broken is not None:
            raise fan.broken
        outcome = self._outcome(result.stopped, result.text)
        return replace(outcome, empty=outcome.stopped == "done" and not result.text.strip() and not result.images)

    async def _unless_interrupted(self, work: Awaitable[T]) -> T | None:
        task = asyncio.ensure_future(work)
        self._session.scope.running.add(task)
        try:
            return await task
        except asyncio.CancelledError:
            if not self._interrupted:
                task.cancel()
                raise
            return None
        finally:
            self._session.scope.running.discard(task)

    def _time_is_up(self) -> None:
        self._timed_out = True
        self.interrupt()

    def _outcome(self, stopped: str, text: str) -> Outcome:
        if self._timed_out and stopped == "interrupted":
            return Outcome("timeout", text, TIMED_OUT)
        from agent.smart import person_behind

        refuser = person_behind(self._session.scope.asker)
        unasked = isinstance(refuser, Refuser) and refuser.refused > 0
        codes = {"interrupted": INTERRUPTED, "max_turns": CAPPED, "ended": FAILED, "pending": UNASKED}
        return Outcome(stopped, text, codes.get(stopped, UNASKED if unasked else OK))
