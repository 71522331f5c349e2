"""From one session of a chat to another: what ends first, and what a person sees of the one that goes on."""

from __future__ import annotations

from os.path import realpath
from typing import TYPE_CHECKING

from agent.cli.escape import tame
from agent.cli.stories import descent_of, exchanges
from agent.conversation.partial import broken_off

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation

_LAST = 3
"""Exchanges that are shown when a session is resumed."""


async def may_leave(chat: Conversation, doing: str) -> bool:
    """See agent.cli.delegating.may_end, which is rarely needed."""
    if not chat.session.delegates.at_work:
        return True
    from agent.cli.delegating import may_end

    return await may_end(chat, doing)


async def begin_anew(chat: Conversation, rest: str) -> None:
    if not await may_leave(chat, "a new session"):
        return
    mode = chat.session.mode.now  # a mode is the person's, who has not switched it
    await chat.open(mode=mode)
    told = f", in mode {mode}" if mode != "default" else ""
    chat.screen.note(f"a new session{told}; the last one is kept, /sessions lists it")


async def resume(chat: Conversation, rest: str) -> None:
    from agent.cli.room import refuse_below_session, show_sessions

    if not rest:
        await show_sessions(chat, "")
        return
    refuse_below_session(chat, "looking into stored sessions")
    if not await may_leave(chat, "another session"):
        return
    await chat.open(resume=rest)
    await show_last(chat)
    if chat.reader is not None:
        chat.reader.restore_draft()
    await chat.go_on()


def _elsewhere(chat: Conversation) -> str:
    """Say where the session works, "" for one in the folder that the chat began in."""
    folder, begun = str(chat.session.scope.cwd), chat.opening.cwd or str(chat.opening.crib.project_dir)
    is_here = chat.session.backend.is_remote or realpath(folder) == realpath(begun)
    return "" if is_here else f"it works in {tame(folder)}, not in {tame(begun)}"


async def show_last(chat: Conversation) -> None:
    """The end of what was said in the session, so that a person finds the thread again."""
    session = chat.session
    info = await session.info()
    if info is not None:
        count = f"{info.messages:,} message{'' if info.messages == 1 else 's'}"
        chat.screen.note(f"session {info.id[:12]}{descent_of(info)}, {count}: {tame(info.title)}")
        if elsewhere := _elsewhere(chat):
            chat.screen.note(elsewhere)
    above, records = await session.transcript.last_exchanges(_LAST)
    if above:
        more = f"{above:,} message{'' if above == 1 else 's'} above"
        chat.screen.note(f"… {more}: /show all reads them, /export writes them into a file")
    turn = await session.transcript.unanswered()
    calls = [] if turn is None else [await session.store.ledger.get(session.id, call["id"]) for call in turn["calls"]]
    known = {one.call.id: one for one in calls if one is not None}
    for line in exchanges([*records, *await broken_off(session)], session.emoji, known.get):
        chat.screen.note(line)
