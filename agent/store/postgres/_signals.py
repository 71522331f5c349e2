"""Signals by LISTEN and NOTIFY, over an additional connection that is open while there are listeners."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.store.postgres._database import PostgresDatabase
from agent.store.postgres._loop import BACKGROUND
from agent.store.postgres._pool import connect
from agent.store.postgres._text import from_text, to_text
from toolcrib.contract.errors import ConfigError, StoreFailed

if TYPE_CHECKING:
    from agent.store.postgres._pool import Connection

_log = logging.getLogger(__name__)
_CHANNEL = "toolcrib"
_LONGEST = 7_999
"""Longest topic in bytes that the server carries."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0
"""Seconds until a lost connection is reopened; each wait is twice as long as the one before."""
_WAIT = 2.0
"""Seconds that a signal waits for a listener of the same process to connect."""

Heard = Callable[[str], None]


class PostgresSignals:
    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._listeners: dict[object, Heard] = {}
        self._lock = threading.Lock()
        self._task: asyncio.Task[None] | None = None
        """A task in the store's event loop; ``_hears`` is used only in that loop, too."""
        self._hears = asyncio.Event()

    async def send(self, topic: str) -> None:
        """Send a signal to the listeners in all processes that use this database. Raises nothing: a signal may be lost.

        If a listener of this process is still connecting, wait up to two seconds for it.
        """
        try:
            await self._database.loop.run(lambda: self._send(to_text(topic)))
        except (StoreFailed, ConfigError) as error:
            _log.debug("a signal was lost: %s", error)

    def listen(self, heard: Heard) -> Callable[[], None]:
        """Call ``heard(topic)`` for every signal, in the store's thread. Return a function that stops this."""
        mark = object()
        with self._lock:
            self._listeners[mark] = heard
        self._database.loop.submit(self._begin)

        def end() -> None:
            with self._lock:
                known = self._listeners.pop(mark, None) is not None
            if known:
                self._stop_if_nobody_listens()

        return end

    def _stop_if_nobody_listens(self) -> None:
        try:
            self._database.loop.submit(self._stop)
        except StoreFailed as error:  # the store is closed, and listening ended with it
            _log.debug("%s", error)

    # -- in the store's loop -------------------------------------------------------------------------------------

    async def _send(self, topic: str) -> None:
        if len(topic.encode()) > _LONGEST:
            _log.debug("a signal was lost: its topic has more than %d bytes", _LONGEST)
            return
        if self._task is not None and not self._hears.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._hears.wait(), _WAIT)
        await self._database.signal(_CHANNEL, topic)

    async def _begin(self) -> None:
        if self._task is None:
            self._task = asyncio.create_task(self._listen(), name=BACKGROUND)

    async def _stop(self) -> None:
        """Stop listening, unless there is a new listener."""
        if self._task is None or self._listeners:
            return
        await self.end()

    async def end(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def _listen(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            try:
                connection = await connect(self._database.address)
                try:
                    await connection.execute(f"LISTEN {_CHANNEL}")
                    pause = _FIRST_PAUSE
                    self._hears.set()
                    await self._hear(connection)
                finally:
                    self._hears.clear()
                    await connection.close()
            except (StoreFailed, ConfigError) as error:
                _log.debug("no signals are received for %g s: %s", pause, error)
            await asyncio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    async def _hear(self, connection: Connection) -> None:
        """Pass signals to the listeners until the connection is lost."""
        import psycopg

        try:
            async for notice in connection.notifies():
                self._tell(from_text(notice.payload))
        except (psycopg.Error, OSError) as error:
            _log.debug("the connection for signals was lost: %s", error)

    def _tell(self, topic: str) -> None:
        with self._lock:
            listeners = list(self._listeners.values())
        for heard in listeners:
            try:
                heard(topic)
            except Exception:  # noqa: BLE001 - one listener's failure must not stop the others
                _log.exception("a listener failed on the signal %r", topic)
