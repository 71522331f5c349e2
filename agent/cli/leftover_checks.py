"""Checks for leftovers of processes that ended without cleaning up, for `toolcrib doctor`.

Leases need no check: they are free when their process has ended. Locks end with their process.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from agent.cli.finding import CheckFinding, Repair

if TYPE_CHECKING:
    from agent.backends.base import Backend
    from agent.config import Config
    from tools.environments.containers import OurContainer
    from tools.environments.leftovers import LeftProcess

_PRUNE = "toolcrib env prune"


def check_leftovers(config: Config) -> Iterator[CheckFinding]:
    """Yield findings about processes, folders and sockets whose owner has ended."""
    yield from check_processes()
    yield from check_folders()
    if config.store.enabled and config.store_url is None:
        yield from check_sockets(config.store_path)


def check_processes() -> Iterator[CheckFinding]:
    from tools.environments.leftovers import processes_left

    found = processes_left()
    if not found:
        return
    text = f"{_count(len(found), 'process', 'es')} of commands still run after their toolcrib process ended: {_shown(found)}"
    line = f"kill -KILL {' '.join(str(one.pid) for one in found)}"
    repair = Repair(line, partial(_end, found), check_processes, "these processes are ended", is_outside=True)
    yield CheckFinding("leftover.processes", "note", text, line, repair)


def _shown(found: Sequence[LeftProcess]) -> str:
    return ", ".join(f"{one.pid} ({one.program})" for one in found)


def _end(found: Sequence[LeftProcess]) -> Iterator[str]:
    for one in found:
        yield f"ended {one.pid}" if one.end() else f"{one.pid} had already ended"


def check_folders() -> Iterator[CheckFinding]:
    from tools.environments.leftovers import left_behind

    found = left_behind()
    if not found:
        return
    text = f"killed processes left {_count(len(found), 'private folder')}: {', '.join(map(str, found))}"
    line = f"rm -rf {shlex.join(map(str, found))}"
    repair = Repair(line, partial(_remove, found), check_folders, "these folders are removed", is_outside=True)
    yield CheckFinding("leftover.folders", "note", text, _PRUNE, repair)


def _remove(folders: Sequence[Path]) -> Iterator[str]:
    from tools.environments.leftovers import left_behind, remove

    for folder in set(folders).intersection(left_behind()):  # a new process with the same id may own a folder by now
        remove(folder)
        yield f"removed {folder}"


def check_sockets(store: Path) -> Iterator[CheckFinding]:
    from agent.store._signals import dead_sockets, folder_of

    found = dead_sockets(folder_of(store))
    if not found:
        return
    text = f"ended processes left {_count(len(found), 'socket')} beside the store"
    repair = Repair(f"rm {shlex.join(map(str, found))}", partial(_unlink, store), partial(check_sockets, store))
    yield CheckFinding("leftover.sockets", "note", text, "nothing to do: the next signal to them removes them", repair)


def _unlink(store: Path) -> Iterator[str]:
    from agent.store._signals import dead_sockets, folder_of

    for path in dead_sockets(folder_of(store)):
        path.unlink(missing_ok=True)
        yield f"removed {path}"


def check_containers(config: Config) -> Iterator[CheckFinding]:
    """Yield findings about containers on the configured engines, and on the default engine if it answers."""
    from agent.backends import Backends

    for kind, containers in Backends(config, ()).containers():
        for error in containers.faults.values():
            yield CheckFinding("leftover.unseen", "note", f"containers were not checked: {error}", "toolcrib env")
        if not (found := [one for one in containers.containers if one.left_behind]):
            continue
        names = [one.name for one in found]
        text = f"killed processes left {_count(len(found), 'container')}: {' '.join(names)}"
        again = partial(check_containers, config)
        end = partial(_end_containers, kind, found)
        repair = Repair(kind.removal(names), end, again, "these containers are removed", True)
        yield CheckFinding("leftover.containers", "note", text, _PRUNE, repair)


def _end_containers(kind: type[Backend], found: Sequence[OurContainer]) -> Iterator[str]:
    for one in found:
        kind.remove(one)
        yield f"removed {one.name}"


def _count(number: int, what: str, plural: str = "s") -> str:
    return f"{number} {what}{'' if number == 1 else plural}"
