"""The index of a store in memory."""

from __future__ import annotations

from agent.store._memory_database import MemoryDatabase
from agent.store.search.sqlite import TABLES, SqliteSearch


class MemorySearch(SqliteSearch):
    """An index in memory, without a file."""

    def discard(self) -> None:
        """Delete the index."""
        self._opened = None

    def _is_made(self) -> bool:
        return self._opened is not None

    def _open(self) -> MemoryDatabase:
        return MemoryDatabase(TABLES)
