"""State of a session's shell, kept for the shell that replaces it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from toolcrib.contract.effects import ShellState
from tools.environments.shell import driver
from tools.environments.shell.beyond import Limits, changed, give_limits
from tools.environments.shell.launcher import Launcher
from tools.environments.shell.packed import Packed
from tools.environments.shell.shell import Shell
from tools.environments.shell.snapshot import ShellSnapshot, first_state


class Kept:
    """Kept state of a shell. ``base`` returns the variables of the first shell; later ones get the same."""

    def __init__(self, base: Callable[[], Mapping[str, str]]) -> None:
        self._base = base
        self._given: Mapping[str, str] | None = None
        self._snapshot: ShellSnapshot | None = None
        self._packed: Packed | None = None
        self._state: tuple[ShellSnapshot | None, ShellState] | None = None
        self._limits: Limits = {}
        self._rested = False

    @property
    def snapshot(self) -> ShellSnapshot | None:
        """The state after the last command that ended, or None if no command has changed anything."""
        if self._packed is not None:
            self._snapshot, self._packed = self._packed.unpack(), None
        return self._snapshot

    @snapshot.setter
    def snapshot(self, snapshot: ShellSnapshot) -> None:
        self._snapshot, self._packed = snapshot, None

    def given(self) -> Mapping[str, str]:
        """Return the variables of the first shell."""
        if self._given is None:
            self._given = _shared(tuple(self._base().items()))
        return self._given

    def state(self) -> ShellState:
        """Return the shell's state, the same object until there is another snapshot, or the shell is suspended."""
        snapshot = self.snapshot
        if self._state is None or self._state[0] is not snapshot:
            self._state = snapshot, first_state(self.given()) if snapshot is None else snapshot.state()
        return self._state[1]

    # -- from one shell to the next ------------------------------------------------------------------------------

    def pack(self, shell: Shell, limits: Limits) -> None:
        """Keep the state of a suspended shell in memory, compressed."""
        if shell.snapshot is not None:
            self._snapshot = shell.snapshot
        if self._snapshot is not None:
            self._packed = Packed(self._snapshot)
        self._snapshot = self._state = None
        self._limits = changed(shell.limits or {}, limits) or _NONE
        self._rested = True

    def lost(self) -> None:
        """Record that the shell has died: everything beyond its snapshot is lost."""
        self._rested, self._limits = False, _NONE

    @property
    def owes_exit(self) -> bool:
        """True while a suspended shell has a user's EXIT trap that must run at its end."""
        return self._rested and self.snapshot is not None and bool(self.snapshot.exit_trap)

    def start(self, launcher: Launcher, cwd: str, *, own: bool, closed: Callable[[], None]) -> Shell:
        """Start a shell with this state. ``own``: it continues a suspended shell and is not a copy. Blocks. Raises
        EnvironmentFailed.
        """
        snapshot = self.snapshot
        if snapshot is None:
            shell = Shell(launcher, driver.exports(self.given()), cwd, closed=closed)
        else:
            last = snapshot.exit_trap if own and self._rested else ""
            apart = snapshot.has_debug_trap
            shell = Shell(launcher, snapshot.restore(), cwd, apart=apart, last=last, closed=closed)
        if own and self._rested:
            give_limits(shell.process.pid, self._limits)
        return shell


_NONE: Limits = {}


@functools.lru_cache(maxsize=16)
def _shared(variables: tuple[tuple[str, str], ...]) -> Mapping[str, str]:
    """Return one mapping that all sessions with equal variables share."""
    return dict(variables)
