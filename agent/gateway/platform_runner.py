"""Runs one platform in the gateway: its start and end, its periodic work, and the status that it records for other processes."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from typing import TYPE_CHECKING

from agent.config import PlatformConfig
from agent.conversation.answers import topic_of
from agent.conversation.hosting import knock
from agent.conversation.state import RunResult
from agent.events import Event, TicketOpened
from agent.gateway import messages
from agent.gateway.admission import Admission
from agent.gateway.assembly import LineListener, assemble_line
from agent.gateway.failures import logged
from agent.gateway.figures import LineFigures
from agent.gateway.host import GatewayHost
from agent.gateway.logs import about, work_on
from agent.gateway.pairing import Pairings
from agent.gateway.starting import nobody_speaks, require_backend
from agent.gateway.status import STATUS, ChatLineStatus, LineState, note_alive, told_by
from agent.plugin_host.lifecycle import START_SECONDS, STOP_SECONDS, guarded
from agent.store._owner import new_owner
from toolcrib.contract.chat import Chat, Inbound, Platform
from toolcrib.contract.errors import ConfigError, StoreFailed, ToolcribError
from toolcrib.contract.state import StateWrite
from toolcrib.contract.store import Lease

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agent.conversation.session import Session
    from agent.model_choice.models import ModelChoice
    from agent.process import Crib

_log = logging.getLogger(__name__)
_LEASE_SECONDS = 30.0
_LOOKS_EVERY = 10.0
_SWEEP_AFTER = 14 * 86_400.0
_AT_ONCE = 0.5
"""Seconds to finish sending when the gateway is stopped at once."""


class AccountTaken(ToolcribError):
    """Another gateway uses the platform's account."""


