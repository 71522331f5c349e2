"""Presentation of a question in a chat: its prompt in pages, the possible answers, and the outcome."""

from __future__ import annotations

import time
from collections.abc import Mapping

from agent.desk.approvals import scopes_of
from agent.gateway.answer_words import NO, SESSION, YES
from agent.gateway.forms import one_line
from agent.gateway.splitting import split
from toolcrib.contract.chat import Button, Chat
from toolcrib.contract.context import Principal
from toolcrib.contract.store import TicketRecord
from tools.dispatch.gates import NO_USER

SHOWN_ID = 8
"""Number of characters of a ticket's id that users see."""
_SETTLED = {"approved": "✓ approved", "denied": "✗ denied", "expired": "✗ expired without an answer"}
_TAKEN_BACK = "✗ withdrawn"
_REASON = 300
"""Maximum number of characters of a reason that are shown."""


def pages_of(prompt: str, most: int) -> list[str]:
    """Split a long prompt into pages: an approval covers all of it, so nothing is left out."""
    return split(prompt, most) or [prompt]


def foot_of(record: TicketRecord, roles: str, by_press: str) -> str:
    """Return the line below a prompt: how to answer it, and the ``roles`` that may answer.

    ``by_press``: how to approve if a message can't.
    """
    short = record.ticket.id[:SHOWN_ID]
    if record.ticket.resume_mode != "replay":
        choices = record.ticket.parameters.get("choices") or ()
        lines = [f"{number}. {choice}" for number, choice in enumerate(choices, 1)]
        return "\n".join([*lines, f"Answer this message. ({short})"])
    until = "" if record.expires_at is None else f", until {time.strftime('%d %b %H:%M', time.localtime(record.expires_at))}"
    if by_press:
        return f"To deny, send 3 or /deny {short} REASON. A message cannot approve this. {by_press} ({short}; for {roles}{until})"
    return f"{numbers_of(record)} — /approve {short}, /deny {short} REASON; for {roles}{until}"


def numbers_of(record: TicketRecord) -> str:
    """Return the numbers that answer a ticket, and their meaning. A denial is always 3."""
    session = "2 for this session · " if "session" in scopes_of(record) else ""
    return f"1 yes, once · {session}3 no"


def buttons_of(record: TicketRecord) -> list[Button]:
    """Return the buttons of a ticket."""
    if record.ticket.resume_mode != "replay":
        choices = record.ticket.parameters.get("choices") or ()
        return [Button(f"c{number}", str(choice), f"{number + 1}\ufe0f\u20e3") for number, choice in enumerate(choices[:9])]
    found = [Button(YES, "Yes, once", "👍")]
    if "session" in scopes_of(record):
        found.append(Button(SESSION, "For this session", "♾️"))
    return [*found, Button(NO, "No", "👎")]


def outcome_of(record: TicketRecord) -> str:
    """Return the outcome of a ticket, and who decided it."""
    answer = record.answer
    if record.state == "expired" and answer is not None and answer.by == NO_USER:  # no user answered
        return _TAKEN_BACK
    by = f" by {answer.by}" if answer is not None and answer.by else ""
    if record.ticket.resume_mode != "replay" and record.state == "approved":  # answered a tool's question
        given = answer.payload if answer is not None and isinstance(answer.payload, str) else ""
        return f"✓ answered{by}{f': {one_line(given, _REASON)}' if given else ''}"
    payload = answer.payload if answer is not None and isinstance(answer.payload, Mapping) else {}
    how = f" ({payload['scope']})" if record.state == "approved" and payload.get("scope") else ""
    why = f": {one_line(str(payload['reason']), _REASON)}" if record.state == "denied" and payload.get("reason") else ""
    return f"{_SETTLED.get(record.state, record.state)}{by}{how}{why}"


def origin_of(chat: Chat, asker: Principal | None) -> str:
    """Return a line that names the user who asked, and the chat. Its title is quoted, because others may have chosen it."""
    title = f' "{one_line(chat.title)}"' if chat.title else ""
    where = f"the chat {one_line(chat.id)}{title}" if chat.is_group else "a direct chat"
    return f"asked by {one_line(asker.person) if asker is not None else 'an unknown user'} in {where}"
