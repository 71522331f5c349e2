"""The history of a stored session: its records, the ledger of its calls, and the audit of approvals, combined."""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from agent.background.typed import TYPED
from agent.cli.escape import one_line, tame
from agent.cli.session_format import heading
from agent.cli.short_forms import ID_CHARS
from agent.conversation.compressed import ROLE as COMPRESSED
from agent.conversation.compressed import compression_words
from agent.conversation.lineage import IMPORTED, is_delegate
from agent.providers._history import whole
from toolcrib.contract.session import ExecutedCall
from toolcrib.contract.state import StateValue
from toolcrib.contract.store import AuditEntry, CallRecord, SessionInfo, Store
from toolcrib.contract.types import ToolResult
from tools.dispatch.gates import NO_USER
from tools.dispatch.json_results import as_json

_PREVIEW = 200


async def story(store: Store, info: SessionInfo) -> list[str]:
    """Return the history of a session as lines for a terminal. The caller must redact them."""
    known, audit = await store.ledger.calls(info.id), await store.audit.entries(info.id)
    before = await _taken_over(store, info)
    imported = IMPORTED in info.place
    lines = _lines(await store.sessions.messages(info.id), known, audit, before, imported=imported)
    return [*heading(info), *lines, *_typed((await store.state.of("session", info.id)).get(TYPED.name))]


def _typed(kept: StateValue | None) -> Iterator[str]:
    """Yield what a user typed into the session's terminals."""
    for one in () if kept is None else kept.value:
        when = datetime.fromtimestamp(one["at"]).strftime("%H:%M:%S")
        what = "a line that was not shown" if one.get("hidden") else one_line(one["line"], _PREVIEW)
        yield f"user, into {tame(one['name'])} at {when}: {what}"


async def _taken_over(store: Store, info: SessionInfo) -> Mapping[str, tuple[str, CallRecord]]:
    """Return calls of the sessions that this one was forked from: id -> the nearest session with the call, and its record."""
    found: dict[str, tuple[str, CallRecord]] = {}
    seen, here = {info.id}, info
    while not is_delegate(here) and (parent := here.parent) and parent not in seen:
        seen.add(parent)
        calls = {one.call.id: one for one in await store.ledger.calls(parent) if one.opened_at <= here.created_at}
        found = {call_id: (parent, one) for call_id, one in calls.items()} | found
        older = await store.sessions.get(parent)
        if older is None:
            break
        here = older
    return found


def _lines(
    records: Sequence[Mapping[str, Any]],
    known: Sequence[CallRecord],
    audit: Sequence[AuditEntry],
    before: Mapping[str, tuple[str, CallRecord]],
    *,
    imported: bool,
) -> Iterator[str]:
    calls: defaultdict[str, deque[CallRecord]] = defaultdict(deque)
    for one in known:
        calls[one.call.id].append(one)
    turn = messages = 0
    for record in records:
        if record["role"] == "assistant":
            turn += 1
            yield from _turn(record, turn, messages + 1)
            for call in record.get("calls") or ():
                if record.get("forked") or (imported and not calls[call["id"]]):
                    yield from _elsewhere(call, before.get(call["id"]))
                    continue
                found = calls[call["id"]]
                yield from _call(call["name"], call["args"], found.popleft() if found else None, audit)
        elif record["role"] in ("user", "system"):
            yield f"{record['role']}: {one_line(str(record['text']), _PREVIEW)}"
        elif record["role"] == COMPRESSED:
            yield compression_words(record)
        messages += len(record["results"]) if record["role"] == "results" else 1
    left = [one for unmatched in calls.values() for one in unmatched]
    if left:
        yield "manual calls:"
    for one in left:
        yield from _call(one.call.name, one.call.args, one, audit)


def _elsewhere(call: Mapping[str, Any], found: tuple[str, CallRecord] | None) -> Iterator[str]:
    """Yield lines about a call that a fork took over. ``found`` is None if the call's session is no longer
    stored; then only the call itself is shown.
    """
    yield _head(call["name"], call["args"])
    if found is not None:
        yield f"    ran in {tame(found[0][:ID_CHARS])}: {found[1].status.value}"


def _head(name: str, args: Any) -> str:
    return f"  {tame(name)} {one_line(json.dumps(args, ensure_ascii=False, default=str), _PREVIEW)}"


def _turn(record: Mapping[str, Any], number: int, messages: int) -> Iterator[str]:
    usage = " ".join(f"{name}={count}" for name, count in (record.get("usage") or {}).items())
    calls = len(record.get("calls") or ())
    facts = [f"{messages} messages", f"{calls} calls", str(record.get("model") or ""), usage]
    yield tame(f"turn {number}: {', '.join(fact for fact in facts if fact)}")
    if text := whole(record)["text"]:
        yield f"  {one_line(str(text), _PREVIEW)}"


def _call(name: str, args: Any, record: CallRecord | None, audit: Sequence[AuditEntry]) -> Iterator[str]:
    yield _head(name, args)
    if record is None:
        yield "    did not run"
        return
    took = "still open" if record.ended_at is None else f"{max(0.0, record.ended_at - record.opened_at):.3f} s"
    result = record.result
    size = "" if result is None else f", result of {len(_as_read(record, result))} characters"
    why = f": {one_line(result.message, _PREVIEW)}" if result is not None and result.is_error and result.message else ""
    yield f"    {record.status.value}, {took}{size}{why}"
    for entry in audit:
        if entry.call_id == record.call.id and _within(entry, record):
            keys = ", ".join(str(key) for key in entry.detail.get("keys") or ())
            by = ", as no user could be asked" if entry.by == NO_USER else f" by {entry.by}"
            yield tame(f"    {entry.decision}{by}{f' ({keys})' if keys else ''}")


def _as_read(record: CallRecord, result: ToolResult) -> str:
    """Return the text that the model reads, as `--trace` counts it; for a failure, the reason without its data."""
    return as_json(ExecutedCall(record.call, result, record.status))


def _within(entry: AuditEntry, record: CallRecord) -> bool:
    """Return whether the entry belongs to this call: providers repeat ids, so the call must have been open at its time."""
    end = record.ended_at if record.ended_at is not None else float("inf")
    return record.opened_at <= entry.at <= end
