"""Show and end the background processes of a session that is open in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

from toolcrib.contract.environment import Captured
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.types import Json
from tools.dispatch.scope import CallScope
from tools.output_text import readable
from tools.processes.process import GONE, LEFT, Process
from tools.processes.records import PROCESSES, recorded
from tools.processes.table import ProcessTable

MOST_READ = 1 << 16
"""Bytes of a log that are returned at most."""
_NONE = "This session has no background processes."


async def obey(scope: CallScope, text: str, *, lines: int) -> str | list[dict[str, Json]]:
    """Run the text after ``/ps`` as a command. Return the processes, or a text. ``lines`` limits the lines of a log.

    Raises ToolcribError.
    """
    action, _, name = text.partition(" ")
    name = name.strip()
    if action and (action not in ("log", "screen", "stop") or not name):
        raise ToolcribError(
            "use /ps, /ps log NAME, /ps screen NAME, or /ps stop NAME; `all` instead of the name ends all of them"
        )
    if scope.opened_processes is None and not scope.state.get(PROCESSES.name):  # do not open the environment
        return _NONE
    if action == "log":
        return (await log_of(scope, name, lines=lines))["text"].rstrip("\n") or "It printed nothing."
    if action == "screen":
        return await screen_of(scope, name)
    found = await processes_in(scope)
    if action != "stop":
        return found or _NONE
    running = [one["name"] for one in found if one["state"] in ("running", LEFT)]
    if name != "all" and name not in running and any(one["name"] == name for one in found):
        return f"{name} has ended already."
    names = running if name == "all" else [name]
    await end_in(scope, names)
    return f"Ended: {', '.join(names)}" if names else "No background process is running."


async def processes_in(scope: CallScope) -> list[dict[str, Json]]:
    """Return what is known about the session's background processes, oldest first. Raises EnvironmentFailed."""
    table = scope.processes
    found = [await _about(table, one, scope) for one in (await table.look()).values()]
    return sorted(found, key=lambda one: (one["at"] or 0.0, one["name"]))


async def _about(table: ProcessTable, one: Process, scope: CallScope) -> dict[str, Json]:
    one, use = await table.in_use(one)
    return {
        "name": one.name,
        "state": one.state,
        "exit_code": one.exit_code,
        await table.pid_key(): one.pid,
        "ports": list(await table.ports_of(use.pids)) if use is not None else [],
        "cpu_seconds": None if use is None else round(use.seconds, 2),
        "memory_mb": None if use is None else round(use.bytes / (1 << 20), 1),
        "printed": one.printed,
        "missing": one.missing,
        "input": "open" if one.reads else "closed",
        **recorded_about(recorded(scope.state, one.name), scope),
        "pty": one.terminal,
        "ended_at": one.ended_at,
    }


def recorded_about(record: Mapping[str, Json], scope: CallScope | None = None) -> dict[str, Json]:
    """Return what the session's state has about a process."""
    command = str(record.get("command", ""))
    return {
        "command": command if scope is None else scope.redact(command),
        "cwd": str(record.get("cwd", "")),
        "at": record.get("at"),
        "pty": bool(record.get("pty")),
    }


async def log_of(scope: CallScope, name: str, *, lines: int, begin: int | None = None) -> dict[str, Json]:
    """Return ``text``, the last ``lines`` of a process's output; or, with ``begin``, the whole lines from that byte on.

    ``next`` is the byte after them. ``writes``: more may follow. Raises NotFound and EnvironmentFailed.
    """
    table = scope.processes
    one = await table.one(name)
    if (terminal := table.terminals.get(name)) is not None:  # only its lines are kept, not what it printed
        text = "\n".join(terminal.text(scope.redact).split("\n")[-lines:])
        return {"text": f"{text}\n" if text else "", "next": one.printed, "writes": False}
    if one.terminal:
        raise ToolcribError(f"{name} {GONE}")
    end = one.printed if begin is None else min(one.printed, begin + MOST_READ)
    said = await table.read(one, max(0, end - MOST_READ) if begin is None else begin, end)
    if begin is None:
        said = b"".join(said.splitlines(keepends=True)[-lines:])
    elif (one.writes or end < one.printed) and 0 < (cut := said.rfind(b"\n") + 1) < len(said):
        said, end = said[:cut], end - len(said) + cut
    return {
        "text": scope.redact(readable(Captured(said, total=len(said)))),
        "next": end,
        "writes": one.writes or end < one.printed,
    }


async def screen_of(scope: CallScope, name: str) -> str:
    """Return the screen of a process in a terminal, with the cursor marked. Raises NotFound and EnvironmentFailed."""
    one, terminal = await scope.processes.one(name), scope.processes.terminals.get(name)
    if terminal is None:
        raise ToolcribError(f"{name} {GONE if one.terminal else f'has no terminal; to see what it printed: /ps log {name}'}")
    return terminal.screen(scope.redact)


async def end_in(scope: CallScope, names: Sequence[str]) -> None:
    """End processes for the user, with all that they started. Their logs stay. Raises NotFound and EnvironmentFailed."""
    table = scope.processes
    for name in names:
        await table.one(name)
    table.ended_by_user.update({*names} & {*table.names})
    await asyncio.gather(*(table.end(name) for name in names))
