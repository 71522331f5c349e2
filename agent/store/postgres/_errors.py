"""Errors of the server, explained for users, with remedies."""

from __future__ import annotations

from agent.store.postgres.address import Address
from toolcrib.contract.errors import StoreFailed

LEASE_LOST = "TCLST"
"""The SQLSTATE that ``hold_lease`` raises (sql/0001_start.sql)."""
AGAIN = frozenset(["40001", "40P01", "23505"])
"""The server aborted the transaction because of a conflicting one. A retry sees the changes of the other one."""

_MEANINGS = {
    "28": "refuses the login; check the user, and the password in TOOLCRIB_STORE_URL, PGPASSWORD or ~/.pgpass",
    "3D": "has no such database; create it with encoding UTF8, or correct store.url",
    "53300": "has no free connection; close some, or raise its max_connections",
    "53100": "can't grow: its disk is full; free space and try again. Earlier data is kept",
    "53": "is short of memory or disk; free some and try again. Earlier data is kept",
    "42501": "denies this user the action; grant it CREATE on the database, or the rights on the schema toolcrib",
    "25006": "is read-only, like a standby; use the primary in store.url",
    "25P03": "ended a transaction that was idle for too long; try again",
    "55P03": "was locked by another process for too long; try again",
    "57014": "took too long for a statement; try again when it is less busy",
    "57P": "is shutting down or starting; try again when it runs",
    "08": "closed the connection; check that it runs. The last write may be lost",
    "22": "rejects a value",
    "54": "rejects a value of this length",
}


def sqlstate(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def explained(address: Address, error: BaseException, *, connecting: bool = False) -> StoreFailed:
    state, said = sqlstate(error), address.without_secrets(" ".join(str(error).split()))
    why = next((_MEANINGS[key] for key in (state, state[:3], state[:2]) if key and key in _MEANINGS), "")
    if not why and connecting:
        why = _at_login(said)
    elif not why and not state:
        why = _MEANINGS["08"]
    return StoreFailed(f"the PostgreSQL store at {address} {why or 'is unusable'} ({said})")


def _at_login(said: str) -> str:
    """Return the meaning of a login error: libpq gives no SQLSTATE for errors before a connection exists."""
    if "authentication failed" in said or "no password supplied" in said or "pg_hba.conf" in said:
        return _MEANINGS["28"]
    if "does not exist" in said and "database" in said:
        return _MEANINGS["3D"]
    if "too many" in said or "remaining connection slots" in said:
        return _MEANINGS["53300"]
    if "starting up" in said or "shutting down" in said:
        return _MEANINGS["57P"]
    return "can't be reached; check that it runs, and store.url (or TOOLCRIB_STORE_URL)"
