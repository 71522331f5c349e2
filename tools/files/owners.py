"""Owners of rewritten files: only root may give a file away."""

from __future__ import annotations

from toolcrib.contract.environment import Environment, GivesFiles


async def give_back(environment: Environment, path: str, owner: tuple[int, int] | None) -> str:
    """Give a rewritten file back to ``owner`` (UID, GID). Return the reason if that failed, else "".

    If ``owner`` is None, it is unknown, and nothing is done. Raises OSError if the file is gone, and EnvironmentFailed.
    """
    if owner is None or not isinstance(environment, GivesFiles):
        return ""
    found = await environment.stat(path)
    if found is None or found.owner is None or found.owner == owner:
        return ""
    try:
        await environment.give_file(path, *owner)
    except PermissionError:
        was, now = (f"{uid}:{gid}" for uid, gid in (owner, found.owner))
        return f"its owner changed from {was} to {now}, as only root can keep it"
    return ""
