"""The tables, created by numbered SQL files in the schema ``toolcrib``; the table ``version`` has the number of applied files."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent.store._schema import steps
from agent.store.postgres.address import Address
from toolcrib.contract.errors import StoreFailed

if TYPE_CHECKING:
    from agent.store.postgres._pool import Connection

FOLDER = Path(__file__).with_name("sql")
_LOCK = 0x74637262
"""'tcrb': the lock of processes that upgrade at the same time."""


async def upgrade(connection: Connection, address: Address) -> None:
    """Upgrade the tables to the newest version in one transaction. If they are current, the login needs no right to change them.

    Raises StoreFailed for tables of a newer version or of another program.
    """
    files = steps(FOLDER)
    if await _version(connection, address, len(files)) == len(files):
        return
    async with connection.transaction():
        await connection.execute("SET LOCAL statement_timeout = 0")
        await connection.execute("SET LOCAL lock_timeout = 0")
        await connection.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        version = await _version(connection, address, len(files))
        if version == 0:
            await connection.execute("CREATE SCHEMA IF NOT EXISTS toolcrib")
            await connection.execute("CREATE TABLE toolcrib.version (number integer NOT NULL)")
            await connection.execute("INSERT INTO toolcrib.version VALUES (0)")
        for number, file in sorted(files.items()):
            if number > version:
                await connection.execute(file.read_bytes())
        await connection.execute("UPDATE toolcrib.version SET number = %s", [len(files)])


async def _version(connection: Connection, address: Address, newest: int) -> int:
    """Return the version of the tables, 0 if there are none."""
    found = await connection.execute(
        "SELECT to_regclass('toolcrib.version') IS NOT NULL, EXISTS (SELECT FROM pg_tables WHERE schemaname = 'toolcrib')"
    )
    ours, tables = await found.fetchone() or (False, False)
    if tables and not ours:
        raise StoreFailed(
            f"the schema toolcrib in the PostgreSQL store at {address} belongs to another program and was not changed;"
            " use another database (store.url)"
        )
    if not ours:
        return 0
    row = await (await connection.execute("SELECT number FROM toolcrib.version")).fetchone()
    version = int(row[0]) if row else 0
    if version > newest:
        raise StoreFailed(
            f"the PostgreSQL store at {address} was written by a newer toolcrib (version {version} of the store; this one knows"
            f" up to {newest}) and was not changed; upgrade toolcrib, or use another database (store.url)"
        )
    return version
