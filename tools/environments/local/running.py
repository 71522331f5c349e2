"""A running command: read its output, wait until it ends, and end it at its time limit or on an interrupt."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import threading
import time

from toolcrib.contract.environment import Ended
from tools.environments import _groups
from tools.environments._output import Output
from tools.environments._waiter import Waiter

_log = logging.getLogger(__name__)


_CHUNK = 1 << 16
_LINGER = 0.2
"""Seconds to wait for output after the command ended: its background processes may hold the pipe forever."""
_STEPS = ((signal.SIGINT, 0.5), (signal.SIGTERM, 0.5), (signal.SIGKILL, 2.0))
"""Steps to end a command: each signal, and the seconds until the next."""
_LOOK = 0.01


class RunningCommand:
    """A running command. It belongs to the event loop that created it; only ``interrupt`` may be called from other threads.

    It takes over ``pipes``: read ends by stream name. After ``finish``, ``pipes`` has only pipes that background processes hold
    open; the others are closed.
    """

    def __init__(self, process: subprocess.Popen[bytes], pipes: dict[str, int], output: Output) -> None:
        self.pipes = pipes
        self.ended: Ended = "exited"
        self._process = process
        self._output = output
        self._loop = asyncio.get_running_loop()
        self._waiter = Waiter()
        self._pidfd: int | None = None
        self.exited = False
        self._lock = threading.Lock()
        try:
            for name, fd in pipes.items():
                os.set_blocking(fd, False)
                self._loop.add_reader(fd, self._read, name, fd)
            self._watch()
        except BaseException:  # without threads or descriptors the command cannot be watched
            self._release()
            for fd in pipes.values():
                os.close(fd)
            raise

    # -- until the end -------------------------------------------------------------------------------------------

    async def finish(self, limit: float | None) -> None:
        """Wait until the command has ended; after ``limit`` seconds or an interrupt, end it. If this wait is cancelled, end
        the command's processes first.
        """
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
        try:
            await self._end()
        except asyncio.CancelledError:  # cancelled again: stop waiting
            self._kill()
            raise

    async def _until_done(self, deadline: float | None) -> None:
        while not self.exited:
            if self.ended != "exited":
                return
            await self._waiter.wait(deadline)
            if deadline is not None and not self.exited and self._loop.time() >= deadline:
                self.ended = "timeout"
        deadline = self._loop.time() + _LINGER
        while self.pipes and self.ended == "exited" and self._loop.time() < deadline:
            await self._waiter.wait(deadline)

    async def _end(self) -> None:
        """Send INT, TERM and KILL to all processes of the session, each only while one of them lives."""
        session = self._process.pid
        for number, grace in _STEPS:
            groups = {session} | _groups.groups_of(session)
            _groups.send(groups, number)
            _groups.send(groups, signal.SIGCONT)  # a stopped process handles INT and TERM only then
            give_up = self._loop.time() + grace
            while self._loop.time() < give_up:
                await self._waiter.wait(self._loop.time() + _LOOK)
                if self.exited and not _groups.living(session, groups):
                    self._drain()
                    return
        self._drain()

    # -- interrupts ----------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Interrupt the command. Callable from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._interrupted)
        except RuntimeError:  # its loop is closed, so no task awaits the command
            self._kill()

    def _interrupted(self) -> None:
        if self.ended == "exited":
            self.ended = "interrupted"
            self._waiter.wake()

    def _kill(self) -> None:
        """Kill all processes of the command, and wait at most some seconds for their end."""
        session = self._process.pid
        with self._lock:
            if self._process.poll() is None:
                groups = {session} | _groups.groups_of(session)
            elif _groups.left_behind(session):
                groups = {session}
            else:
                return
            _groups.send(groups, signal.SIGKILL)
            give_up = time.monotonic() + 2
            with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the kernel: it dies when it returns from there
                self._process.wait(2)
                while _groups.living(session, groups) and time.monotonic() < give_up:  # a signal takes a moment
                    time.sleep(0.001)

    # -- watching ------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        try:
            self._pidfd = os.pidfd_open(self._process.pid)
        except (AttributeError, OSError):  # not Linux, or an old kernel: a thread waits
            threading.Thread(target=self._wait, name=f"wait-{self._process.pid}", daemon=True).start()
            return
        self._loop.add_reader(self._pidfd, self._gone)

    def _wait(self) -> None:
        self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed: no task awaits the command
            self._loop.call_soon_threadsafe(self._gone)

    def _gone(self) -> None:
        self._process.wait()
        self.exited = True
        if self._pidfd is not None:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None
        self._waiter.wake()

    def _read(self, name: str, fd: int) -> bool:
        """Read one chunk. Return False if none is available."""
        try:
            chunk = os.read(fd, _CHUNK)
        except BlockingIOError:
            return False
        except OSError as error:
            _log.warning("reading the command's %s failed: %s", name, error)
            chunk = b""
        if not chunk:
            self._loop.remove_reader(fd)
            os.close(fd)
            del self.pipes[name]
            if not self.pipes:
                self._waiter.wake()
            return False
        self._output.take(name, chunk)
        return True

    def _drain(self) -> None:
        """Read what the pipes hold. Stop after a moment: a process that escaped may write forever."""
        stop = time.monotonic() + _LINGER
        for name, fd in list(self.pipes.items()):
            while self._read(name, fd) and time.monotonic() < stop:
                pass

    def _release(self) -> None:
        """Detach from the loop. Kill a command that still runs: it was cancelled twice, or its loop is about to close."""
        if not self.exited:
            self._kill()
        for fd in self.pipes.values():
            self._forget(fd)
        if self._pidfd is not None:
            self._forget(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = None

    def _forget(self, fd: int) -> None:
        if not self._loop.is_closed():
            self._loop.remove_reader(fd)
