"""A background command on this machine in a terminal (PTY).

This process opens the master in the root folder that the shell sees, so a sandbox's terminals belong to its own /dev/pts. The
shell opens the slave by its path. It leads a session without a terminal, so the slave becomes its controlling terminal. The
master never enters the sandbox.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import signal
import struct
import termios
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from toolcrib.contract.environment import ExecRequest
from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.terminal import TerminalSize
from tools.environments._request import command_text
from tools.environments.shell import driver
from tools.environments.shell.driver import quote
from tools.environments.shell.shell import EDGE, Shell
from tools.environments.shell.spawned import LocalBackgroundProcess

if TYPE_CHECKING:
    from toolcrib.contract.terminal import TerminalProcess

TERM = "xterm-256color"
END_OF_INPUT = b"\x04"
UNSET = "\\builtin unset -v COLUMNS LINES 2>/dev/null\n"
_CHUNK = 1 << 16
_LINGER = 0.1
"""Seconds without output after the end of the shell, when the kernel has passed on the last of it."""
_NUMBER, _UNLOCK = (0x80045430, 0x40045431) if termios.TIOCSWINSZ == 0x5414 else (0x40045430, 0x80045431)
"""TIOCGPTN and TIOCSPTLCK, which have no name in Python. Some processors, such as ppc64le, encode the direction differently."""


class LocalTerminal(LocalBackgroundProcess):
    """A background process in a terminal. ``master`` is this process's end of it, which does not block."""

    _names = ("stdout",)
    signals = (signal.SIGHUP, *LocalBackgroundProcess.signals)

    def __init__(self, shell: Shell, master: int, forget: Callable[[Shell], None]) -> None:
        super().__init__(shell, master, forget)
        self._owes_end = False
        self._silent_since = 0.0

    async def begin_with(self, stdin: bytes) -> None:
        """Wait until the terminal belongs to the shell, and type the first input. Raises EnvironmentFailed."""
        shell, loop = self._shell, asyncio.get_running_loop()
        try:
            while shell is not None:
                code = self._look()  # before the test, so that a report from before the end counts
                if shell.running:
                    break
                if code is not None:
                    raise EnvironmentFailed(_not_run(shell, code))
                await self._pause(loop, None)
            with contextlib.suppress(BrokenPipeError):  # the command needed no input
                await self.write(stdin)
        except BaseException:
            self.end()
            raise

    def _take(self, name: str, over: bool) -> bytes:
        chunk = super()._take(name, over)
        if over and not chunk:  # a process that ignores SIGHUP still has the terminal open, which the kernel hung up
            self._silent_since = self._silent_since or time.monotonic()
            if time.monotonic() - self._silent_since > _LINGER:
                self._ended.add(name)
        return chunk

    def _chunk(self, shell: Shell, name: str) -> bytes:
        """Collect some reads: each returns 4 KiB at most."""
        chunks, size = list[bytes](), 0
        try:
            while size < _CHUNK and self._stdin >= 0 and (chunk := os.read(self._stdin, _CHUNK)):
                chunks.append(chunk)
                size += len(chunk)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EAGAIN):  # EIO: no process has the terminal open
                raise
            if error.errno == errno.EAGAIN and not chunks:
                raise
        return b"".join(chunks)

    async def write(self, data: bytes) -> None:
        try:
            await super().write(data)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
            raise BrokenPipeError("the process has ended") from error

    def close_stdin(self) -> None:
        """Type the end of input, later if the terminal's input is full."""
        self._owes_end = True
        self._look()

    def _look(self) -> int | None:
        with self._lock, contextlib.suppress(OSError):  # full, or over
            if self._owes_end and self._stdin >= 0:
                os.write(self._stdin, END_OF_INPUT)
                self._owes_end = False
        return super()._look()

    async def resize(self, size: TerminalSize) -> None:
        with self._lock:
            if self._stdin >= 0:
                _set_size(self._stdin, size)

    def hang_up(self) -> None:
        """Close the terminal: the kernel sends SIGHUP to the shell, and when that ends to the program in the foreground."""
        self._close_input()


def begin_in_terminal(size: TerminalSize, shell: Shell, request: ExecRequest, forget: Callable[[Shell], None]) -> LocalTerminal:
    """Start a command in a new terminal. Raises EnvironmentFailed."""
    try:
        master = os.open(f"{shell.process.root}/dev/ptmx", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise _no_terminal(error) from error
    try:
        fcntl.ioctl(master, _UNLOCK, struct.pack("i", 0))
        (number,) = struct.unpack("I", fcntl.ioctl(master, _NUMBER, bytes(4)))
        _set_size(master, size)
        _erase_characters(master)
        if shell.exit_code() is not None:  # another process may have had its number already, and so another /dev/pts
            raise EnvironmentFailed("no terminal can be opened: its shell has ended; the command was not run: call again")
        text = _in_terminal(f"/dev/pts/{number}", shell.saying_running, command_text(request))
        shell.epoll.register(master, EDGE)
        shell.begin(text.encode("utf-8", "surrogateescape"), b"", None, {"TERM": TERM, **request.env})
        return LocalTerminal(shell, master, forget)
    except BaseException as error:
        os.close(master)
        if isinstance(error, OSError):
            raise _no_terminal(error) from error
        raise


def _in_terminal(path: str, saying_running: str, command: str) -> str:
    """Return the text that runs the command in the terminal, and ends the shell, so that the kernel hangs up.

    A subshell runs it, because an ending bash leaves its redirections before it runs its EXIT trap.
    """
    inner = f"{saying_running}( \\builtin eval {quote(driver.FIRST_LINE.decode() + command)} )\n\\builtin exit\n"
    return f"{UNSET}\\builtin eval {quote(inner)} <>{path} >&0 2>&0\n"


def _set_size(master: int, size: TerminalSize) -> None:
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", size.rows, size.columns, 0, 0))


def _erase_characters(master: int) -> None:
    """Make the erase key delete a whole UTF-8 character of a line, not its last byte (IUTF8, which has no name in Python)."""
    modes = termios.tcgetattr(master)
    modes[0] |= 0o40000
    termios.tcsetattr(master, termios.TCSANOW, modes)


def _no_terminal(error: OSError) -> EnvironmentFailed:
    return EnvironmentFailed(f"no terminal can be opened: {error.strerror}; the command was not run")


def _not_run(shell: Shell, code: int) -> str:
    if shell.no_folder:
        return f"the folder {shell.cwd} cannot be entered, so the command was not run: choose another cwd"
    return f"no terminal could be opened: its shell ended (exit code {code}); the command was not run: call again"


if TYPE_CHECKING:

    def _conforms(terminal: LocalTerminal) -> TerminalProcess:
        return terminal
