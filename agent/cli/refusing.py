"""Answers to tickets when no user can be asked, and the form of all answers."""

from __future__ import annotations

import shlex
import time
from typing import Any

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.types import Answer, SuspendTicket

BY = "terminal"


def answer_of(ticket: SuspendTicket, payload: Any, by: str = BY) -> Answer:
    return Answer(ticket.id, payload=payload, by=by, at=time.time())


def refuse(ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
    """Deny: piped input never answers an approval prompt."""
    reason = (
        f"{ticket.message}\nThis needs a user's answer, but no user can be asked: standard input is not a terminal. "
        "Run it in a terminal to be asked."
    )
    return answer_of(ticket, {"approved": False, "reason": reason}, by="nobody")


def refuse_inside(ticket: SuspendTicket) -> Answer:
    """Deny: a session's command started this process, so the command may control the terminal and type the answer."""
    reason = (
        f"{ticket.message}\nThis needs a user's answer, but toolcrib was started by a command of a session, which cannot approve"
        " calls. Run it in your own terminal."
    )
    return answer_of(ticket, {"approved": False, "reason": reason}, by="nobody")


class Refuser:
    """An asker that denies everything, for runs that ask no user; ``refused`` counts its denials.

    ``rules`` are options of `toolcrib run` that would allow the denied calls.
    """

    def __init__(self) -> None:
        self.refused = 0
        self.rules: list[str] = []

    def __call__(self, ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        from agent.policy.one_run_rules import rule_for

        self.refused += 1
        reason = f"{ticket.message}\nThis needs a user's answer, but `toolcrib run` does not ask; `toolcrib chat` does."
        if rule := rule_for(ticket):
            option = f"--allow {shlex.quote(rule)}"
            self.rules += [] if option in self.rules else [option]
            reason += f" The user can allow this call with: toolcrib run {option}"
        return answer_of(ticket, {"approved": False, "reason": reason}, by="nobody")
