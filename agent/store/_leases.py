"""Leases over SQLite, timed by its own clock."""

from __future__ import annotations

import sqlite3

from agent.store._codec import plain, text
from agent.store._database import Access
from agent.store._owner import is_dead
from toolcrib.contract.store import Lease

_NOW = "((julianday('now') - 2440587.5) * 86400.0)"
"""Unix seconds, with fractions."""


class SqliteLeases:
    """Leases over SQLite. A row is never deleted, because the next token is one more than its token."""

    def __init__(self, access: Access) -> None:
        self._access = access

    async def take(self, name: str, owner: str, seconds: float) -> Lease | None:
        key, who = text(name), text(owner)

        def work(connection: sqlite3.Connection) -> Lease | None:
            found = connection.execute(f"SELECT token, owner, expires_at <= {_NOW} FROM leases WHERE name = ?", (key,)).fetchone()  # noqa: S608 - ours
            token, holder, lapsed = found or (0, "", True)
            if not lapsed and not is_dead(plain(holder)):
                return None
            connection.execute(
                f"INSERT INTO leases (name, owner, token, expires_at) VALUES (?, ?, ?, {_NOW} + ?) ON CONFLICT (name) DO UPDATE"  # noqa: S608 - ours
                " SET owner = excluded.owner, token = excluded.token, expires_at = excluded.expires_at",
                (key, who, token + 1, seconds),
            )
            return Lease(name, token + 1, owner, seconds)

        return await self._access.write(work)

    async def renew(self, lease: Lease) -> bool:
        sql = f"UPDATE leases SET expires_at = {_NOW} + ? WHERE name = ? AND token = ?"  # noqa: S608 - ours
        return await self._access.run(sql, (lease.seconds, text(lease.name), lease.token)) == 1

    async def release(self, lease: Lease) -> None:
        sql = "UPDATE leases SET expires_at = 0 WHERE name = ? AND token = ?"
        await self._access.run(sql, (text(lease.name), lease.token))

    async def holder(self, name: str) -> str | None:
        sql = f"SELECT owner FROM leases WHERE name = ? AND expires_at > {_NOW}"  # noqa: S608 - ours
        found = await self._access.row(sql, (text(name),))
        return None if found is None or is_dead(plain(found[0])) else plain(found[0])
