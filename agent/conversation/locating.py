"""Location of a session: its backend and folder, and the workspace whose rules apply."""

from __future__ import annotations

from pathlib import Path

from agent.backends import LOCAL, Backends, Location
from agent.conversation.lineage import never_ran
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.paths import real_path
from toolcrib.contract.store import SessionInfo, Store

PROJECT = "project"
"""The key of the project folder in ``SessionInfo.place``."""


async def find_session(store: Store, prefix: str) -> SessionInfo:
    """Return the stored session whose id starts with ``prefix``. Raises ToolcribError for none, or several."""
    found = await store.sessions.get(prefix)
    if found is None:
        raise ToolcribError(f"no session starts with {prefix!r}. List sessions: toolcrib sessions")
    return found


def _is_within(folder: str, project: Path) -> bool:
    """Return whether a folder that an imported file names is inside the project. A folder outside is not used, because no user
    chose it.
    """
    return real_path(folder).is_relative_to(real_path(project))


def location_for(
    backends: Backends, project_dir: Path, start: str, name: str, cwd: str | None, old: SessionInfo | None
) -> Location:
    """Return where a session runs: where it ran before, unless ``name`` names a backend. Raises ConfigError and ToolcribError.

    A session starts in its stored folder if that still exists, and otherwise in ``start``, the folder of the project's sessions.
    """
    imported = old is not None and never_ran(old.place)
    if old is None or name or not old.place or imported:
        backend, chosen = backends.get(name), bool(name)
        if old is not None and not name and not imported and backend.kind != LOCAL:
            raise ToolcribError(
                f"the session {old.id[:12]} is older than the record of backends, and may have run elsewhere than in "
                f"{backend.name}. Name its backend: --backend NAME"
            )
    else:
        backend, chosen = backends.again(old.place, old.id), "chosen" in old.place
        cwd = cwd or old.place.get("cwd")
    if old is not None and old.cwd and Path(old.cwd).is_dir() and not (imported and not _is_within(old.cwd, project_dir)):
        start = old.cwd
    return Location(backend, start, cwd, chosen) if backend.is_remote else Location(backend, cwd or start, None, chosen)
