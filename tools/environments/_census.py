"""Census of the sessions of all processes. Concurrent callers share one scan."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import threading
import time
from typing import TypeAlias

from tools.environments._groups import Member
from tools.environments._workers import Workers


class Sessions(dict[int, list[Member]]):
    """The living processes of each session. ``begun`` is the start of the scan, as ``time.monotonic`` time."""

    begun = 0.0


FULL = (errno.EMFILE, errno.ENFILE)
_LOOKS = 3
_Asked: TypeAlias = "tuple[asyncio.AbstractEventLoop, asyncio.Future[Sessions]]"


def scan_sessions() -> Sessions:
    """Scan all processes and return their sessions. Blocks for some milliseconds. Raises OSError if no more files can be
    opened.
    """
    sessions = Sessions()
    sessions.begun = time.monotonic()
    seen: set[str] = set()
    for _ in range(_LOOKS):
        if not _look(sessions, seen):  # none was missed; a missed one may have forked a child that is not listed
            break
    return sessions


def _look(sessions: dict[int, list[Member]], seen: set[str]) -> bool:
    """Add the processes that are not in ``seen``. Return True if one of them ended before it could be read."""
    missed = False
    with contextlib.suppress(FileNotFoundError):  # no /proc
        for name in os.listdir("/proc"):  # noqa: PTH208 - names only; a Path object per name would triple the cost
            if not name.isdigit() or name in seen:
                continue
            seen.add(name)
            try:
                fd = os.open(f"/proc/{name}/stat", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    fields = os.read(fd, 4096).rpartition(b")")[2].split()
                finally:
                    os.close(fd)
                if fields[0] not in (b"Z", b"X"):
                    sessions.setdefault(int(fields[3]), []).append(Member(int(name), int(fields[19]), int(fields[1])))
            except (OSError, ValueError, IndexError) as error:
                if isinstance(error, OSError) and error.errno in FULL:
                    raise
                missed = True
    return missed


class Census:
    """Shared scans of all sessions. Safe to use from several threads and event loops at once."""

    def __init__(self) -> None:
        self._workers = Workers("toolcrib-census", 1)
        self._lock = threading.Lock()
        self._asked: list[_Asked] = []
        self._owner = os.getpid()

    async def take(self) -> Sessions:
        """Return the sessions from a scan that starts after this call. Raises OSError if no file can be opened or no thread can
        start.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sessions] = loop.create_future()
        if self._owner != os.getpid():  # after a fork the earlier callers do not exist
            self._owner, self._lock, self._asked = os.getpid(), threading.Lock(), []
        with self._lock:
            self._asked.append((loop, future))
            first = len(self._asked) == 1
        if first:
            try:
                self._workers.submit(self._work)
            except RuntimeError as error:
                self._answer(self._taken(), OSError(errno.EAGAIN, str(error)))
        return await future

    def _work(self) -> None:
        asked = self._taken()
        found: Sessions | OSError
        try:
            found = scan_sessions()
        except OSError as error:
            found = error
        self._answer(asked, found)

    def _taken(self) -> list[_Asked]:
        with self._lock:
            asked, self._asked = self._asked, []
        return asked

    def _answer(self, asked: list[_Asked], found: Sessions | OSError) -> None:
        for loop, future in asked:
            with contextlib.suppress(RuntimeError):  # the loop is closed, so no caller waits in it
                loop.call_soon_threadsafe(_tell, future, found)


def _tell(future: asyncio.Future[Sessions], found: Sessions | OSError) -> None:
    if future.done():
        return
    if isinstance(found, OSError):
        future.set_exception(OSError(found.errno, found.strerror))
    else:
        future.set_result(found)


census = Census()
