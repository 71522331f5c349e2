"""State that calls read and write under typed keys, and the protocol of its store. ``agent/store`` implements it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar, cast

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.frozen import FrozenDict, freeze

T = TypeVar("T")
StateScope: TypeAlias = Literal["call", "session", "principal", "profile"]
SCOPES: tuple[StateScope, ...] = ("call", "session", "principal", "profile")
SHARED: frozenset[StateScope] = frozenset({"principal", "profile"})
"""Scopes whose values other sessions also write, perhaps in other processes."""


@dataclass(frozen=True, slots=True)
class StateKey(Generic[T]):
    """A typed name in the state: ``PREFS = StateKey("prefs", dict, scope="principal")``. Its values are JSON of ``type``.

    ``scope`` is the owner of a value. "call": this call until its end, including while it waits for an answer. "session": the
    session. "principal": the principal that calls act for, in all of its sessions. "profile": all users of this profile of the
    configuration.

    ``exclusive``: if several calls write it at the same time, the first one wins, and the results of the others are
    StateConflict.
    """

    name: str
    type: type[T]
    scope: StateScope = "session"
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """A change to the current value: ``change`` gets the value, or None if there is none, and returns the new one.

    If another write came first, ``change`` is called again with the newer value, so that no write is lost. It must have no side
    effects.
    """

    change: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class StateValue:
    """A stored value. ``version`` counts how often it was written, from 1."""

    value: Any
    version: int


@dataclass(frozen=True, slots=True)
class StateWrite:
    """A value to store. ``owner`` is the session's id, the principal's key or the profile's name.

    ``was`` is the version that it replaces: 0 for none, None for any.
    """

    scope: StateScope
    owner: str
    name: str
    value: Any
    was: int | None = None


class StateStore(Protocol):
    """Values of sessions, principals and profiles, by name. Values of a call are stored with the call: see CallRecord."""

    async def of(self, scope: StateScope, owner: str) -> Mapping[str, StateValue]:
        """Return all values of an owner."""
        ...

    async def write(self, writes: Sequence[StateWrite]) -> Sequence[int]:
        """Store all values and return their versions. If one ``was`` is not the current version, store none and return ()."""
        ...


class StateSnapshot(FrozenDict):
    """Values of a session by name at one moment, deeply read-only. ``versions`` are those of its store."""

    __slots__ = ("versions",)

    versions: Mapping[str, int]

    @classmethod
    def of(cls, found: Mapping[str, StateValue]) -> StateSnapshot:
        """Return a snapshot of a store's values."""
        made = cls({name: freeze(one.value) for name, one in found.items() if one.value is not None})
        made.versions = {name: one.version for name, one in found.items()}
        return made


NO_STATE = StateSnapshot.of({})


def typed(key: StateKey[T], value: Any) -> T | None:
    """Return the value as a copy that the caller may change, or None if it is not of the key's type."""
    if not isinstance(value, key.type):
        return None
    return cast("T", copy.deepcopy(value)) if isinstance(value, dict | list) else value
