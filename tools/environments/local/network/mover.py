"""Thread that watches the sockets of all network guards of this process."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import select
import threading
import time
from collections.abc import Callable

_log = logging.getLogger(__name__)
CHUNK = 1 << 20
"""Bytes to move at once, if the pipe accepts as many."""
LOOK = 0.5
"""Seconds between two calls of each guard's own function, which for example checks a sandbox's listening ports."""
READ, WRITE, ONCE = select.EPOLLIN, select.EPOLLOUT, select.EPOLLET
"""The epoll events to watch for. With ``ONCE`` each change is reported once, not repeatedly while it lasts."""
_F_SETPIPE_SZ = 1031


class Mover:
    """The thread, which ends with the last guard. It calls a function when a socket is ready; the functions may not block."""

    _sharing = threading.Lock()
    _shared: Mover | None = None

    def __init__(self) -> None:
        self.lock = threading.RLock()
        """Held while the thread calls functions. Other threads hold it to change or close what these functions use."""
        self.pipe = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        """A pipe to move bytes through. It is empty whenever the lock is free."""
        with contextlib.suppress(PermissionError):  # the kernel allows a user only few large pipes; a small one is slower
            fcntl.fcntl(self.pipe[1], _F_SETPIPE_SZ, CHUNK)
        self._calls: dict[int, Callable[[int], None]] = {}
        self._regular: list[Callable[[], None]] = []
        self._epoll = select.epoll()
        self._owner = os.getpid()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake, READ)
        self._thread = threading.Thread(target=self._run, name="toolcrib-network", daemon=True)

    @classmethod
    def shared(cls, regularly: Callable[[], None]) -> Mover:
        """Return the shared thread for another guard. The thread calls ``regularly`` every ``LOOK`` seconds."""
        with cls._sharing:
            if cls._shared is None or cls._shared._owner != os.getpid():  # a fork has no threads
                cls._shared = cls()
            mover = cls._shared
            mover._regular.append(regularly)  # without the lock: an event loop that opens a session may not wait for the thread
            if not mover._thread.is_alive():
                mover._thread.start()
            return mover

    def release(self, regularly: Callable[[], None]) -> None:
        """Stop calling the function of a guard. End the thread if no guard is left."""
        with self._sharing:
            with self.lock:
                self._regular.remove(regularly)
                if self._regular:
                    return
            Mover._shared = None
        os.eventfd_write(self._wake, 1)
        self._thread.join()
        self._epoll.close()
        for fd in (*self.pipe, self._wake):
            os.close(fd)

    def watch(self, fd: int, events: int, call: Callable[[int], None]) -> None:
        """Watch a descriptor for ``events``, and call ``call`` with each event that happens."""
        with self.lock:
            self._calls[fd] = call
            self._epoll.register(fd, events)

    def again(self, fd: int, events: int) -> None:
        """Watch a descriptor for these events instead. Events that are ready now are reported."""
        self._epoll.modify(fd, events)

    def forget(self, fd: int) -> None:
        """Stop watching a descriptor. Call it before the descriptor is closed."""
        with self.lock:
            if self._calls.pop(fd, None) is not None:
                self._epoll.unregister(fd)

    def _run(self) -> None:
        due = 0.0
        while True:
            events = self._epoll.poll(max(0.0, due - time.monotonic()))
            with self.lock:
                if not self._regular:
                    return
                for fd, event in events:
                    if (call := self._calls.get(fd)) is not None:
                        self._safely(call, event)
            if time.monotonic() >= due:
                for each in list(self._regular):
                    with self.lock:
                        if each in self._regular:
                            self._safely(each)
                due = time.monotonic() + LOOK

    @staticmethod
    def _safely(call: Callable[..., None], *arguments: int) -> None:
        try:
            call(*arguments)
        except Exception:  # noqa: BLE001 - an error in one guard must not end the thread of all
            _log.exception("the network guard of a sandbox failed")
