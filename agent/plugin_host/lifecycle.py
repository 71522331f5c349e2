"""Start and stop plugins and tool sources, each isolated from the others."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextvars
import inspect
import logging
import threading
import traceback
from collections.abc import Callable
from typing import Any

from toolcrib.contract.registry import ToolRegistry
from toolcrib.contract.tool_sources import ToolSources
from tools.dispatch.bridge import run_async
from tools.dispatch.hooks import Hook, HookManager, life_hooks

_log = logging.getLogger(__name__)
START_SECONDS = 30.0
"""Seconds that the start of one plugin, tool source or platform may take."""
STOP_SECONDS = 5.0

_starting: contextvars.ContextVar[bool] = contextvars.ContextVar("toolcrib_starting", default=False)
"""True in the code of a starting plugin: sessions that it opens do not wait until all plugins have started."""


class Lifecycle:
    """The plugins and tool sources of one Crib. The first call of ``start`` starts them; stop them in the same event loop.

    ``failed`` maps a plugin's name to the reason why it did not start. ``redact`` removes secrets from log messages.
    """

    def __init__(self, hooks: HookManager, redact: Callable[[str], str] = str, sources: ToolSources | None = None) -> None:
        self._hooks = hooks
        self._sources = sources or ToolSources(ToolRegistry())
        self._redact = redact
        self._lock = threading.Lock()
        self._begun: concurrent.futures.Future[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._to_stop: list[Hook] = []
        self._known: set[str] = set()
        self.failed: dict[str, str] = {}

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """The event loop of the plugins that must still be stopped; None if there are none."""
        return self._loop if self._to_stop or self._sources.opened() else None

    async def start(self) -> None:
        """Start every plugin and tool source, and return when all have started or failed; their errors are not raised.

        Later calls only wait for the first. A call by a plugin that is starting returns at once.
        """
        begun = self._begun
        if begun is not None and begun.done():
            return
        with self._lock:
            begun, first = self._begun, self._begun is None
            if begun is None:
                begun = self._begun = concurrent.futures.Future()
        if first:
            self._loop = asyncio.get_running_loop()
            task = self._loop.create_task(self._start_all())  # a separate task: it continues if the caller is interrupted
            task.add_done_callback(lambda _: begun.set_result(None))
        elif _starting.get():
            return
        await asyncio.shield(asyncio.wrap_future(begun))

    async def _start_all(self) -> None:
        _starting.set(True)
        stops = {hook.plugin: hook for hook in life_hooks(self._hooks, "on_stop")}
        starts = {hook.plugin: hook for hook in life_hooks(self._hooks, "on_start")}
        for plugin, _ in self._hooks.list_name_plugin():
            if plugin in self._known:
                continue
            self._known.add(plugin)
            if plugin in starts and (why := await self._guarded("on_start", starts[plugin], START_SECONDS)):
                self.failed[plugin] = why
            elif plugin in stops:
                self._to_stop.append(stops[plugin])
        await asyncio.gather(*(self._start_source(name) for name in self._sources.waiting()))

    async def _start_source(self, name: str) -> None:
        """Start a tool source. A failure is reported as a problem of the source, which doctor shows."""
        what = f"start of the tool source {name!r}"
        if why := await guarded(what, lambda: self._sources.start(name), START_SECONDS, self._redact):
            self._sources.report(name, f"it could not be started: {why}")
            await self._stop_source(name)

    async def _stop_source(self, name: str) -> None:
        await guarded(f"stop of the tool source {name!r}", lambda: self._sources.stop(name), STOP_SECONDS, self._redact)

    async def start_new(self) -> None:
        """Start the plugins and tool sources that were added since the start."""
        await self.start()
        await asyncio.get_running_loop().create_task(self._start_all())

    async def stop(self) -> None:
        """Stop the tool sources, then the plugins, the last started first. May be called twice."""
        for name in self._sources.opened():
            await self._stop_source(name)
        stops, self._to_stop = list(reversed(self._to_stop)), []
        for hook in stops:
            await self._guarded("on_stop", hook, STOP_SECONDS)

    def stop_sync(self) -> None:
        """Stop plugins from sync code, as ``stop`` does, in their own event loop if it still runs.

        Code that runs in that loop can't wait for it: then nothing is stopped, and an error is logged.
        """
        loop = self.loop
        if loop is None:
            return
        if loop.is_closed() or not loop.is_running():
            run_async(self.stop())
        elif loop is _running_loop():
            _log.error("plugins are not stopped: close() can't wait in a running event loop; use `await crib.aclose()`")
        else:
            asyncio.run_coroutine_threadsafe(self.stop(), loop).result()

    async def _guarded(self, what: str, hook: Hook, seconds: float) -> str:
        return await guarded(f"{what} of the plugin {hook.plugin!r}", hook.call, seconds, self._redact)


async def guarded(what: str, call: Callable[[], Any], seconds: float, redact: Callable[[str], str] = str) -> str:
    """Call a sync or async function. Log its error and return it on one line; return "" if there is none.

    Raises only Ctrl-C, GeneratorExit and the cancellation of this task.
    """
    try:
        async with asyncio.timeout(seconds) as limit:
            given = call()
            if inspect.isawaitable(given):
                await given
        return ""
    except BaseException as error:
        if _is_ours(error):
            raise
        late = isinstance(error, TimeoutError) and limit.expired()
        text = f"it took longer than {seconds:g} s" if late else redact(f"{type(error).__name__}: {' '.join(str(error).split())}")
        _log.error("%s failed: %s", what, text)
        _log.debug("%s", redact("".join(traceback.format_exception(error))))
        return text


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def _is_ours(error: BaseException) -> bool:
    """Return whether an error ends this task: Ctrl-C, GeneratorExit or its cancellation. All other errors are the plugin's."""
    task = asyncio.current_task()
    cancelled = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0
    return cancelled or isinstance(error, (KeyboardInterrupt, GeneratorExit))
