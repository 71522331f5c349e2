"""The state of the session's remote shell: reported to gates, kept while idle, and passed to another process."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING

from toolcrib.contract.deprecated import old_name
from toolcrib.contract.effects import ShellState
from toolcrib.contract.environment import PortableState
from toolcrib.contract.errors import EnvironmentFailed
from tools.environments._pace import turn
from tools.environments._portable import check, exported, gone, told_to_restore
from tools.environments.remote import frame, processes
from tools.environments.remote.aside import aside, aside_within
from tools.environments.remote.call import RemoteCommand
from tools.environments.remote.channel import Link
from tools.environments.remote.channel_pool import Keepers
from tools.environments.remote.files import RemoteFiles
from tools.environments.remote.shell import RemoteShell
from tools.environments.remote.shell_channel import ChannelLost, Keeper
from tools.environments.remote.spawned import RemoteBackgroundProcess
from tools.environments.shell.packed import Packed
from tools.environments.shell.snapshot import ShellSnapshot, first_state

if TYPE_CHECKING:
    from toolcrib.contract.environment import ExecOutcome, ExecRequest

_GRACE = 0.5
"""Seconds that a shell has to end by itself."""
_LIMIT = 20.0
_LOOKS, _PAUSE = 5, 0.01
ON = "A new shell continues with the earlier variables, functions and options."
OLD = "A new shell continues; recent changes of variables, functions and options are lost."
_DIED = "The shell had ended between two commands."
_DAMAGED = "This command replaced files that its shell needs."


class RemoteState(RemoteFiles):
    """The part of RemoteEnvironment that handles its shell's state."""

    def __init__(self, link: Link, keepers: Keepers, cwd: str, env: Mapping[str, str]) -> None:
        super().__init__(link, keepers)
        self._link, self._keepers = link, keepers
        self._cwd = cwd
        self._env = dict(env)
        self._restored: dict[str, str] = {}
        self._shell: RemoteShell | None = None
        self._lost: RemoteShell | None = None
        self._kept: ShellSnapshot | Packed | None = None
        self._state: tuple[ShellSnapshot, ShellState] | None = None
        self._first: ShellState | None = None
        self._status = self._generation = 0
        self._notice = ""
        self._lock = threading.Lock()
        self._busy = self._closed = False
        self._inside = 0
        self._spawned: set[RemoteBackgroundProcess] = set()

    if TYPE_CHECKING:

        async def execute(self, request: ExecRequest) -> ExecOutcome: ...

        async def _try(self, command: str) -> ExecOutcome: ...

        async def _broke(self, error: ChannelLost, known: str) -> EnvironmentFailed: ...

        def _forget(self, shell: RemoteShell, why: str) -> None: ...

    @property
    def _snapshot(self) -> ShellSnapshot | None:
        """The snapshot after the last command that ended and reported its state. It is stored packed while unused."""
        if isinstance(self._kept, Packed):
            self._kept = self._kept.unpack()
        return self._kept

    @_snapshot.setter
    def _snapshot(self, snapshot: ShellSnapshot | None) -> None:
        self._kept = snapshot

    # -- state ---------------------------------------------------------------------------------------------------

    async def shell_state(self) -> ShellState | None:
        """Return the state after the last command, the same object until another command ends. Raises EnvironmentFailed."""
        snapshot = await self._snapshot_now()
        if snapshot is None and not self._keepers.bare:
            known = None if self._first else await aside_within(_LIMIT, self._link, self._link.variables)
            if known is not None:
                self._first = first_state({**known, **self._env, **self._restored})
            if self._first is not None:  # nothing has changed yet: a query alone creates no container
                return self._first
            await self._try("\\builtin :")
            snapshot = await self._snapshot_now()
        if self._keepers.bare:
            return None
        if snapshot is None:
            raise EnvironmentFailed(f"the shell in {self._link.where} does not report its state")
        if self._state is None or self._state[0] is not snapshot:
            self._state = snapshot, snapshot.state()
        return self._state[1]

    async def _snapshot_now(self) -> ShellSnapshot | None:
        """Return the snapshot after the last command that ended. Raises EnvironmentFailed."""
        shell, lost = self._shell, self._lost
        try:
            if shell is None:
                if lost is not None and lost.owes and await lost.recover(self._keepers.beside):
                    self._snapshot = lost.snapshot
                return self._snapshot
            if shell.owes and not await shell.learn(self._keepers.beside) and self._shell is shell:
                await self._ask(shell)
        except ChannelLost as error:
            raise await self._broke(error, "nothing was run: call again") from error
        self._snapshot = shell.snapshot or self._snapshot
        return self._snapshot

    async def _ask(self, shell: RemoteShell) -> None:
        """Make a shell print its state if it could not write it to its file. Raises ChannelLost, EnvironmentFailed."""
        why = f"could not report its state: is the disk of {self._link.where} full?"
        with self._lock:
            if self._busy:
                raise EnvironmentFailed(f"the session's shell {why} Wait until its processes end. Nothing was run")
            self._busy = True
        told = False
        try:
            self._keepers.unpark(shell.keeper)
            told = await shell.report_state()
        finally:
            if told:
                self._keepers.park(shell.keeper)
            else:
                self._forget(shell, f"The shell {why}")
            self._busy = False

    # -- another shell ---------------------------------------------------------------------------------------------

    async def _revive(self, shell: RemoteShell, call: RemoteCommand, own: bool) -> None:
        """Replace a shell that died before a command ran. Raises EnvironmentFailed."""
        why = (
            "toolcrib ended the shell: its files had been replaced, and it had not started this command."
            if call.waited
            else _DIED
        )
        try:
            if own and not await shell.testament(self._keepers.beside):
                await shell.recover(self._keepers.beside)
            await shell.prepare()
        except ChannelLost as error:
            raise await self._broke(error, "nothing was run: call again") from error
        if own:
            self._snapshot = shell.snapshot or self._snapshot
        self._notice = f"{why} {OLD if own and shell.stale else ON}"
        self._generation += own

    async def _replace(self, shell: RemoteShell) -> None:
        """Drop a damaged shell after it has reported its state."""
        told = False
        with contextlib.suppress(ChannelLost):
            told = await shell.report_state()
        self._forget(shell, _DAMAGED)
        self._notice = self._notice if told else self._notice.replace(ON, OLD)

    # -- idle ----------------------------------------------------------------------------------------------------

    async def release_idle(self) -> bool:
        """See ReleasesIdle. The container or account stays as it is; channels and connections are closed."""
        await turn()
        if self._keepers.bare or self._inside or self._spawned or self._lost is not None:
            return self._closed
        try:
            return await self._keepers.release_idle(self._may_rest, self._give_shell_back)
        except (ChannelLost, EnvironmentFailed):  # the next call reports the error
            return False

    rest = old_name(release_idle, "rest")

    async def _may_rest(self, keeper: Keeper) -> bool:
        """Return True if nothing runs in the backend and a new shell can restore the whole state of this one. Raises
        ChannelLost.
        """
        snapshot, shell = await self._snapshot_now(), self._shell
        if snapshot is not None and snapshot.exit_trap:
            return False
        pid = shell.pid if shell is not None else 0
        own = {pid, *self._keepers.sessions}
        members = processes.read((await keeper.run(processes.listing(own), limit=_LIMIT)).out).members
        if any(one.pid not in own for one in members):
            return False
        for _ in range(_LOOKS if shell is not None else 0):
            if not (await keeper.run(frame.beyond(pid), limit=_LIMIT)).out:
                return True
            await asyncio.sleep(_PAUSE)  # right after a command the shell may still restore its own descriptors
        return shell is None

    async def _give_shell_back(self) -> bool:
        """End the shell while no call runs. Return False if a call has just started, or the shell's state was not fetched."""
        with self._lock:
            shell = self._shell
            if self._inside or self._spawned or (shell is not None and shell.owes):
                return False
            self._shell = self._state = None
            if shell is not None:
                snapshot = shell.snapshot or self._snapshot
                self._kept = Packed(snapshot) if snapshot is not None else None
        if shell is not None:
            self._keepers.unpark(shell.keeper)
            await shell.end(_GRACE)
            shell.keeper.close()
        return True

    # -- another process -----------------------------------------------------------------------------------------

    async def portable_state(self) -> PortableState:
        """See Portable. Leaves out the variables that every process in the backend gets, if they are known."""
        if await self._snapshot_now() is None:
            return PortableState(self._cwd, dict(self._restored))
        state = await self.shell_state()
        known = await aside(self._link.variables)
        given = {**(known or {}), **self._env}
        return PortableState(self._cwd, {} if state is None else exported(state, given))

    async def restore_state(self, state: PortableState) -> None:
        """See Portable. Connects to check the folder, but starts no shell if none runs."""
        check(state)
        if not await self.is_folder(state.cwd):
            raise EnvironmentFailed(gone(state.cwd))
        with self._lock:
            fresh = not (self._shell or self._lost or self._kept or self._inside)
            if fresh:
                self._restored.update(state.variables)
                self._first, self._cwd = None, state.cwd
        if not fresh:
            await told_to_restore(self, state)
