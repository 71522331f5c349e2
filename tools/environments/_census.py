"""Census of the sessions of all processes: one look serves everybody who asks meanwhile."""

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
    """The living processes of each session that has any. ``begun`` is when the look began, as ``time.monotonic`` has it."""

    begun = 0.0


FULL = (errno.EMFILE, errno.ENFILE)
_LOOKS = 3
_Asked: TypeAlias = "tuple[asyncio.AbstractEventLoop, asyncio.Future[Sessions]]"


def scan_sessions() -> Sessions:
    """Return the sessions as they are now. It blocks for some milliseconds. Raises OSError where no more files can be opened."""
    sessions = Sessions()
    sessions.begun = time.monotonic()
    seen: set[str] = set()
    for _ in range(_LOOKS):
        if not _look(sessions, seen):  # else what has ended meanwhile may have forked, and that is on no list yet
            break
    return sessions


def _look(sessions: dict[int, list[Member]], seen: set[str]) -> bool:
    """Take in those that are not in ``seen``. Whether one ended between the list and the look at it."""
    missed = False
    with contextlib.suppress(FileNotFoundError):  # no /proc
        for name in os.listdir("/proc"):  # noqa: PTH208 - names only; a Path object each would triple the cost
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
    """Safe to use from several threads and event loops at once."""

    def __init__(self) -> None:
        self._workers = Workers("toolcrib-census", 1)
        self._lock = threading.Lock()
        self._asked: list[_Asked] = []
        self._owner = os.getpid()

    async def take(self) -> Sessions:
        """Return what a look finds that began after this was called. Raises OSError where no more files can be opened."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sessions] = loop.create_future()
        if self._owner != os.getpid():  # a fork: nobody who asked before is here
            self._owner, self._lock, self._asked = os.getpid(), threading.Lock(), []
        with self._lock:
            self._asked.append((loop, future))
            first = len(self._asked) == 1
        if first:
            self._workers.submit(self._work)
        return await future

    def _work(self) -> None:
        with self._lock:
            asked, self._asked = self._asked, []
        found: Sessions | OSError
        try:
            found = scan_sessions()
        except OSError as error:
            found = error
        for loop, future in asked:
            with contextlib.suppress(RuntimeError):  # that loop is closed: nobody waits in it
                loop.call_soon_threadsafe(_tell, future, found)


def _tell(future: asyncio.Future[Sessions], found: Sessions | OSError) -> None:
    if future.done():
        return
    if isinstance(found, OSError):
        future.set_exception(OSError(found.errno, found.strerror))
    else:
        future.set_result(found)


census = Census()
