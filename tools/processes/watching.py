"""Watch background processes, and report their ends and the lines that match a pattern."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from toolcrib.contract.errors import EnvironmentFailed, InvalidArguments
from toolcrib.contract.namedtuple import NamedTuple

if TYPE_CHECKING:
    from tools.processes.process import Process
    from tools.processes.table import ProcessTable

_log = logging.getLogger(__name__)
_EVERY, _ALL = 1.0, 30.0
"""Seconds between two looks at the processes that printed something or ended, and at all processes of a session."""
_GROUP, _PAUSE = 1.0, 10.0
"""Seconds during which events are gathered into one notice, and between two notices of a session."""
_MOST_READ = 1 << 20
"""Bytes of new output that are searched at a time. Of more, only the last are searched."""
_LONGEST_LINE = 4096
"""Maximum bytes of an unfinished line that is kept back until it ends."""
_MOST_EVENTS = 20
"""Events in one notice. Of more, only the number is reported."""


class ProcessEvent(NamedTuple):
    """An event of a background process. ``what`` is in words of toolcrib, ``line`` is a line that the process printed, or ""."""

    process: str
    what: str
    line: str = ""


Tell: TypeAlias = "Callable[[Sequence[ProcessEvent], int], Awaitable[None]]"
"""Reports events of a session; the number is that of further events that are left out."""


class _Wanted:
    """The events of one process that are reported. ``seen``: the number of bytes that were searched."""

    def __init__(self, *, end: bool, patterns: Sequence[str]) -> None:
        self.end, self.patterns = end, patterns
        self.seen = 0


class TableWatch:
    """Watches the processes of one table, in a thread that ends with the last of them. ``tell`` may be None."""

    def __init__(self, table: ProcessTable, tell: Tell | None) -> None:
        self._table, self._tell = table, tell
        self._wanted: dict[str, _Wanted] = {}
        self._events: list[ProcessEvent] = []
        self._left_out = 0
        self._sizes: frozenset[bytes] = frozenset()
        self._due = self._all_due = 0.0
        self._lock = threading.Lock()
        self._is_running = self._is_over = False

    def add(self, name: str, *, end: bool = False, patterns: Sequence[str] = ()) -> None:
        """Watch a process that has just started, and report the events that are asked for."""
        with self._lock:
            self._wanted[name] = _Wanted(end=end, patterns=patterns)
            if not self._is_running and not self._is_over:
                self._is_running = True
                threading.Thread(target=lambda: asyncio.run(self._run()), name="toolcrib-processes", daemon=True).start()

    def forget(self, name: str) -> None:
        """Report no more events of a process."""
        with self._lock:
            self._wanted.pop(name, None)

    def close(self) -> None:
        """Stop watching."""
        with self._lock:
            self._is_over = True
            self._wanted = {}

    def _forget_all(self) -> None:
        with self._lock:
            self._wanted, self._events = {}, []

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_EVERY)
            if self._is_over:  # a look would start another helper
                return
            try:
                await self._look()
                await self._report()
            except EnvironmentFailed as error:
                if not self._is_over:  # otherwise the session has just ended
                    _log.warning("background processes can't be watched until the next one starts: %s", error)
                self._forget_all()
            except Exception:  # noqa: BLE001 - a thread has no caller: the error is logged
                _log.exception("background processes can't be watched until the next one starts")
                self._forget_all()
            with self._lock:
                if self._is_over or not (self._wanted or self._events):
                    self._is_running = False
                    return

    async def _look(self) -> None:
        sizes = await self._table.sizes()
        changed = {word.partition(b"/")[0].decode(errors="replace") for word in sizes ^ self._sizes}
        self._sizes = sizes
        with self._lock:
            wanted = dict(self._wanted)
        if time.monotonic() >= self._all_due:  # a process that was killed with its keeper is seen only then
            self._all_due = time.monotonic() + _ALL
        else:
            wanted = {name: watch for name, watch in wanted.items() if name in changed}
        found = await self._table.look(*wanted) if wanted else {}
        for name, watch in wanted.items():
            process = found.get(name)
            if process is not None and watch.patterns and process.printed > watch.seen:
                await self._search(process, watch)
            if process is None or not process.runs:
                if watch.end and process is not None:
                    code = "an unknown exit code" if process.exit_code is None else f"exit code {process.exit_code}"
                    ended = "was ended by the user, with" if name in self._table.ended_by_user else "ended with"
                    self._add(ProcessEvent(name, f"{ended} {code}"))
                self.forget(name)

    async def _search(self, process: Process, watch: _Wanted) -> None:
        begin, end = max(watch.seen, process.printed - _MOST_READ), process.printed
        if process.runs:  # an unfinished line is searched once it is finished
            last = await self._table.read(process, max(begin, end - _LONGEST_LINE), end)
            cut = last.rfind(b"\n") + 1
            if not cut and end - begin < _LONGEST_LINE:
                return
            end -= len(last) - cut if cut else 0
        watch.seen = end
        try:
            lines = await self._table.grep(process, begin, watch.patterns, _MOST_EVENTS + 1, end=end)
        except InvalidArguments as error:
            watch.patterns = ()
            self._add(ProcessEvent(process.name, f"is no longer searched for lines that you wait for: {error}"))
            return
        for line in lines:
            self._add(ProcessEvent(process.name, "printed a line that you wait for", line))

    def _add(self, event: ProcessEvent) -> None:
        if self._tell is None:
            return
        if not self._events:
            self._due = max(self._due, time.monotonic() + _GROUP)
        if len(self._events) < _MOST_EVENTS:
            self._events.append(event)
        else:
            self._left_out += 1

    async def _report(self) -> None:
        if not self._events or self._tell is None or time.monotonic() < self._due:
            return
        events, left_out = self._events, self._left_out
        self._events, self._left_out = [], 0
        self._due = time.monotonic() + _PAUSE
        with contextlib.suppress(asyncio.CancelledError):
            await self._tell(events, left_out)
