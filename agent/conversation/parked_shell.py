"""The shell of a parked run: which part of it is stored, and how another process restores it."""

from __future__ import annotations

from agent.conversation.state import ParkedShell
from toolcrib.contract.environment import Portable, PortableState
from tools.dispatch.scope import CallScope
from tools.redact import may_be_secret


async def portable_shell(scope: CallScope, before: ParkedShell | None) -> ParkedShell | None:
    """Return the shell's folder and exported variables, without secrets; ``before`` if the run opened no portable shell."""
    environment = scope.opened
    if environment is None or not isinstance(environment, Portable):
        return before
    state = await environment.portable_state()
    redactor = scope.redactor
    kept = {
        name: value
        for name, value in state.variables.items()
        if not (may_be_secret(name, value) or redactor.touches(f"{name}={value}"))
    }
    return ParkedShell(state.cwd, kept)


async def restore_shell(scope: CallScope, shell: ParkedShell | None) -> None:
    """Restore the folder and variables of a parked run, unless this process already opened a shell.

    Raises EnvironmentFailed.
    """
    if shell is not None and scope.opened is None and isinstance(environment := scope.environment, Portable):
        await environment.restore_state(PortableState(shell.cwd, dict(shell.variables)))
