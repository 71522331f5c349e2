"""Extended attributes and access control lists (ACL) of files that are deleted or renamed."""

from __future__ import annotations

from collections.abc import Mapping

from toolcrib.contract.environment import Environment, GivesAttributes

_MOST = 1 << 16
"""Maximum bytes of a file's attributes that are kept."""


async def attributes_of(environment: Environment, path: str) -> tuple[Mapping[str, bytes] | None, str]:
    """Return a file's attributes by name, and a message about lost ones, or "".

    The attributes are None if the environment cannot report them. Raises EnvironmentFailed.
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
    """Give a written file exactly these attributes. Return a message about failed ones, or "".

    If ``wanted`` is None, they are unknown, and nothing is done. Raises EnvironmentFailed.
    """
    if wanted is None:
        return ""
    if not isinstance(environment, GivesAttributes):
        return "extended attributes and an ACL that it had could not be restored" if wanted else ""
    try:
        lost = await environment.give_attributes(path, wanted)
    except OSError as error:
        return f"its extended attributes and ACL could not be restored: {error.strerror or error}"
    return f"{', '.join(lost)} could not be restored" if lost else ""
