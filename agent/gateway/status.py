"""State of a platform's line, as it is kept for other processes."""

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
"""Name of what a platform's line does, in the store."""
FRESH_SECONDS = 30.0
"""Seconds after which a gateway that has not told what it does is taken for dead."""
GATEWAY = "gateway"
"""Owner of what a gateway tells in the store that is of none of its platforms."""
_IDLE = "idle"
"""Name of the process that runs without any platform, in the store."""
_ALIVE = "alive"
"""Name of when the gateway was last seen to work, in the store."""
_OVERLAP = 120.0
"""Seconds before that within which runs may have ended whose answers were not kept to be shown."""
LineState: TypeAlias = Literal["starting", "running", "draining", "failed", "stopped"]


@dataclass(frozen=True, slots=True)
class ChatLineStatus:
    """State of one platform. ``problem`` is why it does not run, "" where it does; ``retry_at`` when it is tried again, in Unix
    seconds, 0 where it is not.
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

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
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
        }


async def told_status(store: Store, name: str) -> dict[str, Json]:
    """Return what was told last of a platform, {} where nothing was. ``is_fresh``: its process told it a moment ago, and lives.

    Raises StoreFailed.
    """
    found = (await store.state.of("profile", f"gateway:{name}")).get(STATUS)
    told = dict(found.value) if found is not None and isinstance(found.value, dict) else {}
    is_fresh = bool(told) and told.get("state") != "stopped" and _is_fresh(told)
    return {**told, "is_fresh": is_fresh}


async def note_idle(store: Store, process: int) -> None:
    """Keep that a process is a gateway without any platform now; 0 where there is none any more. Raises StoreFailed."""
    told: Json = told_by(process) if process else None
    await store.state.write([StateWrite("profile", GATEWAY, _IDLE, told)])


async def told_idle(store: Store) -> int:
    """Return the process that told a moment ago that it is a gateway without any platform, 0 for none. Raises StoreFailed."""
    found = (await store.state.of("profile", GATEWAY)).get(_IDLE)
    told = found.value if found is not None and isinstance(found.value, dict) else {}
    return int(told["pid"]) if told and _is_fresh(told) else 0


def told_by(process: int) -> dict[str, Json]:
    """Return what says when something is told, and by which process, for ``is_fresh``."""
    return {"pid": process, "owner": new_owner(), "at": time.time()}


def _is_fresh(told: Mapping[str, Json]) -> bool:
    """Return whether something was told a moment ago, by a process that is not known to have ended. What is told of a time to
    come was told before the clock was set back.
    """
    return abs(time.time() - float(told.get("at", 0.0))) < FRESH_SECONDS and not is_dead(str(told.get("owner", "")))


async def parked(store: Store, platforms: Sequence[str]) -> list[tuple[str, TicketRecord]]:
    """Return the questions that wait in chats of these platforms, with the platform, the oldest first. Raises StoreFailed."""
    found = []
    for record in await store.tickets.pending():
        info = await store.sessions.get(record.session_id)
        if info is not None and info.platform in platforms:
            found.append((info.platform, record))
    return sorted(found, key=lambda one: one[1].at)


async def note_alive(store: Store, platform: str) -> None:
    """Keep that the platform's line works now. Raises StoreFailed."""
    await store.state.write([StateWrite("profile", f"gateway:{platform}", _ALIVE, time.time())])


async def ended_unseen(store: Store, platform: str) -> list[RunState]:
    """Return the runs whose process ended before what they came to was kept to be shown. Raises StoreFailed."""
    found = (await store.state.of("profile", f"gateway:{platform}")).get(_ALIVE)
    since = (float(found.value) if found is not None else time.time()) - _OVERLAP
    records = [await store.runs.get(run_id) for run_id in await store.mail.unposted(platform, since)]
    return [RunState.of(record) for record in records if record is not None]
