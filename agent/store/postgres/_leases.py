"""Leases. Rows are never deleted, so a token never repeats."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent.store._owner import is_dead
from agent.store.postgres._database import PostgresDatabase
from agent.store.postgres._text import Values, from_text, to_text
from toolcrib.contract.store import Lease

if TYPE_CHECKING:
    from agent.store.postgres._pool import Connection

_NOW = "extract(epoch FROM clock_timestamp())::float8"
_TAKE = (
    "INSERT INTO leases (name, owner, token, expires_at)"  # noqa: S608 - _NOW is ours
    f" VALUES (%(name)s, %(owner)s, 1, {_NOW} + %(seconds)s) ON CONFLICT (name) DO UPDATE"
    " SET owner = excluded.owner, token = leases.token + 1, expires_at = excluded.expires_at"
    f" WHERE leases.expires_at <= {_NOW} OR leases.token = %(dead)s::bigint RETURNING token"
)


class PostgresLeases:
    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database

    async def take(self, name: str, owner: str, seconds: float) -> Lease | None:
        values = {"name": to_text(name), "owner": to_text(owner), "seconds": seconds}

        async def take(connection: Connection) -> int | None:
            row = await (await connection.execute(_TAKE, {**values, "dead": None})).fetchone()
            if row is None and (dead := await _dead(connection, name)) is not None:
                row = await (await connection.execute(_TAKE, {**values, "dead": dead})).fetchone()
            return None if row is None else int(row[0])

        token = await self._database.read(take)
        return None if token is None else Lease(name, token, owner, seconds)

    async def renew(self, lease: Lease) -> bool:
        sql = f"UPDATE leases SET expires_at = {_NOW} + %(seconds)s WHERE name = %(name)s AND token = %(token)s RETURNING token"  # noqa: S608 - ours
        values: Values = {"name": to_text(lease.name), "token": lease.token, "seconds": lease.seconds}
        return bool(await self._database.write(None, sql, values))

    async def release(self, lease: Lease) -> None:
        sql = "UPDATE leases SET expires_at = 0 WHERE name = %(name)s AND token = %(token)s RETURNING token"
        await self._database.write(None, sql, {"name": to_text(lease.name), "token": lease.token})

    async def holder(self, name: str) -> str | None:
        sql = f"SELECT owner FROM leases WHERE name = %(name)s AND expires_at > {_NOW}"  # noqa: S608 - ours
        found = await self._database.rows(sql, {"name": to_text(name)})
        owner = from_text(found[0][0]) if found else ""
        return owner if found and not is_dead(owner) else None


async def _dead(connection: Connection, name: str) -> int | None:
    """Return the token of the lease if its holder's process is known to have ended."""
    found = await connection.execute("SELECT owner, token FROM leases WHERE name = %(name)s", {"name": to_text(name)})
    row = await found.fetchone()
    return row[1] if row is not None and is_dead(from_text(row[0])) else None
