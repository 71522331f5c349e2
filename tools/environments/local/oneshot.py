"""Run each command in its own shell process. Only the working folder carries over."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Mapping

from toolcrib.contract.environment import ExecOutcome, ExecRequest
from toolcrib.contract.errors import EnvironmentFailed
from tools.environments import _groups
from tools.environments._output import Output
from tools.environments.local.running import RunningCommand
from tools.environments.local.spawn import ShellProgram, reported_cwd, spawn
from tools.environments.shell.linger import Lingering

_CLOSE_GRACE = 0.5
"""Seconds that background processes have between SIGTERM and SIGKILL when the environment closes."""
_CLOSE_LIMIT = 5.0


class LocalOneShot:
    """Runs each command in a shell process of its own; used if bash is missing or the system is not Linux. ``cwd`` is the folder
    of the next command.
    """

    def __init__(self, cwd: str, base: Callable[[], Mapping[str, str]]) -> None:
        self.cwd = cwd
        self._base = base
        path = shutil.which("bash")
        self._shell = ShellProgram(path, is_bash=True) if path else ShellProgram(shutil.which("sh") or "/bin/sh", is_bash=False)
        self._running: set[RunningCommand] = set()
        self._interrupts = 0
        self._left: set[int] = set()
        self._lingering = Lingering()
        self._lock = threading.Lock()
        self._closed = False

    @property
    def where(self) -> str:
        return "local" if self._shell.is_bash else "local:sh"

    async def execute(self, request: ExecRequest, cwd: str) -> ExecOutcome:
        """Run a command in the folder ``cwd``, which exists. Raises EnvironmentFailed."""
        if self._closed:
            raise EnvironmentFailed("this environment is closed: open another")
        started, interrupts = time.monotonic(), self._interrupts
        child = spawn(self._shell, request.command, cwd, {**self._base(), **request.env}, request.stdin)
        try:
            output = Output(request)
            running = RunningCommand(child.process, child.pipes, output)
            with self._lock:
                self._running.add(running)
                missed = self._interrupts != interrupts  # the interrupt came while the process started
            if missed:
                running.interrupt()
            try:
                await running.finish(request.timeout)
            finally:
                self._settle(running, child.process.pid)
                kept = output.finish()
            ended_in = reported_cwd(child.report, cwd)
        finally:
            os.close(child.report)
        if request.cwd is None and ended_in != cwd:
            self.cwd = ended_in
        code = child.process.returncode
        if code is None:  # stuck in the kernel with a pending SIGKILL
            code = -signal.SIGKILL
        return ExecOutcome(
            exit_code=code if code >= 0 else 128 - code,
            stdout=kept["stdout"],
            stderr=kept["stderr"],
            cwd=ended_in,
            duration=time.monotonic() - started,
            where=self.where,
            ended=running.ended,
        )

    def _settle(self, running: RunningCommand, session: int) -> None:
        """Record the processes and the open pipes that a command left behind."""
        with self._lock:
            self._running.discard(running)
            if _groups.left_behind(session):
                self._left = {left for left in self._left if _groups.left_behind(left)} | {session}
        open_pipes = list(running.pipes.values())
        if running.ended == "exited" and running.exited and not self._closed and open_pipes:
            self._lingering.adopt(open_pipes)
        else:
            for fd in open_pipes:
                os.close(fd)

    def interrupt(self) -> None:
        with self._lock:
            self._interrupts += 1
            running = list(self._running)
        for each in running:
            each.interrupt()

    def release_idle(self) -> bool:
        """Return True if nothing is held: no command runs, and none left a process running."""
        with self._lock:
            if self._running or any(_groups.left_behind(left) for left in self._left):
                return False
            self._left = set()
        self._lingering.release_idle()
        return True

    async def close(self) -> None:
        self._closed = True
        self.interrupt()
        give_up = time.monotonic() + _CLOSE_LIMIT
        while self._running and time.monotonic() < give_up:  # noqa: ASYNC110 - the commands may run in event loops of other threads
            await asyncio.sleep(0.01)
        with self._lock:
            left = {session for session in self._left if _groups.left_behind(session)}
            self._left = set()
        await _end_all(left)
        self._lingering.close()


async def _end_all(sessions: set[int]) -> None:
    groups = {session: {session} | _groups.groups_of(session) for session in sessions}
    for number in (signal.SIGTERM, signal.SIGKILL):
        for session in groups:
            _groups.send(groups[session], number)
        give_up = time.monotonic() + _CLOSE_GRACE
        while time.monotonic() < give_up:
            groups = {session: each for session, each in groups.items() if _groups.living(session, each)}
            if not groups:
                return
            await asyncio.sleep(0.01)
