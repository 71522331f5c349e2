"""Who may answer a ticket. Asked for each way in: buttons, reactions, replies and commands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent.gateway.admission import OWNER, Admitted
from toolcrib.contract.context import Principal
from toolcrib.contract.store import TicketRecord
from toolcrib.contract.types import Json

_SCOPES = ("once", "path", "session", "task", "uses", "until")
"""Scopes that a chat may give: ``always`` only a terminal."""

YES, SESSION, NO = "y", "s", "n"
ANSWERS: Mapping[str, Mapping[str, Json]] = {
    YES: {"approved": True, "scope": "once"},
    SESSION: {"approved": True, "scope": "session"},
    NO: {"approved": False},
}
"""Answers by the letters of their buttons."""
WORDS = {
    word: ANSWERS[choice]
    for choice, words in {YES: ("1", "yes", "y"), SESSION: ("2",), NO: ("3", "no", "n")}.items()
    for word in words
}
"""Answers by the words for them."""


class Deciding:
    """By ``gateway.approvers``: names of findings, or beginnings of them up to a dot, with the roles that may agree."""

    def __init__(self, approvers: Mapping[str, Sequence[str]]) -> None:
        self._approvers = approvers

    def use(self, approvers: Mapping[str, Sequence[str]]) -> None:
        """Go by others from now on."""
        self._approvers = approvers

    def may(self, who: Admitted, record: TicketRecord, asked: Principal | None) -> bool:
        """Return whether somebody may settle a ticket. ``asked`` is whom its run is for.

        A tool's question is for whoever asked for the run. What needs approval needs somebody with a role for each finding, and
        what names no finding the owner.
        """
        if record.ticket.resume_mode != "replay":
            return who.is_owner or (asked is not None and asked.person == who.user)
        keys = keys_of(record)
        return all(self.roles_for(key).intersection(who.roles) for key in keys) if keys else who.is_owner

    def roles_for(self, key: str) -> set[str]:
        """Return the roles that may agree to a finding of this key."""
        words = key.partition("@")[0].split(".")
        for length in range(len(words), 0, -1):
            if (roles := self._approvers.get(".".join(words[:length]))) is not None:
                return set(roles)
        return {OWNER}

    def roles_of(self, record: TicketRecord) -> list[str]:
        """Return the roles that could settle it together, for people."""
        return sorted({role for key in keys_of(record) for role in self.roles_for(key)}) or [OWNER]


def keys_of(record: TicketRecord) -> list[str]:
    """Return the keys of the findings that a ticket is about."""
    found: Sequence[Mapping[str, Json]] = record.ticket.parameters.get("findings") or ()
    return [str(one.get("key", "")) for one in found]


def scopes_of(record: TicketRecord) -> list[str]:
    """Return the scopes of a yes that a chat may give to this ticket."""
    offered = record.ticket.parameters.get("scopes") or ["once"]
    return [scope for scope in _SCOPES if scope in offered]
