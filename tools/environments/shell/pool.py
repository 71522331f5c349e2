"""The shells of one environment: the session's own, and copies of it for calls that come while it is busy."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from toolcrib import EnvironmentFailed, ExecOutcome, ExecRequest, ShellState
from tools.environments import _groups
from tools.environments._output import Output
from tools.environments._request import command_text, never_run
from tools.environments.shell import driver
from tools.environments.shell.call import Call
from tools.environments.shell.launcher import Launcher, ShellProcess
from tools.environments.shell.linger import Lingering
from tools.environments.shell.shell import Shell
from tools.environments.shell.snapshot import SHELL_ENDED, Snapshot, first_state, leaves_all, with_status
from tools.environments.shell.spawned import Spawned

_CLOSE_GRACE = 0.5
"""Seconds that an ending shell has for its EXIT trap, and background processes between SIGTERM and SIGKILL."""
_CLOSE_LIMIT = 5.0
_TELL_LIMIT = 20.0
"""Seconds that a shell may take to tell its state, most of it for a machine under load."""


@dataclass(slots=True)
class _Lease:
    shell: Shell
    own: bool
    """Whether it is the session's own shell, and not a copy."""


class ShellPool:
    """``base`` gives the variables of the first shell. Safe to use from several threads and event loops at once."""

    def __init__(self, launcher: Launcher, cwd: str, base: Callable[[], Mapping[str, str]]) -> None:
        self.cwd = cwd
        self.generation = 0
        self._launcher = launcher
        self._base = base
        self._shell: Shell | None = None
        self._snapshot: Snapshot | None = None
        self._state: tuple[Snapshot, ShellState] | None = None
        self._first: ShellState | None = None
        self._busy = False
        self._inside = 0
        """Calls that have a shell, or are being given one."""
        self._notice = ""
        self._calls: set[Call] = set()
        self._retired: list[tuple[Shell, float]] = []
        self._left: list[ShellProcess] = []
        self._interrupts = 0
        self._spawned: dict[Shell, Spawned] = {}
        self._lingering = Lingering()
        self._lock = threading.Lock()
        self._closed = False
        self._status = 0

    # -- commands ------------------------------------------------------------------------------------------------

    async def execute(self, request: ExecRequest, cwd: str) -> ExecOutcome:
        """``cwd`` is there. Raises EnvironmentFailed."""
        started, interrupts = time.monotonic(), self._interrupts
        text = command_text(request)
        with self._entered() as own:
            return await self._run(await self._take(cwd, own), request, text, cwd, started, interrupts)

    async def _run(
        self, lease: _Lease, request: ExecRequest, text: str, cwd: str, started: float, interrupts: int
    ) -> ExecOutcome:
        shell = lease.shell
        said = shell.snapshot or self._snapshot
        output: Output | None = None
        call: Call | None = None
        try:
            if self._interrupts != interrupts:  # it came while the shell was started
                return never_run(cwd, self._launcher.where)
            there = cwd if shell.cwd != cwd else None
            begun = _groups.Moment.now()
            brief = there is None and not shell.owes and leaves_all(said, request.command)
            text = with_status(said, self._status, text)
            shell.begin(_bytes(text), request.stdin, there, request.env, brief=brief)
            # It runs from here on, while we get ready to listen.
            output = Output(request)
            call = Call(shell, output, begun, functools.partial(self._may_trap, shell, request.command))
            with self._lock:
                self._calls.add(call)
                missed = self._interrupts != interrupts
            if missed:
                call.interrupt_now()
            await call.finish(request.timeout)
        finally:
            notice = self._settle(lease, call, request.cwd is None)
            kept = output.finish() if output is not None else {}
        if shell.no_folder:
            raise EnvironmentFailed(f"the folder {cwd} cannot be entered, so the command was not run: choose another cwd")
        if shell.status is None and not shell.attached and call.ended == "exited":
            raise EnvironmentFailed(f"{SHELL_ENDED}, which was not run: call again")
        status = _exit_code(shell, call)
        if lease.own:
            self._status = status
        return ExecOutcome(
            exit_code=status,
            stdout=kept["stdout"],
            stderr=kept["stderr"],
            cwd=shell.cwd,
            duration=time.monotonic() - started,
            where=self._launcher.where,
            ended=call.ended,
            notice=notice,
        )

    def _may_trap(self, shell: Shell, command: str) -> bool:
        said = shell.snapshot or self._snapshot
        return driver.may_trap(command) or (said is not None and said.mentions_traps)

    async def spawn(self, request: ExecRequest, cwd: str) -> Spawned:
        """``cwd`` is there. Raises EnvironmentFailed."""
        text = command_text(request)
        with self._entered(beside=True):
            shell = await self.copy(cwd)
            try:
                spawned = Spawned(shell, shell.begin(_bytes(text), None, None, request.env), self._forget)
            except BaseException:
                shell.kill()
                raise
            with self._lock:
                self._spawned[shell] = spawned
        if request.stdin:
            await spawned.write(request.stdin)
        return spawned

    def _forget(self, shell: Shell) -> None:
        with self._lock:
            self._spawned.pop(shell, None)
        self._put_away(shell)

    @contextlib.contextmanager
    def _entered(self, *, beside: bool = False) -> Iterator[bool]:
        """Whether the session's own shell is for this call. ``close`` waits for all that are in here."""
        with self._lock:
            if self._closed:
                raise EnvironmentFailed("this environment is closed: open another")
            own = not (self._busy or beside)
            self._busy = self._busy or own
            self._inside += 1
        try:
            yield own
        finally:
            with self._lock:
                self._inside -= 1
                self._busy = self._busy and not own

    async def _take(self, cwd: str, own: bool) -> _Lease:
        self._reap()
        if not own:
            return _Lease(await self.copy(cwd), own=False)
        shell = self._shell
        if shell is not None and not (shell.exit_code() is None and shell.folder.is_whole()):
            gone = shell.exit_code() is not None
            self._replace(shell, "The shell had ended between two commands." if gone else _CHANGED)
            shell = None
        if shell is None:
            shell = self._shell = self._new(cwd)
        return _Lease(shell, own=True)

    async def copy(self, cwd: str) -> Shell:
        """A new shell with the state after the last command that ended in the session's own. Raises EnvironmentFailed."""
        await self._told()
        if self._closed:
            raise EnvironmentFailed("this environment is closed: open another")
        return self._new(cwd)

    def _new(self, cwd: str) -> Shell:
        self._collect()
        said = self._snapshot
        if said is None:
            return Shell(self._launcher, driver.exports(self._base()), cwd)
        return Shell(self._launcher, said.restore(), cwd, apart=said.has_debug_trap)

    async def _told(self) -> None:
        """Returns when the session's shell does not owe its state: the frame of a command comes before what it changed."""
        give_up = time.monotonic() + _TELL_LIMIT
        while (shell := self._shell) is not None and shell.owes:
            if not self._busy:  # whoever runs a command in it reads what it says
                shell.collect()
                if not shell.owes or shell.exit_code() is not None:
                    return
            if time.monotonic() > give_up:
                raise EnvironmentFailed("the session's shell has not told its variables and functions: wait for what runs in it")
            await asyncio.sleep(0.001)

    def _collect(self) -> Snapshot | None:
        shell = self._shell
        if shell is not None and shell.owes and not self._busy:
            shell.collect()
        if shell is not None and shell.snapshot is not None:
            self._snapshot = shell.snapshot
        return self._snapshot

    def _settle(self, lease: _Lease, call: Call | None, moves: bool) -> str:
        """Takes stock of what a command left behind. What is to be said about its shell."""
        shell = lease.shell
        if call is not None:
            with self._lock:
                self._calls.discard(call)
            if call.ended == "exited" and not self._closed and call.held:
                self._lingering.adopt(call.held)
            else:
                for fd in call.held:
                    os.close(fd)
        dead = shell.exit_code() is not None
        if not dead:
            shell.over()
            if shell.attached:  # else it may still be where it was started
                shell.where()
        if not lease.own:
            self._retire(shell)
            return ""
        if moves and not shell.no_folder:
            self.cwd = shell.cwd
        if dead:
            self._replace(shell, "" if shell.whole or shell.no_folder else _what_happened(call, shell))
        if call is None:  # nobody would be told
            return ""
        notice, self._notice = self._notice, ""
        return notice

    def _replace(self, shell: Shell, why: str) -> None:
        """Another shell takes its place, when it is needed."""
        shell.collect()
        self._snapshot = shell.snapshot or self._snapshot
        if self._snapshot is not None and self._snapshot.is_trapped and not shell.attached:
            self._snapshot = self._snapshot.untrapped()
            why = "The shell's own DEBUG, ERR or RETURN traps kept it from beginning, and are gone."
        self._shell = None
        self.generation += 1
        if why:
            self._notice = f"{why} A new shell goes on with the state from before: variables, functions, options."
        if shell.exit_code() is None:  # its folder was removed
            shell.kill()
        else:
            self._put_away(shell)

    # -- copies, and what is left behind -------------------------------------------------------------------------

    def _retire(self, shell: Shell) -> None:
        shell.end()
        with self._lock:
            self._retired.append((shell, time.monotonic() + _CLOSE_GRACE))
        self._reap()

    def _reap(self) -> None:
        if not self._retired:
            return
        with self._lock:
            waiting, self._retired = self._retired, []
        for shell, give_up in waiting:
            if shell.exit_code() is None and time.monotonic() < give_up:
                with self._lock:
                    self._retired.append((shell, give_up))
                continue
            if shell.exit_code() is None:
                shell.process.send(signal.SIGKILL)
            self._put_away(shell)

    def _put_away(self, shell: Shell) -> None:
        """It has ended; what it started may live on."""
        if not shell.leaves():
            return
        with self._lock:
            over = [process for process in self._left if not process.members()]
            self._left = [process for process in self._left if process not in over] + [shell.process]
        for process in over:
            process.reap()

    def interrupt(self) -> None:
        with self._lock:
            self._interrupts += 1
            calls = list(self._calls)
        for call in calls:
            call.interrupt()

    # -- state ---------------------------------------------------------------------------------------------------

    async def state(self) -> ShellState:
        """As of the last command that ended; the same object until another one has."""
        await self._told()
        snapshot = self._collect()
        if snapshot is None:
            self._first = self._first or first_state(self._base())
            return self._first
        if self._state is None or self._state[0] is not snapshot:
            self._state = snapshot, snapshot.state()
        return self._state[1]

    # -- the end -------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        with self._lock:
            self._closed = True
        self.interrupt()
        give_up = time.monotonic() + _CLOSE_LIMIT
        while self._inside and time.monotonic() < give_up:  # noqa: ASYNC110 - they may run in loops of other threads
            await asyncio.sleep(0.01)
        shell, self._shell = self._shell, None
        if shell is not None:
            self._retire(shell)
        with self._lock:
            alive, self._retired = [retired for retired, _ in self._retired], []
        give_up = time.monotonic() + _CLOSE_GRACE
        while any(each.exit_code() is None for each in alive) and time.monotonic() < give_up:  # noqa: ASYNC110 - processes
            await asyncio.sleep(0.005)
        await _end_all([*(each.process for each in (*alive, *self._spawned)), *self._left])
        for each in alive:
            each.kill()
        for spawned in list(self._spawned.values()):
            spawned.end()
        with self._lock:
            left, self._left = self._left, []
        for process in left:
            process.reap()
        self._lingering.close()


