"""The store for one process: everything is remembered until it ends. Nothing here ever suspends."""

from __future__ import annotations

import copy
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.store._memory_artifacts import MemoryArtifacts
from agent.store._memory_changes import MemoryChanges
from agent.store._memory_cron import MemoryCron
from agent.store._memory_ledger import MemoryAudit, MemoryLedger, MemoryTickets
from agent.store._memory_mail import MemoryMail
from agent.store._memory_room import MemoryLeases, MemoryMember, Room
from agent.store._memory_sessions import MemoryInbox, MemoryOrigins, MemoryRuns, MemorySessions
from agent.store._memory_usage import MemoryUsage
from agent.store._shared import Clock
from toolcrib.contract.state import StateScope, StateValue, StateWrite
from toolcrib.contract.store import CallRecord, Fence, Grant, GrantStore
from toolcrib.contract.types import Json
from tools.dispatch.states import MemoryStates

if TYPE_CHECKING:
    from agent.store.search.memory import MemorySearch
    from toolcrib.contract.store import Store

_log = logging.getLogger(__name__)


class GuardedGrants(MemoryMember):
    """Grants that are kept elsewhere, and that only who holds the lease may change."""

    def __init__(self, inner: GrantStore, room: Room) -> None:
        super().__init__(room)
        self._inner = inner

    async def add(self, grant: Grant) -> None:
        self._writing.check()
        await self._inner.add(grant)

    async def all(self, session_id: str | None = None, principal: str = "") -> Sequence[Grant]:
        return await self._inner.all(session_id, principal)

    async def spend(self, grant_id: str) -> bool:
        self._writing.check()
        return await self._inner.spend(grant_id)

    async def revoke(self, grant_id: str) -> bool:
        self._writing.check()
        return await self._inner.revoke(grant_id)


class GuardedStates(MemoryMember):
    """State that only who holds the lease may change."""

    def __init__(self, inner: MemoryStates, room: Room) -> None:
        super().__init__(room)
        self._inner = inner

    async def of(self, scope: StateScope, owner: str) -> Mapping[str, StateValue]:
        return await self._inner.of(scope, owner)

    async def write(self, writes: Sequence[StateWrite]) -> Sequence[int]:
        with self._writing:
            return await self._inner.write(writes)

    def forget_sessions(self, session_ids: Collection[str]) -> None:
        self._inner.forget("session", session_ids)


class MemorySignals:
    """Signals within one process, heard before ``send`` returns."""

    def __init__(self) -> None:
        self._listeners: dict[object, Callable[[str], None]] = {}

    async def send(self, topic: str) -> None:
        for heard in list(self._listeners.values()):
            try:
                heard(topic)
            except Exception:  # noqa: BLE001 - one listener must not keep the others from hearing
                _log.exception("a listener failed on the signal %r", topic)

    def listen(self, heard: Callable[[str], None]) -> Callable[[], None]:
        mark = object()
        self._listeners[mark] = heard
        return lambda: self._listeners.pop(mark, None) and None


