"""The state of an environment that another process can restore: its folder and its exported variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from toolcrib.contract.effects import ShellState
from toolcrib.contract.environment import ExecOutcome, ExecRequest, PortableState
from toolcrib.contract.errors import EnvironmentFailed
from tools.environments.shell import driver

_OF_A_SHELL = frozenset({"PWD", "OLDPWD", "SHLVL", "_"})
_OF_A_CONNECTION = frozenset({"SSH_AUTH_SOCK", "SSH_CLIENT", "SSH_CONNECTION", "SSH_TTY", "XDG_RUNTIME_DIR", "XDG_SESSION_ID"})
_LIMIT = 60.0


class _Runs(Protocol):
    async def execute(self, request: ExecRequest) -> ExecOutcome: ...


def exported(state: ShellState, given: Mapping[str, str]) -> dict[str, str]:
    """Return the exported variables, except arrays, variables of a shell or connection, and variables that have the same value in
    ``given``.
    """
    return {
        name: value
        for name, flags in state.attributes.items()
        if "x" in flags
        and name not in _OF_A_SHELL | _OF_A_CONNECTION
        and name not in state.arrays
        and (value := state.variables.get(name)) is not None
        and given.get(name) != value
    }


def check(state: PortableState) -> None:
    """Check that a shell can hold the state. Raises EnvironmentFailed if not."""
    if not state.cwd.startswith("/") or "\0" in state.cwd:
        raise EnvironmentFailed(f"the folder {state.cwd!r} of a stored state is not an absolute path: it was not restored")
    for name, value in state.variables.items():
        if not driver.is_name(name) or "\0" in value:
            raise EnvironmentFailed(f"a shell can't have the variable {name!r} of a stored state: leave it out")


def gone(cwd: str) -> str:
    """Return the reason why a state was not restored: its folder no longer exists."""
    return f"the working folder {cwd} no longer exists, so the stored state was not restored: create it, or choose another"


async def told_to_restore(environment: _Runs, state: PortableState) -> None:
    """Enter the folder and set the variables in the session's shell. Raises EnvironmentFailed."""
    exports = "".join(f" && \\builtin export {name}={driver.quote(value)}" for name, value in state.variables.items())
    outcome = await environment.execute(ExecRequest(f"\\builtin cd -P -- {driver.quote(state.cwd)}{exports}", timeout=_LIMIT))
    if outcome.exit_code or outcome.ended != "exited":
        why = outcome.stderr.head.decode("utf-8", "replace").strip() or "the shell did not answer in time"
        raise EnvironmentFailed(f"the stored state could not be restored: {why}")
