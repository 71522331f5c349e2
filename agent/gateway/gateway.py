"""The gateway's life: platforms, one line each from what arrives to what is shown, and what they share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent.config import PlatformConfig
from agent.conversation.answers import topic_of
from agent.conversation.hosting import knock
from agent.conversation.manager import SessionManager
from agent.conversation.state import RunState
from agent.gateway.admission import Admission
from agent.gateway.commands import ChatCommands
from agent.gateway.deciders import Deciders
from agent.gateway.deciding import Deciding
from agent.gateway.door import Door
from agent.gateway.limits import Quotas
from agent.gateway.mailbox import Mailbox
from agent.gateway.media import Media
from agent.gateway.outbox import Outbox
from agent.gateway.pairing import Pairings
from agent.gateway.questions import ChatQuestions
from agent.gateway.replies import Replies
from agent.gateway.rooms import Rooms
from agent.lifecycle import START_SECONDS, STOP_SECONDS, guarded
from agent.store._owner import new_owner
from toolcrib import StoreFailed, ToolcribError
from toolcrib._dataclass import dataclass
from toolcrib._state import StateWrite
from toolcrib._store import Lease
from toolcrib._types import Json
from toolcrib.chat import Inbound, Platform, ShowsTyping

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from agent.conversation.session import Session
    from agent.crib import Crib
    from agent.models import ModelChoice

_log = logging.getLogger(__name__)
_LEASE_SECONDS = 30.0
_LOOKS_EVERY = 10.0
_ALIVE = "alive"
"""Name of when the gateway was last seen to work, in the store."""
STATUS = "status"
"""Name of what a platform's line does, in the store."""
STOP, DRAIN = "gateway:stop", "gateway:drain"
"""Topics of signals: end now, or once what is under way has ended."""
_DRAIN_SECONDS = 300.0
_OVERLAP = 120.0
"""Seconds before that within which runs may have ended whose answers were not kept to be shown."""
_SWEEP_AFTER = 14 * 86_400.0


@dataclass(frozen=True, slots=True)
class ChatLineStatus:
    """State of one platform. ``problem`` is why it does not run, "" where it does."""

    name: str
    account: str
    problem: str
    open_sessions: int
    mail: int
    posts: int
    questions: int
    counts: Mapping[str, int]

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {
            "name": self.name,
            "account": self.account,
            "problem": self.problem,
            "open_sessions": self.open_sessions,
            "mail": self.mail,
            "posts": self.posts,
            "questions": self.questions,
            "counts": dict(self.counts),
        }


