"""Start a new session in a chat, or resume a stored one: ask before background work ends, and show the last exchanges."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from os.path import realpath
from typing import TYPE_CHECKING, Any

from agent.cli.escape import exact, tame
from agent.cli.images import recorded_labels
from agent.cli.session_format import MOST_LINES, call_line, descent_of, exchanges, executed_of, said_lines
from agent.conversation.partial import broken_off
from agent.conversation.transcript import begun_since
from agent.providers._history import whole
from toolcrib.contract.session import ExecutedCall

if TYPE_CHECKING:
    from agent.cli.conversation import Conversation
    from agent.conversation.session import Session
    from toolcrib.contract.store import CallRecord

_LISTED = 200
"""Maximum number of sessions in the list of ``/resume``."""
_LAST = 3
"""Number of exchanges that the chat shows when it resumes a session."""


async def may_leave(chat: Conversation, doing: str) -> bool:
    """Return whether the session may be closed; imports agent.cli.delegating.may_end only if it would end something."""
    if not chat.session.works_in_background:
        return True
    from agent.cli.delegating import may_end

    return await may_end(chat, doing)


async def begin_anew(chat: Conversation, rest: str) -> None:
    if not await may_leave(chat, "starting a new session"):
        return
    mode = chat.session.mode.now  # only the user can switch the mode, so the new session keeps it
    await chat.open(mode=mode)
    told = f", in mode {mode}" if mode != "default" else ""
    chat.screen.print_note(f"a new session{told}; the last one is stored: /sessions")


async def resume(chat: Conversation, rest: str) -> None:
    from agent.cli.session_commands import refuse_below_session, show_sessions

    if not rest and chat.reader is None:
        await show_sessions(chat, "")
        return
    refuse_below_session(chat, "reading stored sessions")
    if not rest and not (rest := await _picked(chat)):
        return
    if not await may_leave(chat, "opening another session"):
        return
    await chat.open(resume=rest)
    await show_last(chat)
    if chat.reader is not None:
        chat.reader.restore_draft()
    await chat.go_on()


async def _picked(chat: Conversation) -> str:
    """Return the id of the session that the user picks from a list, "" for none."""
    import time

    from agent.cli.screen.list_picker import PickItem
    from agent.cli.session_format import persons_sessions, session_rows

    found = [one for one in await persons_sessions(chat.opening.crib.store, _LISTED) if one.id != chat.session.id]
    if not found or chat.reader is None:
        chat.screen.print_note("there is no other session yet")
        return ""
    items = []
    for info, (short, when, count, model, folder, title) in zip(found, session_rows(found, time.time())[1:], strict=True):
        messages = f"{count} message{'' if count == '1' else 's'}"
        items.append(PickItem(info.id, title or short, " · ".join((when, messages, model, folder, short))))
    return await chat.reader.pick(items, "Resume a session") or ""


def _elsewhere(chat: Conversation) -> str:
    """Return a note about the session's folder, or "" if the chat was started there or the session's backend is remote."""
    folder, begun = str(chat.session.scope.cwd), chat.opening.cwd or str(chat.opening.crib.project_dir)
    is_here = chat.session.backend.is_remote or realpath(folder) == realpath(begun)
    return "" if is_here else f"the session works in {tame(folder)}, not in {tame(begun)}"


async def show_last(chat: Conversation) -> None:
    """Show the last exchanges of the session, to remind the user of it."""
    session = chat.session
    info = await session.info()
    if info is not None:
        count = f"{info.messages:,} message{'' if info.messages == 1 else 's'}"
        chat.screen.print_note(f"session {info.id[:12]}{descent_of(info)}, {count}: {tame(info.title)}")
        if elsewhere := _elsewhere(chat):
            chat.screen.print_note(elsewhere)
    above, records = await session.transcript.last_exchanges(_LAST)
    if above:
        more = f"{above:,} message{'' if above == 1 else 's'} above"
        chat.screen.print_note(f"… {more}; to read them: /show all; to write them to a file: /export")
    await _show_again(chat, [*records, *await broken_off(session)])
    await _tell_grants(chat)


async def _tell_grants(chat: Conversation) -> None:
    """Print the grant of the session that is in force, or the number of grants if there are several."""
    from agent.cli.format_grants import covers
    from agent.policy.approvals import Approvals

    crib, session = chat.opening.crib, chat.session
    grants = await Approvals(crib.store, crib.grants).grants(session.identity.session_id)
    own = [exact(covers(one)) for one in grants if one.scope not in ("always", "task")]
    if own:
        which = (
            f"1 grant of this session is in force: {own[0]}"
            if len(own) == 1
            else f"{len(own)} grants of this session are in force"
        )
        chat.screen.print_note(f"{which}; to list or revoke: /approvals")


async def _show_again(chat: Conversation, records: Sequence[Mapping[str, Any]]) -> None:
    """Show messages and calls in short form. On an interactive screen calls get numbers, and the last reply is shown in
    full.
    """
    session, screen = chat.session, chat.screen
    if not screen.interactive:
        known = {id(call): await _known(session, record, call) for record, call in _calls(records)}
        for line in exchanges(records, session.display, lambda call: known[id(call)]):
            screen.print_note(line)
        return
    entries: list[str | ExecutedCall | Mapping[str, Any]] = []
    replies = [record for record in records if record["role"] == "assistant" and whole(record)["text"]]
    for place, record in enumerate(records):
        is_last = bool(replies) and record is replies[-1]
        entries += [whole(record)] if is_last else said_lines(record)
        for call in record.get("calls") or ():
            found = await _known(session, record, call)
            done = executed_of(found)
            entries.append(done if done is not None else call_line(call, records[place + 1 : place + 2], session.display, found))
    if len(entries) > MOST_LINES:
        screen.print_note(f"  … {len(entries) - MOST_LINES} lines are not shown")
    for entry in entries[-MOST_LINES:]:
        if isinstance(entry, str):
            screen.print_note(entry)
        elif isinstance(entry, ExecutedCall):
            chat.show_again(entry)
        else:
            chat.show_reply(str(entry["text"]))
            for label in recorded_labels(entry):
                screen.print_note(f"  {label}")


def _calls(records: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Mapping[str, Any], Mapping[str, Any]]]:
    """Yield each call as a pair: the reply that contains it, and the call."""
    for record in records:
        for call in record.get("calls") or ():
            yield record, call


async def _known(session: Session, record: Mapping[str, Any], call: Mapping[str, Any]) -> CallRecord | None:
    """Return the ledger's record of this call, or None. Records of other replies are ignored: some servers reuse call ids."""
    known = await session.store.ledger.get(session.id, call["id"])
    return known if known is not None and known.is_of(str(record.get("turn", "")), begun_since(record)) else None
