"""Artifacts: results too large for a conversation, stored by digest. ``agent/store`` implements the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from toolcrib.contract.dataclass import dataclass

if TYPE_CHECKING:
    from toolcrib.contract.search import SearchFilter

PREFIX = "artifact:"
"""Prefix of an artifact's name, as the model reads it; the first 16 digits of its digest follow."""
MOST_BYTES = 64 * 1024 * 1024
"""Maximum size of an artifact, in bytes."""
DIGITS = 16
"""Number of a digest's digits in a name. No two artifacts of a session have the same name."""


def name_of(digest: str) -> str:
    """Return the name of the artifact with that digest."""
    return f"{PREFIX}{digest[:DIGITS]}"


@dataclass(frozen=True, slots=True)
class KeptArtifact:
    """An artifact that a session has referred to since ``at``, in Unix seconds; ``size`` in bytes."""

    session_id: str
    title: str
    digest: str
    size: int
    at: float

    @property
    def name(self) -> str:
        """The artifact's name, as models and people read it."""
        return name_of(self.digest)


class ArtifactStore(Protocol):
    """Contents that sessions refer to. Equal contents are stored once, and kept while a session refers to them."""

    async def put(self, session_id: str, data: bytes) -> str:
        """Store the data, record that the session refers to it, and return its digest: SHA-256 in hexadecimal."""
        ...

    async def get(self, session_id: str, digest: str) -> bytes | None:
        """Return the content of the session's artifact with this digest, or with this unique beginning of a digest. Return None
        if the session refers to no such artifact, or if the content is gone. Raises StoreFailed for content that does not match
        its digest.
        """
        ...

    async def of(self, session_id: str) -> Mapping[str, int]:
        """Return the digests that a session refers to, in order, with their sizes in bytes."""
        ...

    async def newest(self, where: SearchFilter, limit: int) -> Sequence[KeptArtifact]:
        """Return at most ``limit`` artifacts that sessions refer to, the newest first. The filter's times apply to ``at``; its
        roles are ignored.
        """
        ...

    async def share(self, session_id: str, other: str) -> None:
        """Make ``other`` refer to all artifacts of the session, because ``other`` took over messages that name them."""
        ...
