"""Protocol of the stored origins of a session's files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from toolcrib.contract.records import NO_ENTRIES


class OriginStore(Protocol):
    """Origins of a session's files, as its judge found them: bits of ``Taint`` by absolute path. Entries are never evicted."""

    async def of(self, session_id: str) -> Mapping[str, int]:
        """Return the stored origins of a session."""

    async def copies(self, session_id: str) -> Mapping[str, str]: ...

    async def remember(self, session_id: str, origins: Mapping[str, int], copies: Mapping[str, str] = NO_ENTRIES) -> None:
        """Add these bits to the known bits of each path, and record the path that each is a copy of ("": not a copy)."""
