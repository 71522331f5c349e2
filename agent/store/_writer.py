"""The one thread that writes: waiting operations are written in one batch, and reported after the commit."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from agent.store import _file
from agent.store._jobs import Job
from toolcrib.contract.errors import StoreFailed

_Queued: TypeAlias = "Job[Any] | None"
_MOST = 500
_LONGEST = 0.02
"""Operations, and seconds, after which a batch is committed even if more arrive."""
_PAUSE = 0.001
"""Seconds between full batches: SQLite's lock is unfair, and another process needs a chance to take it."""


class Writer:
    """Writes batches of operations in one transaction, with a savepoint for each: an operation that raises reverts only itself.

    All operations of a batch share the result of its COMMIT. The thread starts with the first operation and ends with ``close``.
    """

    def __init__(self, path: Path, connect: Callable[[], sqlite3.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._queue: SimpleQueue[_Queued] = SimpleQueue()
        self._next: list[_Queued] = []
        """An operation from the queue that could not be part of the last batch: at most one."""
        self._thread: threading.Thread | None = None
        self._full = False
        """True if the last batch was committed while more operations waited."""

    def hand(self, job: Job[Any]) -> None:
        """Queue a job. Call it from one thread at a time."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=f"writes {self._path.name}", daemon=True)
            self._thread.start()
        self._queue.put(job)

    def close(self) -> None:
        """Wait until all queued jobs are done."""
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()

    # -- in the thread -------------------------------------------------------------------------------------------

    def _run(self) -> None:
        while (job := self._next.pop() if self._next else self._queue.get()) is not None:
            try:
                connection = self._connect()
                if job.alone:
                    self._do_alone(connection, job)
                else:
                    self._do_batch(connection, job)
            except BaseException as error:  # noqa: BLE001 - the transaction could not begin, so all waiting jobs fail
                self._fail([job, *self._waiting()], error)
            del job

    def _do_batch(self, connection: sqlite3.Connection, job: Job[Any]) -> None:
        self._begin(connection)
        batch: list[Job[Any]] = []
        try:
            for one in self._coming(job):
                batch.append(one)
                if not _did(connection, one, first=len(batch) == 1):
                    break
            if connection.in_transaction:
                connection.execute("COMMIT")
            elif len(batch) > 1 or batch[0].error is None:
                raise _lost(batch)
        except sqlite3.Error as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            self._fail(batch, error)
            return
        self._report(batch)

    def _coming(self, job: Job[Any]) -> Iterator[Job[Any]]:
        """Yield the job, and the jobs that wait behind it."""
        yield job
        end = time.monotonic() + _LONGEST
        for _ in range(_MOST):
            try:
                following = self._queue.get_nowait()
            except Empty:
                return
            if following is None or following.alone:
                self._next.append(following)
                return
            yield following
            if time.monotonic() > end:
                break
        self._full = True

    def _begin(self, connection: sqlite3.Connection) -> None:
        """Take the write lock. This retries more often than SQLite's own waiting does, which misses short gaps."""
        if self._full:
            self._full = False
            time.sleep(_PAUSE)
        begun = time.monotonic()
        while True:
            try:
                connection.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                waited = time.monotonic() - begun
                if not _file.is_busy(error) or waited > _file.BUSY_SECONDS:
                    raise
            time.sleep(_PAUSE / 2 if waited < 0.1 else 3 * _PAUSE)

    def _do_alone(self, connection: sqlite3.Connection, job: Job[Any]) -> None:
        patience = connection.execute("PRAGMA busy_timeout").fetchone()[0]
        try:
            connection.execute(f"PRAGMA busy_timeout = {int(_file.BUSY_SECONDS * 1000)}")
            job.do(connection)
        except BaseException as error:  # noqa: BLE001 - the thread must continue, and the job's waiter gets the error
            job.error = error
        finally:
            connection.execute(f"PRAGMA busy_timeout = {patience}")
        self._report([job])

    def _waiting(self) -> Iterator[Job[Any]]:
        while not self._next:
            try:
                following = self._queue.get_nowait()
            except Empty:
                return
            if following is None:
                self._next.append(None)
            else:
                yield following

    def _fail(self, batch: Iterable[Job[Any]], error: BaseException) -> None:
        failed = list(batch)
        for job in failed:
            if job.error is None:  # a new error object for each job: raising one adds to its traceback
                job.error = StoreFailed(str(error)) if isinstance(error, StoreFailed) else error
        self._report(failed)

    def _report(self, batch: list[Job[Any]]) -> None:
        for job in batch:
            if isinstance(job.error, sqlite3.Error):
                found = job.error
                job.error = _file.explained(self._path, found)
                job.error.__cause__ = found
        Job.deliver(batch)


def _did(connection: sqlite3.Connection, job: Job[Any], *, first: bool) -> bool:
    """Run the job in the open transaction. Return False if the transaction ended with it.

    The first job needs no savepoint, because nothing precedes it.
    """
    try:
        if not first:
            connection.execute("SAVEPOINT job")
        job.do(connection)
        if not first:
            connection.execute("RELEASE job")
        return True
    except BaseException as error:  # noqa: BLE001 - the thread must continue, and the job's waiter gets the error
        job.error = error
    if not connection.in_transaction:  # a full disk: SQLite reverted everything
        return False
    if first:
        connection.execute("ROLLBACK")
        return False
    connection.execute("ROLLBACK TO job")
    connection.execute("RELEASE job")
    return True


def _lost(batch: list[Job[Any]]) -> sqlite3.Error:
    """Return the error that ended the transaction of these jobs before its COMMIT."""
    error = batch[-1].error
    return error if isinstance(error, sqlite3.Error) else sqlite3.OperationalError("the transaction ended early")
