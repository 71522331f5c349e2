"""Plugin hooks around runs: sessions that begin and end, requests to a model. They observe, and none can stop a run."""

from __future__ import annotations

import asyncio
import inspect
import logging
import traceback
from typing import Any

from toolcrib.contract.private import Private
from tools.dispatch.hooks import HookManager
from tools.dispatch.scope import CallScope

_log = logging.getLogger(__name__)


async def call_hook(hooks: HookManager, hook: str, scope: CallScope, **values: Any) -> None:
    """Call ``hook`` of every plugin that has it, one after another. An error or a timeout is logged, and the run continues."""
    for observer in hooks.in_order(hook):
        try:
            seen = observer.function(*[values[name] for name in observer.argnames])
            if inspect.isawaitable(seen):
                async with asyncio.timeout(scope.limits.gate_seconds):
                    await seen
        except BaseException as error:
            if _is_ours(error):
                raise
            trace = scope.redactor.text("".join(traceback.format_exception(error)))
            _log.error("%s of the plugin %r failed; the run continues\n%s", hook, observer.plugin_name, Private(trace))


def _is_ours(error: BaseException) -> bool:
    """Return whether an error ends this task: Ctrl-C, GeneratorExit or its cancellation. Others, even SystemExit, do not."""
    task = asyncio.current_task()
    cancelled = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
    return cancelled or isinstance(error, (KeyboardInterrupt, GeneratorExit))
