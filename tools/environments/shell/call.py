"""One command in a shell that stays: its output is read, and it ends by itself, by its time limit or by ours."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from typing import Literal, TypeAlias

from tools.environments import _groups
from tools.environments._capture import Capture
from tools.environments.shell.place import kill_session
from tools.environments.shell.shell import Shell

_log = logging.getLogger(__name__)

Ended: TypeAlias = Literal["exited", "timeout", "interrupted"]
OnOutput: TypeAlias = Callable[[str, bytes], None]

_CHUNK = 1 << 16
_TURN = 32
"""Chunks that are read before others have their turn in the event loop."""
_LINGER = 0.2
"""Seconds that output may still come after the command itself ended: what it left running may hold the pipe for ever."""
_STEPS = ((signal.SIGINT, 0.5), (signal.SIGTERM, 0.5), (signal.SIGKILL, 2.0))
"""How a command is ended: each signal, and the seconds until the next."""
_LOOK = 0.01
_RACE = 3
"""Clock ticks. What was born this soon after a signal was being forked when it came, and did not receive it."""
_WATCH = 0.25
"""Seconds between looks at whether the shell still answers."""


class Call:
    """Belongs to the event loop that it was made in; only ``interrupt`` may be called from other threads.

    ``begun`` is when: what is in the shell's session from before is none of its business. ``lost``: the shell ran it and
    then did not answer.
    """

    def __init__(self, shell: Shell, captures: dict[str, Capture], on_output: OnOutput | None, begun: _groups.Moment) -> None:
        self.ended: Ended = "exited"
        self.exited = False
        self.lost = False
        self.held: list[int] = []
        """Read ends of streams that something left behind still writes to."""
        self._shell = shell
        self._captures = captures
        self._on_output = on_output
        self._begun = begun
        self._loop = asyncio.get_running_loop()
        self._wake: asyncio.Future[None] | None = None
        self._more: set[str] = set()
        self._open = dict.fromkeys(captures, True)
        self._nudged = False
        self._loop.add_reader(shell.epoll.fileno(), self._ready)

    def done(self) -> bool:
        return self.exited or self._shell.status is not None

    # -- to the end ----------------------------------------------------------------------------------------------

    async def finish(self, limit: float | None) -> None:
        """Returns when the command has ended, whoever ended it (``limit``: seconds). When cancelled, ends its processes first."""
        try:
            await self._until_done(None if limit is None else self._loop.time() + limit)
            if self.ended != "exited":
                await self._end()
        except asyncio.CancelledError:
            await self._cancelled()
            raise
        finally:
            self._release()

    async def _cancelled(self) -> None:
        self.ended = "interrupted"
        try:
            await self._end()
        except asyncio.CancelledError:  # once more: no more patience
            kill_session(self._shell.process)
            raise

    async def _until_done(self, deadline: float | None) -> None:
        while not self.done() and self.ended == "exited":
            soon = self._loop.time() + (_WATCH if self._shell.process.fileno() >= 0 else _LOOK)
            await self._next(soon if deadline is None else min(soon, deadline))
            if self.done():
                break
            if deadline is not None and self._loop.time() >= deadline:
                self.ended = "timeout"
            elif self._loop.time() >= soon:
                self._look()
        if self.ended != "exited":
            return
        self._drain()
        deadline = self._loop.time() + _LINGER
        while any(self._open.values()) and self.ended == "exited" and self._loop.time() < deadline:
            await self._next(deadline)
            self._drain()

    def _look(self) -> None:
        """Whether the shell has run all it was given and yet said nothing: then it never will."""
        self._gone()
        if self.done() or self._shell.folder.unread():
            return
        if not self._nudged:
            self._nudged = True
            self._shell.nudge()
            return
        self._shell.collect()
        if not self.done():
            self.lost = True
            self._shell.was_whole = self._shell.folder.is_whole()
            kill_session(self._shell.process)
            self._gone()

    async def _end(self) -> None:
        """INT, TERM, KILL, each only while something lives: to the shell first, then to what was born in this command."""
        for number, grace in _STEPS:
            told: set[_groups.Member] = set()
            sent = self._tell(number, told, None)
            give_up, again = self._loop.time() + grace, self._loop.time() + 4 * _LOOK
            while self._loop.time() < give_up:
                await self._next(self._loop.time() + _LOOK)
                self._gone()
                if self.done() and not self._born():
                    self._drain()
                    return
                if self._loop.time() >= again:
                    self._tell(number, told, sent.tick + _RACE)
                    again = self._loop.time() + 4 * _LOOK
        self._drain()

    def _tell(self, number: int, told: set[_groups.Member], until: int | None) -> _groups.Moment:
        """``until``: only those who were born before that tick and have not been told."""
        now = _groups.Moment.now()
        new = [
            one for one in self._born() if one not in told and (until is None or number == signal.SIGKILL or one.start <= until)
        ]
        if not self.done() and (until is None or new):
            for each in (number, signal.SIGCONT):  # a stopped process receives nothing else
                self._shell.process.send(each)
        for one in new:
            told.add(one)
            for each in (number, signal.SIGCONT):
                _groups.send_to(one.pid, each)
        return now

    def _born(self) -> list[_groups.Member]:
        process = self._shell.process
        return [one for one in process.members() if one.pid != process.pid and self._begun.is_before(one)]

    async def _next(self, deadline: float) -> None:
        """Until something happens or the deadline passes."""
        self._wake = self._loop.create_future()
        timer = self._loop.call_at(deadline, self._notify)
        try:
            await self._wake
        finally:
            self._wake = None
            timer.cancel()

    def _notify(self) -> None:
        if self._wake is not None and not self._wake.done():
            self._wake.set_result(None)

    # -- being told to stop --------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """From any thread."""
        try:
            self._loop.call_soon_threadsafe(self._interrupted)
        except RuntimeError:  # its loop is closed, so nobody awaits it any more
            kill_session(self._shell.process)

    def _interrupted(self) -> None:
        if self.ended == "exited":
            self.ended = "interrupted"
            self._notify()

    # -- reading -------------------------------------------------------------------------------------------------

    def _ready(self) -> None:
        shell = self._shell
        streams = {fd: name for name, fd in shell.folder.streams.items()}
        for fd, _ in shell.epoll.poll(0):
            if fd in streams:
                self._pump(streams[fd])
            elif fd == shell.folder.reports:
                shell.collect()
            else:
                shell.epoll.unregister(fd)
                self._gone()
        if self.done():
            self._notify()

    def _gone(self) -> None:
        if not self.exited and self._shell.exit_code() is not None:
            self._shell.collect()
            self.exited = True
            self._notify()

    def _pump(self, name: str, turns: int = _TURN) -> None:
        for _ in range(turns):
            if not self._read(name):
                return
        if name not in self._more:
            self._more.add(name)
            self._loop.call_soon(self._go_on, name)

    def _go_on(self, name: str) -> None:
        self._more.discard(name)
        if self._shell.folder.streams:
            self._pump(name)

    def _read(self, name: str) -> int:
        """One chunk; its length, 0 where there is none now."""
        try:
            chunk = os.read(self._shell.folder.streams[name], _CHUNK)
        except BlockingIOError:
            self._open[name] = True
            return 0
        except OSError as error:
            _log.warning("reading the command's %s failed: %s", name, error)
            chunk = b""
        if not chunk:  # nobody writes: it is over, or has not begun
            self._open[name] = False
            return 0
        self._open[name] = True
        self._captures[name].add(chunk)
        if self._on_output is not None:
            try:
                self._on_output(name, chunk)
            except Exception:  # noqa: BLE001 - a watcher's fault must not cost the result
                _log.exception("on_output raised; this command's output is no longer shown while it runs")
                self._on_output = None
        return len(chunk)

    def _drain(self) -> None:
        """What the FIFOs hold already, all of it, however slow we are. Not more: a writer that escaped us may never stop."""
        for name in self._captures:
            left = self._shell.folder.room(name)
            while left > 0 and (read := self._read(name)):
                left -= read

    def _release(self) -> None:
        """Leaves the loop."""
        if not self._loop.is_closed():
            self._loop.remove_reader(self._shell.epoll.fileno())
        if not self.done():  # cancelled twice, or out of reach
            kill_session(self._shell.process)
            self._gone()
        self.held = [self._shell.renew(name) for name, is_open in self._open.items() if is_open]
