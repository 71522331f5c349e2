"""The store for one process: a SQLite store in memory, which ends with the process and leaves no file.

Its methods never suspend.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from agent.store._memory_database import MemoryDatabase
from agent.store._shared import Clock
from agent.store.sqlite import Later, SqliteView
from toolcrib.contract.store import GrantStore

if TYPE_CHECKING:
    from agent.store.search.memory import MemorySearch
    from toolcrib.contract.store import Store

_log = logging.getLogger(__name__)


class MemorySignals:
    """Signals within one process; ``send`` returns after all listeners have been called."""

    def __init__(self) -> None:
        self._listeners: dict[object, Callable[[str], None]] = {}

    async def send(self, topic: str) -> None:
        for heard in list(self._listeners.values()):
            try:
                heard(topic)
            except Exception:  # noqa: BLE001 - one listener's failure must not stop the others
                _log.exception("a listener failed on the signal %r", topic)

    def listen(self, heard: Callable[[str], None]) -> Callable[[], None]:
        mark = object()
        self._listeners[mark] = heard
        return lambda: self._listeners.pop(mark, None) and None


class MemoryArtifacts:
    """The contents of artifacts in memory: see StoredContents."""

    def __init__(self, store: MemoryDatabase) -> None:
        self._store = store
        self._contents: dict[str, bytes] = {}

    async def put(self, digest: str, data: bytes) -> None:
        self._contents[digest] = bytes(data)

    async def get(self, digest: str) -> bytes | None:
        return self._contents.get(digest)

    async def sweep(self) -> None:
        def work(connection: sqlite3.Connection) -> None:
            used = {digest for (digest,) in connection.execute("SELECT digest FROM artifacts")}
            for digest in self._contents.keys() - used:
                del self._contents[digest]

        await self._store.read(work)

    def close(self) -> None:
        """Do nothing: the contents live as long as this object."""


class MemoryStore(SqliteView):
    """Implements toolcrib.contract.store.Store; thread-safe. ``grants`` may be another store, such as PermanentGrants.

    ``close`` does nothing: the store is readable as long as it is referenced.
    """

    def __init__(self, grants: GrantStore | None = None, clock: Clock = time.time) -> None:
        database = MemoryDatabase()
        later = Later(partial(search_of, database), partial(MemoryArtifacts, database))
        super().__init__(database, database, clock, MemorySignals(), later, grants)
        if grants is not None:
            self.grants = grants


def search_of(database: MemoryDatabase) -> MemorySearch:
    """Return an index in memory."""
    from agent.store.search.memory import MemorySearch

    return MemorySearch(database)


if TYPE_CHECKING:

    def _conforms(store: MemoryStore) -> Store:
        return store
