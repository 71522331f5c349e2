"""Threads that read, each on its own connection, so that no reader waits for a writer."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from agent.store import _file
from agent.store._jobs import Job

_MOST = 3


class Readers:
    """A pool of at most three reading threads; each starts when all others are busy, and ends with ``close``."""

    def __init__(self, path: Path, connect: Callable[[], sqlite3.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._queue: SimpleQueue[Job[Any] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._under_way = 0
        self._counting = threading.Lock()

    def hand(self, job: Job[Any]) -> None:
        """Queue a job. Call it from one thread at a time."""
        with self._counting:
            self._under_way += 1
            more = self._under_way > len(self._threads)
        if more and len(self._threads) < _MOST:
            thread = threading.Thread(target=self._run, name=f"reads {self._path.name}", daemon=True)
            self._threads.append(thread)
            thread.start()
        self._queue.put(job)

    def close(self) -> None:
        """Wait until all queued jobs are done."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        while (job := self._queue.get()) is not None:
            try:
                connection = connection or self._connect()
                job.do(connection)
            except sqlite3.Error as error:
                job.error = _file.explained(self._path, error)
                job.error.__cause__ = error
            except BaseException as error:  # noqa: BLE001 - the thread must continue, and the job's waiter gets the error
                job.error = error
            with self._counting:
                self._under_way -= 1
            Job.deliver([job])
            del job
        if connection is not None:
            _file.close_quietly(connection, self._path)
