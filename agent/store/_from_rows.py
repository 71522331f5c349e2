"""Records from rows, for SQLite and PostgreSQL, with the columns of each record."""

from __future__ import annotations

import json
from typing import Any

from agent.store._codec import Stored, load, load_answer, load_call, load_result, load_ticket, plain
from agent.store._packing import unpacked
from toolcrib.contract.state import StateValue
from toolcrib.contract.store import AuditEntry, CallRecord, RunRecord, SessionInfo, TicketRecord, TicketState
from toolcrib.contract.types import ToolCallStatus
from toolcrib.contract.usage import UsageSum

CALL = "session_id, call_id, call, status, handler_started, result, opened_at, ended_at"
RUN = "id, session_id, status, step, state, updated_at"
AUDIT = "at, session_id, call_id, tool, decision, by, detail"
SESSION = 'id, title, platform, "user", model, cwd, created_at, updated_at, messages, place, host, via, tags, parent_id, why'


def read_session(*columns: Any) -> SessionInfo:
    session_id, title, platform, user, model, cwd, created_at, updated_at, messages, place, host, via, tags, parent, why = columns
    who = plain(session_id), plain(title), plain(platform), plain(user), plain(model), plain(cwd)
    where = json.loads(place), plain(host), json.loads(via)
    return SessionInfo(*who, created_at, updated_at, messages, *where, tuple(json.loads(tags)), plain(parent), plain(why))


def read_call(
    session_id: Stored,
    call_id: Stored,
    call: Stored,
    status: str,
    started: int,
    result: Stored | None,
    opened_at: float,
    ended_at: float | None,
) -> CallRecord:
    asked, turn = load_call(call_id, unpacked(call))
    known, end_run, state = load_result(None if result is None else unpacked(result))
    begun = bool(started), known, opened_at, ended_at
    return CallRecord(asked, plain(session_id), ToolCallStatus(status), *begun, turn, end_run, state)


def read_ticket(
    ticket: Stored,
    session_id: Stored,
    state: TicketState,
    answer: Stored | None,
    at: float,
    expires_at: float | None,
    remind_at: float | None,
) -> TicketRecord:
    given = None if answer is None else load_answer(answer)
    return TicketRecord(load_ticket(ticket), plain(session_id), state, given, at, expires_at, remind_at)


def read_run(run_id: Stored, session_id: Stored, status: Any, step: int, state: Stored, updated_at: float) -> RunRecord:
    return RunRecord(plain(run_id), plain(session_id), status, step, load(state), updated_at)


def read_entry(
    at: float, session_id: Stored, call_id: Stored, tool: Stored, decision: Stored, by: Stored, detail: Stored
) -> AuditEntry:
    return AuditEntry(at, plain(session_id), plain(call_id), plain(tool), plain(decision), plain(by), load(detail))


def read_value(name: Stored, value: Stored, version: int) -> tuple[str, StateValue]:
    return plain(name), StateValue(load(value), version)


def read_sum(session_id: Stored, day: Stored, model: Stored, provider: Stored, tool: Stored, *rest: Any) -> UsageSum:
    numbers, estimated = rest[:-1], rest[-1:]
    return UsageSum(plain(session_id), plain(day), plain(model), plain(provider), plain(tool), *numbers, *map(plain, estimated))
