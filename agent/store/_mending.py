"""Cleanup after a restore: conversations become consistent, and nothing runs or counts a second time.

The restored data may be older than the last events. Therefore no work stays in progress and no grant remains: a resumed run
would repeat work that was done meanwhile, and a grant may have been revoked.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from agent.store._codec import Stored, dump, dump_result, load, load_call
from agent.store._damage import UNEVEN
from agent.store._packing import CALL, load_message, pack, unpacked
from agent.store._shared import interrupted
from tools.clip import encode

_UNDER_WAY = "status IN ('new', 'running', 'suspended', 'resuming')"
_UNKNOWN = "it is unknown whether it was shown: the store was damaged"
_LOST = "its result was lost when the store was damaged; it may have run"


@dataclass(slots=True)
class Mended:
    """Numbers of items that were not restored unchanged."""

    calls: int = 0
    """Calls that were under way."""
    runs: int = 0
    tickets: int = 0
    waiting: int = 0
    """Messages that no run had taken, or unfinished mail of a gateway."""
    posts: int = 0
    """Messages of a gateway that were not known to be shown."""
    grants: int = 0
    messages: int = 0
    """Messages that are missing in conversations, or whose conversation is unknown."""


def mend(connection: sqlite3.Connection, now: float) -> Mended:
    """Clean up a restored store in one transaction. Return the numbers of changed items."""
    done = Mended()
    connection.execute("BEGIN")
    done.messages = connection.execute("DELETE FROM messages WHERE session NOT IN (SELECT row FROM sessions)").rowcount
    done.messages += _join_messages(connection)
    done.calls = _end_calls(connection, now)
    done.runs = _end_runs(connection)
    done.tickets = connection.execute("UPDATE tickets SET state = 'expired' WHERE state = 'pending'").rowcount
    connection.execute("UPDATE tickets SET call_row = NULL WHERE call_row NOT IN (SELECT row FROM calls)")
    _keep_counting(connection)
    done.waiting = connection.execute("UPDATE inbox SET taken = 1, body = '' WHERE NOT taken").rowcount
    connection.execute("DELETE FROM inbox WHERE key = ''")
    done.waiting += connection.execute("UPDATE mail SET body = '', done_at = ? WHERE done_at IS NULL", (now,)).rowcount
    done.posts = connection.execute(
        "UPDATE posts SET state = 'failed', problem = ?, moved_at = ? WHERE state IN ('waiting', 'sending')", (_UNKNOWN, now)
    ).rowcount
    done.grants = connection.execute("DELETE FROM grants").rowcount
    connection.execute("UPDATE leases SET expires_at = 0")
    connection.execute("COMMIT")
    return done


# -- conversations -----------------------------------------------------------------------------------------------------


def _join_messages(connection: sqlite3.Connection) -> int:
    """Renumber the messages of each inconsistent conversation. Return how many messages are missing."""
    missing = 0
    uneven = {name for (name,) in connection.execute(UNEVEN)}
    for row, name, counted in connection.execute("SELECT row, id, messages FROM sessions").fetchall():
        stored = connection.execute("SELECT body, at FROM messages WHERE session = ? ORDER BY seq", (row,)).fetchall()
        found = [load_message(body) for body, _ in stored]
        kept = list(_paired(found))
        if name not in uneven and kept == found:
            continue
        missing += max(0, counted - len(found))
        said = {id(record): at for record, (_, at) in zip(found, stored, strict=True)}
        connection.execute("DELETE FROM messages WHERE session = ?", (row,))
        connection.executemany(
            "INSERT INTO messages (session, seq, body, at) VALUES (?, ?, ?, ?)",
            [(row, number, pack(dump(record)), said.get(id(record), 0.0)) for number, record in enumerate(kept)],
        )
        connection.execute("UPDATE sessions SET messages = ? WHERE row = ?", (len(kept), row))
    return missing


def _paired(records: Sequence[Any]) -> Iterator[Any]:
    """Yield records so that results follow their calls, and every call but the last reply's has a result."""
    open_calls: Sequence[Any] = ()
    for record in records:
        is_results = record.get("role") == "results"
        if is_results and [one["call_id"] for one in record["results"]] != [call["id"] for call in open_calls]:
            continue
        if open_calls and not is_results:
            yield {"role": "results", "results": [_lost_result(call) for call in open_calls]}
        open_calls = () if is_results else record.get("calls") or ()
        yield record


def _lost_result(call: Any) -> dict[str, Any]:
    words = encode({"error": f"Error executing {call['name']}: {_LOST}"})
    return {"call_id": call["id"], "name": call["name"], "text": words, "is_error": True}


# -- unfinished work ----------------------------------------------------------------------------------------------------


def _end_calls(connection: sqlite3.Connection, now: float) -> int:
    found = connection.execute(f"SELECT row, call FROM calls WHERE {_UNDER_WAY}").fetchall()  # noqa: S608 - ours
    ended = [(_result(call), now, row) for row, call in found]
    connection.executemany(
        "UPDATE calls SET status = 'failed', handler_started = 1, result = ?, ended_at = ? WHERE row = ?", ended
    )
    return len(found)


def _result(call: Stored) -> Stored:
    return pack(dump_result(interrupted(load_call("", unpacked(call))[0].name, handler_started=True)), CALL)


def _end_runs(connection: sqlite3.Connection) -> int:
    found = connection.execute("SELECT row, state FROM runs WHERE status <> 'ended'").fetchall()
    for row, stored in found:
        state = {**load(stored), "phase": "ended", "stopped": "interrupted", "batch": [], "shell": None}
        connection.execute("UPDATE runs SET status = 'ended', step = step + 1, state = ? WHERE row = ?", (dump(state), row))
    return len(found)


def _keep_counting(connection: sqlite3.Connection) -> None:
    """Continue the inbox's numbering after the highest known number, because runs are named after it."""
    names = [str(name).rpartition("-")[2] for (name,) in connection.execute("SELECT id FROM runs")]
    known = connection.execute("SELECT coalesce(max(row), 0) FROM inbox").fetchone()[0]
    highest = max([known, *(int(name) for name in names if name.isdecimal() and len(name) < 16)])
    if highest:
        connection.execute("DELETE FROM sqlite_sequence WHERE name = 'inbox'")
        connection.execute("INSERT INTO sqlite_sequence (name, seq) VALUES ('inbox', ?)", (highest,))
