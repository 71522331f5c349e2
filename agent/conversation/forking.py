"""Fork a session: start a new session with the last part of an old one."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

from agent.conversation.compressed import ROLE, taken_over
from agent.conversation.lineage import FORK, IMPORTED, never_ran, without_lineage
from agent.conversation.remembered import give_state
from agent.conversation.transcript import Record, Transcript, is_persons
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.store import SessionInfo, Store

_SHARE = 4
"""A fork takes at most a quarter of a context, unless the caller gives a count."""
_AT_LEAST = 8_000
"""Tokens that a fork may take if the model's window is unknown."""


@dataclass(frozen=True, slots=True)
class Forked:
    """A new session. ``records`` is the number of its records, ``messages`` the number of user messages among them.

    ``unanswered`` is the user's last message if it has no reply, else ""; the fork leaves it out, and the user must send it
    again. ``dropped`` counts the replies and results that did not fit, and the calls that never ended.
    """

    id: str
    messages: int
    records: int
    unanswered: str = ""
    dropped: int = 0


async def fork(
    store: Store, info: SessionInfo, count: int | None = None, *, window: int | None = None, at: int | None = None
) -> Forked:
    """Create a session with the last ``count`` user messages and everything after them. Grants are not copied.

    ``at`` is the index of the last record to take, from 0, with the results of its calls; if that record is a user message, the
    fork ends before it. With ``at`` and no ``count`` the fork starts at the beginning of the old session. Without either it takes
    as many messages as fit into a quarter of ``window`` tokens. If the window is unknown, it takes a quarter of the conversation,
    or all of a short one. If the last message and its turns are too long, it takes that message and its last turns. Raises
    ToolcribError if the session has no answered message, and StoreFailed.
    """
    transcript = Transcript(store, info.id)
    told = [record async for record in transcript.backwards()][::-1]
    whole = [record for record in _up_to(told, at) if record["role"] != ROLE]  # the fork has the originals
    records, unanswered = _ended(whole)
    if not records:
        before = "" if at is None else f" up to message {at}"
        raise ToolcribError(
            f"no message has been answered yet{before}, so there is nothing to fork; /new starts an empty session"
        )
    taken = _counted(records, count) if count is not None else records if at is not None else _fitting(records, window)
    session_id = secrets.token_hex(16)
    runs = {IMPORTED: info.place[IMPORTED]} if never_ran(info.place) else info.place
    about = {"platform": info.platform, "user": info.user, "model": info.model, "cwd": info.cwd}
    descent = {"parent": info.id, "why": FORK}
    await store.sessions.create(session_id, **about, place=without_lineage(runs), via=info.via, **descent)
    await store.sessions.append_many(session_id, [_copy(record) for record in taken])
    await store.artifacts.share(info.id, session_id)
    await give_state(store, session_id, next((record["state"] for record in reversed(records) if "state" in record), {}))
    said = [record for record in taken if is_persons(record)]
    begin = next(place for place, record in enumerate(records) if record is taken[0])
    unfinished = sum(len(record.get("calls") or ()) for record in whole[len(records) :])
    return Forked(session_id, len(said), len(taken), unanswered, len(records) - begin - len(taken) + unfinished)


def _up_to(records: Sequence[Mapping[str, Any]], at: int | None) -> Sequence[Mapping[str, Any]]:
    """Return the records up to index ``at``, with the results of its calls. Raises ToolcribError if ``at`` is out of range."""
    if at is None:
        return records
    if at >= len(records):
        raise ToolcribError(f"there is no message {at}; `sessions show` lists messages 0 to {len(records) - 1}")
    answered = bool(records[at].get("calls")) and records[at + 1 : at + 2] and records[at + 1]["role"] == "results"
    return records[: at + (2 if answered else 1)]


def _ended(records: Sequence[Mapping[str, Any]]) -> tuple[Sequence[Mapping[str, Any]], str]:
    """Return the records up to the last complete turn, and the text of the user's last message after it, or ""."""
    end, unanswered = len(records), ""
    while end and (records[end - 1]["role"] != "assistant" or records[end - 1].get("calls")):
        if records[end - 1]["role"] == "results":
            break  # the model can continue from them
        if is_persons(records[end - 1]):
            unanswered = unanswered or str(records[end - 1]["text"])
        end -= 1
    return records[:end], unanswered


def _counted(records: Sequence[Mapping[str, Any]], count: int) -> Sequence[Mapping[str, Any]]:
    starts = _starts(records)
    return records[starts[-count] if count < len(starts) else 0 :]


def _fitting(records: Sequence[Mapping[str, Any]], window: int | None) -> Sequence[Mapping[str, Any]]:
    from agent.context.window import tokens_of_record

    sizes = [tokens_of_record(record) for record in records]
    room = max(sum(sizes) // _SHARE, _AT_LEAST) if window is None else window // _SHARE
    starts = _starts(records)
    fitting = [start for start in starts if sum(sizes[start:]) <= room]
    if fitting or not starts:
        return records[fitting[0] :] if fitting else records
    last = starts[-1]  # too long by itself: take the message and the last of its turns
    room -= sizes[last]
    turns = [place for place in range(last + 1, len(records)) if records[place]["role"] == "assistant"]
    begin = next((place for place in turns if sum(sizes[place:]) <= room), turns[-1] if turns else last + 1)
    return [records[last], *records[begin:]]


def _starts(records: Sequence[Mapping[str, Any]]) -> list[int]:
    return [place for place, record in enumerate(records) if is_persons(record)]


def _copy(record: Mapping[str, Any]) -> Record:
    """Return a record for the fork: without the mark of a compression, and without the server's id of the old reply."""
    return {key: value for key, value in taken_over(record).items() if key != ROLE}
