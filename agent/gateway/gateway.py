"""The gateway process: starts its platforms, handles signals of other processes, and stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from agent.conversation.hosting import knock
from agent.cron.runner import CronRunner
from agent.first_ended import first_ended
from agent.gateway.keeping import LineKeeper
from agent.gateway.logs import about
from agent.gateway.platform_runner import AccountTaken, ChatLine
from agent.gateway.reloading import RELOADED, pin, taken_up, wanted
from agent.gateway.starting import another_runs
from agent.gateway.status import GATEWAY, note_idle
from agent.gateway.watching import Watch
from toolcrib.contract.errors import ConfigError, StoreFailed, ToolcribError
from toolcrib.contract.state import StateWrite
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from collections.abc import Callable

    from agent.conversation.session import Session
    from agent.model_choice.models import ModelChoice
    from agent.process import Crib

_log = logging.getLogger(__name__)
STOP, STOP_NOW, RELOAD = "gateway:stop", "gateway:stop-now", "gateway:reload"
"""Topics of signals: stop after the current work, stop at once, reload the configuration."""
_NOTES_EVERY = 10.0
RETRY_SECONDS = 5.0
"""First pause before a failed platform is retried; the pause doubles with each failure."""


class Gateway:
    """All enabled platforms in one process. ``names``: the platforms to run, None for all. An async context manager."""

    def __init__(
        self,
        crib: Crib,
        *,
        names: Sequence[str] | None = None,
        choice: ModelChoice | None = None,
        prepare: Callable[[Session], None] = lambda session: None,
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        self._crib = crib
        self._choice = choice
        self._prepare = prepare
        self._retry_seconds = retry_seconds
        self._jobs = CronRunner(crib, choice=choice, prepare=prepare)
        self._leaving: set[LineKeeper] = set()
        """Platforms that were disabled and are draining."""
        self._keepers = {name: self._keeper(name) for name in (crib.platforms if names is None else names)}
        self._is_idle = False
        """True after the gateway recorded in the store that it runs no platform."""
        self._named = names
        self._since = time.time()
        self._ending, self._now = asyncio.Event(), asyncio.Event()
        self._watch: Watch | None = None
        self._reloads = asyncio.Lock()
        self._tasks: set[asyncio.Task[None]] = set()
        pin(crib)
        self.redact = crib.redactor().text
        """Removes from log lines the secrets that were configured at the last reload."""

    def _keeper(self, name: str) -> LineKeeper:
        def make() -> ChatLine:
            return ChatLine(self._crib, name, self._crib.platforms[name], self._choice, self._told, self._prepare)

        return LineKeeper(make, self._retry_seconds, [one for one in self._leaving if one.line.name == name])

    # -- starting and stopping -----------------------------------------------------------------------------------

    async def __aenter__(self) -> Gateway:
        """Start every platform that can start; ``lines`` has the problems of the others. Returns early if ``end`` is called."""
        try:
            await first_ended(self._start(), self._ending.wait())
        except BaseException:
            await self._stop()
            raise
        return self

    async def _start(self) -> None:
        try:
            self._watch = await self._watching()
        except ConfigError as error:  # usually because another gateway uses the port: report that gateway
            if problem := await another_runs(self._crib, list(self._keepers)):
                raise AccountTaken(problem) from error
            raise
        await self._crib.start()
        await asyncio.gather(*(keeper.start() for keeper in self._keepers.values()))
        await self._jobs.start()
        self._spawn(self._notes())

    async def __aexit__(self, *_: object) -> None:
        await self._stop()

    async def _stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._jobs.stop()  # first: the platforms show the jobs' results
        await asyncio.gather(*(keeper.stop(now=self._now.is_set()) for keeper in self._all))
        if self._watch is not None:
            await self._watch.stop()
        await self._note_idle(ends=True)

    def end(self, *, now: bool = False) -> None:
        """Make ``serve`` return after the current work, or after ``gateway.drain_seconds``; with ``now`` at once."""
        self._ending.set()
        if now:
            self._now.set()

    async def serve(self) -> None:
        """Return when ``end`` was called or another process asked to stop. The next start resumes unfinished work."""
        loop = asyncio.get_running_loop()
        forget = self._crib.store.signals.listen(lambda topic: knock(loop, self._heard, topic))
        try:
            await self._ending.wait()
            await first_ended(self._drain(), self._now.wait())
        finally:
            forget()

    async def _drain(self) -> None:
        seconds = self._crib.config.gateway.drain_seconds
        await asyncio.gather(self._jobs.drain(seconds), *(keeper.drain(seconds) for keeper in self._all))

    def _heard(self, topic: str) -> None:
        if topic in (STOP, STOP_NOW):
            self.end(now=topic == STOP_NOW)
        elif topic == RELOAD:
            self.reload()

    # -- reloading the configuration -----------------------------------------------------------------------------

    def reload(self) -> None:
        """Reload the configuration in a task; log the outcome and record it in the store. Never waits."""
        self._spawn(self._reload_told())

    async def _reload_told(self) -> None:
        problem, told = "", list[str]()
        try:
            told = await self.reconfigure()
        except ToolcribError as error:
            problem = str(error)
            _log.error("the configuration was not reloaded: %s", error)
        for line in told:
            _log.info("%s", line)
        kept: Json = {"at": time.time(), "problem": self.redact(problem), "told": [self.redact(line) for line in told]}
        with contextlib.suppress(StoreFailed):
            await self._crib.store.state.write([StateWrite("profile", GATEWAY, RELOADED, kept)])
        await self._note_idle()

    async def reconfigure(self) -> list[str]:
        """Apply the configuration file as it is now, from the next message on, and return lines that describe the changes.

        Disabled platforms drain, new ones start. Raises ConfigError if the file is invalid, and ToolcribError if the gateway is
        stopping; in both cases nothing changes.
        """
        async with self._reloads:
            if self._ending.is_set():
                raise ToolcribError("the gateway is stopping")
            told = await taken_up(self._crib)
            self.redact = self._crib.redactor().text
            names = wanted(self._crib, self._named)
            for name in [name for name in self._keepers if name not in names]:
                told.append(f"{name} was disabled; it stops when its runs have ended")
                self._leaving.add(keeper := self._keepers.pop(name))
                self._spawn(self._switched_off(name, keeper))
            for name, keeper in self._keepers.items():
                if keeper.line.needs_renewal():
                    told.append(f"{name} restarts when its runs have ended")
                    self._spawn(keeper.renew(self._crib.config.gateway.drain_seconds))
                else:
                    await keeper.line.reconfigure()
            for name in [name for name in names if name not in self._keepers]:
                told.append(f"{name} was enabled; it starts now")
                self._keepers[name] = self._keeper(name)
                self._spawn(self._keepers[name].start())
            return [*await self._watch_again(), *told, "the configuration was reloaded"]

    async def _switched_off(self, name: str, keeper: LineKeeper) -> None:
        await keeper.drain(self._crib.config.gateway.drain_seconds)
        await keeper.stop()
        self._leaving.discard(keeper)
        _log.info("has stopped", extra=about(name))
        await self._note_idle()

    async def _notes(self) -> None:
        while True:
            await asyncio.sleep(_NOTES_EVERY)
            await self._note_idle()

    async def _note_idle(self, *, ends: bool = False) -> None:
        """Record in the store that this process runs no platform, or clear that record if it runs one or ends."""
        was, self._is_idle = self._is_idle, not self._all and not ends
        if was or self._is_idle:
            with contextlib.suppress(StoreFailed):
                await note_idle(self._crib.store, os.getpid() if self._is_idle else 0)

    async def _watching(self) -> Watch | None:
        """Return the server at ``gateway.port``, None if no port is configured. Raises ConfigError."""
        gateway = self._crib.config.gateway
        if not gateway.port:
            return None
        watch = Watch(gateway.host, gateway.port, lambda: self.lines, self._ending.is_set)
        await watch.start()
        return watch

    async def _watch_again(self) -> list[str]:
        """Listen at the configured address if it changed, and return lines that describe the change or the problem."""
        gateway, watch = self._crib.config.gateway, self._watch
        if (gateway.host, gateway.port) == (("", 0) if watch is None else watch.address) or not (gateway.port or watch):
            return []
        if watch is not None:
            await watch.stop()
        try:
            self._watch = await self._watching()
        except ConfigError as error:
            self._watch = None
            return [str(error)]
        if self._watch is None:
            return ["health and metrics are off"]
        return [f"health and metrics are served at {gateway.host}:{gateway.port}"]

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def _all(self) -> list[LineKeeper]:
        return [*self._keepers.values(), *self._leaving]

    @property
    def lines(self) -> list[ChatLine]:
        """The platforms, each with its state."""
        return [keeper.line for keeper in self._keepers.values()]

    @property
    def running(self) -> list[ChatLine]:
        """The platforms that run."""
        return [line for line in self.lines if not line.problem]

    @property
    def is_quiet(self) -> bool:
        """True while no platform has a run in progress."""
        return not any(line.status().runs for line in self.lines)

    @property
    def can_run(self) -> bool:
        """False if no platform runs and none can until a user fixes its problem."""
        return any(not line.problem or not line.needs_somebody for line in self.lines)

    async def _told(self) -> str:
        lines = [f"Up {(time.time() - self._since) / 3600:.1f} h."]
        for line in self.lines:
            one = line.status()
            state = one.problem or (
                f"{one.open_sessions} open chats, {one.questions} questions, {one.mail} unread, {one.posts} unsent messages,"
                f" {one.processes} background processes"
            )
            lines.append(f"{one.name}: {state}")
        return "\n".join(lines)
