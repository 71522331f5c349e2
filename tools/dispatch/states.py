"""State that calls read and change. A call's writes are all stored or none; outdated writes raise an error (002-14, 32)."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from toolcrib.contract.context import give_own_state, give_shared_state, own_state, shared_state
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import Denied, StateConflict
from toolcrib.contract.state import SCOPES, SHARED, StateKey, StateScope, StateUpdate, StateValue, StateWrite
from tools.clip import encode

if TYPE_CHECKING:
    from toolcrib.contract.state import StateStore
    from tools.dispatch.progress import CallInProgress
    from tools.dispatch.scope import CallScope

_ATTEMPTS = 100
"""Maximum number of attempts to store a call's changes: an attempt fails if another call writes at the same moment."""
_NONE = StateValue(None, 0)
Given: TypeAlias = "Iterable[tuple[StateKey[Any] | str, Any]]"


class MemoryStates:
    """State in this process's memory; thread-safe. Its coroutines never suspend."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[tuple[StateScope, str], dict[str, StateValue]] = {}

    async def of(self, scope: StateScope, owner: str) -> Mapping[str, StateValue]:
        with self._lock:
            return dict(self._owners.get((scope, owner), {}))

    async def write(self, writes: Sequence[StateWrite]) -> Sequence[int]:
        values = [json.loads(encode(one.value)) for one in writes]
        with self._lock:
            before = [self._owners.get((one.scope, one.owner), {}).get(one.name, _NONE).version for one in writes]
            if any(one.was not in (None, version) for one, version in zip(writes, before, strict=True)):
                return ()
            for one, value, version in zip(writes, values, before, strict=True):
                self._owners.setdefault((one.scope, one.owner), {})[one.name] = StateValue(value, version + 1)
            return [version + 1 for version in before]


@dataclass(frozen=True, slots=True)
class _Change:
    key: StateKey[Any]
    by: Any
    """A value or a StateUpdate."""

    def made(self, value: Any) -> Any:
        """Return the new value as JSON data. Raises TypeError for a value of the wrong type, and what the update raises."""
        key, new = self.key, self.by.change(_own(value)) if isinstance(self.by, StateUpdate) else self.by
        try:
            new = json.loads(encode(new))
        except (TypeError, ValueError, RecursionError) as error:
            raise TypeError(f"state_changes must be pairs of a name and JSON: {key.name}: {error}") from None
        if new is not None and not isinstance(new, key.type):
            raise TypeError(f"the state {key.name!r} has the type {key.type.__name__}, not {type(new).__name__}")
        return new


def _own(value: Any) -> Any:
    return json.loads(encode(value)) if isinstance(value, dict | list) else value


class CallGroup:
    """The state of calls that run together: one snapshot of each scope."""

    def __init__(self, scope: CallScope) -> None:
        self.state = scope.state
        self.shared: dict[StateScope, Mapping[str, StateValue]] = {}


async def read_shared(current: CallInProgress) -> None:
    """Read the values of the tool's keys that other sessions write too, for the call's snapshot. Raises StoreFailed."""
    group, found = current.group, dict[StateScope, Mapping[str, StateValue]]()
    for scope in current.plan.shared:
        if group is not None and scope in group.shared:
            found[scope] = group.shared[scope]
            continue
        owner = _owner(current.scope, scope)
        found[scope] = {} if owner is None else await current.scope.states.of(scope, owner)
        if group is not None:
            group.shared[scope] = found[scope]
    give_shared_state(current.ctx, MappingProxyType(found))


async def keep_state(current: CallInProgress, given: Given) -> None:
    """Store the state changes of a call, or of a plugin that acts after it: all of them or none.

    Raises TypeError for invalid changes, StateConflict if another call wrote a value that this one must not overwrite, Denied for
    the state of a principal without identity, StoreFailed, and what an update raises.
    """
    changes = _checked(current, given)
    lasting = {place: change for place, change in changes.items() if place[0] != "call"}
    own = {place[1]: change.made(own_state(current.ctx).get(place[1])) for place, change in changes.items() if place[0] == "call"}
    for _ in range(_ATTEMPTS) if lasting else ():
        writes = [await _write(current, change) for change in lasting.values()]
        if versions := await current.scope.states.write(writes):
            _took(current, writes, versions)
            break
        await current.scope.read_state()
    else:
        if lasting:
            raise _conflict(next(iter(lasting))[1])
    if own:
        give_own_state(current.ctx, MappingProxyType({**own_state(current.ctx), **own}))


def _checked(current: CallInProgress, given: Given) -> dict[tuple[StateScope, str], _Change]:
    """Return the changes by scope and name. Raises TypeError."""
    declared = {key.name: key for key in current.plan.entry.state}
    changes: dict[tuple[StateScope, str], _Change] = {}
    try:
        pairs = [(name, by) for name, by in given]
    except (TypeError, ValueError) as error:
        raise TypeError(f"state_changes must be pairs of a name and JSON: {error}") from None
    for name, by in pairs:
        key = declared.get(name, StateKey(name, object)) if isinstance(name, str) else name
        if not isinstance(key, StateKey) or not isinstance(key.name, str):
            raise TypeError(f"state_changes must be pairs of a name and JSON: {name!r} is neither a StateKey nor a name")
        if key.scope not in SCOPES:
            raise TypeError(f"the state {key.name!r} is of scope {key.scope!r}; use {', '.join(SCOPES)}")
        changes[key.scope, key.name] = _Change(key, by)
    return changes


async def _write(current: CallInProgress, change: _Change) -> StateWrite:
    """Return the write, with the version that it must replace, if any. Raises the same errors as ``keep_state``."""
    key, scope, updates = change.key, current.scope, isinstance(change.by, StateUpdate)
    owner = _owner(scope, key.scope)
    if owner is None:
        raise Denied(f"the state {key.name!r} belongs to a user, but this call has no user")
    seen = _seen(current, key)
    if key.scope == "session":
        found = StateValue(scope.state.get(key.name), scope.state.versions.get(key.name, 0))
        is_guarded = key.exclusive
    else:
        found = (await scope.states.of(key.scope, owner)).get(key.name, _NONE)
        is_guarded = key.exclusive or not updates
        if seen is None and is_guarded:
            how = "register the tool with it, state=[...]" + ("" if key.exclusive else ", or give a StateUpdate")
            raise TypeError(f"the state {key.name!r} of scope {key.scope} is written by others too: {how}")
    if is_guarded and seen != found.version:
        raise _conflict(key.name)
    was = found.version if updates or is_guarded else None
    return StateWrite(key.scope, owner, key.name, change.made(found.value), was)


def _seen(current: CallInProgress, key: StateKey[Any]) -> int | None:
    """Return the version that the call has read or since written; None if it has not read the value."""
    wrote = (current.wrote or {}).get((key.scope, key.name))
    if wrote is not None:
        return wrote
    if key.scope == "session":
        return current.ctx.snapshot.versions.get(key.name, 0)
    values = shared_state(current.ctx).get(key.scope)
    return None if values is None else values.get(key.name, _NONE).version


def _took(current: CallInProgress, writes: Sequence[StateWrite], versions: Sequence[int]) -> None:
    wrote = {(one.scope, one.name): version for one, version in zip(writes, versions, strict=True)}
    current.wrote = {**(current.wrote or {}), **wrote}
    kept = zip(writes, versions, strict=True)
    current.scope.take_state({one.name: StateValue(one.value, version) for one, version in kept if one.scope == "session"})


def _owner(scope: CallScope, of: StateScope) -> str | None:
    """Return the owner of the state; None if the call's principal has no identity."""
    identity = scope.identity
    if of == "session":
        return identity.session_id
    if of == "profile":
        return scope.profile
    assert of in SHARED  # noqa: S101 - a call's own state is not stored here
    who = identity.principal
    return None if not who.user and not who.is_local else who.key


if TYPE_CHECKING:

    def _conforms(states: MemoryStates) -> StateStore:
        return states


def _conflict(name: str) -> StateConflict:
    return StateConflict(
        f"another call changed the state {name!r} at the same time, so this call's changes of the state were dropped;"
        " its other effects remain. Check the current state, and call again if needed"
    )
