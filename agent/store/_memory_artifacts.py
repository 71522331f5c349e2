"""Artifacts for one process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.store._memory_room import MemoryMember, Room
from toolcrib.contract.artifacts import KeptArtifact
from tools.undo.contents import digest_of

if TYPE_CHECKING:
    from agent.store._memory_sessions import MemorySessions
    from toolcrib.contract.artifacts import ArtifactStore
    from toolcrib.contract.search import SearchFilter


class MemoryArtifacts(MemoryMember):
    def __init__(self, room: Room | None = None, sessions: MemorySessions | None = None) -> None:
        super().__init__(room)
        self._contents: dict[str, bytes] = {}
        self._used: dict[str, dict[str, int]] = {}
        self._since: dict[tuple[str, str], float] = {}
        self._sessions = sessions

    async def put(self, session_id: str, data: bytes) -> str:
        digest = digest_of(data)
        with self._writing:
            self._contents[digest] = bytes(data)
            self._refer(session_id, {digest: len(data)})
        return digest

    async def get(self, session_id: str, digest: str) -> bytes | None:
        with self._reading:
            found = [one for one in self._used.get(session_id, {}) if one.startswith(digest)]
            return self._contents.get(found[0]) if len(found) == 1 else None

    async def of(self, session_id: str) -> Mapping[str, int]:
        with self._reading:
            return dict(self._used.get(session_id, {}))

    async def newest(self, where: SearchFilter, limit: int) -> Sequence[KeptArtifact]:
        from agent.store.search.memory import fits

        found: list[KeptArtifact] = []
        with self._reading:
            for (session_id, digest), at in reversed(self._since.items()):
                info = None if self._sessions is None else self._sessions.info_of(session_id)
                if info is not None and fits(info, at, where):
                    found.append(KeptArtifact(session_id, info.title, digest, self._used[session_id][digest], at))
        return found[:limit]

    async def share(self, session_id: str, other: str) -> None:
        with self._writing:
            self._refer(other, self._used.get(session_id, {}))

    def _refer(self, session_id: str, digests: Mapping[str, int]) -> None:
        used = self._used.setdefault(session_id, {})
        for digest, size in digests.items():
            if digest not in used:
                used[digest] = size
                self._since[session_id, digest] = self._room.clock()

    def forget_sessions(self, session_ids: Collection[str]) -> None:
        """Forget what these sessions refer to, and what nobody refers to any more. For who holds the lock."""
        for session_id in session_ids:
            for digest in self._used.pop(session_id, {}):
                del self._since[session_id, digest]
        used = {digest for of in self._used.values() for digest in of}
        for digest in self._contents.keys() - used:
            del self._contents[digest]


if TYPE_CHECKING:

    def _conforms(artifacts: MemoryArtifacts) -> ArtifactStore:
        return artifacts
