"""Artifacts on the server. An advisory lock keeps writers of artifacts and the removal of unused ones apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent.store._artifacts import pack, unpacked
from agent.store.postgres._database import NOW, PostgresDatabase
from agent.store.postgres._text import Values, from_text, to_text
from toolcrib.contract.artifacts import KeptArtifact
from toolcrib.contract.dataclass import replace
from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.store import Fence
from tools.undo.contents import digest_of

if TYPE_CHECKING:
    from agent.store.postgres._pool import Connection
    from toolcrib.contract.artifacts import ArtifactStore
    from toolcrib.contract.search import SearchFilter

_LOCK = 0x74636172
"""'tcar': the lock of writers and of the removal."""
SWEEP = (
    f"SELECT pg_advisory_xact_lock({_LOCK})",
    "DELETE FROM artifact_contents WHERE NOT EXISTS (SELECT FROM artifacts WHERE artifacts.digest = artifact_contents.digest)",
)
"""Statements at the end of a transaction that deletes sessions: they remove contents that no session refers to."""


class PostgresArtifacts:
    """See toolcrib.contract.artifacts.ArtifactStore."""

    def __init__(self, database: PostgresDatabase, fence: Fence | None) -> None:
        self._database = database
        self._fence = fence

    async def put(self, session_id: str, data: bytes) -> str:
        digest = digest_of(data)
        values: Values = {
            **self._database.now(),
            "session": to_text(session_id),
            "digest": digest,
            "size": len(data),
            "body": pack(data),
        }

        async def put(connection: Connection) -> None:
            await connection.execute(f"SELECT pg_advisory_xact_lock_shared({_LOCK})")
            known = await connection.execute("SELECT 1 FROM artifact_contents WHERE digest = %(digest)s", values)
            if await known.fetchone() is None:
                await connection.execute(
                    "INSERT INTO artifact_contents (digest, size, body) VALUES (%(digest)s, %(size)s, %(body)s)"
                    " ON CONFLICT DO NOTHING",
                    values,
                )
            await connection.execute(
                "INSERT INTO artifacts (session_id, digest, size, at)"  # noqa: S608 - NOW is ours
                f" VALUES (%(session)s, %(digest)s, %(size)s, {NOW}) ON CONFLICT DO NOTHING",
                values,
            )

        await self._database.transact(self._fence, put)
        return digest

    async def get(self, session_id: str, digest: str) -> bytes | None:
        sql = (
            "SELECT digest, body FROM artifacts LEFT JOIN artifact_contents USING (digest)"
            " WHERE session_id = %(session)s AND starts_with(digest, %(digest)s) LIMIT 2"
        )
        found = await self._database.rows(sql, {"session": to_text(session_id), "digest": to_text(digest)})
        if len(found) != 1 or found[0][1] is None:
            return None
        try:
            return unpacked(bytes(found[0][1]), found[0][0])
        except ValueError as error:
            raise StoreFailed(f"the PostgreSQL store at {self._database.address}: {error}; restore it from a backup") from error

    async def of(self, session_id: str) -> Mapping[str, int]:
        sql = "SELECT digest, size FROM artifacts WHERE session_id = %(session)s ORDER BY row"
        return dict(await self._database.rows(sql, {"session": to_text(session_id)}))

    async def newest(self, where: SearchFilter, limit: int) -> Sequence[KeptArtifact]:
        from agent.store.postgres._search import clauses_of

        clauses, values = clauses_of(replace(where, since=None, until=None, roles=()))
        for name, time, sign in (("since", where.since, ">="), ("until", where.until, "<")):
            if time is not None:
                clauses, values = f"{clauses} AND a.at {sign} %({name})s", {**values, name: time}
        sql = (
            "SELECT s.id, s.title, a.digest, a.size, a.at"  # noqa: S608 - the clauses are ours
            " FROM artifacts AS a JOIN sessions AS s ON s.id = a.session_id"
            f" WHERE true{clauses} ORDER BY a.row DESC LIMIT %(limit)s"
        )
        rows = await self._database.rows(sql, {**values, "limit": limit})
        return [KeptArtifact(from_text(name), from_text(title), digest, size, at) for name, title, digest, size, at in rows]

    async def share(self, session_id: str, other: str) -> None:
        await self._database.write(
            self._fence,
            "INSERT INTO artifacts (session_id, digest, size, at)"  # noqa: S608 - NOW is ours
            f" SELECT %(other)s, digest, size, {NOW} FROM artifacts WHERE session_id = %(session)s ORDER BY row"
            " ON CONFLICT DO NOTHING RETURNING row",
            {**self._database.now(), "session": to_text(session_id), "other": to_text(other)},
        )


if TYPE_CHECKING:

    def _conforms(artifacts: PostgresArtifacts) -> ArtifactStore:
        return artifacts
