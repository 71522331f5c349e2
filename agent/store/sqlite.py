"""The store on disk: one SQLite file, which several processes may use at once.

One thread writes, and commits waiting operations together; other threads read on their own connections. An awaited write survives
the death of the process; with ``synchronous="FULL"`` also a power failure, at several times the cost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from agent.store import _placing
from agent.store._backup import Backups
from agent.store._changes import SqliteChanges
from agent.store._database import Access, Database, FencedDatabase, OpenDatabase
from agent.store._file import Synchronous
from agent.store._grants import FencedGrants, SqliteAudit, SqliteGrants, revoke_sessions
from agent.store._jobs import Work
from agent.store._leases import SqliteLeases
from agent.store._ledger import SqliteLedger
from agent.store._runs import SqliteInbox, SqliteOrigins, SqliteRuns
from agent.store._sessions import SqliteSessions
from agent.store._shared import Clock
from agent.store._signals import SocketSignals, folder_of
from agent.store._states import SqliteStates
from agent.store._tickets import SqliteTickets
from agent.store._usage import SqliteUsage
from toolcrib.contract.store import CallRecord, Fence, GrantStore, Signals
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from agent.store._artifacts import SqliteArtifacts, StoredContents
    from agent.store._cron import SqliteCron
    from agent.store._mail import SqliteMail
    from agent.store.search.sqlite import SqliteSearch
    from toolcrib.contract.store import Store

T = TypeVar("T")


class Later:
    """The search of a store, and the contents of its artifacts, loaded on first use."""

    def __init__(self, search: Callable[[], SqliteSearch], artifacts: Callable[[], StoredContents]) -> None:
        self._search = search
        self._artifacts = artifacts

    @cached_property
    def search(self) -> SqliteSearch:
        return self._search()

    @cached_property
    def artifacts(self) -> StoredContents:
        return self._artifacts()

    def close(self) -> None:
        if "search" in vars(self):
            self.search.close()
        if "artifacts" in vars(self):
            self.artifacts.close()


class SqliteView:
    """All members of a store, over an access that may carry a lease. ``elsewhere`` is another store for its grants, if any."""

    def __init__(
        self,
        database: OpenDatabase,
        access: Access,
        clock: Clock,
        signals: Signals,
        later: Later,
        elsewhere: GrantStore | None = None,
    ) -> None:
        self._database = database
        self._clock = clock
        self.signals = signals
        self.ledger = SqliteLedger(access, clock)
        self.tickets = SqliteTickets(access, database, clock)
        self._elsewhere = elsewhere
        self.grants: GrantStore = SqliteGrants(access) if elsewhere is None else FencedGrants(elsewhere, access)
        self.audit = SqliteAudit(access)
        self.sessions = SqliteSessions(access, clock)
        self.changes = SqliteChanges(access)
        self.leases = SqliteLeases(database)
        self.runs = SqliteRuns(access, clock)
        self.inbox = SqliteInbox(database, clock)
        self.usage = SqliteUsage(database)
        self.origins = SqliteOrigins(access)
        self.state = SqliteStates(access, clock)
        self._later = later
        self._access = access

    @property
    def search(self) -> SqliteSearch:
        return self._later.search

    @cached_property
    def artifacts(self) -> SqliteArtifacts:
        from agent.store._artifacts import SqliteArtifacts

        return SqliteArtifacts(self._access, self._later.artifacts, self._clock)

    @cached_property
    def mail(self) -> SqliteMail:
        from agent.store._mail import SqliteMail

        return SqliteMail(self._database, self._clock)

    @cached_property
    def cron(self) -> SqliteCron:
        from agent.store._cron import SqliteCron

        return SqliteCron(self._database, self._clock)

    def fenced(self, fence: Fence) -> SqliteView:
        access = FencedDatabase(self._database, fence)
        return SqliteView(self._database, access, self._clock, self.signals, self._later, self._elsewhere)

    async def recover(self, session_id: str) -> Sequence[CallRecord]:
        """Return the calls that this ended: see toolcrib.contract.store.Store.recover. Without a lease it ends none."""
        return await self.ledger.recover(session_id)

    async def old(self, before: float) -> int:
        """Return how many sessions ``prune`` would delete."""
        from agent.store._pruning import count_old

        return await count_old(self._database, before)

    async def prune(self, before: float) -> int:
        """See toolcrib.contract.store.Store.prune. A session with a waiting message stays, too."""
        from agent.store._pruning import prune

        return await prune(self._database, self.search, self._later.artifacts, self._clock, before)

    async def delete(self, session_ids: Collection[str]) -> Sequence[str]:
        """See toolcrib.contract.store.Store.delete."""
        from agent.store._pruning import delete

        deleted = await delete(self._database, self.search, self._later.artifacts, self._clock, session_ids)
        if self._elsewhere is not None:
            await revoke_sessions(self._elsewhere, deleted)
        return deleted

    async def saying(self, says: Callable[[str], bool]) -> Sequence[str]:
        """See toolcrib.contract.store.Store.saying."""
        from agent.store._saying import saying

        return await saying(self._database, says)

    async def free(self) -> bool:
        """See toolcrib.contract.store.Store.free."""
        from agent.store._pruning import free

        return await free(self._database)

    async def rewrite_prompts(self, text: str, rewrite: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> Sequence[str]:
        """See toolcrib.contract.store.Store.rewrite_prompts."""
        from agent.store._pruning import rewrite_prompts

        return await rewrite_prompts(self._database, text, rewrite)

    def close(self) -> None:
        """Do nothing: the store behind this view is closed by its owner."""


class SqliteStore(SqliteView):
    """Implements toolcrib.contract.store.Store. Close it at the end; after a fork, open another.

    The file and missing folders are created, readable by their owner only. Raises StoreFailed, here and in every method, for a
    file that cannot be used, is another program's, or was written by a newer toolcrib; the file is not changed. ``late``: the
    file is opened on the first read or write, for callers that may not need it, or that run an event loop. ``backups``: keep
    backups beside the file, see _backup. ``evidence``: files that exist only if the store was used before, so that an emptied
    file does not count as a new one.
    """

    def __init__(
        self,
        path: Path,
        *,
        synchronous: Synchronous = "NORMAL",
        clock: Clock = time.time,
        late: bool = False,
        backups: bool = False,
        evidence: Sequence[Path] = (),
    ) -> None:
        self.path = _placing.real(Path(path))
        kept = Backups(self.path) if backups else None
        database = Database(self.path, synchronous, late=late, backups=kept, evidence=evidence)
        self._sockets = SocketSignals(folder_of(self.path))
        later = Later(partial(_search_of, database), partial(_contents_of, database))
        super().__init__(database, database, clock, self._sockets, later)

    async def read(self, work: Work[T]) -> T:
        """Run ``work`` on a read-only connection."""
        return await self._database.read(work)

    def close(self) -> None:
        """Wait until earlier writes are done, then close. Closing again does nothing; using a closed store raises StoreFailed.

        Blocks: call it in a thread if an event loop runs.
        """
        self._sockets.close()
        self._later.close()
        self._database.close()


def _search_of(database: Database) -> SqliteSearch:
    from agent.store.search.sqlite import SqliteSearch

    return SqliteSearch(database)


def _contents_of(database: Database) -> StoredContents:
    from agent.store._artifacts import ArtifactContents

    return ArtifactContents(database)


if TYPE_CHECKING:

    def _conforms(store: SqliteStore, view: SqliteView) -> tuple[Store, Store]:
        return store, view
