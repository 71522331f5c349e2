"""Old contents of files, by their digests."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Collection
from typing import Protocol


def digest_of(data: bytes) -> str:
    """Return the digest that identifies ``data`` in a store of contents."""
    return hashlib.sha256(data).hexdigest()


class Contents(Protocol):
    """Store of old contents, by digest."""

    async def put(self, digest: str, data: bytes) -> None:
        """Store ``data``, or extend the time that it is kept. Raises StoreFailed."""
        ...

    async def get(self, digest: str) -> bytes | None:
        """Return the content, None if it is not kept. Raises StoreFailed."""
        ...

    async def prune(self) -> None:
        """Remove contents that are too old, then the oldest above the size limit. Raises StoreFailed."""
        ...

    async def drop(self, digests: Collection[str], before: float) -> None:
        """Remove these contents, except contents stored since ``before`` (Unix seconds). Raises StoreFailed."""
        ...

    def close(self) -> None:
        """Close the store."""
        ...


class MemoryContents:
    """Contents in memory, for one process. Above the limit the oldest are deleted first."""

    def __init__(self, max_bytes: int) -> None:
        self._kept: dict[str, bytes] = {}
        self._left = max_bytes
        self._lock = threading.Lock()

    async def put(self, digest: str, data: bytes) -> None:
        with self._lock:
            if digest in self._kept:
                self._kept[digest] = self._kept.pop(digest)  # move it to the end, as last used
                return
            self._kept[digest] = data
            self._left -= len(data)
            while self._left < 0 and len(self._kept) > 1:
                self._left += len(self._kept.pop(next(iter(self._kept))))

    async def get(self, digest: str) -> bytes | None:
        return self._kept.get(digest)

    async def prune(self) -> None:
        """Do nothing: contents above the limit were deleted when stored, and nothing outlives the process."""

    async def drop(self, digests: Collection[str], before: float) -> None:
        """Remove these contents at once: no other process uses this store."""
        with self._lock:
            self._left += sum(len(self._kept.pop(digest, b"")) for digest in digests)

    def close(self) -> None:
        """Do nothing: contents are kept as long as this object."""
