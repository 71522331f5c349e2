"""Artifacts for one process."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from agent.store._memory_room import MemoryMember, Room
from tools.undo.contents import digest_of

if TYPE_CHECKING:
    from toolcrib._artifacts import ArtifactStore


class MemoryArtifacts(MemoryMember):
    def __init__(self, room: Room | None = None) -> None:
        super().__init__(room)
        self._contents: dict[str, bytes] = {}
        self._used: dict[str, dict[str, int]] = {}

    async def put(self, session_id: str, data: bytes) -> str:
        digest = digest_of(data)
        with self._writing:
            self._contents[digest] = bytes(data)
            self._used.setdefault(session_id, {}).setdefault(digest, len(data))
        return digest

    async def get(self, session_id: str, digest: str) -> bytes | None:
        with self._reading:
            found = [one for one in self._used.get(session_id, {}) if one.startswith(digest)]
            return self._contents.get(found[0]) if len(found) == 1 else None

    async def of(self, session_id: str) -> Mapping[str, int]:
        with self._reading:
            return dict(self._used.get(session_id, {}))

    async def share(self, session_id: str, other: str) -> None:
        with self._writing:
            self._used[other] = {**self._used.get(other, {}), **self._used.get(session_id, {})}

    def forget_sessions(self, session_ids: Collection[str]) -> None:
        """Forget what these sessions refer to, and what nobody refers to any more. For who holds the lock."""
        for session_id in session_ids:
            self._used.pop(session_id, None)
        used = {digest for of in self._used.values() for digest in of}
        for digest in self._contents.keys() - used:
            del self._contents[digest]


if TYPE_CHECKING:

    def _conforms(artifacts: MemoryArtifacts) -> ArtifactStore:
        return artifacts
