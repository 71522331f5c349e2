"""Backends whose commands are started by a program: ``podman exec``, ``nsenter``, ``chroot`` and others."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence

from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import EnvironmentFailed
from tools.environments import _groups
from tools.environments._started import started
from tools.environments.local.child_env import child_environment
from tools.environments.remote.channel import ChannelEnded, Link, Stream

_CHUNK = 1 << 16
_NOT_STARTED = (126, 127)
"""Exit codes of a program that cannot start a command: bash is missing there, not the program itself."""
_WHEN_MARKED = ("sh", "-c", 'read -r _ && exec "$@"', "sh")
"""Command line that executes another one after it has read a line. The program must not start others before it is marked as a
session's, because only later children inherit the mark.
"""
_REASON = 500
"""Bytes of a program's message that are kept."""
_DYING = 0.2
"""Seconds until a process that no longer reads has ended, so that its exit code is known."""
_LAST = 2.0
"""Seconds that programs have to end when the link is closed."""


class ExecProgram(ABC):
    """Base class of backends whose commands are started by a program, such as ``podman exec``, ``nsenter`` or ``chroot``.

    ``open_program`` makes an environment from it. A subclass defines ``argv``, and ``start``, ``is_running`` and ``stop`` if
    something must run before commands can. All commands must see the same processes, files and network, so ``argv`` enters what
    ``start`` made, and makes nothing itself.

    ``where`` is the environment's name in results, such as ``podman:NAME``. The program gets only the variables that commands on
    this machine get, and those in ``pass_env``: no API keys. Its commands get them too, unless the program clears them.
    """

    starts_sessions = False
    """True if the program starts each command in a session (setsid) of its own, as ``podman exec`` does. Otherwise toolcrib
    starts ``setsid`` of util-linux there.
    """

    def __init__(self, where: str, *, pass_env: Sequence[str] = ()) -> None:
        if isinstance(pass_env, str):
            raise EnvironmentFailed(f"pass_env takes a list of variable names: [{pass_env!r}]")
        self.where, self.pass_env = where, tuple(pass_env)

    @abstractmethod
    def argv(self, command: Sequence[str]) -> Sequence[str]:
        """Return the command line that runs ``command`` there, with its stdin, stdout and stderr."""

    def start(self) -> None:  # noqa: B027 - an existing container needs no start
        """Start the container or namespace that commands run in. Called before the first command, and again after
        ``is_running`` returned False.

        It may block. Raises EnvironmentFailed, with the cause and the fix.
        """

    def is_running(self) -> bool:
        """Return False if what ``start`` made has ended. Called before each start of a command; it must be quick."""
        return True

    def stop(self) -> None:  # noqa: B027 - as ``start``
        """End what ``start`` made, and all that runs in it. Called at the end, perhaps twice, even if ``start`` was not
        called.
        """

    def start_process(self, argv: Sequence[str]) -> subprocess.Popen[bytes]:
        """Start a lasting process, with the variables of commands. For use in ``start``. The process should end when its input
        ends, which happens when toolcrib is killed.

        Its stdin is a pipe; its stdout and stderr share another one. Raises OSError.
        """
        return subprocess.Popen(
            list(argv), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            cwd="/", env=child_environment(self.pass_env), start_new_session=True, bufsize=0,
        )  # fmt: skip


def open_program(program: ExecProgram, cwd: str, *, env: Mapping[str, str] | None = None) -> Environment:
    """Open an environment whose commands the program starts. ``cwd`` is the start folder there; ``env`` adds variables.

    Commands are read by a persistent bash there, as in every backend: time limits, interrupts, bounded output, background
    processes and restored state need no code in the subclass. Files are read and written as commands see them. If the program
    ends during a command, the call fails with the known facts, and is not repeated. Bash and Linux's /proc are required there.
    """
    from tools.environments.remote.environment import RemoteEnvironment

    return RemoteEnvironment(ProgramLink(program), cwd, env=env)


