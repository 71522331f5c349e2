"""Statements on the server, awaited from any event loop, and the lease guard of fenced statements."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from agent.store._shared import Clock, lost
from agent.store.postgres import _schema
from agent.store.postgres._errors import AGAIN, LEASE_LOST, explained, sqlstate
from agent.store.postgres._loop import LoopThread
from agent.store.postgres._pool import ConnectionPool, cut
from agent.store.postgres._text import Values, from_text, to_text
from agent.store.postgres.address import Address, import_psycopg
from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.store import Fence, Lease

if TYPE_CHECKING:
    from agent.store.postgres._pool import Connection

T = TypeVar("T")

NOW = "coalesce(%(now)s::float8, extract(epoch FROM clock_timestamp())::float8)"
"""The server's time in Unix seconds, so that no two clocks are compared; only tests pass their own clock."""
CONNECTIONS = 4
_SECONDS = 45.0
"""Seconds that an operation may take; then its connection is closed. The server's own limits are shorter."""
_ATTEMPTS = 4


class PostgresDatabase:
    """The connections to the server.

    Every method raises StoreFailed with the server's name and a remedy, and LeaseLost if a fence has lost its lease.
    """

    def __init__(self, address: Address, clock: Clock | None, connections: int) -> None:
        self.address = address
        self.loop = LoopThread(str(address))
        self._clock = clock
        self._size = connections
        self._pool: ConnectionPool | None = None

    def now(self) -> dict[str, float | None]:
        """Return the value for NOW."""
        return {"now": None if self._clock is None else self._clock()}

    async def check(self) -> None:
        """Connect, and create or upgrade the tables."""
        await self._lent(_nothing)

    async def read(self, use: Callable[[Connection], Awaitable[T]]) -> T:
        """Call ``use`` with a connection for independent statements, in the store's event loop."""
        return await self.loop.run(lambda: self._lent(use))

    async def rows(self, sql: str, values: Values) -> list[Any]:
        async def read(connection: Connection) -> list[Any]:
            return await (await connection.execute(sql, values)).fetchall()

        return await self.read(read)

    async def records(self, make: Callable[..., T], sql: str, values: Values) -> list[T]:
        """Call ``make`` with each row's columns, outside the caller's event loop, and return the results."""

        async def read(connection: Connection) -> list[T]:
            return self.made(make, await (await connection.execute(sql, values)).fetchall())

        return await self.read(read)

    async def write(self, fence: Fence | None, sql: str, values: Values, *, parts: str = "") -> list[Any]:
        """Run one writing statement, and return its rows after the commit. Their first column must never be NULL.

        ``parts`` are the statements of its WITH clause. A fence's guard is part of the statement.
        """
        lease = None if fence is None else fence.lease

        async def write(connection: Connection) -> list[Any]:
            if lease is None:
                return await (await connection.execute(_plain(sql, parts), values)).fetchall()
            cursor = await connection.execute(_guarded(sql, parts), {**values, **_of(lease)})
            return [row for row in await cursor.fetchall() if row[0] is not None]

        return await self.loop.run(lambda: self._lent(write, lease))

    async def transact(self, fence: Fence | None, work: Callable[[Connection], Awaitable[T]], *, patient: bool = False) -> T:
        """Run ``work`` in one transaction; after a conflict it is called again. ``patient``: there is no time limit."""
        lease = None if fence is None else fence.lease

        async def transact(connection: Connection) -> T:
            await connection.execute("BEGIN")
            if patient:
                await connection.execute("SET LOCAL statement_timeout = 0")
            if lease is not None:
                await connection.execute(f"SELECT {_GUARD}", _of(lease))
            made = await work(connection)
            await connection.execute("COMMIT")
            return made

        return await self.loop.run(lambda: self._lent(transact, lease, patient=patient))

    def made(self, make: Callable[..., T], rows: list[Any]) -> list[T]:
        """Call ``make`` with each row's columns, their text decoded, and return the results.

        Raises StoreFailed for a record that can't be read.
        """
        try:
            return [make(*(from_text(value) if isinstance(value, str) else value for value in row)) for row in rows]
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise StoreFailed(
                f"the PostgreSQL store at {self.address} has an unreadable record"
                f" ({type(error).__name__}: {error}); it was not changed"
            ) from error

    async def signal(self, channel: str, payload: str) -> None:
        """NOTIFY the listeners of a channel. Call this in the store's event loop."""

        async def notify(connection: Connection) -> None:
            await connection.execute("SELECT pg_notify(%s, %s)", [channel, payload])

        await self._lent(notify)

    def close(self, first: Callable[[], Awaitable[None]]) -> None:
        """Wait until running operations have ended, await ``first`` in the store's event loop, and close every connection."""

        async def end() -> None:
            await first()
            if self._pool is not None:
                await self._pool.close()

        self.loop.close(end)

    async def _lent(self, use: Callable[[Connection], Awaitable[T]], lease: Lease | None = None, *, patient: bool = False) -> T:
        """Call ``use`` with a connection, in the store's event loop.

        Call ``use`` again if the server aborted its transaction because of another transaction.
        """
        import_psycopg(self.address)
        import psycopg

        if self._pool is None:
            self._pool = ConnectionPool(self.address, self._size, self._prepare)
        attempt = 0
        while True:
            attempt += 1
            try:
                async with self._pool.connection() as connection:
                    return await self._within(connection, use, patient)
            except psycopg.Error as error:
                if lease is not None and sqlstate(error) == LEASE_LOST:
                    raise lost(lease) from None
                if sqlstate(error) not in AGAIN or attempt == _ATTEMPTS:
                    raise explained(self.address, error) from None

    async def _within(self, connection: Connection, use: Callable[[Connection], Awaitable[T]], patient: bool) -> T:
        limit = None if patient else asyncio.get_running_loop().call_later(_SECONDS, cut, connection)
        try:
            return await use(connection)
        except BaseException:
            await _undo(connection)
            raise
        finally:
            if limit is not None:
                limit.cancel()

    async def _prepare(self, connection: Connection) -> None:
        import psycopg

        try:
            await _schema.upgrade(connection, self.address)
        except psycopg.Error as error:
            raise explained(self.address, error) from None


_GUARD = "hold_lease(%(lease_name)s, %(lease_token)s)"


def _plain(sql: str, parts: str) -> str:
    return f"WITH {parts} {sql}" if parts else sql


@functools.lru_cache(maxsize=128)
def _guarded(sql: str, parts: str) -> str:
    """Return the statement combined with the lease guard. If the statement returns no rows, the result is one row of NULLs.

    It is one message, not a pipeline: a process that stops, or a machine that vanishes, between two messages of a pipeline would
    keep the lease's row locked, and no time limit of the server applies there. The order of the guard and the rest does not
    matter: either the guard raises and nothing is changed, or it holds the lease until the commit.
    """
    parts = f"{parts}, " if parts else ""
    return f"WITH {parts}done AS ({sql}) SELECT done.* FROM (SELECT {_GUARD}) AS held LEFT JOIN done ON true"  # noqa: S608 - ours


def _of(lease: Lease) -> Values:
    return {"lease_name": to_text(lease.name), "lease_token": lease.token}


async def _undo(connection: Connection) -> None:
    """Leave no transaction open; close a connection that can't roll back."""
    import psycopg

    try:
        if not connection.closed and connection.pgconn.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            await connection.execute("ROLLBACK")
    except psycopg.Error:
        await connection.close()


async def _nothing(_connection: Connection) -> None:
    return None
