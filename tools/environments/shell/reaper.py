"""End discarded shells. One thread watches the shells of all environments."""

from __future__ import annotations

import asyncio
import select
import signal
import threading
import time
from collections.abc import Callable

from tools.environments import _census, _groups
from tools.environments._census import Sessions, census
from tools.environments._workers import Workers
from tools.environments.shell.launcher import ShellProcess
from tools.environments.shell.shell import Shell

GRACE = 0.5
"""Seconds that an ending shell has for its EXIT trap, and background processes between SIGTERM and SIGKILL."""
CLOSE_LIMIT = 5.0
_LOOK = 0.005
_PATIENCE = 2.0
"""Seconds to wait for a killed shell. If it is stuck in the kernel, it dies when it returns from there."""


class _Ending:
    def __init__(self, shell: Shell, grace: float, over: Callable[[Shell, Sessions], None]) -> None:
        self.shell, self.over = shell, over
        self.kill_at = time.monotonic() + grace
        self.give_up = self.kill_at + _PATIENCE
        self.killed = False

    def is_over(self) -> bool:
        now = time.monotonic()
        if self.shell.exit_code() is not None:
            return True
        if now >= self.kill_at and not self.killed:
            self.killed = True
            self.shell.process.send(signal.SIGKILL)
        return now >= self.give_up


class Reaper:
    """Thread that waits for shells to end, and kills shells that exceed their grace.

    After several shells have ended, one scan finds the processes that they left running.
    """

    def __init__(self) -> None:
        self._workers = Workers("toolcrib-reaper", 1)
        self._lock = threading.Lock()
        self._new: list[_Ending] = []

    def add(self, shell: Shell, grace: float, over: Callable[[Shell, Sessions], None]) -> None:
        """Add a shell. After its end, ``over`` is called in another thread with a new scan of all processes."""
        ending = _Ending(shell, grace, over)
        with self._lock:
            self._new.append(ending)
        self._workers.submit(self._work)

    def _work(self) -> None:
        mine: list[_Ending] = []
        while True:
            with self._lock:
                new, self._new = self._new, []
            mine += new
            if not mine:
                return
            ended = [one for one in mine if one.is_over()]
            sessions = _looked() if ended else None
            if sessions is not None:
                mine = [one for one in mine if one not in ended]
                for one in ended:
                    one.over(one.shell, sessions)
            else:
                _pause([one.shell.process for one in mine])


def _looked() -> Sessions | None:
    try:
        return _census.scan_sessions()
    except OSError:  # no more files can be opened: retry later
        time.sleep(_LOOK)
        return None


def _pause(processes: list[ShellProcess]) -> None:
    poll = select.poll()
    for process in processes:
        if (fd := process.fileno()) >= 0:
            poll.register(fd, select.POLLIN)
    poll.poll(_LOOK * 1000)


class Endings:
    """Ended and ending shells of one environment. Processes that they started may live until ``close``."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._under_way: set[Shell] = set()
        self._left: list[ShellProcess] = []

    def retire(self, shell: Shell, grace: float) -> None:
        """Ask the shell to end by itself, which runs its EXIT trap. Kill it after ``grace`` seconds."""
        shell.end()
        self.put_away(shell, grace)

    def put_away(self, shell: Shell, grace: float = 0.0) -> None:
        """Wait in the background until the shell has ended, then reap it."""
        with self._lock:
            self._under_way.add(shell)
        _reaper.add(shell, grace, self._over)

    def kill(self, shell: Shell) -> None:
        """Kill the shell and all processes of its session."""
        with self._lock:
            self._under_way.add(shell)
        _killers.submit(lambda: self._kill(shell))

    def _kill(self, shell: Shell) -> None:
        shell.kill()
        with self._lock:
            self._under_way.discard(shell)

    def _over(self, shell: Shell, sessions: Sessions) -> None:
        leaves = shell.leaves(sessions)
        with self._lock:
            over = [process for process in self._left if not process.among(sessions)]
            self._left = [process for process in self._left if process not in over] + ([shell.process] if leaves else [])
            self._under_way.discard(shell)
        for process in over:
            process.reap()

    def is_over(self) -> bool:
        """True if none of these shells is left, and none of the processes that they started."""
        return not self._under_way and not self._left

    @property
    def left(self) -> list[ShellProcess]:
        """Ended shells in whose session processes may still run."""
        with self._lock:
            return list(self._left)

    def forget(self) -> None:
        """Reap the ended shells. Call it when no process that they started is left."""
        with self._lock:
            left, self._left = self._left, []
        for process in left:
            process.reap()

    async def over(self, limit: float) -> None:
        """Wait until the ending shells are gone, or ``limit`` seconds have passed."""
        give_up = time.monotonic() + limit
        while self._under_way and time.monotonic() < give_up:  # noqa: ASYNC110 - another thread empties the set
            await asyncio.sleep(_LOOK)


async def end_all(processes: list[ShellProcess]) -> None:
    """Send SIGTERM, then SIGKILL to all processes of these shells' sessions."""
    for number, grace in ((signal.SIGTERM, GRACE), (signal.SIGKILL, CLOSE_LIMIT)):
        give_up = time.monotonic() + grace
        told: set[int] = set()
        while processes:
            try:
                sessions = await census.take()
            except OSError:  # no more files can be opened: retry later
                await asyncio.sleep(_LOOK)
                continue
            left = {member.pid for process in processes for member in process.among(sessions)}
            for pid in left - told:
                for each in (number, signal.SIGCONT):
                    _groups.send_to(pid, each)
            told |= left
            if not left:
                return
            if time.monotonic() > give_up:
                break
            await asyncio.sleep(0.01)


_reaper = Reaper()
_killers = Workers("toolcrib-killer", 2)
