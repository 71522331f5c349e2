"""End a command: signal the shell and the command's processes, and leave other processes of the session alone."""

from __future__ import annotations

import signal
import time

from tools.environments import _groups
from tools.environments.shell.launcher import ShellProcess

STEPS = ((signal.SIGINT, 0.5), (signal.SIGTERM, 0.5), (signal.SIGKILL, 2.0))
"""Steps to end a command: each signal, and the seconds until the next."""
_RACE = 3
"""Clock ticks. A process born this soon after a signal may have missed it, because its fork may have begun before the signal."""
_SETTLED = 0.04
"""Seconds until such a process is signalled too. Most processes that only clean up have ended by then."""
_NEVER_TOLD = 1 << signal.SIGINT - 1 | 1 << signal.SIGQUIT - 1
"""Signals that a shell without job control makes its background jobs ignore."""


class Ending:
    """The end of one command. ``begun``: its start. ``traps``: its text may set traps, so a signal may start work.

    Without traps, the shell and its subshells get SIGTERM instead of SIGINT: a shell that waits for a program obeys SIGINT only
    if the program dies of it too. They never get both, because a second signal keeps an ending shell from reporting its state.
    """

    def __init__(self, process: ShellProcess, begun: _groups.Moment, *, traps: bool) -> None:
        self._process = process
        self._begun = begun
        self._traps = traps
        self._number = signal.SIGINT
        self._sent = begun
        self._at = 0.0
        self._argv = _groups.argv(process.pid)
        self._told: dict[_groups.Member, bool] = {}
        """Members that were signalled; True for a fork of the shell: a fork that becomes a program loses the signals it got
        before.
        """

    def begin(self, number: signal.Signals, *, done: bool) -> None:
        """Start the next step. ``done``: the command has ended, so the shell is not signalled."""
        self._number, self._told = number, {}
        self._sent, self._at = _groups.Moment.now(), time.monotonic()
        if not done:
            self._tell_shell()

    def go_on(self, *, done: bool) -> bool:
        """Signal the processes that were not signalled yet. Return True if none is left."""
        left = self._born()
        late = time.monotonic() - self._at
        programs = {one.pid for one, was_fork in self._told.items() if not was_fork}
        missed = False
        for one in left:
            was_fork = self._told.get(one)
            if was_fork is False or (was_fork is None and not self._is_meant(one, late, programs)):
                continue
            is_fork = bool(self._argv) and _groups.argv(one.pid) == self._argv
            if was_fork is None or not is_fork:
                self._tell(one.pid, is_fork=is_fork)
                self._told[one] = is_fork
                missed = True
        if missed and self._traps and late >= _SETTLED and not done:
            self._tell_shell()
        return done and not left

    def _is_meant(self, one: _groups.Member, late: float, programs: set[int]) -> bool:
        if self._number == signal.SIGKILL or not self._sent.is_before(one):
            return True
        if not self._traps and one.parent not in programs:  # not started by a signalled program, but by a shell that continues
            return True
        return late >= _SETTLED and one.start <= self._sent.tick + _RACE

    def _tell(self, pid: int, *, is_fork: bool) -> None:
        number = self._number
        if number == signal.SIGINT and ((is_fork and not self._traps) or _groups.ignored(pid) & _NEVER_TOLD == _NEVER_TOLD):
            number = signal.SIGTERM
        for each in (number, signal.SIGCONT):  # a stopped process handles INT and TERM only then
            _groups.send_to(pid, each)

    def _tell_shell(self) -> None:
        for each in (self._number if self._traps or self._number != signal.SIGINT else signal.SIGTERM, signal.SIGCONT):
            self._process.send(each)

    def _born(self) -> list[_groups.Member]:
        return [one for one in self._process.members(self._begun) if one.pid != self._process.pid and self._begun.is_before(one)]
