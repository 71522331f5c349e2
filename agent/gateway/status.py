"""Status of a platform, as it is recorded for other processes."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Literal, TypeAlias

from agent.conversation.state import RunState
from agent.store._owner import is_dead, new_owner
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.state import StateWrite
from toolcrib.contract.store import Store, TicketRecord
from toolcrib.contract.types import Json

STATUS = "status"
"""Name in the store of a platform's status."""
FRESH_SECONDS = 30.0
"""Seconds after which a gateway that has not updated its status counts as dead."""
GATEWAY = "gateway"
"""Owner in the store of a gateway's records that belong to no platform."""
_IDLE = "idle"
"""Name in the store of the process that runs without any platform."""
_ALIVE = "alive"
"""Name in the store of the time when a platform was last recorded to work."""
_OVERLAP = 120.0
"""Runs that ended this many seconds before the time in ``_ALIVE`` are checked too: no post may have their answers."""
LineState: TypeAlias = Literal["starting", "running", "draining", "failed", "stopped"]


@dataclass(frozen=True, slots=True)
class ChatLineStatus:
    """Status of one platform.

    ``problem`` is why it does not run, "" if it does; ``retry_at`` when it is retried, in Unix seconds, 0 if it is not.
    """

    name: str
    account: str
    state: LineState
    problem: str
    retry_at: float
    open_sessions: int = 0
    runs: int = 0
    mail: int = 0
    mailboxes: int = 0
    posts: int = 0
    questions: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    figures: Mapping[str, Json] = field(default_factory=dict)
    processes: int = 0

    def to_json(self) -> dict[str, Json]:
        """Return the status as JSON."""
        return {
            "name": self.name,
            "account": self.account,
            "state": self.state,
            "problem": self.problem,
            "retry_at": self.retry_at,
            "open_sessions": self.open_sessions,
            "runs": self.runs,
            "mail": self.mail,
            "mailboxes": self.mailboxes,
            "posts": self.posts,
            "questions": self.questions,
            "counts": dict(self.counts),
            "figures": dict(self.figures),
            "processes": self.processes,
        }


async def told_status(store: Store, name: str) -> dict[str, Json]:
    """Return the recorded status of a platform, with ``is_fresh``. Raises StoreFailed.

    ``is_fresh``: the platform is not stopped, and its process updated the record recently and is alive. Without a record,
    ``is_fresh`` is the only key.
    """
    found = (await store.state.of("profile", f"gateway:{name}")).get(STATUS)
    told = dict(found.value) if found is not None and isinstance(found.value, dict) else {}
    is_fresh = bool(told) and told.get("state") != "stopped" and _is_fresh(told)
    return {**told, "is_fresh": is_fresh}


async def note_idle(store: Store, process: int) -> None:
    """Record that a process is a gateway without any platform; 0 clears the record. Raises StoreFailed."""
    told: Json = told_by(process) if process else None
    await store.state.write([StateWrite("profile", GATEWAY, _IDLE, told)])


async def told_idle(store: Store) -> int:
    """Return the process that recently recorded that it is a gateway without platforms, 0 for none. Raises StoreFailed."""
    found = (await store.state.of("profile", GATEWAY)).get(_IDLE)
    told = found.value if found is not None and isinstance(found.value, dict) else {}
    return int(told["pid"]) if told and _is_fresh(told) else 0


def told_by(process: int) -> dict[str, Json]:
    """Return the time and the process that ``_is_fresh`` needs in a record."""
    return {"pid": process, "owner": new_owner(), "at": time.time()}


def _is_fresh(told: Mapping[str, Json]) -> bool:
    """Return whether a record is recent and its process is not known to have ended.

    A record with a future time was written before the clock was set back.
    """
    return abs(time.time() - float(told.get("at", 0.0))) < FRESH_SECONDS and not is_dead(str(told.get("owner", "")))


async def parked(store: Store, platforms: Sequence[str]) -> list[tuple[str, TicketRecord]]:
    """Return the open questions in chats of these platforms, each with its platform, oldest first. Raises StoreFailed."""
    found = []
    for record in await store.tickets.pending():
        info = await store.sessions.get(record.session_id)
        if info is not None and info.platform in platforms:
            found.append((info.platform, record))
    return sorted(found, key=lambda one: one[1].at)


async def note_alive(store: Store, platform: str) -> None:
    """Record that the platform works now. Raises StoreFailed."""
    await store.state.write([StateWrite("profile", f"gateway:{platform}", _ALIVE, time.time())])


async def ended_unseen(store: Store, platform: str) -> list[RunState]:
    """Return the runs whose process ended before it stored their results as posts. Raises StoreFailed."""
    found = (await store.state.of("profile", f"gateway:{platform}")).get(_ALIVE)
    since = (float(found.value) if found is not None else time.time()) - _OVERLAP
    records = [await store.runs.get(run_id) for run_id in await store.mail.unposted(platform, since)]
    return [RunState.of(record) for record in records if record is not None]
