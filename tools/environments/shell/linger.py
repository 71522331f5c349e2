"""Pipes that a background process still writes to after its command ended."""

from __future__ import annotations

import os
import select
import threading


class Lingering:
    """Reader that drops the data of pipes that outlive their commands. Closing one would end a server when it next logs."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stop: tuple[int, int] | None = None
        self._threads: list[threading.Thread] = []

    def adopt(self, fds: list[int]) -> None:
        """Take over the descriptors, and close them at their end, or in ``close``."""
        with self._lock:
            if self._stop is None:
                self._stop = os.pipe()
            self._threads = [thread for thread in self._threads if thread.is_alive()]
            thread = threading.Thread(target=_forget, args=(fds, self._stop[0]), name="background-output", daemon=True)
            self._threads.append(thread)
            thread.start()

    def release_idle(self) -> None:
        """Close the idle resources if no pipe is left. The threads end with their pipes."""
        with self._lock:
            if self._stop is None or any(thread.is_alive() for thread in self._threads):
                return
            for fd in self._stop:
                os.close(fd)
            self._stop, self._threads = None, []

    def close(self) -> None:
        """End the threads. May be called twice."""
        with self._lock:
            if self._stop is None:
                return
            stop, self._stop = self._stop, None
            os.close(stop[1])
            for thread in self._threads:
                thread.join()
            os.close(stop[0])
            self._threads = []


def _forget(fds: list[int], stop: int) -> None:
    poll = select.poll()
    left = set(fds)
    for fd in (*fds, stop):
        poll.register(fd, select.POLLIN)
    while left:
        ready = {fd for fd, _ in poll.poll()}
        if stop in ready:
            break
        for fd in ready & left:
            try:
                more = os.read(fd, 1 << 16)
            except BlockingIOError:
                continue
            except OSError:
                more = b""
            if not more:
                poll.unregister(fd)
                os.close(fd)
                left.discard(fd)
    for fd in left:
        os.close(fd)
