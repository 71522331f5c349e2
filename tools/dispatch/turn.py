"""All calls of one turn: what may run together does, the rest in order, and every call gets exactly one result (003-31)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from itertools import groupby
from typing import Any, TypeVar

from toolcrib import Cancelled, Denied, ExecutedCall, ToolCall, ToolCallStatus
from tools.dispatch.after import run_later
from tools.dispatch.faces import failed
from tools.dispatch.pipeline import Dispatcher
from tools.dispatch.run import Run
from tools.dispatch.scope import CallScope

R = TypeVar("R")


async def run_turn(
    dispatcher: Dispatcher,
    calls: Sequence[ToolCall],
    scope: CallScope,
    *,
    on_start: Callable[[ToolCall], None] = lambda call: None,
    on_done: Callable[[ExecutedCall], None] = lambda executed: None,
) -> list[ExecutedCall]:
    """The results, in the order of the calls.

    Neighbouring parallel_safe calls are gated one by one and then run together; any other call is gated right before it
    runs, since an earlier one may have changed what it would do. After a pending result, an ended run or an interrupt the rest
    is not started, and told so. What plugins scheduled for later is done last.
    """
    done: list[ExecutedCall] = []
    runs: list[Run] = []
    stopped: str | None = None
    for together, group in _groups(dispatcher, calls):
        if scope.cancelled:
            stopped = "interrupted before it began"
        if stopped is not None:
            executed = [_not_run(call, stopped) for call in group]
        else:
            begun = [dispatcher.begin(call, scope) for call in group]
            runs += begun
            if together:
                executed = await _together(dispatcher, begun, on_start)
            else:
                on_start(group[0])
                executed = [await asyncio.create_task(dispatcher.whole(begun[0]))]
        for one in executed:
            on_done(one)
        done += executed
        stopped = stopped or _stops(executed)
    await run_later(runs)
    return done


def _groups(dispatcher: Dispatcher, calls: Sequence[ToolCall]) -> Iterator[tuple[bool, list[ToolCall]]]:
    def may_share(call: ToolCall) -> bool:
        entry = dispatcher.registry.get(call.name)
        return entry is not None and entry.parallel_safe and not entry.interactive

    for safe, group in groupby(calls, may_share):
        if safe:
            members = list(group)
            yield len(members) > 1, members
        else:
            yield from ((False, [call]) for call in group)


async def _together(dispatcher: Dispatcher, runs: Sequence[Run], on_start: Callable[[ToolCall], None]) -> list[ExecutedCall]:
    ended: list[ExecutedCall | None] = []
    for run in runs:
        on_start(run.call)
        ended.append(await asyncio.create_task(_entered(run, dispatcher.gate(run))))
    tasks = [asyncio.create_task(_entered(run, dispatcher.act(run))) for run, end in zip(runs, ended, strict=True) if end is None]
    acted = iter(await asyncio.gather(*tasks))
    return [end if end is not None else next(acted) for end in ended]


async def _entered(run: Run, step: Coroutine[Any, Any, R]) -> R:
    task = asyncio.current_task()
    assert task is not None  # noqa: S101 - it was made a task
    run.scope.running.add(task)
    try:
        return await step
    finally:
        run.scope.running.discard(task)


def _stops(executed: Sequence[ExecutedCall]) -> str | None:
    if any(one.end_run for one in executed):
        return "not run: an earlier call ended the run"
    if any(one.result.is_pending for one in executed):
        return "not run: an earlier call of this turn waits for an answer; ask for it again afterwards"
    return None


def _not_run(call: ToolCall, why: str) -> ExecutedCall:
    error = Cancelled(why) if why.startswith("interrupted") else Denied(why)
    status = ToolCallStatus.CANCELLED if isinstance(error, Cancelled) else ToolCallStatus.FAILED
    return ExecutedCall(call, failed(call.name, error, inside=False), status)
