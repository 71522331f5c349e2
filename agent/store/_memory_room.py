"""The state that the members of a memory store share: one lock, and the leases that guard their writes."""

from __future__ import annotations

import copy
import itertools
import threading
import time
from collections.abc import Iterator
from dataclasses import field
from typing import TypeVar

from agent.store._owner import is_dead
from agent.store._shared import Clock, lost
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.store import Fence, Lease

Member = TypeVar("Member", bound="MemoryMember")


@dataclass(slots=True)
class Room:
    """``leases`` holds the last lease of each name, and when it lapses by the monotonic clock."""

    clock: Clock = time.time
    lock: threading.RLock = field(default_factory=threading.RLock)
    leases: dict[str, tuple[Lease, float]] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))


class RoomGuard:
    """A context in which nobody else reads or writes. Entering raises LeaseLost where the fence's lease was taken by another."""

    __slots__ = ("_fence", "_room")

    def __init__(self, room: Room, fence: Fence | None = None) -> None:
        self._room = room
        self._fence = fence

    @property
    def token(self) -> int:
        lease = None if self._fence is None else self._fence.lease
        return 0 if lease is None else lease.token

    def check(self) -> None:
        lease = None if self._fence is None else self._fence.lease
        if lease is not None:
            held = self._room.leases.get(lease.name)
            if held is None or held[0].token != lease.token:
                raise lost(lease)

    def __enter__(self) -> None:
        self._room.lock.acquire()
        try:
            self.check()
        except BaseException:
            self._room.lock.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._room.lock.release()


class MemoryMember:
    """A part of the store; its views share what it holds, so that this is changed in place."""

    def __init__(self, room: Room | None = None) -> None:
        self._room = Room() if room is None else room
        self._reading = self._room.lock
        self._writing = RoomGuard(self._room)

    def fenced(self: Member, fence: Fence) -> Member:
        view = copy.copy(self)
        view._writing = RoomGuard(self._room, fence)
        return view


class MemoryLeases(MemoryMember):
    async def take(self, name: str, owner: str, seconds: float) -> Lease | None:
        with self._reading:
            held = self._room.leases.get(name)
            if held is not None and self._lasts(held):
                return None
            lease = Lease(name, 1 if held is None else held[0].token + 1, owner, seconds)
            self._room.leases[name] = lease, time.monotonic() + seconds
            return lease

    async def renew(self, lease: Lease) -> bool:
        return self._set(lease, time.monotonic() + lease.seconds)

    async def release(self, lease: Lease) -> None:
        self._set(lease, float("-inf"))

    async def holder(self, name: str) -> str | None:
        with self._reading:
            held = self._room.leases.get(name)
            return held[0].owner if held is not None and self._lasts(held) else None

    def _set(self, lease: Lease, lapses_at: float) -> bool:
        with self._reading:
            held = self._room.leases.get(lease.name)
            if held is None or held[0].token != lease.token:
                return False
            self._room.leases[lease.name] = replace(held[0], seconds=lease.seconds), lapses_at
            return True

    def _lasts(self, held: tuple[Lease, float]) -> bool:
        return time.monotonic() < held[1] and not is_dead(held[0].owner)
