"""Calls of the engine's client that a caller can cancel. They can block for half a minute after a restart of the engine."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any, TypeVar

from toolcrib.contract.errors import EnvironmentFailed

Result = TypeVar("Result")


class GivenUp(EnvironmentFailed):
    """The wait was interrupted before anything ran."""


class Patience:
    """Cancellable waits for the engine. Safe to use from several threads at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waited_for: set[Future[Any]] = set()
        self._at_work = 0

    def wait(self, work: Callable[[], Result], limit: float | None = None) -> Result:
        """Run ``work`` in its own thread. Return its result, or raise its error. If the wait ends before the
        work does, the work's result is closed.

        Raises GivenUp if the wait is cancelled, and TimeoutError after ``limit`` seconds.
        """
        future: Future[Any] = Future()
        with self._lock:
            self._waited_for.add(future)
            self._at_work += 1
        try:
            threading.Thread(target=self._work, args=(work, future), name="docker-engine", daemon=True).start()
        except RuntimeError:  # no more threads can be started
            with self._lock:
                self._waited_for.discard(future)
                self._at_work -= 1
            raise
        try:
            result: Result = future.result(limit)
        except CancelledError:
            raise GivenUp("interrupted while waiting for the docker engine; nothing was run") from None
        finally:
            future.cancel()
            with self._lock:
                self._waited_for.discard(future)
        return result

    def _work(self, work: Callable[[], object], future: Future[Any]) -> None:
        result: object = None
        fault: BaseException | None = None
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - the waiter gets the error
            fault = error
        with self._lock:
            self._at_work -= 1
        if not future.set_running_or_notify_cancel():
            getattr(result, "close", lambda: None)()
        elif fault is not None:
            future.set_exception(fault)
        else:
            future.set_result(result)

    def give_up(self, grace: float = 0.0) -> None:
        """Limit all waits to ``grace`` seconds from now. The work itself continues."""
        with self._lock:
            waited_for = list(self._waited_for)
        if grace and waited_for:
            timer = threading.Timer(grace, _cancel, [waited_for])
            timer.daemon = True
            timer.start()
        else:
            _cancel(waited_for)

    @property
    def hangs(self) -> bool:
        """True while work runs whose wait was cancelled or timed out."""
        with self._lock:
            return self._at_work > len(self._waited_for)


def _cancel(waited_for: list[Future[Any]]) -> None:
    for future in waited_for:
        future.cancel()