class ChatLine:
    """Runs one platform: its host, mailbox, rooms, sessions and outbox. Started and stopped once, in one event loop."""

    def __init__(
        self,
        crib: Crib,
        name: str,
        factory: Callable[..., Platform],
        choice: ModelChoice | None,
        status: Callable[[], Awaitable[str]],
        prepare: Callable[[Session], None],
    ) -> None:
        self.name = name
        self.state: LineState = "starting"
        self.problem = ""
        self.needs_somebody = False
        """True if the platform failed for a reason that a user must fix: a setting, or another gateway."""
        self.is_anothers = False
        """True if another gateway uses the account; then this one must not overwrite the other's status."""
        self.retry_at = 0.0
        self.keeps = True
        """False if the last attempt to write to the store failed."""
        self.figures = LineFigures()
        self.lost = asyncio.Event()
        """Set when another gateway took the account."""
        self.account = ""
        self._crib = crib
        self._store = crib.store
        self._factory = factory
        self._config = crib.config.platforms.get(name, PlatformConfig())
        self._choice = choice
        self._status = status
        self._prepare = prepare
        self._lease: Lease | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._platform: Platform | None = None
        self._started: list[Callable[[], object]] = []
        self._is_assembled = False

    async def start(self) -> None:
        """Connect, take the account, resume unfinished work, and begin to receive. If this fails, ``problem`` has the reason."""
        redact = self._crib.redactor().text
        self.problem = await guarded(f"start of the platform {self.name!r}", self._begin, START_SECONDS, redact)
        if self.problem:
            await self.stop()
            self.state = "failed"

    async def _begin(self) -> None:
        try:
            await self._start()
        except (ConfigError, AccountTaken) as error:
            self.needs_somebody, self.is_anothers = True, isinstance(error, AccountTaken)
            raise

    async def _start(self) -> None:
        require_backend(self._crib.config, self._crib.backends, self.name)
        pairings = Pairings(self._store, self.name)
        admission = self._admission = Admission(self.name, self._config, pairings, self._store)
        self.door = GatewayHost(self.name, self._crib.config, self._store, admission, pairings)
        platform = self._platform = self._factory(name=self.name, host=self.door)
        self.account = await platform.connect()
        await self._take_account()
        self._assemble(platform, admission)
        await self.outbox.start()
        await self.replies.catch_up(self._store, self.name)
        await self.jobs.deliver_pending()
        await self.mailbox.load()
        await self.manager.start()
        await self.questions.start(self._chat_that_waits)
        self.mailbox.start()
        loop = asyncio.get_running_loop()
        forget = self._store.signals.listen(lambda topic: knock(loop, self._heard, topic))
        self._started.append(forget)
        self._tasks.append(loop.create_task(self._look()))
        self._tasks.append(loop.create_task(messages.showing(self.name, self._store, self.outbox)))
        await platform.start()
        self.outbox.open()
        self.state = "running"
        _log.info("listening as %s", self.account, extra=about(self.name))
        if told := await nobody_speaks(self.name, admission):
            _log.warning("%s", told, extra=about(self.name))
        await self.note_status()

    def _assemble(self, platform: Platform, admission: Admission) -> None:
        self._redactor = self._crib.redactor()
        parts = assemble_line(
            self._crib,
            platform,
            admission,
            LineListener(greet=self._greet, watch=self._watch, done=self._done),
            name=self.name,
            config=self._config,
            choice=self._choice,
            prepare=self._prepare,
            status=self._status,
            redactor=lambda: self._redactor,
            redact=self._redact,
        )
        self.outbox, self.mailbox, self.replies, self.files = parts.outbox, parts.mailbox, parts.replies, parts.files
        self.manager, self.rooms, self.jobs = parts.manager, parts.rooms, parts.jobs
        self.questions, self.quotas = parts.questions, parts.quotas
        self.door.serve(parts)
        self._is_assembled = True

    # -- reloading the configuration -----------------------------------------------------------------------------

    def needs_renewal(self) -> bool:
        """Return whether the new configuration needs a new line: this one is not running, or its settings or secrets changed.

        Raises ConfigError if a secret can't be read.
        """
        config = self._crib.config.platforms.get(self.name, PlatformConfig())
        return self.state != "running" or self.door.is_outdated(config)

    async def reconfigure(self) -> None:
        """Apply the process's current configuration from the next message on. Runs in progress still use the old one."""
        gateway = self._crib.config.gateway
        config = self._config = self._crib.config.platforms.get(self.name, PlatformConfig())
        self._admission.config = config
        self.door.use(config)
        self.rooms.use(config)
        self.mailbox.use(config)
        self.quotas.use(config)
        self._redactor = self._crib.redactor()
        self.replies.streams = config.streams
        self.manager.use(gateway.sessions)
        await self.manager.renew()

    # -- stopping ------------------------------------------------------------------------------------------------

    async def drain(self, seconds: float) -> None:
        """Start no new work, and return when the current work has ended or ``seconds`` have passed.

        Messages that arrive meanwhile are kept for the next start, unless they only end or refuse something. Questions stay open.
        """
        if self._platform is None or self.state != "running":
            return
        self.state = "draining"
        await self.note_status()
        ends = time.monotonic() + seconds
        await self.mailbox.drain(seconds)
        await self.manager.drain(ends - time.monotonic())

    async def stop(self, *, now: bool = False) -> None:
        """Stop receiving, finish sending, and close; with ``now``, cut short the handling and sending of messages.

        May be called twice. The next start resumes runs in progress.
        """
        if self._platform is None:
            return
        platform, self._platform = self._platform, None
        self.state = "failed" if self.problem else "stopped"
        what = f"stop of the platform {self.name!r}"
        if self._is_assembled:
            await guarded(what, lambda: self._rest(now=now), STOP_SECONDS * 4)
        await guarded(what, platform.stop, STOP_SECONDS)
        if self._lease is not None:
            with contextlib.suppress(StoreFailed):  # it expires
                await self._store.leases.release(self._lease)

    async def _rest(self, *, now: bool) -> None:
        for forget in self._started:
            forget()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self.mailbox.close(_AT_ONCE if now else STOP_SECONDS)
        await self.manager.leave()
        await self.replies.flush()
        await (self.outbox.close(_AT_ONCE) if now else self.outbox.close())
        if self._started and not self.is_anothers:  # otherwise the next start must show missing results
            with contextlib.suppress(StoreFailed):
                if not self.replies.is_behind:
                    await note_alive(self._store, self.name)
            await self.note_status()

    def status(self) -> ChatLineStatus:
        """Return the platform's current status."""
        if not self._started:
            return ChatLineStatus(self.name, self.account, self.state, self.problem or "not started", self.retry_at)
        return ChatLineStatus(
            self.name,
            self.account,
            self.state,
            self.problem,
            self.retry_at,
            self.manager.open_sessions,
            self.manager.at_work_now,
            self.mailbox.waiting,
            self.mailbox.chats,
            self.outbox.waiting,
            self.questions.open,
            {**self.door.counts, "taken": self.mailbox.taken, "sent": self.outbox.sent, "given_up": self.outbox.failed},
            self.figures.to_json(),
            self.manager.processes_now,
        )

    # -- between processes ---------------------------------------------------------------------------------------

    async def _take_account(self) -> None:
        """Take the account's lease for this process. Raises AccountTaken if another gateway has it."""
        owner = new_owner()
        self._lease = await self._store.leases.take(f"account:{self.name}:{self.account}", owner, _LEASE_SECONDS)
        if self._lease is None:
            raise AccountTaken(f"another gateway uses the account {self.account!r}; stop it and wait half a minute")

    async def _chat_that_waits(self, session_id: str) -> Chat | None:
        """Return the chat of a session whose run is parked, None for any other session.

        A run that is not parked asks its question again when it resumes, so an earlier answer would be lost.
        """
        if not await self.manager.waits(session_id):
            return None
        return await self.rooms.chats.chat_of(session_id) or await self.jobs.chat_of(session_id)

    async def _look(self) -> None:
        """Do the periodic work: renew the account's lease, record that the platform is alive, expire old questions, clean up."""
        swept = 0.0
        while True:
            await asyncio.sleep(_LOOKS_EVERY)
            try:
                if self._lease is not None and not await self._store.leases.renew(self._lease):
                    _log.error("%s: another gateway took the account; this one stops receiving", self.name)
                    self.problem, self.state, self.is_anothers = "another gateway took the account", "failed", True
                    self.lost.set()
                    if self._platform is not None:
                        await self._platform.stop()
                    return
                if self.replies.is_behind:
                    await self.questions.start(self._chat_that_waits)
                    await self.replies.catch_up(self._store, self.name)
                await note_alive(self._store, self.name)
                self.keeps = True
                await self.note_status()
                await self.questions.expired()
                await self.manager.end_again()
                await self.jobs.deliver_pending()
                if time.time() - swept > 86_400:
                    swept = time.time()
                    await self._store.mail.sweep(swept - _SWEEP_AFTER)
                    self.files.sweep()
            except StoreFailed as error:
                self.keeps = False
                _log.warning("%s: the store can't be used: %s", self.name, error)
            except Exception:  # noqa: BLE001 - without this task the account would be lost
                _log.exception("periodic work of %s failed", self.name)

    async def note_status(self) -> None:
        """Record the status for other processes."""
        kept = {**self.status().to_json(), **told_by(os.getpid())}
        with contextlib.suppress(StoreFailed):
            await self._store.state.write([StateWrite("profile", f"gateway:{self.name}", STATUS, kept)])

    def _heard(self, topic: str) -> None:
        task = asyncio.get_running_loop().create_task(self._take(topic))
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    async def _take(self, topic: str) -> None:
        try:
            if topic.startswith(topic_of("")):
                await self.questions.refresh(topic.removeprefix(topic_of("")))
            else:
                await self.jobs.heard(topic)
        except StoreFailed as error:
            _log.warning("%s: a result from another process could not be shown: %s", self.name, error)

    # -- events of its sessions ----------------------------------------------------------------------------------

    def _greet(self, session_id: str, message: Inbound) -> None:
        self.figures.said(session_id)
        self.replies.begin(session_id, message.chat)

    def _watch(self, session_id: str, event: Event) -> None:
        if self.figures.watch(session_id, event):
            work_on(self.name, self._chat(session_id), self.manager.run_id(session_id))
            _log.info("a run begins or resumes")
        elif isinstance(event, TicketOpened):
            _log.info("question %s is asked", event.ticket[:8])
        self.replies.watch(session_id, event)

    def _done(self, session_id: str, outcome: RunResult | Exception) -> None:
        took = self.figures.done(session_id, outcome)
        of = about(self.name, self._chat(session_id), self.manager.run_id(session_id))
        if isinstance(outcome, Exception):
            _log.warning("a run failed after %.1f s: %s", took, self._redact(logged(outcome)), extra=of)
        else:
            _log.info("a run ended after %.1f s: %s", took, outcome.stopped, extra=of)
        self.replies.done(session_id, outcome)

    def _chat(self, session_id: str) -> str:
        chat = self.rooms.chats.known(session_id)
        return "" if chat is None else chat.key

    def _redact(self, text: str) -> str:
        with contextlib.suppress(ConfigError, OSError):  # if the secrets can't be read, use those known before
            self._redactor = self._crib.redactor()
        return self._redactor.text(text)
