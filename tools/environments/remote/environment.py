"""An environment over there: the session's shell, copies of it for calls that come while it is busy, and the files."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from toolcrib import BackgroundProcess, Captured, Environment, EnvironmentFailed, ExecOutcome, ExecRequest, Health, ShellState
from tools.environments._capture import Capture
from tools.environments.remote import frame, processes
from tools.environments.remote.call import Call
from tools.environments.remote.channel import Link
from tools.environments.remote.files import RemoteFiles
from tools.environments.remote.keeper import ARGV, Lost
from tools.environments.remote.keepers import Keepers
from tools.environments.remote.once import run_once
from tools.environments.remote.request import command_text
from tools.environments.remote.shell import Shell
from tools.environments.remote.spawned import Spawned, first_lines
from tools.environments.shell import driver
from tools.environments.shell.snapshot import Snapshot

_START = 20.0
_CLOSE_LIMIT = 5.0
_CLOSE_GRACE = 0.5
_ON = "A new shell goes on with the state from before: variables, functions, options."


class RemoteEnvironment(RemoteFiles):
    """``cwd`` is where the first command starts, ``env`` what its shell gets beyond what every process gets there. Safe to use
    from several threads and event loops at once.

    As in LocalEnvironment, commands are read by one bash that stays, and calls that come meanwhile by copies of it. Differences:
    what a process left running prints may be among the output of a command that runs at that time, and is lost in between;
    where the way there breaks, the call fails with what is known, is not repeated, and the next one gets a new shell.
    """

    def __init__(self, link: Link, cwd: str, *, env: Mapping[str, str] | None = None) -> None:
        self._link = link
        self._keepers = Keepers(link)
        super().__init__(link, self._keepers)
        self._cwd = cwd
        self._env = {"TERM": "dumb", **(env or {})}
        self._lock = threading.Lock()
        self._shell: Shell | None = None
        self._lost: Shell | None = None
        self._snapshot: Snapshot | None = None
        self._state: tuple[Snapshot, ShellState] | None = None
        self._busy = False
        self._closed = False
        self._generation = 0
        self._epoch = -1
        self._notice = ""
        self._calls: set[Call] = set()
        self._interrupts = 0
        self._spawned: set[Spawned] = set()

    @property
    def identity(self) -> str:
        return self._link.where

    @property
    def cwd(self) -> str:
        return self._cwd

    @property
    def generation(self) -> int:
        return self._generation

    # -- commands ------------------------------------------------------------------------------------------------

    async def execute(self, request: ExecRequest) -> ExecOutcome:
        text, interrupts = command_text(request), self._interrupts
        cwd = self._cwd if request.cwd is None else await self.resolve(request.cwd)
        with self._lock:
            if self._closed:
                raise EnvironmentFailed("this environment is closed: open another")
            own = not self._busy
            self._busy = True
        try:
            shell = await self._ready(own)
            try:
                return await self._execute(shell, own, request, text, cwd, interrupts)
            finally:
                if not own:
                    await self._retire(shell)
                elif self._shell is shell:
                    self._keepers.park(shell.keeper)
        finally:
            if own:
                self._busy = False

    async def _ready(self, own: bool) -> Shell:
        """A shell for one command; the session's own, or a copy."""
        shell = self._shell
        if own and shell is not None:
            self._keepers.unpark(shell.keeper)
            if not shell.keeper.lost:
                return shell
            self._forget(shell, f"The connection to {self._link.where} had broken between two commands.")
        elif not own:
            await self._snapshot_now()
        keeper = await self._keepers.take()
        new = Shell(keeper, f"{self._keepers.root}/{keeper.name}")
        try:
            if own:
                await self._inherit()
            await new.prepare()
        except Lost as error:
            keeper.close()
            raise await self._broke(error, "nothing was run") from error
        if own:
            self._shell = new
        return new

    async def _inherit(self) -> None:
        """What can still be known of the shell before."""
        lost, self._lost = self._lost, None
        before, self._epoch = self._epoch, self._link.epoch
        if before not in (-1, self._epoch):
            self._generation += 1
            self._notice = (
                f"{self._link.where} was replaced: what was only in it, such as processes and temporary files, is gone. {_ON}"
            )
        elif lost is not None:
            if await lost.recover(self._keepers.beside):
                self._snapshot = lost.snapshot
            answer = await self._keepers.beside(processes.listing([lost.keeper.session]))
            left = [str(one.pid) for one in processes.read(answer.out).members if one.pid != lost.keeper.pid]
            if left:
                self._notice += f" Still running over there from before: process {', '.join(left)}."

    def _prepare(self, shell: Shell, cwd: str) -> None:
        if not shell.alive:
            restore = driver.exports(self._env) if self._snapshot is None else self._snapshot.restore()
            shell.start(restore, cwd, bare=self._snapshot is not None)

    async def _execute(self, shell: Shell, own: bool, request: ExecRequest, text: str, cwd: str, interrupts: int) -> ExecOutcome:
        started = time.monotonic()
        captures = {name: Capture(name, request.keep, request.spill) for name in ("stdout", "stderr")}
        if request.stdin:
            await self._upload(f"{shell.folder}/i", request.stdin)
        if self._interrupts != interrupts:  # it came while the shell was made ready: nothing is run
            none = Captured()
            return ExecOutcome(130, none, none, cwd, time.monotonic() - started, self._link.where, "interrupted")
        try:
            call = await self._run(shell, request, text, cwd, captures)
            if not call.exchange.begun and not shell.alive and call.ended == "exited" and await self._is_folder(cwd):
                # It had died before: nothing was run.
                self._notice = f"The shell had ended between two commands. {_ON}"
                self._generation += own
                call = await self._run(shell, request, text, cwd, captures)
            if not call.exchange.begun:
                if call.ended == "exited":
                    raise await self._no_folder(shell, own, cwd)
            elif own:
                await self._settle(shell, call, request.cwd is None)
        finally:
            kept = {name: capture.finish() for name, capture in captures.items()}
        notice = ""
        if own:
            notice, self._notice = self._notice, ""
        return ExecOutcome(
            exit_code=1 if call.lost else int(call.exchange.out.status or 1),
            stdout=kept["stdout"],
            stderr=kept["stderr"],
            cwd=shell.cwd or cwd,
            duration=time.monotonic() - started,
            where=self._link.where,
            ended=call.ended,
            notice=notice,
        )

    async def _run(self, shell: Shell, request: ExecRequest, text: str, cwd: str, captures: dict[str, Capture]) -> Call:
        self._prepare(shell, cwd)
        call = Call(shell.keeper, captures, request.on_output, self._keepers.beside)
        call.simple = "trap" not in text and not (self._snapshot is not None and self._snapshot.mentions_traps)
        with self._lock:
            self._calls.add(call)
        try:
            await shell.begin(call, text, request, cwd)
            await call.finish(request.timeout)
        except asyncio.CancelledError:
            if call.exchange.done:
                shell.ended(call)
                await self._settle(shell, call, moves=False)
            else:
                self._forget(shell, "The last command was given up with its shell.")
            raise
        except Lost as error:
            self._forget(shell, "The shell of the last command was lost.")
            known = "the command may have run, and may still be running; it was not tried again"
            raise await self._broke(error, known) from error
        finally:
            with self._lock:
                self._calls.discard(call)
        shell.ended(call)
        return call

    def _forget(self, shell: Shell, why: str) -> None:
        shell.keeper.close()
        if self._shell is shell:
            self._shell, self._lost = None, shell
            self._generation += 1
            self._notice = f"{why} {_ON}"

    async def _broke(self, error: Lost, known: str) -> EnvironmentFailed:
        why = await asyncio.to_thread(self._link.diagnose)
        return EnvironmentFailed(f"{self._link.where} broke: {why or error}; {known}")

    async def _is_folder(self, path: str) -> bool:
        try:
            return (await self._keepers.beside(f"(cd -P -- {driver.quote(path)})")).status == 0
        except Lost as error:
            raise await self._broke(error, "the command was not run") from error

    async def _no_folder(self, shell: Shell, own: bool, cwd: str) -> EnvironmentFailed:
        if cwd != self._cwd or not own:
            return EnvironmentFailed(f"the folder {cwd} does not exist, so the command was not run: choose another cwd")
        shell.cwd = None
        above = [str(folder) for folder in PurePosixPath(cwd).parents]
        tests = "".join(f"[ -d {driver.quote(each)} ] && {{ printf %s {driver.quote(each)}; exit; }}\n" for each in above)
        with contextlib.suppress(Lost):  # the next call will say so
            found = (await self._keepers.beside(f"({tests})")).out.decode("utf-8", "surrogateescape")
            self._cwd = found or "/"
        return EnvironmentFailed(
            f"the working folder {cwd} no longer exists, so the command was not run. The session is now in {self._cwd}: "
            "call again to run there, or name another cwd"
        )

    async def _settle(self, shell: Shell, call: Call, moves: bool) -> None:
        """Takes stock of what a command did to the session's shell."""
        if not shell.alive:
            self._generation += 1
            try:
                await self._keepers.beside(processes.signal(signal.SIGKILL, [call.shell_pid]))  # it may have been stopped only
                told = await shell.testament(self._keepers.beside)
                if not told:
                    await shell.recover(self._keepers.beside)
            except Lost:
                told = False
            if not told:
                self._notice = f"{_what_happened(call)} {_ON}"
        elif shell.cwd is None:
            with contextlib.suppress(Lost):  # the next call will say so
                shell.cwd = await self._look_where(call.shell_pid or shell.pid)
        self._snapshot = shell.snapshot or self._snapshot
        if moves and shell.cwd is not None:
            self._cwd = shell.cwd

    async def _look_where(self, pid: int) -> str:
        answer = await self._keepers.beside(f"readlink /proc/{pid}/cwd")
        return answer.out.removesuffix(b"\n").removesuffix(b" (deleted)").decode("utf-8", "surrogateescape")

    async def _retire(self, shell: Shell) -> None:
        """A copy is done with."""
        if not shell.keeper.lost and shell.alive and not await shell.end(_CLOSE_GRACE):
            shell.keeper.close()
        self._keepers.give_back(shell.keeper)

    async def spawn(self, request: ExecRequest) -> BackgroundProcess:
        text = command_text(request)
        cwd = self._cwd if request.cwd is None else await self.resolve(request.cwd)
        if self._closed:
            raise EnvironmentFailed("this environment is closed: open another")
        snapshot = await self._snapshot_now()
        restore = driver.exports(self._env) if snapshot is None else snapshot.restore()
        channel = await asyncio.to_thread(self._link.open, ARGV)
        spawned = Spawned(channel, self._keepers.beside, self._spawned.discard)
        exchange = spawned.exchange
        lines = first_lines(cwd, restore, bare=snapshot is not None)
        try:
            if not await spawned.start(lines + frame.run_open(text, exchange.first, exchange.last, request.env), _START):
                raise EnvironmentFailed(f"the folder {cwd} does not exist, so the command was not run: choose another cwd")
            self._spawned.add(spawned)
            self._keepers.sessions.add(spawned.pid)
            await spawned.write(request.stdin)
        except Lost as error:
            spawned.end()
            raise await self._broke(error, "the command may have run; it was not tried again") from error
        except BaseException:
            spawned.end()
            raise
        return spawned

    def interrupt(self) -> None:
        with self._lock:
            self._interrupts += 1
            calls = list(self._calls)
        for call in calls:
            call.interrupt()

    async def _upload(self, path: str, data: bytes) -> None:
        try:
            answer = await asyncio.to_thread(run_once, self._link, 'umask 077; cat >"$1"', [path], data)
        except Lost as error:
            raise await self._broke(error, "the command was not run") from error
        if answer.status:
            why = answer.err.decode(errors="replace").strip()
            raise EnvironmentFailed(f"the command's input cannot be written to {path}, so it was not run: {why}")

    # -- state ---------------------------------------------------------------------------------------------------

    async def shell_state(self) -> ShellState:
        """As of the last command that ended; the same object until another one has. Raises EnvironmentFailed."""
        if self._snapshot is None and self._shell is None:
            await self.execute(ExecRequest("\\builtin :", timeout=60))
        snapshot = await self._snapshot_now()
        if snapshot is None:
            raise EnvironmentFailed(f"the shell in {self._link.where} does not tell its state")
        if self._state is None or self._state[0] is not snapshot:
            self._state = snapshot, snapshot.state()
        return self._state[1]

    async def _snapshot_now(self) -> Snapshot | None:
        shell = self._shell
        if shell is None or (shell.fresh if not self._busy else not shell.behind):
            return self._snapshot
        try:
            if self._busy:
                told = await shell.recover(self._keepers.beside)
            else:
                told = await shell.learn(self._keepers.beside)
        except Lost as error:
            raise await self._broke(error, "nothing was run") from error
        if told:
            self._snapshot = shell.snapshot
        elif self._shell is shell and not self._busy:
            self._forget(shell, f"The shell could not tell its state: is the disk of {self._link.where} full?")
        return self._snapshot

    # -- the place -----------------------------------------------------------------------------------------------

    async def health(self) -> Health:
        try:
            outcome = await self.execute(ExecRequest("\\builtin echo well", timeout=30))
        except EnvironmentFailed as error:
            return Health(str(error))
        return (
            Health()
            if outcome.stdout.head == b"well\n"
            else Health(f"a command did not answer as it should: {outcome.stderr.head!r}")
        )

    async def close(self) -> None:
        with self._lock:
            already, self._closed = self._closed, True
        if already:
            return
        self.interrupt()
        give_up = time.monotonic() + _CLOSE_LIMIT
        while self._calls and time.monotonic() < give_up:  # noqa: ASYNC110 - they may run in loops of other threads
            await asyncio.sleep(0.01)
        if self._shell is not None:
            self._keepers.unpark(self._shell.keeper)
            self._shell.keeper.close()
        self._shell = None
        for spawned in list(self._spawned):
            spawned.end()
        with contextlib.suppress(Lost, EnvironmentFailed):  # out of reach: nothing more can be done from here
            await self._keepers.end_all()
        self._keepers.close()
        await asyncio.to_thread(self._link.close)


def _what_happened(call: Call) -> str:
    if call.lost:
        return (
            "The shell no longer answered after this command (did it redefine or disable builtins?); its exit code is not known."
        )
    if call.ended != "exited":
        return "The shell did not end this command when it was told to and was killed with it."
    code = int(call.exchange.out.status)
    if code > 128:
        with contextlib.suppress(ValueError):
            return f"This command ended the shell itself ({signal.Signals(code - 128).name})."
    return "This command ended or replaced the shell itself (exec, or exit with an EXIT trap)."


if TYPE_CHECKING:

    def _conforms(environment: RemoteEnvironment) -> Environment:
        return environment
