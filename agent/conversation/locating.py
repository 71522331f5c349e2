"""The place where a session runs: its backend and folder, and the workspace whose rules are its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from agent.backends import LOCAL, Location
from agent.conversation.lineage import never_ran
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.store import SessionInfo

if TYPE_CHECKING:
    from agent.workspace import Workspace

PROJECT = "project"
"""The key of the project folder in what the store keeps of where a session runs."""


def workspace_of(here: Workspace, old: SessionInfo | None) -> Workspace:
    """Return the workspace that a stored session belongs to, from whichever folder it is resumed: its rules are the session's."""
    folder = "" if old is None else old.place.get(PROJECT, "")
    return here if not folder or Path(folder) == here.project_dir or not Path(folder).is_dir() else here.beside(Path(folder))


async def find_session(here: Workspace, prefix: str) -> SessionInfo:
    """Return the stored session whose id begins so. Raises ToolcribError where there is none, or more than one."""
    found = await here.store.sessions.get(prefix)
    if found is None:
        raise ToolcribError(f"no session begins with {prefix!r}; `toolcrib sessions` lists them")
    return found


def first_location(here: Workspace, name: str = "") -> Location:
    """Return where a session that begins now would run, in the backend with that name. Raises ConfigError."""
    return location_for(here, name, None, None)


def location_of(here: Workspace, info: SessionInfo, name: str = "") -> Location:
    """Return where a stored session runs, or the backend with that name. Raises ConfigError and ToolcribError."""
    return location_for(here, name, None, info)


def _is_within(folder: str, project: Path) -> bool:
    """Return whether a folder that a file names is the project's, or one below: elsewhere nobody chose to work."""
    return Path(folder).resolve().is_relative_to(project.resolve())


def start_of(here: Workspace) -> str:
    """Return the folder that sessions start in, where nobody names another."""
    return here.config.terminal.cwd or str(here.project_dir)


def location_for(here: Workspace, name: str, cwd: str | None, old: SessionInfo | None) -> Location:
    """Return where a session runs: where it ran, unless somebody names a backend. Raises ConfigError and ToolcribError."""
    start = start_of(here)
    imported = old is not None and never_ran(old.place)
    if old is None or name or not old.place or imported:
        backend, chosen = here.backends.get(name), bool(name)
        if old is not None and not name and not imported and backend.kind != LOCAL:
            raise ToolcribError(
                f"the session {old.id[:12]} is from before sessions were bound to backends, and {backend.name} may not be where "
                "it ran: name the backend that it shall continue in (--backend NAME)"
            )
    else:
        backend, chosen = here.backends.again(old.place, old.id), "chosen" in old.place
        cwd = cwd or old.place.get("cwd")
    if old is not None and old.cwd and Path(old.cwd).is_dir() and not (imported and not _is_within(old.cwd, here.project_dir)):
        start = old.cwd
    return Location(backend, start, cwd, chosen) if backend.is_remote else Location(backend, cwd or start, None, chosen)
