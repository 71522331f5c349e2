"""The shells of one environment: the session's own, and copies of it for concurrent calls."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.effects import ShellState
from toolcrib.contract.environment import ExecOutcome, ExecRequest
from toolcrib.contract.errors import EnvironmentFailed
from tools.environments import _groups
from tools.environments._census import Sessions, census
from tools.environments._output import Output
from tools.environments._pace import turn
from tools.environments._request import command_text, never_run
from tools.environments._workers import Workers
from tools.environments.shell import driver
from tools.environments.shell.beyond import keeps_files, limits_of
from tools.environments.shell.call import ShellCommand
from tools.environments.shell.kept import Kept
from tools.environments.shell.launcher import Launcher
from tools.environments.shell.linger import Lingering
from tools.environments.shell.live import is_full, live_shells
from tools.environments.shell.outcome import CHANGED, exit_code, last_report, what_happened
from tools.environments.shell.reaper import CLOSE_LIMIT, GRACE, Endings, end_all
from tools.environments.shell.shell import Shell
from tools.environments.shell.snapshot import SHELL_ENDED, leaves_all, with_status
from tools.environments.shell.spawned import Begin, LocalBackgroundProcess, Spawned
from tools.environments.shell.use import CallsInside, reserve_room, take_room
from tools.time_limit import seconds_left

_TELL_LIMIT = 20.0
"""Maximum seconds until a shell reports its state, generous because the machine may be under load."""


@dataclass(slots=True)
class _Lease:
    shell: Shell
    own: bool
    """True for the session's own shell, False for a copy."""


class _NoLongerWanted(Exception):
    """The call was interrupted, or the pool was closed, before anything ran."""


