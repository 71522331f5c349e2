"""Outcome of a command in a session's shell, and its effect on the shell."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time

from tools.environments.shell.call import ShellCommand
from tools.environments.shell.shell import Shell
from tools.time_limit import seconds_left

CHANGED = "An earlier command changed the shell's control folder, so that shell was lost."
_PAUSE = 0.001
_LOST = 1
"""Exit code to report for a command whose exit code is unknown."""


def exit_code(shell: Shell, call: ShellCommand) -> int:
    """Return the command's exit code, or the shell's if the command ended the shell."""
    if shell.status is not None:
        return shell.status
    code = shell.exit_code()
    if call.lost or code is None:
        return _LOST
    told = call.ended != "exited" and code == 128 + signal.SIGTERM  # sent in place of SIGINT
    return 128 + signal.SIGINT if told else code


def what_happened(call: ShellCommand | None, shell: Shell) -> str:
    """Return the outcome's notice for a shell that has ended."""
    if shell.disowned:
        return "Another program wrote into the shell's reports, so the shell was stopped."
    if call is not None and call.lost and not shell.was_whole:
        return "This command removed or changed its shell's control folder; its exit code is unknown."
    if call is not None and call.lost:
        return (
            "The shell no longer answered after this command (did it redefine or disable builtins, or lower its limit of "
            "open files?); its exit code is not known."
        )
    if call is not None and call.ended != "exited":
        return "The shell did not stop this command when requested and was killed with it."
    code = shell.exit_code() or 0
    if code > 128:
        with contextlib.suppress(ValueError):
            return f"This command ended the shell itself ({signal.Signals(code - 128).name})."
    return "This command ended or replaced the shell itself (exec, or exit with an EXIT trap)."


async def last_report(shell: Shell, limit: float) -> None:
    """Read the last state of a shell that will be replaced. The state follows a command's frame. ``limit`` is in seconds."""
    give_up = time.monotonic() + seconds_left(limit)
    while shell.owes and shell.exit_code() is None and shell.folder.unread() and time.monotonic() < give_up:
        shell.folder.release()
        shell.collect()
        await asyncio.sleep(_PAUSE)
    shell.collect()