_CHANGED = "What an earlier command did to the folder through which the shell is spoken to has cost that shell."
_LOST = 1
"""The exit code of a command whose own is not known."""


def _exit_code(shell: Shell, call: Call) -> int:
    if shell.status is not None:
        return shell.status
    code = shell.exit_code()
    if call.lost or code is None:
        return _LOST
    told = call.ended != "exited" and code == 128 + signal.SIGTERM  # in place of SIGINT
    return 128 + signal.SIGINT if told else code


async def _end_all(processes: list[ShellProcess]) -> None:
    for number, grace in ((signal.SIGTERM, _CLOSE_GRACE), (signal.SIGKILL, _CLOSE_LIMIT)):
        give_up = time.monotonic() + grace
        told: set[int] = set()
        while True:
            left = {member.pid for process in processes for member in process.members()}
            for pid in left - told:
                for each in (number, signal.SIGCONT):
                    _groups.send_to(pid, each)
            told |= left
            if not left:
                return
            if time.monotonic() > give_up:
                break
            await asyncio.sleep(0.01)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _what_happened(call: Call | None, shell: Shell) -> str:
    if shell.disowned:
        return "Something wrote into what the shell says of itself, so that it had to be ended."
    if call is not None and call.lost and not shell.was_whole:
        return "This command removed the folder through which its shell is spoken to; its exit code is not known."
    if call is not None and call.lost:
        return (
            "The shell no longer answered after this command (did it redefine or disable builtins?); its exit code is not known."
        )
    if call is not None and call.ended != "exited":
        return "The shell did not end this command when it was told to and was killed with it."
    code = shell.exit_code() or 0
    if code > 128:
        with contextlib.suppress(ValueError):
            return f"This command ended the shell itself ({signal.Signals(code - 128).name})."
    return "This command ended or replaced the shell itself (exec, or exit with an EXIT trap)."
