"""Lists of `toolcrib env`: backends, our containers, folders that were left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.cli.stories import ID_CHARS, ago
from agent.place_check import Tried
from agent.places import BUBBLEWRAP, DOCKER, LOCAL, SSH, Place, Places
from toolcrib import EnvironmentFailed, ToolcribError
from tools.dispatch.bridge import run_async
from tools.environments.docker import admin
from tools.environments.docker.admin import OurContainer

if TYPE_CHECKING:
    from agent.crib import Crib


@dataclass(frozen=True, slots=True)
class Running:
    """A container of ours, and the backend that its session named; "" where no session is known."""

    container: OurContainer
    place: str


@dataclass(frozen=True, slots=True)
class Found:
    """``faults``: engine -> why it can't be asked; of configured ones only."""

    running: Sequence[Running]
    faults: Mapping[str, str]


def look(crib: Crib) -> Found:
    """All containers of ours, on every engine that is configured, and on the usual one if it answers."""
    wanted = {place.options["host"] for place in crib.places.configured() if place.kind == DOCKER}
    boxes: list[OurContainer] = []
    faults: dict[str, str] = {}
    # One engine may be named in two ways, such as by the configuration and $DOCKER_HOST: it is asked once.
    for engine, host in {admin.engine_of(host): host for host in ["", *sorted(wanted)]}.items():
        if host not in wanted and (not engine.startswith("unix://") or not Path(engine.removeprefix("unix://")).exists()):
            continue
        try:
            found = admin.containers(host)
        except EnvironmentFailed as error:
            if host in wanted:
                faults[engine] = str(error)
            continue
        boxes += found
    return Found(run_async(_running(crib, boxes)) if boxes else [], faults)


async def _running(crib: Crib, boxes: Sequence[OurContainer]) -> list[Running]:
    return [Running(one, await _place_of(crib, one.session)) for one in boxes]


async def _place_of(crib: Crib, session_id: str) -> str:
    """Return the name of the session's place. Containers know the whole id: the beginning of another's is none."""
    try:
        info = await crib.store.sessions.get(session_id)
    except ToolcribError:
        return ""
    return info.place.get("name", "") if info is not None and info.id == session_id else ""


def state_of(place: Place, found: Found) -> str:
    """Return the state of a backend as far as it is known without connecting to it."""
    if place.missing:
        return f"not configured: set {place.missing}"
    match place.kind:
        case "local":
            return "ready"
        case "bubblewrap":
            import shutil

            return "ready" if shutil.which("bwrap") else "bubblewrap is not found: apt install bubblewrap"
        case "docker":
            return found.faults.get(admin.engine_of(place.options["host"]), "the engine answers")
        case _:
            return f"not tried; `toolcrib env test {place.name}` does"


def place_rows(places: Places, found: Found) -> list[list[str]]:
    rows = [["", "NAME", "KIND", "WHERE", "STATE"]]
    for place in _worth_telling(places):
        mark = "*" if place.name == places.default else ""
        rows.append([mark, place.name, place.kind, place.shown, state_of(place, found)])
    return rows


def _worth_telling(places: Places) -> list[Place]:
    shown = {place.name for place in places.configured()} | {BUBBLEWRAP, DOCKER, LOCAL, SSH}
    return [place for place in places.all() if place.name in shown]


def running_rows(found: Found, now: float) -> list[list[str]]:
    rows = [["CONTAINER", "SESSION", "BACKEND", "STATUS", "SINCE", "OWNER"]]
    for one in found.running:
        box = one.container
        rows.append([box.name, box.session[:ID_CHARS], one.place or "-", box.status, ago(box.since, now), owner_words(box)])
    return rows


def owner_words(box: OurContainer) -> str:
    words = {True: "lives", False: "gone", None: "elsewhere"}[box.owner_lives]
    if box.kept:
        words = "in use" if box.in_use else "kept for later"
    return words


def as_json(places: Places, found: Found) -> dict[str, Any]:
    told = [
        {
            "name": place.name,
            "kind": place.kind,
            "where": place.shown,
            "default": place.name == places.default,
            "configured": not place.missing,
            "state": state_of(place, found),
        }
        for place in _worth_telling(places)
    ]
    return {
        "places": told,
        "running": [{**asdict(one.container), "place": one.place} for one in found.running],
        "faults": dict(found.faults),
    }


def tried_line(tried: Tried) -> str:
    times = " · ".join(f"{what} {_short(seconds)}" for what, seconds in tried.seconds.items())
    if not tried.problem:
        return f"✓ {tried.name}  {tried.where}  {times}" + (f"\n    note: {tried.note}" if tried.note else "")
    return f"✗ {tried.name}  {tried.problem}" + (f"\n    went well before: {times}" if len(tried.seconds) > 1 else "")


def _short(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds:.1f} s"


def chosen(found: Found, word: str) -> list[Running]:
    """Containers that a word of the person's means: a container's name, the beginning of a session's id, or a backend's name."""
    exact = [one for one in found.running if word in (one.container.name, one.place)]
    return exact or [one for one in found.running if word and one.container.session.startswith(word)]
