"""Artifacts: results too large for a conversation, by their digests. ``agent/store`` implements the protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

PREFIX = "artifact:"
"""Begin of an artifact's name, as the model reads it; the first 16 digits of its digest follow."""
MOST_BYTES = 64 * 1024 * 1024
"""Size of the largest artifact."""


class ArtifactStore(Protocol):
    """Contents that sessions refer to. Equal ones are kept once, and as long as a session refers to them."""

    async def put(self, session_id: str, data: bytes) -> str:
        """Keep it, and let the session refer to it. Return its digest: SHA-256 in hexadecimal."""
        ...

    async def get(self, session_id: str, digest: str) -> bytes | None:
        """Return what the session refers to by a digest, or by the beginning of one that no other of its artifacts has. None
        where it refers to none, or the content is gone. Raises StoreFailed for a content that is not what its digest says.
        """
        ...

    async def of(self, session_id: str) -> Mapping[str, int]:
        """Return the digests that a session refers to, in order, with the sizes in bytes."""
        ...

    async def share(self, session_id: str, other: str) -> None:
        """Let ``other`` refer to all that the session refers to: what it took over names them."""
        ...
