"""Writing a file that may have more than its content: other names, extended attributes, an ACL."""

from __future__ import annotations

from toolcrib.contract.environment import Environment, ReplacesFiles


async def rewrite(
    environment: Environment, path: str, data: bytes, *, mode: int | None = None, mtime_ns: int | None = None
) -> str:
    """Write a file, with its parents. Return what it lost by that, for the model and the person; "" where it lost nothing, or
    where the environment can't tell. ``mtime_ns``: when it is to have been changed last, where the environment can do that.

    Raises as ``Environment.write_file``.
    """
    if not isinstance(environment, ReplacesFiles):
        await environment.write_file(path, data, mode=mode)
        return ""
    lost = await environment.replace_file(path, data, mode=mode, mtime_ns=mtime_ns)
    return f"{', '.join(lost)} could not be kept" if lost else ""
