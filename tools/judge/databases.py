"""Find the database that a statement is about, from the client that gets the statement. A grant covers only that database."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib.contract.dataclass import replace
from tools.judge.effects import effect_of
from tools.judge.findings import UNKNOWN_PATH, Finding, visible
from tools.judge.meaning.act import Act
from tools.judge.paths import resolve_value

_FILES = frozenset({"sqlite3", "sqlite", "duckdb", "sqlite-utils", "litecli"})
"""Clients whose first operand is the database's file. Without an operand the database is in memory."""

_PLACES = frozenset({"PGHOST", "PGPORT", "PGDATABASE", "PGSERVICE", "MYSQL_HOST", "MYSQL_TCP_PORT"})
"""Variables that name a server and a database for other clients."""


_CHANGES = frozenset({"sql.drop", "sql.drop-column", "sql.truncate", "sql.delete-all", "sql.update-all"})


def _opened_read_only(client: Act) -> bool:
    """Return whether a client opens its file read-only, so that no statement can change it (https://sqlite.org/cli.html)."""
    words = [one.text for one in client.args]
    return (
        client.name == "sqlite3"
        and not {"-readonly", "--readonly"}.isdisjoint(words)
        and not any(".open" in one for one in words)
    )


def _all_read_only(acts: Sequence[Act]) -> bool:
    """Return whether every act that gets code is a client that opened its file read-only.

    All of them must be, because equal statements for several clients are one act, so the client of a statement may be unknown.
    """
    clients = [one for one in acts if one.code]
    return bool(clients) and all(map(_opened_read_only, clients))


def at_database(finding: Finding, act: Act, acts: Sequence[Act], home: str) -> Finding | None:
    """Return a finding about the statement ``act``, bound to its database; ``acts`` are all acts of the line.

    None if the client opened its database read-only, so that the statement fails.
    """
    clients = [one for one in acts if one.code and (one.start, one.end) == (act.start, act.end)]
    if finding.key.partition("@")[0] in _CHANGES and _all_read_only(acts):
        return None
    if finding.level != "ask" or len(clients) != 1 or finding.paths:
        return finding
    client = clients[0]
    if client.name in _FILES:
        given = next((one for one in client.args if one.text[:1] != "-"), None)
        finding = replace(finding, effect=effect_of("fs.", client.place, client.wrappers))
        if given is None or given.text == ":memory:":
            return finding
        paths = tuple(dict.fromkeys(resolve_value(given, client.cwds, home)))
        return replace(finding, paths=paths or (UNKNOWN_PATH,))
    where = _where(client)
    return replace(finding, key=f"{finding.key} on {visible(where)}") if where else finding


def _where(client: Act) -> str:
    """Return the client's words that may name a server or a database, without passwords; "" if there are none."""
    scripts = {one.text.text for one in client.code}
    words = [one.text for one in client.args]
    words = [word.partition("=")[2] if word[:2] == "--" else word for word in words if word[:1] != "-" or "=" in word]
    words += [value.text for name, value in client.environment.items() if name in _PLACES]
    return " ".join(word.rpartition("@")[2] for word in words if word and word not in scripts)
