"""Write a file that may have more than its content: other names, extended attributes, an ACL."""

from __future__ import annotations

from toolcrib.contract.environment import Environment, ReplacesFiles


async def rewrite(
    environment: Environment, path: str, data: bytes, *, mode: int | None = None, mtime_ns: int | None = None
) -> str:
    """Write a file, with its parents. Return a message about lost facts, for the model and the user; "" if nothing or unknown.

    ``mtime_ns``: its modification time, if the environment can set that. Raises like ``Environment.write_file``.
    """
    if not isinstance(environment, ReplacesFiles):
        await environment.write_file(path, data, mode=mode)
        return ""
    lost = await environment.replace_file(path, data, mode=mode, mtime_ns=mtime_ns)
    return f"{', '.join(lost)} could not be kept" if lost else ""
