"""A request, as a shell can take it."""

from __future__ import annotations

from toolcrib import Captured, EnvironmentFailed, ExecOutcome, ExecRequest
from tools.environments.shell import driver

_LARGEST = 120_000
_LARGEST_ALL = 1_000_000
"""Most bytes of one variable and of all: Linux takes 131,072 for one, and somewhat more than 2 MB for all."""


def command_text(request: ExecRequest) -> str:
    """The command. Raises EnvironmentFailed for what cannot be passed."""
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
            raise EnvironmentFailed(
                f"the variable {name!r} cannot be passed: its name or its value is not one that a shell can hold"
            )
    return request.command


def never_run(cwd: str, where: str) -> ExecOutcome:
    """Return the outcome of a command that was interrupted before it could begin."""
    return ExecOutcome(130, Captured(), Captured(), cwd, 0.0, where, "interrupted")