class ChatLine:
    """One platform: its door, mailbox, rooms, sessions and outbox. Started and stopped once, in one event loop."""

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
        self.problem = ""
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

    async def start(self) -> None:
        """Connect, take the account, go on with what was left, and begin to receive. What fails is in ``problem``."""
        redact = self._crib.redactor().text
        self.problem = await guarded(f"start of the platform {self.name!r}", self._start, START_SECONDS, redact)
        if self.problem:
            await self.stop()

    async def _start(self) -> None:
        pairings = Pairings(self._store, self.name)
        admission = Admission(self.name, self._config, pairings, self._store)
        self.door = Door(self.name, self._config, self._crib.config.folder, self._store, admission, pairings)
        platform = self._platform = self._factory(name=self.name, host=self.door)
        self.account = await platform.connect()
        await self._take_account()
        self.rooms = Rooms(self._crib, self.name, self._config, self._choice)
        self.outbox = Outbox(platform, self._store)
        self.manager = SessionManager(
            self._crib,
            platform=self.name,
            watch=lambda session_id, event: self.replies.watch(session_id, event),
            done=lambda session_id, outcome: self.replies.done(session_id, outcome),
            opens=self.rooms.open,
            most=self._crib.config.gateway.sessions,
            prepare=self._prepare,
        )
        deciding = Deciding(self._crib.config.gateway.approvers)
        most = platform.traits.max_chars
        deciders = Deciders(self.name, self._store, admission, deciding)
        self.questions = ChatQuestions(self.name, self._store, self.outbox, deciding, deciders, self.manager.answer, most)
        self.replies = Replies(
            self.outbox,
            self.questions,
            self.rooms.chat_of,
            self.manager.run_id,
            most,
            streams=self._config.streams,
            typing=platform.typing if isinstance(platform, ShowsTyping) else None,
        )
        commands = ChatCommands(self.rooms, self.questions, self.manager, self._status)
        self.quotas = Quotas(self._config, self._store)
        self.mailbox = Mailbox(
            self.name,
            self._store,
            self._config,
            admission,
            self.rooms,
            self.questions,
            commands,
            self.manager,
            self.outbox,
            Media(platform, self.manager.opened),
            self.quotas,
            self._greet,
        )
        self.door.outbox, self.door.mailbox = self.outbox, self.mailbox
        self.door.questions, self.door.quotas = self.questions, self.quotas
        await self.outbox.start()
        await self._show_what_ended()
        await self.manager.start()
        await self.questions.start(self.rooms.chat_of)
        await self.mailbox.start()
        loop = asyncio.get_running_loop()
        forget = self._store.signals.listen(lambda topic: knock(loop, self._heard, topic))
        self._started.append(forget)
        self._tasks.append(loop.create_task(self._look()))
        await platform.start()
        await self._note_status()

    async def drain(self) -> None:
        """Receive nothing more, and return once what is under way has ended, after five minutes at most."""
        if self._platform is not None and self._started:
            await guarded(f"stop of the platform {self.name!r}", self._platform.stop, STOP_SECONDS)
            await self.manager.rest(_DRAIN_SECONDS)

    async def stop(self) -> None:
        """Receive nothing more, let what is being shown be shown, and close. May be called twice."""
        if self._platform is not None:
            platform, self._platform = self._platform, None
            await guarded(f"stop of the platform {self.name!r}", lambda: self._end(platform), STOP_SECONDS * 4)

    async def _end(self, platform: Platform) -> None:
        for forget in self._started:
            forget()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._started:
            await self.mailbox.close()
            await self.manager.close()
            await self.replies.settle()
            await self.outbox.close()
            await self._note_alive()
            await self._note_status(problem="stopped")
        await guarded(f"stop of the platform {self.name!r}", platform.stop, STOP_SECONDS)
        if self._lease is not None:
            with contextlib.suppress(StoreFailed):  # it lapses by itself
                await self._store.leases.release(self._lease)

    def status(self) -> ChatLineStatus:
        """Return what the platform does now."""
        if self._platform is None or not self._started:
            return ChatLineStatus(self.name, self.account, self.problem or "not started", 0, 0, 0, 0, {})
        return ChatLineStatus(
            self.name,
            self.account,
            self.problem,
            self.manager.open_sessions,
            self.mailbox.waiting,
            self.outbox.waiting,
            self.questions.open,
            {**self.door.counts, "taken": self.mailbox.taken, "given_up": self.outbox.failed},
        )

    # -- between processes ---------------------------------------------------------------------------------------

    async def _take_account(self) -> None:
        """Take the account for this process. Raises ToolcribError where another gateway has it."""
        owner = new_owner()
        self._lease = await self._store.leases.take(f"account:{self.name}:{self.account}", owner, _LEASE_SECONDS)
        if self._lease is None:
            raise ToolcribError(f"another gateway has the account {self.account!r}; stop it, or wait half a minute after its end")

    async def _show_what_ended(self) -> None:
        """Show what runs came to whose process ended before it was kept to be shown."""
        found = (await self._store.state.of("profile", self._owner)).get(_ALIVE)
        since = (float(found.value) if found is not None else time.time()) - _OVERLAP
        for run_id in await self._store.mail.unposted(self.name, since):
            record = await self._store.runs.get(run_id)
            if record is not None:
                await self.replies.finish(RunState.of(record))

    async def _look(self) -> None:
        """Keep the account, note that this lives, and look for questions whose time is over."""
        swept = 0.0
        while True:
            await asyncio.sleep(_LOOKS_EVERY)
            try:
                if self._lease is not None and not await self._store.leases.renew(self._lease):
                    _log.error("%s: another gateway took the account; this one stops receiving", self.name)
                    self.problem = "another gateway took the account"
                    if self._platform is not None:
                        await self._platform.stop()
                    return
                await self._note_alive()
                await self._note_status()
                await self.questions.expired()
                if time.time() - swept > 86_400:
                    swept = time.time()
                    await self._store.mail.sweep(swept - _SWEEP_AFTER)
            except StoreFailed as error:
                _log.warning("%s: the store can't be used: %s", self.name, error)
            except Exception:  # noqa: BLE001 - without this task the account would be lost
                _log.exception("%s could not be looked after", self.name)

    async def _note_alive(self) -> None:
        with contextlib.suppress(StoreFailed):
            await self._store.state.write([StateWrite("profile", self._owner, _ALIVE, time.time())])

    async def _note_status(self, **more: Json) -> None:
        """Keep for other processes what this one does."""
        kept = {**self.status().to_json(), "pid": os.getpid(), "at": time.time(), **more}
        with contextlib.suppress(StoreFailed):
            await self._store.state.write([StateWrite("profile", self._owner, STATUS, kept)])

    @property
    def _owner(self) -> str:
        return f"gateway:{self.name}"

    def _heard(self, topic: str) -> None:
        if topic.startswith(topic_of("")):
            task = asyncio.get_running_loop().create_task(self._refresh(topic.removeprefix(topic_of(""))))
            self._tasks.append(task)
            task.add_done_callback(self._tasks.remove)

    async def _refresh(self, session_id: str) -> None:
        try:
            await self.questions.refresh(session_id)
        except StoreFailed as error:
            _log.warning("%s: a question could not be shown as settled: %s", self.name, error)

    def _greet(self, session_id: str, message: Inbound) -> None:
        self.replies.begin(session_id, message.chat)


