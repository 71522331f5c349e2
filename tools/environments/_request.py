"""Checks of a request before a shell runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from toolcrib.contract.environment import Captured, ExecOutcome, ExecRequest
from toolcrib.contract.errors import EnvironmentFailed
from tools.environments.shell import driver

_LARGEST = 120_000
_LARGEST_ALL = 1_000_000
"""Maximum bytes of one variable and of all: Linux accepts 131,072 for one, and a little over 2 MB for all."""


def command_text(request: ExecRequest) -> str:
    """Return the command of the request. Raises EnvironmentFailed if a shell cannot take it."""
    if "\0" in request.command:
        raise EnvironmentFailed("the command contains a NUL character: write it as an escape, such as printf '\\0'")
    try:
        request.command.encode("utf-8", "surrogateescape")
    except UnicodeError as error:
        raise EnvironmentFailed("the command is not valid Unicode text: send it as plain UTF-8") from error
    sizes = [len(name) + len(value) + 2 for name, value in request.env.items()]
    if any(size > _LARGEST for size in sizes) or sum(sizes) > _LARGEST_ALL:
        raise EnvironmentFailed("the environment given to the command is too large: pass fewer or shorter variables")
    for name, value in request.env.items():
        if not driver.is_name(name) or "\0" in value:
            raise EnvironmentFailed(f"the variable {name!r} can't be passed: a shell does not accept such a name or value")
    return request.command


async def folder_of(request: ExecRequest, cwd: str, resolve: Callable[[str], Awaitable[str]]) -> str:
    """Return the folder to run the command in; ``cwd`` is the default if the request names none. Raises EnvironmentFailed."""
    if request.cwd is None:
        return cwd
    try:
        return await resolve(request.cwd)
    except OSError as error:
        why = error.strerror or str(error)
        raise EnvironmentFailed(
            f"the folder {request.cwd!r} cannot be entered ({why}), so the command was not run: choose another cwd"
        ) from error


def may_have_run(where: str, error: OSError) -> EnvironmentFailed:
    """Return the error for a fault of this machine, such as too many open files, after which a command's result is unknown."""
    why = error.strerror or str(error)
    return EnvironmentFailed(f"{where} was lost ({why}); the command may have run, and may still be running; it was not retried")


def never_run(cwd: str, where: str) -> ExecOutcome:
    """Return the outcome of a command that was interrupted before it started."""
    return ExecOutcome(130, Captured(), Captured(), cwd, 0.0, where, "interrupted")
