"""A session, as its calls see it: who asks, what is granted, where things run, who can be asked."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import shutil
import tempfile
import threading
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

from toolcrib import Answer, Environment, EventSink, RunIdentity, SuspendTicket, ToolCallContext
from toolcrib._context import AgentSpec
from toolcrib._entry import Invoke, bind_handler, is_async_callable
from toolcrib._store import CallLedger, TicketStore
from toolcrib._types import Handler, Json
from toolcrib._undo import UndoLog
from tools.clip import MAX_RESULT_CHARS
from tools.redact import Redactor

Asker: TypeAlias = Callable[[SuspendTicket, ToolCallContext], "Answer | Awaitable[Answer | None] | None"]
"""A face that can ask a person, sync or async. None means that nobody answered, which is a no."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds and characters."""

    handler_seconds: float = 300.0
    """For async handlers that declare no ``timeout`` of their own."""
    gate_seconds: float = 10.0
    """For async hooks: a gate that takes longer is closed, an observer is given up."""
    answer_seconds: float | None = None
    """For a person who is asked; after that the answer is no. None waits for ever."""
    result_chars: int = MAX_RESULT_CHARS


@dataclass(kw_only=True, eq=False)
class CallScope:
    """One session's side of the dispatcher. ``close`` it at the end: it owns its environment and its spill folder.

    ``granted`` names the tools that may be called, None for all. Without an ``asker`` a ticket is refused at once, unless
    ``suspends`` says that the answer will come later through ``Dispatcher.resume``.
    ``handlers`` run the agent-loop tools.
    """

    identity: RunIdentity
    open_environment: Callable[[], Environment]
    granted: frozenset[str] | None = None
    asker: Asker | None = None
    suspends: bool = False
    handlers: Mapping[str, Handler] = field(default_factory=dict)
    agent_spec: AgentSpec = field(default_factory=AgentSpec)
    activity_sink: EventSink | None = None
    ledger: CallLedger | None = None
    tickets: TicketStore | None = None
    redactor: Redactor = field(default_factory=lambda: Redactor.of(os.environ))
    limits: Limits = field(default_factory=Limits)
    settings: Mapping[str, Json] = field(default_factory=dict)
    undo: UndoLog | None = None
    keep_spill: bool = False
    """Whether the spill folder outlives the scope, if anything is in it: for a person who was told a path in it."""

    def __post_init__(self) -> None:
        self.state: Mapping[str, Json] = MappingProxyType({})
        self.loop_handlers: Mapping[str, tuple[Invoke, bool]] = {
            name: (bind_handler(handler), is_async_callable(handler)) for name, handler in self.handlers.items()
        }
        self.asker_is_async = self.asker is not None and is_async_callable(self.asker)
        self._environment: Environment | None = None
        self._spill_dir: Path | None = None
        self._lock = threading.Lock()
        self.running: set[asyncio.Task[Any]] = set()
        """Tasks that ``interrupt`` cancels; each is added and taken out by itself."""
        self.asking: set[str] = set()
        """Tickets that somebody is being asked about at this moment."""
        self.cancelled = False

    @property
    def environment(self) -> Environment:
        """Opened at first use. Raises EnvironmentFailed."""
        if self._environment is None:
            with self._lock:
                if self._environment is None:
                    self._environment = self.open_environment()
        return self._environment

    @property
    def where(self) -> str:
        """What the environment calls itself; "" where none was opened."""
        return "" if self._environment is None else self._environment.identity

    @property
    def spill_dir(self) -> Path:
        """Made at first use, private, and gone when the scope is closed or the process ends (see ``keep_spill``)."""
        if self._spill_dir is None:
            with self._lock:
                if self._spill_dir is None:
                    _sweep()
                    owner = "kept" if self.keep_spill else os.getpid()
                    self._spill_dir = Path(tempfile.mkdtemp(prefix=f"toolcrib-{owner}-"))
                    weakref.finalize(self, _remove, self._spill_dir, self.keep_spill)
        return self._spill_dir

    def change_state(self, changes: Mapping[str, Json]) -> None:
        """Replaced as a whole, so that snapshots which were taken stay as they were."""
        self.state = MappingProxyType({**self.state, **changes})

    # -- interrupts ----------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """End the calls that run now, from any thread; each gets a Cancelled result, and calls that wait do not start."""
        if self.cancelled:
            return
        self.cancelled = True
        for task in list(self.running):
            try:
                task.get_loop().call_soon_threadsafe(task.cancel)
            except RuntimeError:  # the loop has closed: so has the task
                continue

    def clear_interrupt(self) -> None:
        """Before the next turn."""
        self.cancelled = False

    async def close(self) -> None:
        """Also withdraws the questions that somebody is being asked."""
        if self.tickets is not None:
            why = "the session ended before there was an answer"
            for ticket_id in list(self.asking):
                self.tickets.settle(Answer(ticket_id, action="cancel", reason=why, by="nobody"), "expired")
        environment, self._environment = self._environment, None
        if environment is not None:
            await environment.close()
        spill_dir, self._spill_dir = self._spill_dir, None
        if spill_dir is not None:
            _remove(spill_dir, self.keep_spill)


@functools.cache
def _sweep() -> None:
    """Once a process: spill folders of ours whose process was killed before it could remove them."""
    for folder in Path(tempfile.gettempdir()).glob("toolcrib-*-*"):
        owner = folder.name.split("-")[1]
        try:
            if owner.isdigit() and folder.lstat().st_uid == os.geteuid() and not _is_alive(int(owner)):
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # gone meanwhile, or not ours to look at
            continue


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True


def _remove(folder: Path, if_empty: bool) -> None:
    if not if_empty:
        shutil.rmtree(folder, ignore_errors=True)
        return
    with contextlib.suppress(OSError):  # not empty, or gone already
        folder.rmdir()