class MemoryStore:
    """Implements toolcrib.contract.store.Store; thread-safe. ``grants`` may be another store, such as PermanentGrants."""

    def __init__(self, grants: GrantStore | None = None, clock: Clock = time.time) -> None:
        from tools.approval.grants import MemoryGrants

        room = self._room = Room(clock)
        self._ledger = MemoryLedger(room)
        self._tickets = MemoryTickets(room, self._ledger)
        self._grants: GrantStore = MemoryGrants() if grants is None else grants
        self._audit = MemoryAudit(room)
        self._sessions = MemorySessions(room)
        self._changes = MemoryChanges(room)
        self._leases = MemoryLeases(room)
        self._inbox = MemoryInbox(room)
        self._runs = MemoryRuns(self._sessions, self._inbox, room)
        self._origins = MemoryOrigins(room)
        self._states = GuardedStates(MemoryStates(), room)
        self._artifacts = MemoryArtifacts(room, self._sessions)
        self._mail = MemoryMail(self._runs, room)
        self._cron = MemoryCron(room)
        self._signals = MemorySignals()

    @property
    def ledger(self) -> MemoryLedger:
        return self._ledger

    @property
    def tickets(self) -> MemoryTickets:
        return self._tickets

    @property
    def grants(self) -> GrantStore:
        return self._grants

    @property
    def audit(self) -> MemoryAudit:
        return self._audit

    @property
    def sessions(self) -> MemorySessions:
        return self._sessions

    @property
    def changes(self) -> MemoryChanges:
        return self._changes

    @property
    def leases(self) -> MemoryLeases:
        return self._leases

    @property
    def runs(self) -> MemoryRuns:
        return self._runs

    @property
    def usage(self) -> MemoryUsage:
        return self._sessions.usage

    @property
    def search(self) -> MemorySearch:
        from agent.store.search.memory import MemorySearch

        return MemorySearch(self._sessions)

    @property
    def inbox(self) -> MemoryInbox:
        return self._inbox

    @property
    def origins(self) -> MemoryOrigins:
        return self._origins

    @property
    def state(self) -> GuardedStates:
        return self._states

    @property
    def artifacts(self) -> MemoryArtifacts:
        return self._artifacts

    @property
    def mail(self) -> MemoryMail:
        return self._mail

    @property
    def cron(self) -> MemoryCron:
        return self._cron

    @property
    def signals(self) -> MemorySignals:
        return self._signals

    def fenced(self, fence: Fence) -> MemoryStore:
        view = copy.copy(self)
        view._ledger = self._ledger.fenced(fence)
        view._tickets = self._tickets.fenced(fence)
        inner = self._grants._inner if isinstance(self._grants, GuardedGrants) else self._grants
        view._grants = GuardedGrants(inner, self._room).fenced(fence)
        view._audit = self._audit.fenced(fence)
        view._sessions = self._sessions.fenced(fence)
        view._changes = self._changes.fenced(fence)
        view._runs = self._runs.fenced(fence)
        view._origins = self._origins.fenced(fence)
        view._states = self._states.fenced(fence)
        view._artifacts = self._artifacts.fenced(fence)
        return view

    async def recover(self, session_id: str) -> Sequence[CallRecord]:
        """See toolcrib.contract.store.Store.recover. Without a lease nothing is ended."""
        return await self._ledger.recover(session_id)

    async def old(self, before: float) -> int:
        """None: all goes with the process."""
        return 0

    async def prune(self, before: float) -> int:
        """Delete nothing: everything is deleted with the process."""
        return 0

    async def delete(self, session_ids: Collection[str]) -> Sequence[str]:
        """See toolcrib.contract.store.Store.delete."""
        grants = [grant for name in session_ids for grant in await self._grants.all(name) if grant.scope != "always"]
        with self._room.lock:
            known = [name for name in dict.fromkeys(session_ids) if self._sessions.has(name)]
            deleted = [name for name in known if not self._is_at_work(name)]
            own = (self._ledger, self._tickets, self._audit, self._changes, self._runs, self._inbox, self._origins, self._mail)
            for member in own:
                member.forget_sessions(deleted)
            self._sessions.forget_sessions(deleted)
            self._states.forget_sessions(deleted)
            self._artifacts.forget_sessions(deleted)
            self._cron.forget_sessions(deleted)
        for grant in grants:
            if grant.session_id in deleted:
                await self._grants.revoke(grant.id)
        return deleted

    def _is_at_work(self, session_id: str) -> bool:
        waits = session_id in self._inbox.sessions() or session_id in self._mail.sessions()
        return waits or self._ledger.at_work(session_id) or self._runs.at_work(session_id)

    async def saying(self, says: Callable[[str], bool]) -> Sequence[str]:
        """See toolcrib.contract.store.Store.saying."""
        from agent.store._saying import saying_of

        found: dict[str, None] = {}
        with self._room.lock:
            members = (self._sessions, self._ledger, self._tickets, self._audit, self._runs, self._inbox, self._mail)
            for member in members:
                saying_of(member.texts(), says, found)
        return list(found)

    async def free(self) -> bool:
        """Return True: nothing that was deleted is left."""
        return True

    async def rewrite_prompts(self, text: str, rewrite: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> Sequence[str]:
        """See toolcrib.contract.store.Store.rewrite_prompts."""
        return self._sessions.rewrite_prompts(text, rewrite)

    def close(self) -> None:
        """Do nothing: nothing is open."""


if TYPE_CHECKING:

    def _conforms(store: MemoryStore) -> Store:
        return store
