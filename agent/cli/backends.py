"""Lists of `toolcrib env`: backends, our containers, folders that were left behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.backend_check import Tried
from agent.backends import BUBBLEWRAP, DOCKER, LOCAL, SSH, Backend, Backends, unavailable
from agent.cli.short_forms import ID_CHARS, ago
from toolcrib.contract.errors import EnvironmentFailed, ToolcribError
from tools.dispatch.bridge import run_async
from tools.environments.docker import admin
from tools.environments.docker.admin import OurContainer

if TYPE_CHECKING:
    from agent.config import Config
    from agent.process import Crib


@dataclass(frozen=True, slots=True)
class RunningContainer:
    """A container of ours, and the backend that its session named; "" where no session is known."""

    container: OurContainer
    backend: str


@dataclass(frozen=True, slots=True)
class FoundContainers:
    """``faults``: engine -> why it can't be asked; of configured ones only."""

    running: Sequence[RunningContainer]
    faults: Mapping[str, str]


def look(crib: Crib) -> FoundContainers:
    """All containers of ours, on every engine that is configured, and on the usual one if it answers."""
    boxes: list[OurContainer] = []
    faults: dict[str, str] = {}
    for host, is_wanted in _engines(crib.backends):
        try:
            found = admin.containers(host)
        except EnvironmentFailed as error:
            if is_wanted:
                faults[admin.engine_of(host)] = str(error)
            continue
        boxes += found
    return FoundContainers(run_async(_running(crib, boxes)) if boxes else [], faults)


def engines(config: Config) -> list[tuple[str, bool]]:
    """Return the engines of a configuration without its plugins: as it names them, "" for the usual one, and whether it does."""
    return _engines(Backends(config, ()))


def _engines(backends: Backends) -> list[tuple[str, bool]]:
    wanted = {backend.options["host"] for backend in backends.configured() if backend.kind == DOCKER}
    # One engine may be named in two ways, such as by the configuration and $DOCKER_HOST: it is asked once.
    named = {admin.engine_of(host): host for host in ["", *sorted(wanted)]}
    return [
        (host, host in wanted)
        for engine, host in named.items()
        if host in wanted or (engine.startswith("unix://") and Path(engine.removeprefix("unix://")).exists())
    ]


async def _running(crib: Crib, boxes: Sequence[OurContainer]) -> list[RunningContainer]:
    return [RunningContainer(one, await _backend_of(crib, one.session)) for one in boxes]


async def _backend_of(crib: Crib, session_id: str) -> str:
    """Return the name of the session's backend. Containers know the whole id: the beginning of another's is none."""
    try:
        info = await crib.store.sessions.get(session_id)
    except ToolcribError:
        return ""
    return info.place.get("name", "") if info is not None and info.id == session_id else ""


def state_of(backend: Backend, found: FoundContainers) -> str:
    """Return the state of a backend as far as it is known without connecting to it."""
    if backend.missing:
        return f"not configured: set {backend.missing}"
    match backend.kind:
        case "local":
            return "ready"
        case "bubblewrap":
            return unavailable(backend) or "ready"
        case "docker":
            return found.faults.get(admin.engine_of(backend.options["host"]), "the engine answers")
        case _:
            return f"not tried; `toolcrib env test {backend.name}` does"


def backend_rows(backends: Backends, found: FoundContainers) -> list[list[str]]:
    rows = [["", "NAME", "KIND", "WHERE", "STATE"]]
    for backend in _worth_telling(backends):
        mark = "*" if backend.name == backends.default else ""
        rows.append([mark, backend.name, backend.kind, backend.shown, state_of(backend, found)])
    return rows


def _worth_telling(backends: Backends) -> list[Backend]:
    shown = {backend.name for backend in backends.configured()} | {BUBBLEWRAP, DOCKER, LOCAL, SSH}
    return [backend for backend in backends.all() if backend.name in shown]


def running_rows(found: FoundContainers, now: float) -> list[list[str]]:
    rows = [["CONTAINER", "SESSION", "BACKEND", "STATUS", "SINCE", "OWNER"]]
    for one in found.running:
        box = one.container
        rows.append([box.name, box.session[:ID_CHARS], one.backend or "-", box.status, ago(box.since, now), owner_words(box)])
    return rows


def owner_words(box: OurContainer) -> str:
    words = {True: "lives", False: "gone", None: "elsewhere"}[box.owner_lives]
    if box.kept:
        words = "in use" if box.in_use else "kept for later"
    return words


def as_json(backends: Backends, found: FoundContainers) -> dict[str, Any]:
    told = [
        {
            "name": backend.name,
            "kind": backend.kind,
            "where": backend.shown,
            "default": backend.name == backends.default,
            "configured": not backend.missing,
            "state": state_of(backend, found),
        }
        for backend in _worth_telling(backends)
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
    return f"✗ {tried.name}  {tried.problem}" + (f"\n    went well before: {times}" if len(tried.seconds) > 1 else "")


def _short(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 0.1 else f"{seconds:.1f} s"


def chosen(found: FoundContainers, word: str) -> list[RunningContainer]:
    """Containers that a word of the person's means: a container's name, the beginning of a session's id, or a backend's name."""
    exact = [one for one in found.running if word in (one.container.name, one.backend)]
    return exact or [one for one in found.running if word and one.container.session.startswith(word)]
