"""Stores imported sessions: each session once, and later only the messages that were added to it."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from agent.conversation.imported import exported_record, imported_place
from agent.conversation.lineage import IMPORT
from agent.importing.session_files import ForeignSession
from agent.store._owner import new_owner
from agent.store._shared import title_of
from toolcrib.contract.store import Fence, SessionInfo, Store
from tools.redact import Redactor

Fate: TypeAlias = Literal["new", "more", "known", "differs", "busy"]
"""Outcome of storing a session.

new: it is added; more: its new messages are added; known: it is stored already; differs: it is stored with other messages,
and left unchanged; busy: another process works on it.
"""
_LEASE_SECONDS = 30.0
_TITLE_CHARS = 200


def id_of(found: ForeignSession) -> str:
    """Return the id under which another tool's session is stored here. It is the same for each import."""
    return hashlib.sha256(f"{found.source}\0{found.name}".encode("utf-8", "surrogatepass")).hexdigest()[:32]


def as_ours(found: ForeignSession, redactor: Redactor) -> tuple[SessionInfo, Sequence[Mapping[str, Any]]]:
    """Return another tool's session as it is stored: owned by the local user, without the secrets that are known here."""
    records = [_clean(record, redactor) for record in found.records]
    said = next(filter(None, (title_of(record) for record in records)), "")
    title = " ".join(redactor.text(found.title).split())[:_TITLE_CHARS] or said
    began = found.began or time.time()
    info = SessionInfo(
        id_of(found), title, "cli", "", redactor.text(found.model), found.cwd, began, max(began, found.ended), len(records),
        imported_place(found.source, {}, {}), tags=(found.source,), why=IMPORT,
    )  # fmt: skip
    return info, records


def _clean(record: Mapping[str, Any], redactor: Redactor) -> Mapping[str, Any]:
    """Return a record without secrets. Pictures keep their bytes, which look like a key only by chance."""
    results = [_clean(result, redactor) for result in record.get("results") or ()]
    cleaned: dict[str, Any] = redactor.data({key: value for key, value in record.items() if key not in ("images", "results")})
    return {key: cleaned[key] if key in cleaned else results if key == "results" else record[key] for key in record}


async def keep(
    store: Store,
    info: SessionInfo,
    records: Sequence[Mapping[str, Any]],
    times: Sequence[float] = (),
    *,
    grows: bool = False,
    dry: bool = False,
) -> Fate:
    """Store a session. ``grows``: append new records to a stored one; ``dry``: store nothing. Raises StoreFailed."""
    if not await _is_there(store, info.id) and (dry or await store.sessions.add(info, records, times)):
        return "new"
    known = await store.sessions.messages(info.id)
    shared = min(len(known), len(records))
    if any(exported_record(one) != exported_record(other) for one, other in zip(known[:shared], records[:shared], strict=True)):
        return "differs"
    if len(known) >= len(records):
        return "known"
    if not grows:
        return "differs"
    return "more" if dry or await _add(store, info.id, records, len(known)) else "busy"


async def _is_there(store: Store, session_id: str) -> bool:
    try:
        await store.sessions.messages(session_id, limit=0)
    except KeyError:
        return False
    return True


async def _add(store: Store, session_id: str, records: Sequence[Mapping[str, Any]], known: int) -> bool:
    """Append the records after the first ``known``, unless another process works on the session or has changed it."""
    lease = await store.leases.take(session_id, new_owner(), _LEASE_SECONDS)
    if lease is None:
        return False
    try:
        there = await store.sessions.get(session_id)
        if there is None or there.messages != known:
            return False
        await store.fenced(Fence(lease)).sessions.append_many(session_id, records[known:])
    finally:
        await store.leases.release(lease)
    return True
