"""Retry the removal of containers that could not be removed when their environments were closed."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments.docker.admin import client_of, engine_of
from tools.environments.docker.watch import watchdog

_FIRST, _LATER = 0.5, 15.0
"""Seconds between two attempts: the first pause, which doubles each time, and the longest pause."""
_SOUGHT = 60.0
"""Maximum seconds until an engine creates a container after toolcrib stopped waiting for it."""


@dataclass(slots=True)
class _Doomed:
    """A container, by its id or name. ``sought``: the moment until which the engine may still create it."""

    container: str
    engine: str
    sought: float


class Removals:
    """Containers that this process must still remove. A thread retries while there are any.

    If this process ends first, its watchdog or the next start of toolcrib removes them. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left: list[_Doomed] = []
        self._thread: threading.Thread | None = None

    def add(self, container: str, host: str, *, may_come: bool = False) -> None:
        """Remove a container in the background. ``may_come``: the engine was asked to create it and did not answer."""
        with self._lock:
            self._left.append(_Doomed(container, engine_of(host), time.monotonic() + _SOUGHT if may_come else 0.0))
            if self._thread is None or not self._thread.is_alive():  # a fork has no threads
                self._thread = threading.Thread(target=self._work, name="docker-removal", daemon=True)
                self._thread.start()

    def _work(self) -> None:
        pause = _FIRST
        while left := self._still_left():
            for each in left:
                if _removed(each):
                    watchdog.leave(each.container)
                    with self._lock:
                        self._left.remove(each)
            time.sleep(pause)
            pause = min(2 * pause, _LATER)

    def _still_left(self) -> list[_Doomed]:
        with self._lock:
            if not self._left:
                self._thread = None
            return list(self._left)


def _removed(doomed: _Doomed) -> bool:
    """Return True if the container is gone and cannot appear any more."""
    import docker

    try:
        with client_of(doomed.engine) as client:
            client.containers.get(doomed.container).remove(force=True, v=True)
    except docker.errors.NotFound:
        return time.monotonic() >= doomed.sought
    except EnvironmentFailed:  # the engine is unavailable, or cannot remove it now
        return False
    return True


removals = Removals()
