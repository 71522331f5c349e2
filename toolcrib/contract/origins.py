"""Protocol of what a store remembers of where a session's files came from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from toolcrib.contract.records import NO_ENTRIES


class OriginStore(Protocol):
    """Origins of a session's files, as its judge found them: bits of ``Taint`` by absolute path. Nothing is ever evicted."""

    async def of(self, session_id: str) -> Mapping[str, int]:
        """Return the origins that are remembered for a session."""

    async def copies(self, session_id: str) -> Mapping[str, str]: ...

    async def remember(self, session_id: str, origins: Mapping[str, int], copies: Mapping[str, str] = NO_ENTRIES) -> None:
        """Add these bits to what is known of each path, and set what it is a copy of ("": of nothing)."""
