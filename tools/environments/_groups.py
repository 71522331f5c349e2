"""End processes by session and group, so that no process of a command is left behind."""

from __future__ import annotations

import contextlib
import functools
import os
import time
from pathlib import Path

from toolcrib.contract.namedtuple import NamedTuple
from tools import alive

_PROC = Path("/proc")


def groups_of(session: int) -> set[int]:
    """Return the process groups of a session that have a living member; empty without /proc."""
    found: set[int] = set()
    with contextlib.suppress(OSError):  # without /proc: the caller still knows the session's first group
        for name in os.listdir(_PROC):  # noqa: PTH208 - names only; a Path object per name would triple the cost
            if not name.isdigit():
                continue
            with contextlib.suppress(OSError, ValueError, IndexError):  # the process ended during the scan
                # "pid (name) state ppid pgrp session ..."; the name itself may contain spaces and parentheses
                fields = (_PROC / name / "stat").read_bytes().rpartition(b")")[2].split()
                if int(fields[3]) == session and fields[0] not in (b"Z", b"X"):
                    found.add(int(fields[2]))
    return found


def send(groups: set[int], signal_number: int) -> None:
    """Send a signal to process groups. Skip groups that no longer exist."""
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):  # it ended, or setuid put it out of reach
            os.killpg(group, signal_number)


def send_to(pid: int, signal_number: int) -> None:
    """Send a signal to a process if it exists."""
    with contextlib.suppress(ProcessLookupError, PermissionError):  # as above
        os.kill(pid, signal_number)


def living(session: int, groups: set[int]) -> bool:
    """Return True if a process of the session, which has these groups, still runs. The caller must have reaped the leader."""
    if not any(_exists(group) for group in groups):
        return False
    # The members may be zombies under an init that never reaps, as in many containers.
    return bool(groups_of(session)) if (_PROC / "self").exists() else True


def left_behind(session: int) -> bool:
    """Return True if the group of a reaped leader still has members.

    If a process has the leader's number now, it is unrelated, and the leader's group has no members: the kernel does not reuse
    the number of a group that has members.
    """
    return _exists(session) and not alive.exists(session)


def _exists(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@functools.cache
def _ticks() -> int:
    return os.sysconf("SC_CLK_TCK")


@functools.cache
def _loadavg() -> int:
    """Return the descriptor of /proc/loadavg. It stays open because it is read before each command."""
    return os.open("/proc/loadavg", os.O_RDONLY | os.O_CLOEXEC)


class Member(NamedTuple):
    """A process of a session. ``start`` is in clock ticks since the machine was booted."""

    pid: int
    start: int
    parent: int = 0


class Moment(NamedTuple):
    """A moment, as clock ticks since boot and, within one tick, the last process number that was assigned."""

    tick: int
    last_pid: int

    @classmethod
    def now(cls) -> Moment:
        """Return the current moment."""
        try:
            last = int(os.pread(_loadavg(), 100, 0).rpartition(b" ")[2])
        except (OSError, ValueError):
            last = 0
        return cls(int(time.clock_gettime(time.CLOCK_BOOTTIME) * _ticks()), last)

    def is_before(self, member: Member) -> bool:
        """Return True if the member started after this moment. Process numbers grow, and wrap around somewhere above 32,768."""
        if member.start != self.tick:
            return member.start > self.tick
        return member.pid > self.last_pid or member.pid < self.last_pid - (1 << 14)

    def least_pid(self) -> int:
        """Return a number below that of every process started since this moment, or 0 if the numbers may have wrapped around."""
        now = Moment.now()
        few = (now.tick - self.tick) / _ticks() * _FORKS < _numbers()
        return self.last_pid if few and now.last_pid >= self.last_pid else 0


_FORKS = 20_000
"""More processes than any machine starts in a second."""


@functools.cache
def _numbers() -> int:
    try:
        return int((_PROC / "sys/kernel/pid_max").read_bytes())
    except (OSError, ValueError):
        return 0


_LOOKS = 3


def members(session: int, since: Moment | None = None) -> list[Member]:
    """Return the living processes of a session. With ``since``, older processes may be missing, which makes the scan cheaper."""
    least = 0 if since is None else since.least_pid()
    for _ in range(_LOOKS):
        found, missed = _members(session, least)
        if found or not missed:
            return found
    return []


def _members(session: int, least: int) -> tuple[list[Member], bool]:
    """Return the living processes, and True if one ended during the scan: a child of it may then be missing."""
    found: list[Member] = []
    missed = False
    with contextlib.suppress(OSError):  # no /proc
        for name in os.listdir(_PROC):  # noqa: PTH208 - names only; a Path object per name would triple the cost
            if not name.isdigit() or int(name) <= least:
                continue
            try:
                with open(f"/proc/{name}/stat", "rb") as file:  # noqa: PTH123 - as above
                    fields = file.read().rpartition(b")")[2].split()
                if int(fields[3]) == session and fields[0] not in (b"Z", b"X"):
                    found.append(Member(int(name), int(fields[19]), int(fields[1])))
            except (OSError, ValueError, IndexError):
                missed = True
    return found, missed


def ignored(pid: int) -> int:
    """Return the signals that the process ignores, as a mask: bit N - 1 for signal N; 0 if it has ended."""
    found = _read(f"/proc/{pid}/status").partition(b"SigIgn:")[2].split(maxsplit=1)
    return int(found[0], 16) if found else 0


def argv(pid: int) -> bytes:
    """Return the process's arguments, each followed by a zero byte; b"" if it has ended."""
    return _read(f"/proc/{pid}/cmdline")


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - as above
            return file.read()
    except OSError:  # it has ended, or there is no /proc
        return b""
