"""A background command: in a copy of the session's shell, with streamed output and input."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import TypeAlias, TypeVar

from toolcrib.contract.environment import ExecRequest
from tools.environments import _groups
from tools.environments._request import command_text
from tools.environments._waiter import ReadableWaits
from tools.environments.shell.launcher import kill_session
from tools.environments.shell.shell import Shell

_CHUNK = 1 << 16
_LOOK = 0.02
_WATCH = 1.0
"""Seconds between checks for an event that the kernel does not report: another thread has ended the process."""
_GRACE = 0.5


class LocalBackgroundProcess:
    """A background process. Not bound to an event loop: each call waits in its own, even while another thread ends the process.

    ``forget`` is called when it has ended and was reaped.
    """

    _names: tuple[str, ...] = ("stdout", "stderr")
    signals: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM)
    """Signals that ``kill`` sends before SIGKILL."""

    def __init__(self, shell: Shell, stdin: int, forget: Callable[[Shell], None]) -> None:
        self.pid = shell.process.pid
        self._shell: Shell | None = shell
        self._stdin = stdin
        self._closing = False
        self._lock = threading.Lock()
        """Keeps descriptors open while they are used: the number of a closed one may belong to another file."""
        self._forget = forget
        self._code: int | None = None
        self._ended: set[str] = set()
        self._waits = ReadableWaits()

    async def begin_with(self, stdin: bytes) -> None:
        """Write the first input. Raises BrokenPipeError as ``write`` does."""
        if stdin:
            await self.write(stdin)

    # -- output --------------------------------------------------------------------------------------------------

    async def read(self, *, within: float | None = None) -> tuple[str, bytes] | None:
        """Return the next chunk; None at the end; b"" of stdout after ``within`` seconds without output."""
        loop = asyncio.get_running_loop()
        give_up = None if within is None else loop.time() + within
        while True:
            over = self._look() is not None  # before reading, so that the last output is not missed
            for name in self._names:
                chunk = self._take(name, over)
                if chunk:
                    return name, chunk
            if over and (self._shell is None or len(self._ended) == len(self._names)):
                return None
            if give_up is not None and loop.time() >= give_up:
                return "stdout", b""
            await self._pause(loop, give_up)

    def _take(self, name: str, over: bool) -> bytes:
        with self._lock:
            if self._shell is None:
                return b""
            try:
                chunk = self._chunk(self._shell, name)
            except BlockingIOError:
                return b""
        if not chunk and over:
            self._ended.add(name)
        return chunk

    def _chunk(self, shell: Shell, name: str) -> bytes:
        """Read what is there, b"" at the end of the stream. Raises BlockingIOError."""
        return os.read(shell.folder.streams[name], _CHUNK)

    async def _pause(self, loop: asyncio.AbstractEventLoop, give_up: float | None) -> None:
        """Wait until something happens, or the next check is due."""
        shell = self._shell
        if shell is None:
            return

        def consume() -> None:
            with contextlib.suppress(ValueError, OSError):  # closed meanwhile, or another waiter was faster
                for event, _ in shell.epoll.poll(0):
                    if event == shell.process.fileno():
                        shell.epoll.unregister(event)

        longest = _WATCH if shell.process.fileno() >= 0 else _LOOK
        seconds = longest if give_up is None else max(0.0, min(longest, give_up - loop.time()))
        with contextlib.suppress(ValueError, OSError):  # closed meanwhile
            await self._waits.wait(shell.epoll.fileno(), seconds, consume)

    def code(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        return self._look()

    def _look(self) -> int | None:
        """Return the exit code, or None while the process runs."""
        shell = self._shell
        if self._code is None and shell is not None:
            shell.collect()
            self._code = shell.status if shell.status is not None else shell.exit_code()
        if self._closing:
            self._try_close()
        return self._code

    # -- input ---------------------------------------------------------------------------------------------------

    async def write(self, data: bytes) -> None:
        """Write all data. Raises BrokenPipeError if the process no longer reads."""
        view = memoryview(data)
        while view:
            over = self._closing or self._look() is not None
            with self._lock:
                if over or self._stdin < 0:
                    raise BrokenPipeError("the process has ended, or its input was closed")
                with contextlib.suppress(BlockingIOError):
                    view = view[os.write(self._stdin, view) :]
                    continue
            await asyncio.sleep(_LOOK / 4)

    def close_stdin(self) -> None:
        self._closing = True
        self._try_close()

    def _try_close(self) -> None:
        """Close the input after the shell has opened the other end; otherwise written data would be lost."""
        shell = self._shell
        if self._stdin < 0 or shell is None:
            return
        shell.collect()
        if shell.running or self._code is not None:
            self._close_input()

    def _close_input(self) -> None:
        with self._lock:
            if self._stdin >= 0:
                os.close(self._stdin)
                self._stdin = -1

    # -- the end -------------------------------------------------------------------------------------------------

    async def wait(self) -> int:
        """Wait for the process and return its exit code. This reads no output: a process that fills a stream waits for
        ``read``.
        """
        loop = asyncio.get_running_loop()
        while (code := self._look()) is None:
            await self._pause(loop, None)
        return code

    async def kill(self) -> None:
        """Send INT, TERM and KILL to all processes of the command, as far as needed."""
        shell = self._shell
        if shell is None:
            return
        loop = asyncio.get_running_loop()
        for number in self.signals:
            for each in (number, signal.SIGCONT):  # a stopped process handles the signal only then
                if self._look() is None:
                    shell.process.send(each)
                for pid in self._others(shell):
                    _groups.send_to(pid, each)
            give_up = loop.time() + _GRACE
            while loop.time() < give_up and (self._look() is None or self._others(shell)):  # noqa: ASYNC110 - processes
                await asyncio.sleep(_LOOK)
        self.end()

    def _others(self, shell: Shell) -> set[int]:
        return {one.pid for one in shell.process.members()} - {shell.process.pid}

    def hang_up(self) -> None:
        """Close what a person would close, before the process is ended. Nothing for a process without a terminal."""

    def end(self) -> None:
        """End the process at once. May be called twice."""
        with self._lock:
            shell, self._shell = self._shell, None
        if shell is None:
            return
        code = shell.status
        kill_session(shell.process)
        self._code = self._code if self._code is not None else code if code is not None else shell.exit_code()
        self._close_input()
        self._forget(shell)


Spawned = TypeVar("Spawned", bound=LocalBackgroundProcess)
Begin: TypeAlias = Callable[[Shell, ExecRequest, Callable[[Shell], None]], Spawned]
"""Starts the command of a request in a shell. The function that it gets is ``forget``. Raises EnvironmentFailed."""


def begin(shell: Shell, request: ExecRequest, forget: Callable[[Shell], None]) -> LocalBackgroundProcess:
    """Start a command with pipes. Raises EnvironmentFailed."""
    command = command_text(request).encode("utf-8", "surrogateescape")
    return LocalBackgroundProcess(shell, shell.begin(command, None, None, request.env), forget)
