"""Artifacts: results too large for a conversation, by their digests. ``agent/store`` implements the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from toolcrib.contract.dataclass import dataclass

if TYPE_CHECKING:
    from toolcrib.contract.search import SearchFilter

PREFIX = "artifact:"
"""Begin of an artifact's name, as the model reads it; the first 16 digits of its digest follow."""
MOST_BYTES = 64 * 1024 * 1024
"""Size of the largest artifact."""
DIGITS = 16
"""Digits of a digest in a name: no two artifacts of a session have the same."""


def name_of(digest: str) -> str:
    """Return the name of the artifact with that digest."""
    return f"{PREFIX}{digest[:DIGITS]}"


@dataclass(frozen=True, slots=True)
class KeptArtifact:
    """An artifact that a session refers to since ``at``, in Unix seconds; ``size`` in bytes."""

    session_id: str
    title: str
    digest: str
    size: int
    at: float

    @property
    def name(self) -> str:
        """The name by which models and people read it."""
        return name_of(self.digest)


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

    async def newest(self, where: SearchFilter, limit: int) -> Sequence[KeptArtifact]:
        """Return what sessions refer to, the newest first. The filter's times are those since which; roles don't count."""
        ...

    async def share(self, session_id: str, other: str) -> None:
        """Let ``other`` refer to all that the session refers to: what it took over names them."""
        ...
