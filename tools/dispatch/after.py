"""Follow-ups that observers of a result ask for (002-26): state and events at once, actions when all results are complete."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from toolcrib.contract.after import After
from toolcrib.contract.context import ActivityEvent
from toolcrib.contract.entry import is_async_callable
from toolcrib.contract.errors import LeaseLost
from toolcrib.contract.state import StateKey
from tools.dispatch.progress import CallInProgress, limited
from tools.dispatch.states import keep_state
from tools.dispatch.threads import in_daemon_thread

_log = logging.getLogger(__name__)


async def take(current: CallInProgress, said: Iterable[tuple[str, object]]) -> None:
    """Apply what plugins returned: ``said`` has pairs (plugin, value). An After with any error is ignored, and logged.

    Raises LeaseLost.
    """
    set_by: dict[object, str] = {}
    events: list[tuple[str, ActivityEvent]] = []
    later: list[tuple[str, Callable[[], object]]] = []
    for plugin, answer in said:
        try:
            after = _checked(answer)
            state = _first(current, plugin, after.state, set_by)
            if state:
                await keep_state(current, state)
        except LeaseLost:
            raise
        except BaseException as error:
            current.let_pass(error)
            current.log_failure(error, "the result of post_tool_call of %r on %s is ignored", plugin, current.call.name)
            continue
        set_by |= dict.fromkeys(map(_place, dict(state)), plugin)
        events += [(plugin, event) for event in after.events]
        later += [(plugin, action) for action in after.later]
    _emit(current, events)
    current.later = later


async def run_later(calls: Sequence[CallInProgress]) -> None:
    """Run the actions that plugins scheduled to follow the results of these calls. An interrupt stops them."""
    if not any(current.later for current in calls):
        return
    scope = calls[0].scope
    task = asyncio.create_task(_run_each(calls))
    scope.running.add(task)
    try:
        await task
    except asyncio.CancelledError:
        interrupted = asyncio.current_task()
        if interrupted is not None and interrupted.cancelling():
            raise
        _log.error("interrupted: some work that plugins scheduled for the end of the turn was not done")
    finally:
        scope.running.discard(task)


async def _run_each(calls: Sequence[CallInProgress]) -> None:
    for current in calls:
        current.inline = False  # from here on a loop drives the call
        for plugin, action in current.later:
            try:
                await limited(_done(action), current.scope.limits.gate_seconds)
            except BaseException as error:
                current.let_pass(error)
                current.log_failure(
                    error, "work that %r scheduled after %s failed; the result is unchanged", plugin, current.call.name
                )


async def _done(action: Callable[[], object]) -> None:
    given = action() if is_async_callable(action) else await in_daemon_thread(action)
    if inspect.isawaitable(given):
        await given


def _first(
    current: CallInProgress, plugin: str, state: Mapping[StateKey[Any] | str, Any], set_by: Mapping[object, str]
) -> list[tuple[StateKey[Any] | str, Any]]:
    """Return the changes, except for keys that an earlier plugin has set; these are logged."""
    for key in state:
        if first := set_by.get(_place(key)):
            name = current.scope.redactor.text(key if isinstance(key, str) else key.name)
            _log.error("plugins %r and %r both set the state %r; the first value is kept", first, plugin, name)
    return [(key, value) for key, value in state.items() if _place(key) not in set_by]


def _place(key: StateKey[Any] | str) -> object:
    return ("session", key) if isinstance(key, str) else (key.scope, key.name)


def _checked(answer: object) -> After:
    """Return a checked copy of an After. Raises TypeError or ValueError, or any error that reading the answer raises."""
    if not isinstance(answer, After):
        raise TypeError(f"{type(answer).__name__}; return an After or None")
    state, events, later = dict(answer.state), tuple(answer.events), tuple(answer.later)
    for name in state:
        if not isinstance(name, str | StateKey):
            raise TypeError(f"state has {type(name).__name__} as a name; names are str or StateKey")
    for event in events:
        if not isinstance(event, ActivityEvent):
            raise TypeError(f"events has {type(event).__name__}; it must be an ActivityEvent")
    for action in later:
        if not callable(action):
            raise TypeError(f"later has {type(action).__name__}; it must be a function without arguments")
    return After(state, events, later)


def _emit(current: CallInProgress, events: Iterable[tuple[str, ActivityEvent]]) -> None:
    sink = current.scope.activity_sink
    if sink is None:
        return
    for plugin, event in events:
        try:
            sink.emit(event)
        except BaseException as error:
            current.let_pass(error)
            current.log_failure(error, "an event of %r after %s could not be emitted", plugin, current.call.name)
