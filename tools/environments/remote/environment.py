"""A remote environment: the session's shell, copies of it for concurrent calls, and the files."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Mapping

from toolcrib.contract.environment import BackgroundProcess, ExecOutcome, ExecRequest, Health
from toolcrib.contract.errors import EnvironmentFailed
from tools.environments._dropped import when_dropped
from tools.environments._output import Output
from tools.environments._pace import turn
from tools.environments._request import command_text, folder_of, may_have_run, never_run
from tools.environments.remote import frame, left, oneshot, processes
from tools.environments.remote.aside import aside, why_lost
from tools.environments.remote.beginning import NotBegun, RemoteBeginning
from tools.environments.remote.call import RemoteCommand
from tools.environments.remote.channel import Link
from tools.environments.remote.channel_pool import Keepers, NoBash
from tools.environments.remote.shell import RemoteShell, ended_by_silence, what_happened
from tools.environments.remote.shell_channel import ARGV, ChannelLost, Halted, NeverBegan
from tools.environments.remote.spawned import RemoteBackgroundProcess, first_lines
from tools.environments.remote.state import OLD, ON, RemoteState
from tools.environments.shell.snapshot import SHELL_ENDED, leaves_all
from tools.time_limit import seconds_left

_CLOSE_LIMIT = 5.0
_CLOSE_GRACE = 0.5
NOWHERE = "the folder {} does not exist, so the command was not run: choose another cwd"
_GONE = "its processes and temporary files are gone"
_LIMITED = "This command set ulimit -n too low for its shell, which ended; the limit is not kept."


class RemoteEnvironment(RemoteState):
    """An environment on another machine or in a container. Safe to use from several threads and event loops at once.

    ``cwd`` is the start folder; ``env`` is added to the variables that every process gets there. As in LocalEnvironment, one
    persistent bash reads the commands, and copies of it serve concurrent calls. Differences: output of background processes may
    appear in that of a running command, and is lost between commands. If the connection is lost, the call fails with the known
    facts and is not repeated; the next call gets a new shell.
    """

    def __init__(self, link: Link, cwd: str, *, env: Mapping[str, str] | None = None) -> None:
        keepers = Keepers(link)
        self._dropped = when_dropped(self, keepers.end)
        super().__init__(link, keepers, cwd, {"TERM": "dumb", **(env or {})})
        self._never_in = cwd
        self._bare: oneshot.RemoteOneShot | None = None
        self._epoch = -1
        self._beginnings: set[RemoteBeginning] = set()
        self._calls: set[RemoteCommand] = set()
        self._interrupts = 0

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
        text = command_text(request)
        beginning = RemoteBeginning(request.timeout)
        with self._lock:
            interrupts = self._interrupts
            self._beginnings.add(beginning)
        try:
            cwd = self._cwd
            if request.cwd is not None:
                cwd = await beginning.wait_for(folder_of(request, cwd, self.resolve))
            return await self._execute(beginning, request, text, cwd, interrupts)
        except NotBegun:
            return beginning.outcome(request.cwd or self._cwd, self._link.where)
        finally:
            with self._lock:
                self._beginnings.discard(beginning)

    async def _execute(
        self, beginning: RemoteBeginning, request: ExecRequest, text: str, cwd: str, interrupts: int
    ) -> ExecOutcome:
        if self._keepers.bare:
            return await self._without_bash(beginning, request, text, cwd, interrupts)
        await beginning.wait_for(self._keepers.awake())
        with self._lock:
            if self._closed:
                raise EnvironmentFailed("this environment is closed: open another")
            own = not self._busy
            self._busy = True
            self._inside += 1
        try:
            shell = await beginning.wait_for(self._ready(own), lambda made: None if own else made.keeper.close())
            try:
                if request.stdin:
                    await beginning.wait_for(self.upload(f"{shell.folder}/i", request.stdin))
                return await self._in_shell(shell, own, request, text, cwd, interrupts)
            finally:
                if not own:
                    await self._retire(shell)
                elif self._shell is shell:
                    self._keepers.park(shell.keeper)
        except NoBash:
            self._notice = f"{oneshot.WHY.format(self.identity)}."
            return await self._without_bash(beginning, request, text, cwd, interrupts)
        finally:
            with self._lock:
                self._inside -= 1
                self._busy = self._busy and not own

    async def _without_bash(
        self, beginning: RemoteBeginning, request: ExecRequest, text: str, cwd: str, interrupts: int
    ) -> ExecOutcome:
        with self._lock:
            if self._closed:
                raise EnvironmentFailed("this environment is closed: open another")
            self._bare = self._bare or oneshot.RemoteOneShot(self._link, {**self._env, **self._restored})
        interrupted = lambda: self._interrupts != interrupts  # noqa: E731 - only passed on
        outcome = await self._bare.execute(beginning, request, text, cwd, self._said(), interrupted)
        if request.cwd is None:
            self._cwd = outcome.cwd
        return outcome

    async def _ready(self, own: bool) -> RemoteShell:
        """Return a shell for one command: the session's own, or a copy."""
        try:
            await self._keepers.end_halted()
        except ChannelLost as error:
            raise await self._broke(error, "nothing was run: call again") from error
        shell = self._shell
        if own and shell is not None:
            self._keepers.unpark(shell.keeper)
            if shell.keeper.drain():  # it may have ended just now
                return shell
            self._forget(shell, f"The connection to {self._link.where} was lost between two commands.")
        elif not own:
            await self._snapshot_now()
        keeper = await self._keepers.take()
        new = RemoteShell(keeper, f"{self._keepers.root}/{keeper.name}", self._status if own else 0)
        try:
            if own:
                await self._inherit()
                ended, self._keepers.ended = self._keepers.ended, []
                self._notice += f" Stopped here, because a killed toolcrib left them: {', '.join(ended)}." if ended else ""
            await new.prepare()
        except BaseException as error:
            keeper.close()
            if isinstance(error, ChannelLost):
                raise await self._broke(error, "nothing was run: call again") from error
            raise
        self._shell = new if own else self._shell
        return new

    async def _inherit(self) -> None:
        """Take over the state of the previous shell, as far as it can be read. Raises ChannelLost: the next call tries again."""
        lost = self._lost
        before, self._epoch = self._epoch, self._link.epoch
        if before not in (-1, self._epoch):
            self._generation += 1
            goes_on = OLD if lost is not None and (lost.owes or lost.stale) else ON
            self._notice = f"{self._link.where} was replaced: {_GONE}. {goes_on}"
        elif lost is not None:
            if await lost.recover(self._keepers.beside):
                self._snapshot = lost.snapshot
            self._notice = self._notice.replace(ON, OLD if lost.stale else ON)
            living = await lost.living(self._keepers.beside)
            self._notice += f" Still running there from before: process {', '.join(map(str, living))}." if living else ""
        self._lost = None

    async def _in_shell(
        self, shell: RemoteShell, own: bool, request: ExecRequest, text: str, cwd: str, interrupts: int
    ) -> ExecOutcome:
        started = time.monotonic()
        if self._interrupts != interrupts:  # interrupted during preparation: nothing runs
            return never_run(cwd, self._link.where)
        output = Output(request)
        try:
            call = await self._run(shell, request, text, cwd, output, interrupts)
            if not call.exchange.begun and not shell.alive and call.ended == "exited" and await self.is_folder(cwd):
                await self._revive(shell, call, own)
                call = await self._run(shell, request, text, cwd, output, interrupts)
            if not call.exchange.begun and call.ended == "exited":
                raise await self._not_begun(shell, own, cwd)
            if own and not call.halted:
                await self._settle(shell, call, request.cwd is None)
        finally:
            kept = output.finish()
        notice = call.halted or (self._said() if own else "")
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

    def _said(self) -> str:
        said, self._notice = self._notice.strip(), ""
        return said

    async def _run(
        self, shell: RemoteShell, request: ExecRequest, text: str, cwd: str, output: Output, interrupts: int
    ) -> RemoteCommand:
        shell.start(self._snapshot, {**self._env, **self._restored}, cwd)
        call = RemoteCommand(shell.keeper, output, self._keepers.beside)
        call.simple = "trap" not in text and not (self._snapshot is not None and self._snapshot.mentions_traps)
        with self._lock:
            self._calls.add(call)
            if self._interrupts != interrupts:
                call.interrupt()
        try:
            await shell.begin(call, text, request, cwd, brief=not shell.owes and leaves_all(self._snapshot, text))
            await call.finish(request.timeout)
        except asyncio.CancelledError:
            if call.exchange.done:
                shell.ended(call)
                await self._settle(shell, call, moves=False)
            else:
                self._forget(shell, "The last command was abandoned with its shell.")
            raise
        except ChannelLost as error:
            self._forget(shell, "The shell of the last command was lost.")
            known = "the command may have run, and may still be running; it was not retried"
            raise await self._broke(error, known) from error
        except OSError as error:
            self._forget(shell, "The shell of the last command was lost.")
            raise may_have_run(self._link.where, error) from error
        finally:
            with self._lock:
                self._calls.discard(call)
            if call.halted:
                self._keepers.to_end(shell.keeper)
        if call.halted:
            self._forget(shell, "The last command was abandoned with its shell.")
            return call
        shell.ended(call)
        self._status = shell.status if shell is self._shell else self._status
        self._never_in = "" if call.exchange.begun else self._never_in
        return call

    def _forget(self, shell: RemoteShell, why: str) -> None:
        shell.keeper.close()
        if self._shell is shell:
            self._shell, self._lost = None, shell
            self._generation += 1
            self._notice = f"{why} {ON}"

    async def _broke(self, error: ChannelLost, known: str) -> EnvironmentFailed:
        why = "" if isinstance(error, Halted) else await why_lost(self._link)  # Halted has the reason
        return EnvironmentFailed(f"{self._link.where} was lost: {why or error}; {known}")

    async def _not_begun(self, shell: RemoteShell, own: bool, cwd: str) -> EnvironmentFailed:
        if self._snapshot is not None and await self.is_folder(cwd):
            shell.snapshot = self._snapshot = self._snapshot.untrapped()
            return EnvironmentFailed(f"{SHELL_ENDED}, which was not run: call again")
        if cwd != self._cwd or not own:
            return EnvironmentFailed(NOWHERE.format(cwd))
        shell.cwd = None
        missing = "does not exist (create it, or set another cwd)" if cwd == self._never_in else "no longer exists"
        with contextlib.suppress(EnvironmentFailed):  # the next call reports it
            self._cwd = await self.nearest(cwd)
        return EnvironmentFailed(
            f"the working folder {cwd} {missing}, so the command was not run. The session is now in {self._cwd}: "
            "call again to run there, or name another cwd"
        )

    async def _settle(self, shell: RemoteShell, call: RemoteCommand, moves: bool) -> None:
        """Record what a command did to the session's shell."""
        silence = await ended_by_silence(self._link, shell, call)
        self._notice += f" {silence}"
        if not shell.alive:
            self._generation += 1
            try:
                if call.shell_pid:  # the shell may only have been stopped
                    await self._keepers.beside(processes.signal(signal.SIGKILL, [call.shell_pid]))
                told = await shell.testament(self._keepers.beside)
                if not told:
                    await shell.recover(self._keepers.beside)
            except ChannelLost:
                told = False
            if told and shell.open_files is not None and shell.open_files < frame.OPEN_FILES:
                self._notice = f"{_LIMITED} {ON}"
            if not told:
                self._notice = f"{silence or what_happened(call)} {OLD if shell.unknown else ON}"
        elif shell.cwd is None:
            with contextlib.suppress(ChannelLost):  # the next call reports it
                await shell.look_where(self._keepers.beside, call.shell_pid or shell.pid)
            if shell.damaged:
                await self._replace(shell)
        self._snapshot = shell.snapshot or self._snapshot
        if moves and shell.cwd is not None:
            self._cwd = shell.cwd

    async def _retire(self, shell: RemoteShell) -> None:
        """End a copy of the shell, and give its keeper back to the pool."""
        if not shell.keeper.lost and shell.alive and not await shell.end(_CLOSE_GRACE):
            shell.keeper.close()
        self._keepers.give_back(shell.keeper)

    async def spawn(self, request: ExecRequest) -> BackgroundProcess:
        text = command_text(request)
        cwd = await folder_of(request, self._cwd, self.resolve)
        if self._closed:
            raise EnvironmentFailed("this environment is closed: open another")
        self._keepers.give_back(await self._keepers.take())  # raises NoBash if bash is missing
        snapshot = await self._snapshot_now()
        channel = await aside(self._link.open, ARGV)
        spawned = RemoteBackgroundProcess(channel, self._keepers.beside, self._spawned.discard)
        try:
            try:
                begun = await spawned.start(first_lines(cwd, snapshot, {**self._env, **self._restored}), text, request.env)
            except NeverBegan as error:
                raise await self._broke(error, "the command was not run") from error
            if not begun:
                raise EnvironmentFailed(NOWHERE.format(cwd))
            self._spawned.add(spawned)
            self._keepers.sessions.add(spawned.pid)
            await self._keepers.beside(left.record(self._keepers.root, spawned.pid))
            await spawned.write(request.stdin)
        except ChannelLost as error:
            spawned.end()
            raise await self._broke(error, "the command may have run; it was not retried") from error
        except BaseException:
            spawned.end()
            raise
        return spawned

    def interrupt(self) -> None:
        with self._lock:
            self._interrupts += 1
            calls: list[RemoteBeginning | RemoteCommand] = [*self._beginnings, *self._calls]
        for call in calls:
            call.interrupt()
        if self._bare is not None:
            self._bare.interrupt()

    # -- the environment -----------------------------------------------------------------------------------------

    async def health(self) -> Health:
        try:
            outcome = await self._try("\\builtin echo well")
            if self._keepers.bare:
                outcome = await self._try("echo well")
        except EnvironmentFailed as error:
            return Health(str(error))
        if outcome.stdout.head != b"well\n":
            return Health(f"a command gave unexpected output: {outcome.notice or outcome.stderr.head!r}")
        return Health(oneshot.WHY.format(self.identity) if self._keepers.bare else "")

    async def _try(self, command: str) -> ExecOutcome:
        outcome = await self.execute(ExecRequest(command, timeout=seconds_left(60.0)))
        if outcome.ended == "timeout":
            raise EnvironmentFailed(outcome.notice or f"{self._link.where} did not answer in time")
        self._notice = f"{outcome.notice} {self._notice}"  # keep the notice for the next command
        return outcome

    async def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            await self._end_calls()
        finally:
            await self._keepers.end()
            self._dropped.detach()

    async def _end_calls(self) -> None:
        await turn()
        self.interrupt()
        give_up = time.monotonic() + _CLOSE_LIMIT
        while self._calls and time.monotonic() < give_up:  # noqa: ASYNC110 - the calls may run in event loops of other threads
            await asyncio.sleep(0.01)
        shell, self._shell = self._shell, None
        if shell is not None:
            self._keepers.unpark(shell.keeper)
            shell.keeper.close()
        if self._bare is not None:
            await self._bare.close()
        for spawned in list(self._spawned):
            spawned.end()
