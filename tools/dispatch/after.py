"""Effects of a result's observers (002-26): state and events at once, and actions when the results are complete."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from toolcrib import ActivityEvent, After
from toolcrib._entry import is_async_callable
from tools.clip import encode
from tools.dispatch.run import Run, limited
from tools.dispatch.threads import in_daemon_thread

_log = logging.getLogger(__name__)


def take(run: Run, said: Iterable[tuple[str, object]]) -> None:
    """Do what every plugin (by name) asks for. An After with anything wrong in it is left out whole, and logged."""
    set_by: dict[str, str] = {}
    state: dict[str, Any] = {}
    events: list[tuple[str, ActivityEvent]] = []
    later: list[tuple[str, Callable[[], object]]] = []
    for plugin, answer in said:
        try:
            after = _checked(answer)
        except BaseException as error:
            run.let_pass(error)
            run.log_failure(error, "what post_tool_call of %r answered on %s is left out", plugin, run.call.name)
            continue
        for name in after.state:
            if name in set_by:
                _log.error(
                    "plugins %r and %r both set the state %r; the first stands",
                    set_by[name],
                    plugin,
                    run.scope.redactor.text(name),
                )
                continue
            set_by[name] = plugin
            state[name] = after.state[name]
        events += [(plugin, event) for event in after.events]
        later += [(plugin, action) for action in after.later]
    if state:
        run.scope.change_state(state)
    _emit(run, events)
    run.later = later


async def run_later(runs: Sequence[Run]) -> None:
    """Do what was scheduled for the time when the results of these calls are complete. An interrupt cuts it short."""
    if not any(run.later for run in runs):
        return
    scope = runs[0].scope
    task = asyncio.create_task(_run_each(runs))
    scope.running.add(task)
    try:
        await task
    except asyncio.CancelledError:
        current = asyncio.current_task()
        if current is not None and current.cancelling():
            raise
        _log.error("interrupted: not all that plugins scheduled for the end of the turn was done")
    finally:
        scope.running.discard(task)


async def _run_each(runs: Sequence[Run]) -> None:
    for run in runs:
        run.inline = False  # a loop drives it from here
        for plugin, action in run.later:
            try:
                await limited(_done(action), run.scope.limits.gate_seconds)
            except BaseException as error:
                run.let_pass(error)
                run.log_failure(error, "what %r scheduled after %s failed; the result stands", plugin, run.call.name)


async def _done(action: Callable[[], object]) -> None:
    given = action() if is_async_callable(action) else await in_daemon_thread(action)
    if inspect.isawaitable(given):
        await given


def _checked(answer: object) -> After:
    """A copy that nobody else can change, its state as JSON has it. Raises TypeError or ValueError, or what reading it raises."""
    if not isinstance(answer, After):
        raise TypeError(f"{type(answer).__name__}; return an After or None")
    state, events, later = dict(answer.state), tuple(answer.events), tuple(answer.later)
    for name in state:
        if not isinstance(name, str):
            raise TypeError(f"state has {type(name).__name__} as a name; names are str")
    for event in events:
        if not isinstance(event, ActivityEvent):
            raise TypeError(f"events has {type(event).__name__}; make an ActivityEvent of it")
    for action in later:
        if not callable(action):
            raise TypeError(f"later has {type(action).__name__}; give functions without arguments, not what they return")
    return After(json.loads(encode(state)) if state else {}, events, later)


def _emit(run: Run, events: Iterable[tuple[str, ActivityEvent]]) -> None:
    sink = run.scope.activity_sink
    if sink is None:
        return
    for plugin, event in events:
        try:
            sink.emit(event)
        except BaseException as error:
            run.let_pass(error)
            run.log_failure(error, "an event of %r after %s could not be told", plugin, run.call.name)
