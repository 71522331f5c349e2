"""Format grants, questions and decisions as table rows."""

from __future__ import annotations

import time
from collections.abc import Sequence

from agent.cli.escape import exact
from agent.policy.allowlist import covered
from toolcrib.contract.store import AuditEntry, Grant, TicketRecord

_WIDE = 60
SPARE_OF_GRANTS, SPARE_OF_TICKETS, SPARE_OF_ENTRIES = (5, 4, 3), (1, 2), (1, 3, 6, 4)
"""Columns of ``grant_rows``, ``ticket_rows`` and ``entry_rows`` that a narrow terminal can drop."""


def grant_rows(grants: Sequence[Grant]) -> list[list[str]]:
    return [
        ["ID", "COVERS", "UNTIL", "SESSION", "BY", "SINCE"],
        *(
            [one.id[:8], exact(covers(one)), _until(one), one.session_id[:8] or "every", exact(one.by) or "-", when(one.at)]
            for one in grants
        ),
    ]


def ticket_rows(records: Sequence[TicketRecord]) -> list[list[str]]:
    return [
        ["ID", "SESSION", "ASKED", "QUESTION"],
        *([one.ticket.id[:8], one.session_id[:8], when(one.at), exact(line(on_one(one.ticket.message)))] for one in records),
    ]


def entry_rows(entries: Sequence[AuditEntry]) -> list[list[str]]:
    return [
        ["WHEN", "SESSION", "DECISION", "BY", "TOOL", "WHAT", "FINDINGS"],
        *(
            [when(one.at), one.session_id[:8], one.decision, exact(one.by), one.tool, exact(_what(one)), exact(_keys(one))]
            for one in entries
        ),
    ]


def covers(grant: Grant) -> str:
    if grant.scope == "always":
        return covered(grant)
    return f"{grant.key} below {grant.root}" if grant.root else grant.key


def _until(grant: Grant) -> str:
    match grant.scope:
        case "always" | "session":  # a resumed session keeps its id
            return "you revoke it"
        case "uses":
            return f"{grant.uses_left} more call{'' if grant.uses_left == 1 else 's'}"
        case "until":
            return when(grant.until or 0.0)
        case _:
            return f"the {grant.scope}'s end"


def _what(entry: AuditEntry) -> str:
    detail = entry.detail
    paths = detail.get("paths") or []
    inputs = detail.get("inputs") or []
    texts = [f"to {one.get('name')} ({one.get('program')}): {one.get('keys') or one.get('text')}" for one in inputs]
    written = "; ".join(texts)
    return line(str(detail.get("command") or written or ", ".join(map(str, paths))))


def _keys(entry: AuditEntry) -> str:
    return ", ".join(dict.fromkeys(map(str, entry.detail.get("keys", ()))))


def line(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _WIDE else f"{line[: _WIDE - 1]}…"


def on_one(text: str) -> str:
    """Return the text on one line, with marks in place of its line breaks."""
    return " · ".join(" ".join(part.split()) for part in text.splitlines() if part.strip())


def when(at: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(at)) if at else "-"