class Gateway:
    """All enabled platforms in one process. ``names`` are those to run, None for all. An async context manager."""

    def __init__(
        self,
        crib: Crib,
        *,
        names: Sequence[str] | None = None,
        choice: ModelChoice | None = None,
        prepare: Callable[[Session], None] = lambda session: None,
    ) -> None:
        wanted = list(crib.platforms) if names is None else list(names)
        self._crib = crib
        self.lines = [ChatLine(crib, name, crib.platforms[name], choice, self._told, prepare) for name in wanted]
        self._since = time.time()
        self._ending = asyncio.Event()
        self._drains = False

    async def __aenter__(self) -> Gateway:
        await self._crib.start()
        await asyncio.gather(*(line.start() for line in self.lines))
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(line.stop() for line in self.lines))

    def end(self, *, drains: bool = False) -> None:
        """Have ``serve`` return; with ``drains`` once what is under way has ended."""
        self._drains = self._drains or drains
        self._ending.set()

    async def serve(self) -> None:
        """Return when ``end`` was called, or another process asked for the end."""
        loop = asyncio.get_running_loop()
        forget = self._crib.store.signals.listen(lambda topic: knock(loop, self._heard, topic))
        try:
            await self._ending.wait()
            if self._drains:
                await asyncio.gather(*(line.drain() for line in self.lines))
        finally:
            forget()

    def _heard(self, topic: str) -> None:
        if topic in (STOP, DRAIN):
            self.end(drains=topic == DRAIN)

    @property
    def running(self) -> list[ChatLine]:
        """The platforms that run."""
        return [line for line in self.lines if not line.problem]

    async def _told(self) -> str:
        lines = [f"Up {(time.time() - self._since) / 3600:.1f} h."]
        for line in self.lines:
            one = line.status()
            state = one.problem or (
                f"{one.open_sessions} open chats, {one.questions} questions, {one.mail} to read, {one.posts} to show"
            )
            lines.append(f"{one.name}: {state}")
        return "\n".join(lines)
