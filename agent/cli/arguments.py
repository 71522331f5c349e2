"""Completions of the arguments of chat commands: themes, modes, sessions, items, grants."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from agent.cli.escape import one_line
from toolcrib.contract.errors import StoreFailed

if TYPE_CHECKING:
    from agent.cli.complete import Offers
    from agent.cli.conversation import Conversation

_SESSIONS = 30
_TITLE = 60
_PS_ACTIONS = (("log", "its output"), ("screen", "its terminal"), ("attach", "watch its terminal, and type"), ("stop", "end it"))
_IN_TERMINALS = ("screen", "attach")


def offers_of(chat: Conversation) -> Mapping[str, Offers]:
    """Map each command that takes arguments to a function that returns their completions."""

    async def themes() -> Iterable[tuple[str, str]]:
        from agent.cli.screen.themes import NAMES

        return NAMES.items()

    async def modes() -> Iterable[tuple[str, str]]:
        from tools.approval.modes import MODES

        return MODES.items()

    async def sessions() -> Iterable[tuple[str, str]]:
        from agent.cli.session_format import persons_sessions
        from agent.cli.short_forms import ID_CHARS, ago

        now = time.time()
        try:
            found = await persons_sessions(chat.opening.crib.store, _SESSIONS)
        except StoreFailed:
            return ()
        return [(one.id[:ID_CHARS], f"{ago(one.updated_at, now)}, {one_line(one.title, _TITLE)}") for one in found]

    async def plan() -> Iterable[tuple[str, str]]:
        return (("accept", "carry it out"), ("edit", "change it in your editor"), ("reject", "ask for another"))

    async def undo() -> Iterable[tuple[str, str]]:
        return (("turn", "the last turn's changes"), ("call", "the last call's changes"), ("redo", "reapply reverted changes"))

    async def revoked() -> Iterable[tuple[str, str]]:
        from agent.cli.format_grants import covers
        from agent.policy.approvals import Approvals

        try:
            grants = await Approvals(chat.opening.crib.store, chat.opening.crib.grants).grants(chat.session.id)
        except StoreFailed:
            return ()
        return [(f"revoke {one.id[:8]}", one_line(covers(one), _TITLE)) for one in grants]

    async def delegates() -> Iterable[tuple[str, str]]:
        return [(f"stop {one.session_id[:12]}", one_line(one.name, _TITLE)) for one in chat.session.delegates.at_work]

    async def processes() -> Iterable[tuple[str, str]]:
        table = chat.session.scope.opened_processes
        running = () if table is None else sorted(table.names)
        terminals = () if table is None else table.terminals
        every = [(name, word, about) for name in running for word, about in _PS_ACTIONS]
        return [(f"{word} {name}", about) for name, word, about in every if word not in _IN_TERMINALS or name in terminals]

    return {
        "/theme": themes,
        "/mode": modes,
        "/plan": plan,
        "/resume": sessions,
        "/undo": undo,
        "/approvals": revoked,
        "/delegates": delegates,
        "/ps": processes,
    }
