"""Extended attributes and access control lists (ACL) of files that are deleted or get another name."""

from __future__ import annotations

from collections.abc import Mapping

from toolcrib.contract.environment import Environment, GivesAttributes

_MOST = 1 << 16
"""Most bytes of a file's attributes that are kept."""


async def attributes_of(environment: Environment, path: str) -> tuple[Mapping[str, bytes] | None, str]:
    """Return a file's attributes by name, None where the environment can't tell; and what can't be kept of them, "" where all
    can. Raises EnvironmentFailed.
    """
    if not isinstance(environment, GivesAttributes):
        return None, "extended attributes and an ACL, if it had any, could not be kept"
    try:
        found = await environment.attributes(path)
    except OSError as error:
        return None, f"its extended attributes and ACL could not be read: {error.strerror or error}"
    kept: dict[str, bytes] = {}
    left = _MOST
    for name, value in found.items():
        if value is not None and len(value) <= left:
            kept[name] = value
            left -= len(value)
    lost = [name for name in found if name not in kept]
    return kept, f"{', '.join(f'its extended attribute {name}' for name in lost)} could not be kept" if lost else ""


async def give_attributes(environment: Environment, path: str, wanted: Mapping[str, bytes] | None) -> str:
    """Give a file that was written these attributes and no others. Return what it could not be given, "" where it has all.

    ``wanted`` None: they are unknown, and nothing is done. Raises EnvironmentFailed.
    """
    if wanted is None:
        return ""
    if not isinstance(environment, GivesAttributes):
        return "extended attributes and an ACL that it had could not be given back" if wanted else ""
    try:
        lost = await environment.give_attributes(path, wanted)
    except OSError as error:
        return f"its extended attributes and ACL could not be given back: {error.strerror or error}"
    return f"{', '.join(lost)} could not be given back" if lost else ""
