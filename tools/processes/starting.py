"""Start the background process that a call of ``terminal`` asks for."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from typing import Any, cast

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.effects import RunsCommand
from toolcrib.contract.errors import EnvironmentFailed, ExecutionFailed
from toolcrib.contract.regex import Regex
from toolcrib.contract.types import ToolOutput, ToolResult, ToolStatus
from tools.contained.hosts import allowing
from tools.processes.arguments import EXIT, TOOL, patterns_of
from tools.processes.records import started, table_of
from tools.processes.table import ProcessTable, running_of
from tools.terminals.arguments import SIZE

_PROGRAM = Regex(r"[A-Za-z0-9][\w.-]*", re.ASCII)
_BEFORE = frozenset({"exec", "sudo", "env", "cd", "time", "nice", "nohup"})
MOST = 20
"""Background processes that a principal may run if nothing else is configured."""


async def start(args: Mapping[str, Any], ctx: ToolCallContext, judged: RunsCommand) -> ToolResult | ToolOutput:
    """Start exactly the command that the gates judged. Raises ExecutionFailed."""
    if judged.outside or not judged.background:
        raise ExecutionFailed("the command was not run: outside the sandbox, commands run in the foreground only")
    table, size = table_of(ctx), SIZE if judged.terminal else None
    try:
        await _require_room(table, ctx)
        if args.get("cwd") and await table.environment.stat(judged.cwd) is None:
            raise ExecutionFailed(f"the command was not run: there is no folder {judged.cwd}; choose another cwd")
        name = args.get("name") or await table.free_name(_name_for(judged.command))
        with contextlib.ExitStack() as entered:
            entered.enter_context(allowing(table.environment, judged.hosts))
            process = await table.start(
                name,
                judged.command,
                judged.cwd,
                reads=judged.open_input,
                end=EXIT in (args.get("notify") or ()),
                patterns=patterns_of(args),
                size=size,
            )
            table.hold(name, entered.pop_all())
    except EnvironmentFailed as error:
        raise ExecutionFailed(str(error)) from error
    if judged.terminal and not args.get("background"):
        from tools.terminals.foreground import in_foreground

        return await in_foreground(table, process, judged, args, ctx)
    data = {"process": name, await table.pid_key(): process.pid, "where": table.environment.identity}
    result = ToolResult(ctx.tool_name, ToolStatus.SUCCESS, data, views={"person": f"started {name} in the background"})
    return ToolOutput(result, [started(process, judged.command, judged.cwd)])


async def _require_room(table: ProcessTable, ctx: ToolCallContext) -> None:
    """Raise ExecutionFailed if the session's principal has too many background processes."""
    most = int(cast(int, ctx.settings.get("terminal.processes", MOST)))
    if running_of(table.principal) >= most:
        await table.look()
    room = most - running_of(table.principal)
    if room <= 0:
        raise ExecutionFailed(
            f"{most} background processes run already (terminal.processes): end one with the tool process, action signal"
        )
    if table.elsewhere is not None and (others := await table.elsewhere(room)) >= room:
        raise ExecutionFailed(
            f"{most} background processes run already (terminal.processes), {others} of them in sessions of other toolcrib"
            " processes: end one, or ask the user to: toolcrib ps"
        )


def _name_for(command: str) -> str:
    """Return a name for a process: that of the first program in its command, or ``process``."""
    words = (word.rpartition("/")[2] for word in command.split())
    names = (word for word in words if _PROGRAM.fullmatch(word) and word not in _BEFORE)
    return next(names, TOOL)[:30]
