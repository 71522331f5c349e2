"""This machine. One shell process a command; the working folder is kept from one command to the next."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib import Environment, EnvironmentFailed, ExecOutcome, ExecRequest, FileInfo
from tools.environments import _files, _groups
from tools.environments._capture import Capture
from tools.environments._child_env import child_environment
from tools.environments._linger import Lingering
from tools.environments._running import Running
from tools.environments._spawn import Shell, reported_cwd, spawn

_CLOSE_GRACE = 0.5
"""Seconds that background processes have between SIGTERM and SIGKILL when the environment closes."""
_CLOSE_LIMIT = 5.0


class LocalEnvironment:
    """``cwd`` is where the first command starts (default: this process's own); ``pass_env`` names variables that commands
    may see beyond the usual ones. Safe to use from several threads and event loops at once.

    A command that ends in another folder takes the next one there, unless its request named a ``cwd`` of its own, or it
    set an EXIT trap or replaced the shell (``exec``). Where that folder is gone, one call fails, says so, and moves the
    session to the nearest folder above that exists: a command never runs elsewhere than where it was judged.
    What a command left running in the background lives on until ``close``.
    """

    def __init__(self, cwd: str | None = None, *, pass_env: Sequence[str] = ()) -> None:
        if isinstance(pass_env, str):
            raise EnvironmentFailed(f"pass_env takes a list of variable names: [{pass_env!r}]")
        self._cwd = os.path.realpath(Path(cwd).expanduser() if cwd is not None else Path.cwd())
        if not Path(self._cwd).is_dir():
            raise EnvironmentFailed(f"the working folder {self._cwd} does not exist: create it or choose another")
        self._pass_env = tuple(pass_env)
        path = shutil.which("bash")
        self._shell = Shell(path, is_bash=True) if path else Shell(shutil.which("sh") or "/bin/sh", is_bash=False)
        self._running: set[Running] = set()
        self._left: set[int] = set()
        self._lingering = Lingering()
        self._lock = threading.Lock()
        self._closed = False
        self._interrupts = 0

    @property
    def identity(self) -> str:
        """``local``; ``local:sh`` where bash is missing and commands run in sh."""
        return "local" if self._shell.is_bash else "local:sh"

    @property
    def cwd(self) -> str:
        return self._cwd

    @property
    def search_path(self) -> str:
        """PATH as commands get it."""
        return child_environment(self._pass_env)["PATH"]

    # -- commands ------------------------------------------------------------------------------------------------

    async def execute(self, request: ExecRequest) -> ExecOutcome:
        if self._closed:
            raise EnvironmentFailed("this environment is closed: open another")
        started, interrupts = time.monotonic(), self._interrupts
        cwd = self._cwd if request.cwd is None else _files.resolve(request.cwd, self._cwd)
        child = spawn(self._shell, request.command, self._standing(cwd), self._env(request), request.stdin)
        try:
            captures = {name: Capture(name, request.keep, request.spill) for name in child.pipes}
            running = Running(child.process, child.pipes, captures, request.on_output)
            with self._lock:
                self._running.add(running)
                missed = self._interrupts != interrupts  # it came while the process was started
            if missed:
                running.interrupt()
            try:
                await running.finish(request.timeout)
            finally:
                self._settle(running, child.process.pid)
                kept = {name: capture.finish() for name, capture in captures.items()}
            ended_in = reported_cwd(child.report, cwd)
        finally:
            os.close(child.report)
        if request.cwd is None and ended_in != cwd:
            self._cwd = ended_in
        code = child.process.returncode
        if code is None:  # stuck in the kernel with SIGKILL waiting for it
            code = -signal.SIGKILL
        return ExecOutcome(
            exit_code=code if code >= 0 else 128 - code,
            stdout=kept["stdout"],
            stderr=kept["stderr"],
            cwd=ended_in,
            duration=time.monotonic() - started,
            where=self.identity,
            ended=running.ended,
        )

    def _env(self, request: ExecRequest) -> dict[str, str]:
        env = child_environment(self._pass_env)
        env.update(request.env)
        return env

    def _standing(self, cwd: str) -> str:
        """``cwd``, if it is there. Else moves the session where that was its own, and raises."""
        if Path(cwd).is_dir():
            return cwd
        if cwd != self._cwd:
            raise EnvironmentFailed(f"the folder {cwd} does not exist, so the command was not run: choose another cwd")
        self._cwd = next(str(folder) for folder in Path(cwd).parents if folder.is_dir())
        raise EnvironmentFailed(
            f"the working folder {cwd} no longer exists, so the command was not run. The session is now in {self._cwd}: "
            "call again to run there, or name another cwd"
        )

    def _settle(self, running: Running, session: int) -> None:
        """Takes stock of what a command left behind."""
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

    async def close(self) -> None:
        self._closed = True
        self.interrupt()
        give_up = time.monotonic() + _CLOSE_LIMIT
        while self._running and time.monotonic() < give_up:  # noqa: ASYNC110 - they may run in loops of other threads
            await asyncio.sleep(0.01)
        with self._lock:
            left = {session for session in self._left if _groups.left_behind(session)}
            self._left = set()
        await _end_all(left)
        self._lingering.close()

    # -- files ---------------------------------------------------------------------------------------------------

    async def resolve(self, path: str) -> str:
        return _files.resolve(path, self._cwd)

    async def stat(self, path: str) -> FileInfo | None:
        return _files.info(path)

    async def read_file(self, path: str, *, limit: int | None = None) -> bytes:
        """``path`` is resolved, as for ``write_file``."""
        return _files.read(path, limit)

    async def write_file(self, path: str, data: bytes, *, mode: int | None = None) -> None:
        _files.write(path, data, mode)

    async def delete_file(self, path: str) -> None:
        """``path`` is resolved, as for ``write_file``. Folders are refused (IsADirectoryError)."""
        _files.delete(path)

    async def list_dir(self, path: str) -> list[FileInfo]:
        """``path`` is resolved, as for ``write_file``."""
        return _files.list_dir(path)


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


if TYPE_CHECKING:

    def _conforms(environment: LocalEnvironment) -> Environment:
        return environment
