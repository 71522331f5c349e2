"""A command in a persistent shell: read its output, and end it, without its shell, at its time limit or on an interrupt."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable

from toolcrib.contract.environment import Ended
from tools.environments import _groups
from tools.environments._output import STREAMS, Output
from tools.environments._waiter import Waiter
from tools.environments.shell.ending import STEPS, Ending
from tools.environments.shell.launcher import kill_session
from tools.environments.shell.shell import Shell

_log = logging.getLogger(__name__)


_CHUNK = 1 << 16
_TURN = 32
"""Chunks to read before other tasks in the event loop get their turn."""
_LINGER = 0.2
"""Seconds to wait for output after the command ended: its background processes may hold the pipe forever."""
_LOOK = 0.01
_AT_ONCE = 0.003
"""Seconds to wait without the event loop if the last command was quick: starting a watch in the loop takes longer."""
_GLANCE = 0.0002
"""Seconds to wait without the event loop in other cases. It is short, because the loop runs nothing else in this time."""
_TELLING = 0.3
"""Maximum seconds to wait until the shell has started a command that must be ended."""
_WATCH = 0.25
"""Seconds between checks that the shell still answers."""


class ShellCommand:
    """A running command. It belongs to the event loop that created it; only ``interrupt`` may be called from other threads.

    ``begun``: its start; earlier processes in the shell's session are not its own. ``traps``: returns True if the command may
    have set traps, so that a signal may start work. ``lost``: the shell ran it and then did not answer.
    """

    def __init__(
        self,
        shell: Shell,
        output: Output,
        begun: _groups.Moment,
        traps: Callable[[], bool],
    ) -> None:
        self.ended: Ended = "exited"
        self.exited = False
        self.lost = False
        self.held: list[int] = []
        """Read ends of streams that a leftover process still writes to."""
        self._shell = shell
        self._output = output
        self._begun = begun
        self._traps = traps
        self._loop = asyncio.get_running_loop()
        self._waiter = Waiter()
        self._more: set[str] = set()
        self._open = dict.fromkeys(STREAMS, True)
        self._attached = self._released = False

    def done(self) -> bool:
        """True when the command has ended."""
        return self.exited or self._shell.status is not None

    # -- until the end -------------------------------------------------------------------------------------------

    async def finish(self, limit: float | None) -> None:
        """Wait until the command has ended; after ``limit`` seconds or an interrupt, end it. If this wait is cancelled, end the
        command's processes first.
        """
        begin = time.perf_counter()
        try:
            if not self._at_once(begin + (_AT_ONCE if self._shell.is_quick else _GLANCE)):
                self._loop.add_reader(self._shell.epoll.fileno(), self._ready)
                self._attached = True
                await self._until_done(None if limit is None else self._loop.time() + limit)
                if self.ended != "exited":
                    await self._end()
        except asyncio.CancelledError:
            await self._cancelled()
            raise
        finally:
            self._shell.is_quick = time.perf_counter() - begin < _AT_ONCE
            self._release()

    def _at_once(self, give_up: float) -> bool:
        """Return True if the command and all writers to its streams ended before ``give_up``, without the event loop."""
        while self.ended == "exited" and self._shell.status is None and self._shell.says(give_up):
            self._shell.collect()
        if not self.done() or self.ended != "exited":
            return False
        self._drain()
        return not any(self._open.values())

    async def _cancelled(self) -> None:
        self.ended = "interrupted"
        try:
            await self._end()
        except asyncio.CancelledError:  # cancelled again: stop waiting
            kill_session(self._shell.process)
            raise

    async def _until_done(self, deadline: float | None) -> None:
        while not self.done() and self.ended == "exited":
            soon = self._loop.time() + (_WATCH if self._shell.process.fileno() >= 0 else _LOOK)
            await self._waiter.wait(soon if deadline is None else min(soon, deadline))
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
            await self._waiter.wait(deadline)
            self._drain()

    def _look(self) -> None:
        """Mark the command as lost if the shell has run all its input and reported nothing: no report can follow."""
        self._gone()
        if self.done():
            return
        if self._shell.folder.unread():
            if not self._shell.folder.is_whole():
                self._shell.folder.release()
            return
        self._shell.collect()
        if not self.done():
            self.lost = True
            self._shell.was_whole = self._shell.folder.is_whole()
            kill_session(self._shell.process)
            self._gone()

    async def _end(self) -> None:
        """Send INT, TERM and KILL, each only while a process lives."""
        give_up = self._loop.time() + _TELLING
        while self._shell.is_telling and not self.done() and self._loop.time() < give_up:
            await self._waiter.wait(self._loop.time() + _LOOK)
            self._gone()
        ending = Ending(self._shell.process, self._begun, traps=self._traps())
        for number, grace in STEPS:
            give_up, pause = self._loop.time() + grace, _LOOK / 10
            ending.begin(number, done=self.done())
            while True:
                self._gone()
                if ending.go_on(done=self.done()):
                    self._drain()
                    return
                if self._loop.time() >= give_up:
                    break
                await self._waiter.wait(self._loop.time() + pause)
                pause = min(2 * pause, _LOOK)
        self._drain()

    # -- interrupts ----------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Interrupt the command. Callable from any thread."""
        try:
            self._loop.call_soon_threadsafe(self.interrupt_now)
        except RuntimeError:  # its loop is closed, so no task awaits it
            kill_session(self._shell.process)

    def interrupt_now(self) -> None:
        """Interrupt the command, before or during ``finish``. Must be called in the loop's own thread."""
        if self.ended == "exited":
            self.ended = "interrupted"
            self._waiter.wake()

    # -- reading -------------------------------------------------------------------------------------------------

    def _ready(self) -> None:
        shell = self._shell
        streams = shell.folder.streams
        for fd, _ in shell.epoll.poll(0):
            if fd == shell.folder.reports:
                shell.collect()
            elif fd in streams.values():
                self._pump(next(name for name in streams if streams[name] == fd))
            else:
                shell.epoll.unregister(fd)
                self._gone()
        if self.done():
            self._waiter.wake()

    def _gone(self) -> None:
        if not self.exited and self._shell.exit_code() is not None:
            self._shell.collect()
            self.exited = True
            self._waiter.wake()

    def _pump(self, name: str, turns: int = _TURN) -> None:
        for _ in range(turns):
            if not self._read(name):
                return
        if name not in self._more:
            self._more.add(name)
            self._loop.call_soon(self._go_on, name)

    def _go_on(self, name: str) -> None:
        self._more.discard(name)
        if not self._released:  # later data belongs to the next command
            self._pump(name)

    def _read(self, name: str) -> int:
        """Read one chunk and return its length, 0 if none is available."""
        try:
            chunk = os.read(self._shell.folder.streams[name], _CHUNK)
        except BlockingIOError:
            self._open[name] = True
            return 0
        except OSError as error:
            _log.warning("reading the command's %s failed: %s", name, error)
            chunk = b""
        if not chunk:  # no writer: the command is over, or has not started
            self._open[name] = False
            return 0
        self._open[name] = True
        self._output.take(name, chunk)
        return len(chunk)

    def _drain(self) -> None:
        """Read what the FIFOs hold, however long it takes, but no more: a process that escaped may write forever."""
        for name in STREAMS:
            if read := self._read(name):
                left = self._shell.folder.room(name) - read
                while left > 0 and (read := self._read(name)):
                    left -= read

    def _release(self) -> None:
        """Detach from the loop."""
        self._released = True
        if self._attached and not self._loop.is_closed():
            self._loop.remove_reader(self._shell.epoll.fileno())
        if not self.done():  # cancelled twice, or out of reach
            kill_session(self._shell.process)
            self._gone()
        renewed = [self._shell.renew(name) for name, is_open in self._open.items() if is_open]
        self.held = [fd for fd in renewed if fd is not None]
