"""Write a file that may have hard links, extended attributes or an ACL, and keep these if the environment can."""

from __future__ import annotations

from toolcrib.contract.environment import Environment, ReplacesFiles


async def rewrite(
    environment: Environment, path: str, data: bytes, *, mode: int | None = None, mtime_ns: int | None = None
) -> str:
    """Write a file, and create missing parent folders. Return a message for the model and the user that names the lost
    properties of the old file, such as its ACL; "" if nothing was lost, or if the environment does not report losses.

    ``mtime_ns``: the modification time to set, if the environment can. Raises like ``Environment.write_file``.
    """
    if not isinstance(environment, ReplacesFiles):
        await environment.write_file(path, data, mode=mode)
        return ""
    lost = await environment.replace_file(path, data, mode=mode, mtime_ns=mtime_ns)
    return f"{', '.join(lost)} could not be kept" if lost else ""
