"""Tables of `toolcrib env`: backends, their trials, and toolcrib's containers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from agent.backend_check import Tried
from agent.backends import Backend, Backends
from agent.cli.short_forms import ID_CHARS, ago
from toolcrib.contract.errors import ToolcribError
from tools.dispatch.bridge import run_async

if TYPE_CHECKING:
    from agent.process import Crib
    from tools.environments.containers import OurContainer


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A container of toolcrib. ``kind`` is its kind of backend, which can stop it; ``backend`` is the name of its session's
    backend, "" if the session is unknown.
    """

    container: OurContainer
    kind: type[Backend]
    backend: str


@dataclass(frozen=True, slots=True)
class RunningContainers:
    """Containers of toolcrib. ``faults`` has the reason for each configured engine that failed."""

    running: Sequence[RunningContainer]
    faults: Mapping[str, str]


def find_containers(crib: Crib) -> RunningContainers:
    """Return all containers of toolcrib on every configured engine, and on the default engine if it answers."""
    boxes: list[tuple[type[Backend], OurContainer]] = []
    faults: dict[str, str] = {}
    for kind, found in crib.backends.containers():
        boxes += [(kind, one) for one in found.containers]
        faults |= found.faults
    return RunningContainers(run_async(_running(crib, boxes)) if boxes else [], faults)


async def _running(crib: Crib, boxes: Sequence[tuple[type[Backend], OurContainer]]) -> list[RunningContainer]:
    return [RunningContainer(one, kind, await _backend_of(crib, one.session)) for kind, one in boxes]


async def _backend_of(crib: Crib, session_id: str) -> str:
    """Return the name of the session's backend, or "" if there is no session with exactly this id."""
    try:
        info = await crib.store.sessions.get(session_id)
    except ToolcribError:
        return ""
    return info.place.get("name", "") if info is not None and info.id == session_id else ""


def state_of(backend: Backend, found: RunningContainers) -> str:
    """Return the state of a backend, without connecting to it."""
    if backend.missing:
        return f"not configured: set {backend.missing}"
    return backend.state(found.faults)


def backend_rows(backends: Backends, found: RunningContainers) -> list[list[str]]:
    rows = [["", "NAME", "KIND", "WHERE", "STATE"]]
    for backend in backends.all():
        mark = "*" if backend.name == backends.default else ""
        rows.append([mark, backend.name, backend.kind, backend.shown, state_of(backend, found)])
    return rows


def running_rows(found: RunningContainers, now: float) -> list[list[str]]:
    rows = [["CONTAINER", "SESSION", "BACKEND", "STATUS", "SINCE", "OWNER"]]
    for one in found.running:
        box = one.container
        rows.append([box.name, box.session[:ID_CHARS], one.backend or "-", box.status, ago(box.since, now), owner_words(box)])
    return rows


def owner_words(box: OurContainer) -> str:
    words = {True: "running", False: "gone", None: "elsewhere"}[box.owner_lives]
    if box.kept:
        words = "in use" if box.in_use else "kept for later"
    return words


def as_json(backends: Backends, found: RunningContainers) -> dict[str, Any]:
    told = [
        {
            "name": backend.name,
            "kind": backend.kind,
            "where": backend.shown,
            "default": backend.name == backends.default,
            "configured": not backend.missing,
            "state": state_of(backend, found),
        }
        for backend in backends.all()
    ]
    return {
        "places": told,
        "running": [{**asdict(one.container), "place": one.backend} for one in found.running],
        "faults": dict(found.faults),
    }


def tried_line(tried: Tried) -> str:
    times = " · ".join(f"{what} {_short(seconds)}" for what, seconds in tried.seconds.items())
    if not tried.problem:
        return f"✓ {tried.name}  {tried.where}  {times}" + (f"\n    note: {tried.note}" if tried.note else "")
    return f"✗ {tried.name}  {tried.problem}" + (f"\n    before that: {times}" if len(tried.seconds) > 1 else "")


def _short(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds:.1f} s"


def chosen(found: RunningContainers, word: str) -> list[RunningContainer]:
    """Return the containers that ``word`` means: the name of a container or a backend, or the beginning of a session's id."""
    exact = [one for one in found.running if word in (one.container.name, one.backend)]
    return exact or [one for one in found.running if word and one.container.session.startswith(word)]
