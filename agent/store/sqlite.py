"""The store on disk: one SQLite file, which several processes may use at once.

One connection behind one lock: a write takes some 40 us, less than handing it to another thread. What was written is
there again after the process was killed; ``synchronous="FULL"`` buys the same for a loss of power, at a few times the cost.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from agent.store._changes import SqliteChanges
from agent.store._database import Database, Synchronous
from agent.store._grants import SqliteAudit, SqliteGrants
from agent.store._ledger import SqliteLedger
from agent.store._pruning import count_old, prune
from agent.store._sessions import SqliteSessions
from agent.store._shared import Clock
from agent.store._tickets import SqliteTickets
from toolcrib._store import CallRecord

if TYPE_CHECKING:
    from toolcrib._store import Store


class SqliteStore:
    """Implements toolcrib._store.Store; thread-safe. Close it at the end; after a fork, open another.

    The file and missing folders are made, for their owner only. Raises StoreFailed, here and in every method, for a file
    that cannot be used, is another program's, or was written by a newer toolcrib; the file is left as it is. ``late``: all that
    happens when something is first read or written, for who may need nothing of it.
    """

    def __init__(self, path: Path, *, synchronous: Synchronous = "NORMAL", clock: Clock = time.time, late: bool = False) -> None:
        self.path = Path(path)
        self._database = Database(self.path, synchronous, late=late)
        self._ledger = SqliteLedger(self._database, clock)
        self._tickets = SqliteTickets(self._database, clock)
        self._grants = SqliteGrants(self._database)
        self._audit = SqliteAudit(self._database)
        self._sessions = SqliteSessions(self._database, clock)
        self._changes = SqliteChanges(self._database)

    @property
    def ledger(self) -> SqliteLedger:
        return self._ledger

    @property
    def tickets(self) -> SqliteTickets:
        return self._tickets

    @property
    def grants(self) -> SqliteGrants:
        return self._grants

    @property
    def audit(self) -> SqliteAudit:
        return self._audit

    @property
    def sessions(self) -> SqliteSessions:
        return self._sessions

    @property
    def changes(self) -> SqliteChanges:
        return self._changes

    def recover(self, session_id: str | None = None) -> Sequence[CallRecord]:
        """End as FAILED the calls that a dead process left under way, of one session or of all, and return them.

        Their results say whether they may have run. Calls of processes that live are left alone, and so are calls whose
        tickets still wait for an answer. A process of another container that shares the file cannot be seen and counts as dead.
        """
        return self._ledger.recover(session_id)

    def old(self, before: float) -> int:
        """How many ``prune`` would forget."""
        return count_old(self._database, before)

    def prune(self, before: float) -> int:
        """Forget the sessions that were last used before that time (Unix seconds) and have no call under way, with their
        messages, calls, audit and grants but permanent ones. How many they were.
        """
        return prune(self._database, before)

    def close(self) -> None:
        """Closing again does nothing; using a closed store raises StoreFailed."""
        self._database.close()


if TYPE_CHECKING:

    def _conforms(store: SqliteStore) -> Store:
        return store
