"""``terminal`` with a PTY in the foreground: run a command until it ends or waits for keys."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Mapping
from typing import Any, cast

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.effects import RunsCommand
from toolcrib.contract.errors import ExecutionFailed
from toolcrib.contract.types import ToolOutput, ToolResult, ToolStatus
from tools.processes.arguments import TOOL
from tools.processes.process import Process
from tools.processes.records import started
from tools.processes.table import ProcessTable
from tools.processes.waiting import Until
from tools.terminals.actions import STAYS, shown, terminal_of, wait_for
from tools.terminals.terminal import SessionTerminal

_STAYS = {
    "prompt": "it waits at a prompt",
    "quiet": f"it printed nothing for {STAYS:g} s",
    "timeout": "the time limit was reached",
}


async def in_foreground(
    table: ProcessTable, process: Process, judged: RunsCommand, args: Mapping[str, Any], ctx: ToolCallContext
) -> ToolResult | ToolOutput:
    """Wait until a command in a terminal ends, or waits. If it still runs, it stays as a background process; otherwise nothing
    of it is kept.
    """
    name, record = process.name, started(process, judged.command, judged.cwd)
    terminal = terminal_of(table, name)
    timeout = float(args.get("timeout") or cast(float, ctx.settings.get("terminal.timeout", 120)))
    try:
        came, process = await wait_for(table, name, Until(None, None, STAYS, timeout), lambda: ctx.cancelled, prompt=True)
    except asyncio.CancelledError:
        await table.end(name)
        await table.remove(name)
        raise
    if came == "interrupted":
        await table.end(name)
        process = await table.one(name)
    data = {**shown(terminal, ctx.redact, whole=True), "where": table.environment.identity}
    if came in ("exit", "interrupted"):
        data["exit_code"] = process.exit_code
        if "omitted" in data:
            data["omitted"] = await _kept(terminal, ctx)
        await table.remove(name)
        if process.exit_code is None:
            raise ExecutionFailed("the environment was lost while the command ran; it may have run to its end")
        if came == "interrupted":
            data["meaning"] = "interrupted; stopped before it finished"
        person = f"{data['screen']}\n[{data.get('meaning') or f'exit code {process.exit_code}'}]"
        return ToolResult(ctx.tool_name, ToolStatus.SUCCESS, data, views={"person": person})
    data |= {TOOL: name, "state": "running", "note": f"{_STAYS[came]}: it stays in the background; see the tool process"}
    person = f"{data['screen']}\n[{name} stays in the background: {_STAYS[came]}]"
    result = ToolResult(ctx.tool_name, ToolStatus.SUCCESS, data, views={"person": person})
    return ToolOutput(result, [record])


async def _kept(terminal: SessionTerminal, ctx: ToolCallContext) -> str:
    """Return a note about the lines that a result leaves out. They are kept as a file, because their terminal is gone."""
    lines = terminal.text(ctx.redact).split("\n")
    path = ctx.spill_dir / f"terminal-{secrets.token_hex(8)}.txt"
    try:
        await asyncio.to_thread(path.write_text, "\n".join([*lines, ""]), "utf-8")
        name = await ctx.keep_file(path)
    except OSError as error:
        return f"earlier lines that scrolled away; they could not be kept: {error.strerror}"
    return f"earlier lines that scrolled away; the last {len(lines):,} lines of all are {name}: read_file it in parts"
