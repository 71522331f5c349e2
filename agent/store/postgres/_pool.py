"""A few connections, opened on demand. All of this runs in the store's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import select
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from agent.store.postgres._errors import explained
from agent.store.postgres.address import Address, import_psycopg
from toolcrib.contract.errors import StoreFailed

if TYPE_CHECKING:
    import psycopg

    Connection: TypeAlias = psycopg.AsyncConnection[Any]

OLDEST = 130_000
"""The oldest supported version of the server, in libpq's numbering."""
_SETTINGS = {
    "search_path": "toolcrib",
    "statement_timeout": "30s",
    "lock_timeout": "10s",
    "idle_in_transaction_session_timeout": "5s",  # a stopped process must not block other processes
    "default_transaction_isolation": "read committed",
}
_SET = "SELECT " + ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SETTINGS.items())


class ConnectionPool:
    """A pool of connections. ``prepare`` is awaited once, with the first connection that opens."""

    def __init__(self, address: Address, size: int, prepare: Callable[[Connection], Awaitable[None]]) -> None:
        self._address = address
        self._free = asyncio.Semaphore(size)
        self._idle: list[Connection] = []
        self._prepare = prepare
        self._preparing = asyncio.Lock()
        self._prepared = False

    @contextlib.asynccontextmanager
    async def connection(self) -> AsyncIterator[Connection]:
        """Lend a working connection. Raises StoreFailed and ConfigError if none can be opened."""
        async with self._free:
            connection = self._take_idle() or await self._opened()
            try:
                yield connection
            finally:
                if is_idle(connection):
                    self._idle.append(connection)  # the last used is used next, because its statements are prepared
                else:
                    await connection.close()

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if is_idle(connection) and not _has_news(connection):
                return connection
            connection.pgconn.finish()  # the server closed it while it was idle
        return None

    async def _opened(self) -> Connection:
        connection = await connect(self._address)
        try:
            async with self._preparing:
                if not self._prepared:
                    await self._prepare(connection)
                    self._prepared = True
        except BaseException:
            await connection.close()
            raise
        return connection


async def connect(address: Address) -> Connection:
    """Return a connection with our settings, in autocommit. Raises StoreFailed, and ConfigError if psycopg is missing."""
    import_psycopg(address)
    import psycopg

    connection: Connection | None = None
    try:
        connection = await psycopg.AsyncConnection.connect(**address.options(), autocommit=True)
        _check(connection, address)
        await connection.execute(_SET)
    except BaseException as error:
        if connection is not None:
            await connection.close()
        if isinstance(error, (psycopg.Error, OSError)):
            raise explained(address, error, connecting=connection is None) from None
        raise
    return connection


def cut(connection: Connection) -> None:
    """Close a connection whose server does not answer: its waiters get an error at once."""
    with contextlib.suppress(Exception), socket.socket(fileno=os.dup(connection.pgconn.socket)) as sock:
        sock.shutdown(socket.SHUT_RDWR)


def is_idle(connection: Connection) -> bool:
    import psycopg

    return not connection.closed and connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.IDLE


def _check(connection: Connection, address: Address) -> None:
    if connection.info.server_version < OLDEST:
        version = connection.info.server_version // 10_000
        raise StoreFailed(f"the PostgreSQL store at {address} has version {version}; toolcrib needs 13 or newer")
    encoding = connection.info.parameter_status("server_encoding")
    if encoding != "UTF8":
        raise StoreFailed(
            f"the database of the PostgreSQL store at {address} has the encoding {encoding}; create one with encoding UTF8"
        )


def _has_news(connection: Connection) -> bool:
    """Return whether the server sent something: on an idle connection, it only sends that it closes the connection."""
    poll = select.poll()
    poll.register(connection.pgconn.socket, select.POLLIN)
    return bool(poll.poll(0))
