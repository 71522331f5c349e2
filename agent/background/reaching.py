"""The background processes of all sessions of the local user, from any process."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from agent.background.requests import SESSIONS, ask, drop, sessions_with_processes
from agent.background.viewing import end_in, recorded_about
from agent.config import sandbox_records
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.state import StateWrite
from tools.environments.local.survivor import SandboxRecord, left_sandboxes
from tools.environments.rows import row_of
from tools.processes.left import session_folders
from tools.processes.process import GONE
from tools.processes.records import PROCESSES, ended, record
from tools.processes.scripts import folder_name

if TYPE_CHECKING:
    from agent.process import Crib
    from toolcrib.contract.store import SessionInfo, Store
    from toolcrib.contract.types import Json

UNATTENDED, SILENT = "unattended", "no answer"
"""States of processes whose session's process of toolcrib was killed, or does not answer."""
ENDED = "ended"
"""State of a process that was ended while it was unattended, and of a terminal whose toolcrib was killed."""
_LOOK, _END = 5.0, 25.0
"""Seconds that an answer may take."""


class Unreached(ToolcribError):
    """There is no such process, or it can't be reached."""


async def all_processes(crib: Crib) -> list[dict[str, Json]]:
    """Return the processes of the local user's sessions. ``state`` may also be UNATTENDED, ENDED or SILENT.

    Raises StoreFailed.
    """
    store = crib.store
    known, found = await sessions_with_processes(store), []
    answers = await ask(store, {one: {"action": "list"} for one, lives in known.items() if lives}, _LOOK)
    for session_id, lives in known.items():
        info = await store.sessions.get(session_id)
        if info is None:  # deleted
            await drop(store, SESSIONS, [session_id])
            continue
        if not lives and not _has_remains(crib, info):
            await forget(store, [session_id])
            continue
        rows = answers[session_id].get("processes") if session_id in answers else None
        if rows is None:
            rows = await _recorded(store, session_id, SILENT if lives else UNATTENDED)
        found += [{"session": session_id, "title": info.title, **row} for row in rows]
    return found


async def forget(store: Store, session_ids: Collection[str]) -> None:
    """Forget the processes of those of these sessions whose toolcrib was killed: nothing is left of them. Raises StoreFailed."""
    gone = [one for one, lives in (await sessions_with_processes(store)).items() if not lives and one in session_ids]
    for session_id in gone:
        await store.state.write([StateWrite("session", session_id, PROCESSES.name, None)])
    if gone:
        await drop(store, SESSIONS, gone)


def _has_remains(crib: Crib, info: SessionInfo) -> bool:
    """Return whether processes or logs of a session may be left. On other backends there may be some."""
    if not row_of(info.place.get("target", "")).runs_here:
        return True
    name = folder_name(f"{info.id} {crib.config.store_name}")
    left_sandboxes(sandbox_records())  # deletes the records of sandboxes that have ended
    return SandboxRecord.of(str(sandbox_records()), info.id).exists() or any(one.name == name for one in session_folders())


async def _recorded(store: Store, session_id: str, state: str) -> list[dict[str, Json]]:
    kept = (await store.state.of("session", session_id)).get(PROCESSES.name)
    records = kept.value if kept is not None and isinstance(kept.value, dict) else {}
    return [
        {"name": name, "state": _state_of(one, state), **recorded_about(one), "ended_at": one.get("ended_at")}
        for name, one in records.items()
    ]


def _state_of(record: Mapping[str, Json], state: str) -> str:
    has_ended = "ended_at" in record or (state == UNATTENDED and record.get("pty"))
    return ENDED if has_ended else state


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
    if one["state"] in (UNATTENDED, ENDED):
        raise Unreached(_unattended(one))
    request = {"action": "log", "name": one["name"], "lines": lines, "begin": begin}
    return _checked(one["session"], await ask(store, {one["session"]: request}, _LOOK))


async def socket_of(store: Store, one: Mapping[str, Json]) -> str:
    """Return the path of a socket to attach to a process's terminal. Raises Unreached and StoreFailed."""
    if one["state"] in (UNATTENDED, ENDED):
        raise Unreached(_unattended(one))
    request = {"action": "attach", "name": one["name"]}
    return str(_checked(one["session"], await ask(store, {one["session"]: request}, _LOOK))["socket"])


async def end(crib: Crib, wanted: Sequence[Mapping[str, Json]]) -> None:
    """End processes, and keep their logs. Raises Unreached, ToolcribError and StoreFailed."""
    names: dict[str, list[str]] = {}
    for one in wanted:
        names.setdefault(one["session"], []).append(one["name"])
    left = {one["session"] for one in wanted if one["state"] == UNATTENDED}
    requests = {each: {"action": "end", "names": names[each]} for each in names if each not in left}
    answers = await ask(crib.store, requests, _END)
    for session_id in left:
        await _end_left(crib, session_id, names[session_id])
    for session_id in requests:
        _checked(session_id, answers)


async def _end_left(crib: Crib, session_id: str, names: Sequence[str]) -> None:
    """End processes of a session whose toolcrib was killed, in this process, and leave its other processes as they are."""
    from agent.desk.request import SessionRequest

    session = await crib.desk.open(SessionRequest(resume=session_id))
    try:
        found = await session.scope.processes.look()
        await end_in(session.scope, [name for name in names if name in found])
        await record(session.scope, ended(names))
    finally:
        await session.leave()


def _unattended(one: Mapping[str, Json]) -> str:
    session = one["session"][:12]
    if one["pty"]:
        return f"{one['name']} {GONE}"
    return (
        f"the toolcrib that had the session {session} open was killed, so its processes are unattended. To continue with"
        f" them, and to read the log of {one['name']}: toolcrib chat --resume {session}"
    )


def _checked(session_id: str, answers: Mapping[str, Json]) -> Mapping[str, Json]:
    if session_id not in answers:
        raise Unreached(f"the toolcrib that has the session {session_id[:12]} open does not answer; try again, or end it")
    answer: Mapping[str, Json] = answers[session_id]
    if "error" in answer:
        raise Unreached(str(answer["error"]))
    return answer
