"""The background processes of all sessions of the local user, from any process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from agent.background.requests import SESSIONS, ask, drop, sessions_with_processes
from agent.background.viewing import recorded_about
from toolcrib.contract.errors import ToolcribError
from tools.processes.records import PROCESSES

if TYPE_CHECKING:
    from agent.process import Crib
    from toolcrib.contract.store import Store
    from toolcrib.contract.types import Json

UNATTENDED, SILENT = "unattended", "no answer"
"""States of processes whose session's process of toolcrib was killed, or does not answer."""
_LOOK, _END = 5.0, 25.0
"""Seconds that an answer may take."""


class Unreached(ToolcribError):
    """There is no such process, or it can't be reached."""


async def all_processes(store: Store) -> list[dict[str, Json]]:
    """Return the processes of the local user's sessions. ``state`` may also be UNATTENDED or SILENT. Raises StoreFailed."""
    known, found = await sessions_with_processes(store), []
    answers = await ask(store, {one: {"action": "list"} for one, lives in known.items() if lives}, _LOOK)
    for session_id, lives in known.items():
        info = await store.sessions.get(session_id)
        if info is None:  # deleted
            await drop(store, SESSIONS, [session_id])
            continue
        rows = answers[session_id].get("processes") if session_id in answers else None
        if rows is None:
            rows = await _recorded(store, session_id, SILENT if lives else UNATTENDED)
        found += [{"session": session_id, "title": info.title, **row} for row in rows]
    return found


async def _recorded(store: Store, session_id: str, state: str) -> list[dict[str, Json]]:
    kept = (await store.state.of("session", session_id)).get(PROCESSES.name)
    records = kept.value if kept is not None and isinstance(kept.value, dict) else {}
    return [{"name": name, "state": state, **recorded_about(record)} for name, record in records.items()]


def chosen(found: Sequence[Mapping[str, Json]], words: Sequence[str]) -> list[Mapping[str, Json]]:
    """Return the processes that words such as ``4f1c/server`` or ``server`` name. Raises Unreached for none or several."""
    wanted = []
    for word in words:
        session, _, name = word.rpartition("/")
        meant = [one for one in found if one["name"] == name and one["session"].startswith(session)]
        if not meant:
            raise Unreached(f"no background process is named {word!r}. List processes: toolcrib ps")
        if len(meant) > 1:
            names = ", ".join(f"{one['session'][:12]}/{name}" for one in meant)
            raise Unreached(f"{word!r} names several processes: {names}. Use one of these names")
        wanted += [one for one in meant if one not in wanted]
    return wanted


async def log_from(store: Store, one: Mapping[str, Json], *, lines: int, begin: int | None = None) -> Mapping[str, Json]:
    """Return a part of a process's log; see viewing.log_of. Raises Unreached and StoreFailed."""
    if one["state"] == UNATTENDED:
        raise Unreached(_unattended(one))
    request = {"action": "log", "name": one["name"], "lines": lines, "begin": begin}
    return _checked(one["session"], await ask(store, {one["session"]: request}, _LOOK))


async def end(crib: Crib, wanted: Sequence[Mapping[str, Json]], found: Sequence[Mapping[str, Json]]) -> None:
    """End processes, which are some of those ``found``. Raises Unreached, ToolcribError and StoreFailed.

    Unattended processes end together with their session, which this process opens for that.
    """
    names: dict[str, list[str]] = {}
    for one in wanted:
        names.setdefault(one["session"], []).append(one["name"])
    left = {one["session"]: one for one in wanted if one["state"] == UNATTENDED}
    for one in found:
        if one["session"] in left and one["name"] not in names[one["session"]]:
            raise Unreached(f"{_unattended(one)}. To end them, name all of them")
    requests = {each: {"action": "end", "names": names[each]} for each in names if each not in left}
    answers = await ask(crib.store, requests, _END)
    for session_id in left:
        await _close_left(crib, session_id)
    for session_id in requests:
        _checked(session_id, answers)


async def _close_left(crib: Crib, session_id: str) -> None:
    from agent.desk.request import SessionRequest

    session = await crib.desk.open(SessionRequest(resume=session_id))
    try:
        await session.scope.processes.look()
    finally:
        await session.close()


def _unattended(one: Mapping[str, Json]) -> str:
    session = one["session"][:12]
    return (
        f"the toolcrib that had the session {session} open was killed, so {one['name']} is unattended. To continue with the"
        f" processes of this session: toolcrib chat --resume {session}"
    )


def _checked(session_id: str, answers: Mapping[str, Json]) -> Mapping[str, Json]:
    if session_id not in answers:
        raise Unreached(f"the toolcrib that has the session {session_id[:12]} open does not answer; try again, or end it")
    answer: Mapping[str, Json] = answers[session_id]
    if "error" in answer:
        raise Unreached(str(answer["error"]))
    return answer
