"""The complete store on a PostgreSQL server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.store._shared import Clock
from agent.store.postgres._artifacts import PostgresArtifacts
from agent.store.postgres._changes import PostgresChanges
from agent.store.postgres._database import CONNECTIONS, PostgresDatabase
from agent.store.postgres._grants import PostgresAudit, PostgresGrants
from agent.store.postgres._leases import PostgresLeases
from agent.store.postgres._ledger import PostgresLedger
from agent.store.postgres._pruning import count_old, delete, prune, rewrite_prompts, saying
from agent.store.postgres._runs import PostgresInbox, PostgresOrigins, PostgresRuns
from agent.store.postgres._sessions import PostgresSessions
from agent.store.postgres._signals import PostgresSignals
from agent.store.postgres._states import PostgresStates
from agent.store.postgres._tickets import PostgresTickets
from agent.store.postgres._usage import PostgresUsage
from agent.store.postgres.address import Address, require_psycopg
from toolcrib.contract.store import CallRecord, Fence
from toolcrib.contract.types import Json

if TYPE_CHECKING:
    from agent.store.postgres._cron import PostgresCron
    from agent.store.postgres._mail import PostgresMail
    from agent.store.postgres._search import PostgresSearch
    from toolcrib.contract.store import Store


class _View:
    """The store as seen by a session whose writes carry a lease; without a fence, as seen by other callers."""

    def __init__(self, database: PostgresDatabase, signals: PostgresSignals, fence: Fence | None) -> None:
        self._database = database
        self.signals = signals
        self.ledger = PostgresLedger(database, fence)
        self.tickets = PostgresTickets(database, fence)
        self.grants = PostgresGrants(database, fence)
        self.audit = PostgresAudit(database, fence)
        self.sessions = PostgresSessions(database, fence)
        self.changes = PostgresChanges(database, fence)
        self.leases = PostgresLeases(database)
        self.runs = PostgresRuns(database, fence)
        self.inbox = PostgresInbox(database)
        self.usage = PostgresUsage(database)
        self.origins = PostgresOrigins(database, fence)
        self.state = PostgresStates(database, fence)
        self.artifacts = PostgresArtifacts(database, fence)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self._database.address)!r})"

    @property
    def search(self) -> PostgresSearch:
        from agent.store.postgres._search import PostgresSearch

        return PostgresSearch(self._database)

    @property
    def mail(self) -> PostgresMail:
        from agent.store.postgres._mail import PostgresMail

        return PostgresMail(self._database)

    @property
    def cron(self) -> PostgresCron:
        from agent.store.postgres._cron import PostgresCron

        return PostgresCron(self._database)

    def fenced(self, fence: Fence) -> Store:
        return FencedView(self._database, self.signals, fence)

    async def recover(self, session_id: str) -> Sequence[CallRecord]:
        """See toolcrib.contract.store.Store.recover."""
        return await self.ledger.recover(session_id)

    async def old(self, before: float) -> int:
        """Return how many sessions ``prune`` would delete."""
        return await count_old(self._database, before)

    async def prune(self, before: float) -> int:
        """See toolcrib.contract.store.Store.prune."""
        return await prune(self._database, before)

    async def delete(self, session_ids: Collection[str]) -> Sequence[str]:
        """See toolcrib.contract.store.Store.delete."""
        return await delete(self._database, session_ids)

    async def saying(self, says: Callable[[str], bool]) -> Sequence[str]:
        """See toolcrib.contract.store.Store.saying."""
        return await saying(self._database, says)

    async def free(self) -> bool:
        """See toolcrib.contract.store.Store.free. The server's autovacuum does this."""
        return True

    async def rewrite_prompts(self, text: str, rewrite: Callable[[Mapping[str, Json]], Mapping[str, Json]]) -> Sequence[str]:
        """See toolcrib.contract.store.Store.rewrite_prompts."""
        return await rewrite_prompts(self._database, text, rewrite)


class FencedView(_View):
    """A store for one session; see toolcrib.contract.store.Store.fenced. Closing it does nothing."""

    def close(self) -> None:
        return None


class PostgresStore(_View):
    """Implements toolcrib.contract.store.Store over a ``postgresql://`` URL, which no message repeats.

    Close it at the end; after a fork, open another. Raises ConfigError for an unreadable URL or a missing psycopg, and
    StoreFailed, here and in every method, if the server is unreachable, refuses, or has the tables of a newer toolcrib; the next
    operation connects again. ``late``: connect on the first read or write. ``clock`` is for tests; by default times are the
    server's. ``connections`` is the maximum number of connections; listening for signals needs one more.
    """

    def __init__(self, url: str, *, late: bool = False, clock: Clock | None = None, connections: int = CONNECTIONS) -> None:
        address = Address(url)
        require_psycopg(address)
        database = PostgresDatabase(address, clock, connections)
        super().__init__(database, PostgresSignals(database), None)
        if not late:
            try:
                database.loop.submit(database.check).result()
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Wait until running writes are done, then close. Closing again does nothing; a closed store raises StoreFailed."""
        self._database.close(self.signals.end)


if TYPE_CHECKING:

    def _conforms(store: PostgresStore, view: FencedView) -> tuple[Store, Store]:
        return store, view
