"""Run a command that the user types, in the environment of their session, without an approval request.

Commands that no grant can allow and commands that an operator's rule denies are refused here as well, because such rules apply
to users, too. A session's mode limits its model, not the user.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from agent.events import SessionBusy
from toolcrib.contract.dataclass import replace
from toolcrib.contract.environment import ExecOutcome, ExecRequest
from toolcrib.contract.errors import Denied

if TYPE_CHECKING:
    from agent.conversation.session import Session

KEEP = 24_000
"""Bytes of each stream that stay in memory; the rest goes to a file."""


async def run_own(session: Session, command: str, on_output: Callable[[str, bytes], None]) -> ExecOutcome:
    """Run a command to its end, in the session's shell, and return its outcome. ``Session.interrupt`` ends it.

    Raises Denied for a forbidden command, asyncio.CancelledError if it was interrupted, and EnvironmentFailed.
    """
    await session.start()
    session.scope.clear_interrupt()
    async with session.holding.held(lambda: session.watch(SessionBusy(session.id))) as fresh:
        if fresh:
            session.forget_origins()
            await session.mode.refresh()
        await _refuse(session, command)
        request = ExecRequest(command, keep=KEEP, spill=session.scope.spill_dir, on_output=on_output, last_frames=True)
        running = asyncio.ensure_future(session.scope.environment.execute(request))
        session.scope.running.add(running)
        try:
            return await running
        finally:
            session.scope.running.discard(running)


async def _refuse(session: Session, command: str) -> None:
    """Judge the command as if the terminal tool ran it, even if the session's model has no such tool. Raises Denied."""
    from agent.explaining import explain

    scope = replace(session.scope, open_environment=lambda: session.scope.environment, granted=None)
    explained = await explain(session.dispatcher, scope, command)
    if explained.weighed is None:
        raise Denied(f"the command could not be judged: {explained.refused}")
    rule = explained.weighed.rule
    if rule is not None and rule.decision == "deny":
        raise Denied(f"a rule of the operator denies the command{f': {rule.why}' if rule.why else ''}")
    blocked = [f"{one.why} ({one.key})" for one in explained.findings if one.level == "block"]
    if blocked:
        raise Denied(f"the command {'; '.join(dict.fromkeys(blocked))}: toolcrib never runs such a command; use your own shell")