class ShellPool:
    """A session's shells. ``base`` returns the variables of the first shell. Safe to use from several threads and event loops."""

    def __init__(self, launcher: Launcher, cwd: str, base: Callable[[], Mapping[str, str]]) -> None:
        self.cwd = cwd
        self.generation = self._status = 0
        self._launcher = launcher
        self._kept = Kept(base)
        self._shell: Shell | None = None
        self._notice = ""
        self._calls: set[ShellCommand] = set()
        self._interrupts = 0
        self._spawned: dict[Shell, LocalBackgroundProcess] = {}
        self._endings = Endings()
        self._lingering = Lingering()
        self._lock = threading.Lock()
        self._inside = CallsInside(self._lock)
        self._closed = False

    # -- commands ------------------------------------------------------------------------------------------------

    async def execute(self, request: ExecRequest, cwd: str) -> ExecOutcome:
        """Run a command in the existing folder ``cwd``. Raises EnvironmentFailed."""
        started, interrupts = time.monotonic(), self._interrupts
        text = command_text(request)
        with self._entered() as own:
            try:
                lease = await self._take(cwd, own, functools.partial(self._wants, interrupts))
            except _NoLongerWanted:
                return never_run(cwd, self._launcher.where)
            return await self._run(lease, request, text, cwd, started, interrupts)

    async def _run(
        self, lease: _Lease, request: ExecRequest, text: str, cwd: str, started: float, interrupts: int
    ) -> ExecOutcome:
        shell = lease.shell
        said = shell.snapshot or self._kept.snapshot
        output: Output | None = None
        call: ShellCommand | None = None
        try:
            if self._interrupts != interrupts:  # interrupted while the shell started
                return never_run(cwd, self._launcher.where)
            there = cwd if shell.cwd != cwd else None
            begun = _groups.Moment.now()
            brief = there is None and not shell.owes and leaves_all(said, request.command)
            text = with_status(said, self._status, text)
            shell.begin(_bytes(text), request.stdin, there, request.env, brief=brief)
            # The command runs from here on, while we prepare to listen.
            output = Output(request)
            call = ShellCommand(shell, output, begun, functools.partial(self._may_trap, shell, request.command))
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
        status = exit_code(shell, call)
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
        said = shell.snapshot or self._kept.snapshot
        return driver.may_trap(command) or (said is not None and said.mentions_traps)

    async def spawn(self, request: ExecRequest, cwd: str, begin: Begin[Spawned]) -> Spawned:
        """Start a process in the existing folder ``cwd``. Raises EnvironmentFailed."""
        with self._entered(beside=True):
            shell = await self._copy(cwd, self._wants)
            try:
                spawned = begin(shell, request, self._forget)
            except BaseException:
                self._endings.kill(shell)
                raise
            with self._lock:
                self._spawned[shell] = spawned
        await spawned.begin_with(request.stdin)
        return spawned

    def _forget(self, shell: Shell) -> None:
        with self._lock:
            self._spawned.pop(shell, None)
        self._endings.put_away(shell)

    @contextlib.contextmanager
    def _entered(self, *, beside: bool = False) -> Iterator[bool]:
        """Enter a call: yield True if it uses the session's own shell. ``close`` waits for all calls that have entered."""
        with self._lock:
            if self._closed:
                raise EnvironmentFailed(_CLOSED)
            own = not (self._inside.is_own_taken or beside)
            inside = self._inside.enter(own=own)
        with inside:
            yield own

    def _wants(self, interrupts: int | None = None) -> bool:
        """Return True unless the pool is closed, or interrupted since its count was ``interrupts``. None ignores interrupts."""
        return not self._closed and interrupts in (None, self._interrupts)

    async def _take(self, cwd: str, own: bool, wanted: Callable[[], bool]) -> _Lease:
        if not own:
            return _Lease(await self._copy(cwd, wanted), own=False)
        shell = self._shell
        if shell is not None and not shell.is_well():
            await last_report(shell, _TELL_LIMIT)
            self._replace(shell, _ENDED if shell.exit_code() is not None else CHANGED)
            shell = None
        self._shell = shell = shell or await self._new(cwd, wanted, own=True)
        return _Lease(shell, own=True)

    async def _copy(self, cwd: str, wanted: Callable[[], bool]) -> Shell:
        """Start a copy of the session's shell with the state after its last ended command. Raises EnvironmentFailed."""
        await self._told()
        return await self._new(cwd, wanted, own=False)

    async def _new(self, cwd: str, wanted: Callable[[], bool], *, own: bool) -> Shell:
        """Start a shell. Raises EnvironmentFailed; _NoLongerWanted if the call was interrupted while it waited."""
        self._collect()
        live, weight = live_shells(), self.weight
        give_back: Callable[[], None] = functools.partial(live.give, weight)

        def start() -> Shell:
            try:
                return self._kept.start(self._launcher, cwd, own=own, closed=give_back)
            except BaseException:
                give_back()
                raise

        while True:
            if not await take_room(self._launcher, wanted):
                raise EnvironmentFailed(_CLOSED) if self._closed else _NoLongerWanted
            try:
                return await _starters.run(start, drop=Shell.kill)
            except EnvironmentFailed as error:
                if not is_full(error):
                    raise
                if not await live.rest_in_need(weight):
                    raise EnvironmentFailed(_FULL) from error

    async def reserve_room(self, wanted: Callable[[], bool]) -> None:
        """Wait for room for the launcher and its next shell, before the launcher starts anything. Raises EnvironmentFailed."""
        if await reserve_room(self._launcher, wanted):
            live_shells().used(self)

    def busy(self) -> contextlib.AbstractContextManager[None]:
        """Count the block as a running call, so that the shell and the launcher are kept."""
        with self._lock:
            return self._inside.enter(own=False)

    async def _told(self) -> None:
        """Wait until the session's shell has reported its state, which follows a command's frame."""
        give_up = time.monotonic() + seconds_left(_TELL_LIMIT)
        while (shell := self._shell) is not None and shell.owes:
            if not self._inside.is_own_taken:  # a running command reads the reports itself
                shell.collect()
                if not shell.owes or shell.exit_code() is not None:
                    return
            if time.monotonic() > give_up:
                raise EnvironmentFailed("the session's shell has not reported its variables: wait for its processes")
            await asyncio.sleep(0.001)

    def _collect(self) -> None:
        shell = self._shell
        if shell is not None and shell.owes and not self._inside.is_own_taken:
            shell.collect()
        if shell is not None and shell.snapshot is not None:
            self._kept.snapshot = shell.snapshot

    def _settle(self, lease: _Lease, call: ShellCommand | None, moves: bool) -> str:
        """Take over the pipes, the folder and the state that a command left behind. Return the notice about its shell."""
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
            if shell.attached:  # otherwise it may still be in its start folder
                shell.where()
        if not lease.own:
            self._endings.retire(shell, GRACE)
            return ""
        live_shells().used(self)
        if moves and not shell.no_folder:
            self.cwd = shell.cwd
        if dead:
            self._replace(shell, "" if shell.whole or shell.no_folder else what_happened(call, shell))
        if call is None:  # no caller would get the notice
            return ""
        notice, self._notice = self._notice, ""
        return notice

    def _replace(self, shell: Shell, why: str) -> None:
        """Discard the shell. Another one starts when needed."""
        shell.collect()
        kept = self._kept
        if shell.snapshot is not None:
            kept.snapshot = shell.snapshot
        if kept.snapshot is not None and kept.snapshot.is_trapped and not shell.attached:
            kept.snapshot = kept.snapshot.untrapped()
            why = "The shell's own DEBUG, ERR or RETURN traps blocked it and were removed."
        kept.lost()
        self._shell = None
        self.generation += 1
        live_shells().forget(self)
        if why:
            self._notice = f"{why} A new shell continues with the earlier variables, functions and options."
        if shell.exit_code() is None:  # its folder was removed
            self._endings.kill(shell)
        else:
            self._endings.put_away(shell)

    def interrupt(self) -> None:
        with self._lock:
            self._interrupts += 1
            calls = list(self._calls)
        for call in calls:
            call.interrupt()
        live_shells().look_again()

    # -- state ---------------------------------------------------------------------------------------------------

    async def state(self) -> ShellState:
        """Return the state after the last ended command; the same object until another ends or the shell is suspended."""
        await self._told()
        self._collect()
        return self._kept.state()

    # -- idle ----------------------------------------------------------------------------------------------------

    @property
    def weight(self) -> int:
        return self._launcher.descriptors

    def is_idle(self) -> bool:
        """True if the pool has an idle shell, or room reserved for one."""
        return not self._inside and not self._closed and (self._shell is not None or bool(self._launcher.reserved))

    async def release_idle(self) -> bool:
        """See ReleasesIdle."""
        await turn()
        await self._endings.over(GRACE + CLOSE_LIMIT)  # copies that were just used
        if self._shell is None and self._endings.is_over() and not self._spawned:
            return await self._rest_launcher()
        sessions = await census.take()
        beside = any(spawned.code() is None for spawned in list(self._spawned.values()))
        if beside or any(process.among(sessions) for process in self._endings.left):
            return False
        if self._shell is not None and not await self.rest_shell(sessions):
            return False
        return await self._rest_launcher()

    async def rest_shell(self, sessions: Sessions) -> bool:
        """Suspend the session's own shell and keep its state. Return False if impossible. ``sessions``: a scan from just now."""
        shell = self._shell
        if shell is None:
            return await self._rest_launcher()
        if not self._is_quiet(shell, sessions):
            return False
        pid = shell.process.pid
        if any(one.pid != pid for one in shell.process.among(sessions)):
            return False
        try:
            await self._told()
        except EnvironmentFailed:
            return False
        limits = limits_of(pid)
        if limits is None or await keeps_files(pid, shell.folder.input):
            return False
        with self._lock:
            if not self._is_quiet(shell, sessions):
                return False
            if not shell.is_well():
                self._replace(shell, _ENDED if shell.exit_code() is not None else CHANGED)
                return False
            self._kept.pack(shell, limits)
            self._shell = None
        live_shells().forget(self)
        await _enders.run(shell.vanish)
        await self._rest_launcher()
        return True

    def _is_quiet(self, shell: Shell, sessions: Sessions) -> bool:
        """Return True if no command ran in the shell since the scan of all processes began."""
        return self._shell is shell and not (self._inside or self._closed) and self._inside.quiet_since < sessions.begun

    async def _rest_launcher(self) -> bool:
        if self._inside or self._shell is not None or self._spawned or not self._endings.is_over():
            return False
        self._lingering.release_idle()
        return await self._launcher.release_idle()

    # -- the end -------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        await turn()
        with self._lock:
            self._closed = True
        self.interrupt()
        give_up = time.monotonic() + CLOSE_LIMIT
        while self._inside and time.monotonic() < give_up:  # noqa: ASYNC110 - the commands may run in event loops of other threads
            await asyncio.sleep(0.01)
        shell, self._shell = self._shell, None
        with contextlib.suppress(EnvironmentFailed, _NoLongerWanted):  # its EXIT trap does not run if no shell can start
            shell = await self._new(self.cwd, lambda: True, own=True) if shell is None and self._kept.owes_exit else shell
        if shell is not None:
            self._endings.retire(shell, GRACE)
        live_shells().forget(self)
        await self._endings.over(GRACE + CLOSE_LIMIT)
        for spawned in list(self._spawned.values()):
            spawned.hang_up()
        await end_all([*self._endings.left, *(each.process for each in self._spawned)])
        for spawned in list(self._spawned.values()):
            await _enders.run(spawned.end)
        await self._endings.over(CLOSE_LIMIT)
        self._endings.forget()
        self._lingering.close()


_CLOSED = "this environment is closed: open another"
_ENDED = "The shell had ended between two commands."
_FULL = "too many open files to start a shell: close some sessions, or raise `ulimit -n`"
_starters, _enders = Workers("toolcrib-shell", 4), Workers("toolcrib-shell-end", 2)


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
