"""State that calls read and write under typed keys, and the protocol of what keeps it. ``agent/store`` implements it."""

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
"""Scopes whose values other sessions write too, perhaps in other processes."""


@dataclass(frozen=True, slots=True)
class StateKey(Generic[T]):
    """A typed name in the state: ``PREFS = StateKey("prefs", dict, scope="principal")``. Its values are JSON of ``type``.

    ``scope`` says what a value belongs to. "call": this call, until it has ended, also while it waits for an answer. "session":
    the session. "principal": the person whom calls act for, in all of their sessions. "profile": everybody who uses this profile
    of the configuration.

    ``exclusive``: of calls that write it at the same time the first counts, and the result of the others is a StateConflict.
    """

    name: str
    type: type[T]
    scope: StateScope = "session"
    exclusive: bool = False


@dataclass(frozen=True, slots=True)
class StateUpdate:
    """A change to a value as it is at that moment: ``change`` gets the value, None where there is none, and returns the new one.

    Nothing that others write meanwhile is lost: then it is called again with their value. It does nothing else.
    """

    change: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class StateValue:
    """A value as it is kept. ``version`` counts how often it was written, from 1."""

    value: Any
    version: int


@dataclass(frozen=True, slots=True)
class StateWrite:
    """A value to keep. ``owner`` is the session's id, the principal's key or the profile's name.

    ``was`` is the version that it replaces: 0 for none, None for whichever there is.
    """

    scope: StateScope
    owner: str
    name: str
    value: Any
    was: int | None = None


class StateStore(Protocol):
    """Values of sessions, principals and profiles, by name. Those of a call lie with the call: see CallRecord."""

    async def of(self, scope: StateScope, owner: str) -> Mapping[str, StateValue]:
        """Return all that is kept of an owner."""
        ...

    async def write(self, writes: Sequence[StateWrite]) -> Sequence[int]:
        """Keep all of them, and return their versions; or none of them, and (), where one was not the version that is there."""
        ...


class StateSnapshot(FrozenDict):
    """Values of a session by name at one moment, read-only all the way down. ``versions`` are those that its store gave them."""

    __slots__ = ("versions",)

    versions: Mapping[str, int]

    @classmethod
    def of(cls, found: Mapping[str, StateValue]) -> StateSnapshot:
        """Make one of what a store has."""
        made = cls({name: freeze(one.value) for name, one in found.items() if one.value is not None})
        made.versions = {name: one.version for name, one in found.items()}
        return made


NO_STATE = StateSnapshot.of({})


def typed(key: StateKey[T], value: Any) -> T | None:
    """Return a copy of the value that belongs to the caller, or None where it is not of the key's type."""
    if not isinstance(value, key.type):
        return None
    return cast("T", copy.deepcopy(value)) if isinstance(value, dict | list) else value