class ProgramLink(Link):
    """Link whose channels are processes of an ExecProgram."""

    def __init__(self, program: ExecProgram) -> None:
        self._program = program
        self._lock = threading.RLock()
        self._processes: list[subprocess.Popen[bytes]] = []
        self._reason = ""
        self._closed = False

    @property
    def where(self) -> str:
        return self._program.where

    def open(self, argv: Sequence[str]) -> ProgramChannel:
        with self._lock:
            if self._closed:
                raise EnvironmentFailed("this environment is closed: open another")
            program = self._program
            if not self.epoch or not program.is_running():
                try:
                    program.start()
                except OSError as error:
                    raise EnvironmentFailed(f"{self.where} cannot be started: {error}") from error
                self.epoch += 1
            self._reason = ""
            line = list(program.argv(argv if program.starts_sessions else ["setsid", "--wait", *argv]))
            self._processes = [one for one in self._processes if one.poll() is None]
            process = self._started(line)
            self._processes.append(process)
        return ProgramChannel(process, self._failed)

    def _started(self, line: list[str]) -> subprocess.Popen[bytes]:
        env = child_environment(self._program.pass_env)
        if shutil.which(line[0], path=env["PATH"]) is None:
            raise EnvironmentFailed(f"{line[0]} is not found on PATH: install it, or choose another backend")
        try:
            process = started(
                [*_WHEN_MARKED, *line], "/bin/sh", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                cwd="/", env=env, start_new_session=True, bufsize=0,
            )  # fmt: skip
        except OSError as error:
            raise EnvironmentFailed(f"{line[0]} cannot be started: {error.strerror or error}") from error
        assert process.stdin is not None  # noqa: S101 - it was given a pipe
        with contextlib.suppress(BrokenPipeError):  # it was killed, which the channel reports
            process.stdin.write(b"\n")
        return process

    def _failed(self, code: int, said: str) -> None:
        """Record the message of a program that ended before its command wrote anything."""
        if code not in _NOT_STARTED:
            self._reason = said or f"exit code {code}"

    def diagnose(self) -> str:
        return f"what runs in {self.where} has ended" if self.epoch and not self._program.is_running() else self._reason

    def close(self) -> None:
        with self._lock:
            self._closed = True
            processes, self._processes = self._processes, []
            self._program.stop()
        give_up = time.monotonic() + _LAST
        for process in processes:  # their input is closed by now
            try:
                process.wait(max(0.0, give_up - time.monotonic()))
            except subprocess.TimeoutExpired:
                _groups.send({process.pid}, signal.SIGKILL)
                with contextlib.suppress(subprocess.TimeoutExpired):  # stuck in the kernel: it dies when it returns from there
                    process.wait(_LAST)


class ProgramChannel:
    """A process that a program started, and its streams. ``failed`` receives the exit code and the message of a program that
    ended with an error and without output.
    """

    def __init__(self, process: subprocess.Popen[bytes], failed: Callable[[int, str], None]) -> None:
        assert process.stdin is not None  # noqa: S101 - it was given pipes
        assert process.stdout is not None  # noqa: S101 - as above
        assert process.stderr is not None  # noqa: S101 - as above
        self._process, self._failed = process, failed
        self._input, self._outputs = process.stdin, (process.stdout, process.stderr)
        self._open: list[tuple[Stream, int]] = [("stdout", process.stdout.fileno()), ("stderr", process.stderr.fileno())]
        self._said = b""
        self._has_spoken = self._closed = False
        self._end = os.pidfd_open(process.pid)
        self._epoll = select.epoll()
        self._epoll.register(self._end, select.EPOLLIN)
        os.set_blocking(process.stdin.fileno(), False)
        for _, fd in self._open:
            os.set_blocking(fd, False)
            self._epoll.register(fd, select.EPOLLIN)

    def fileno(self) -> int:
        return self._epoll.fileno()

    def read(self) -> tuple[Stream, bytes] | None:
        code = self._code()  # before reading, so that the last output is not missed
        for each in list(self._open):
            stream, fd = each
            try:
                data = os.read(fd, _CHUNK)
            except BlockingIOError:
                continue
            self._open.remove(each)
            if data:
                self._open.append(each)  # the other stream is first next time
                self._heard(stream, data)
                return stream, data
            self._epoll.unregister(fd)
        if code is None:
            return None
        raise self._ended(code)

    def _ended(self, code: int | None) -> ChannelEnded:
        if code and not self._has_spoken:
            self._failed(code, self._said.decode("utf-8", "replace").strip())
        return ChannelEnded(code)

    def _heard(self, stream: Stream, data: bytes) -> None:
        if stream == "stdout" and data:
            self._has_spoken, self._said = True, b""
        elif stream == "stderr" and not self._has_spoken:
            self._said = (self._said + data)[-_REASON:]

    def _code(self) -> int | None:
        code = self._process.poll()
        return code if code is None or code >= 0 else 128 - code

    def write(self, data: bytes | memoryview) -> int:
        try:
            return os.write(self._input.fileno(), data)
        except BlockingIOError:
            return 0
        except BrokenPipeError as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_DYING)
            if not self._has_spoken:
                self._read_message()
            raise self._ended(self._code()) from error

    def _read_message(self) -> None:
        """Read the message of a program that ended before it started the command."""
        for stream, fd in self._open:
            with contextlib.suppress(BlockingIOError):
                self._heard(stream, os.read(fd, _CHUNK))

    def close_input(self) -> None:
        with contextlib.suppress(OSError):  # the process has ended already
            self._input.close()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._epoll.close()
        os.close(self._end)
        for each in (self._input, *self._outputs):
            with contextlib.suppress(OSError):  # as above
                each.close()
