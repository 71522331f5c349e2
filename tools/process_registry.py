"""``process``: look after the background processes that ``terminal`` started (003-30)."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.display import ToolDisplay
from toolcrib.contract.effects import Effect, UsesProcess, WritesInput
from toolcrib.contract.environment import Captured
from toolcrib.contract.errors import EnvironmentFailed, ExecutionFailed, InvalidArguments
from toolcrib.contract.types import ToolOutput, ToolResult, ToolStatus
from tools.availability import needs_binary
from tools.output_text import readable
from tools.processes.arguments import NAME, TOOL, TOOLSET
from tools.processes.process import GONE, Process
from tools.processes.records import PROCESSES, recorded, removed, table_of
from tools.registry import registry
from tools.terminals.arguments import ACTIONS, NEEDED, ONLY

if TYPE_CHECKING:
    from tools.processes.table import ProcessTable

KEEP = 16_000
"""Bytes of output that one call returns at most."""
_LINES = 200
MAX_WAIT = 600
"""Seconds that one wait may last."""
_SIGNALS = ("INT", "TERM", "KILL", "HUP", "QUIT", "USR1", "USR2", "STOP", "CONT")

_ACTIONS = ("list", "poll", "log", "wait", "write", "close_input", "signal", "remove", "screen", "keys", "resize")

SCHEMA: Mapping[str, Any] = {
    "description": (
        "Look after background processes that terminal started. poll: its state and what it printed since the last poll or wait. "
        "log: a page of its output. wait: for its end, or the first of pattern, port, quiet, prompt. write: lines to its input. "
        "signal: TERM ends it with all that it started. remove: end it, delete its log. In a terminal (pty): keys presses keys, "
        "write types lines, screen shows all of it, poll what changed; ‸ marks the cursor, ⟦⟧ highlighted text. You can't type "
        "passwords."
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "action": {"enum": [*_ACTIONS]},
            "name": {"type": "string", "pattern": f"^{NAME}$"},
            "from": {"type": "integer", "description": "log: first byte; negative: from the end."},
            "lines": {"type": "integer", "minimum": 1, "maximum": 2000, "description": f"log: at most, usually {_LINES}."},
            "grep": {"type": "string", "minLength": 1, "maxLength": 200, "description": "log: only lines that match (grep -E)."},
            "pattern": {"type": "string", "minLength": 1, "maxLength": 200, "description": "wait: for a line (grep -E)."},
            "port": {"type": "integer", "minimum": 1, "maximum": 65535, "description": "wait: until it listens there."},
            "quiet": {"type": "number", "minimum": 0.1, "maximum": 60, "description": "wait: seconds without output."},
            "timeout": {"type": "number", "minimum": 0.1, "maximum": MAX_WAIT, "description": "wait: seconds, usually 60."},
            "text": {"type": "string", "minLength": 1, "maxLength": 20000, "description": "write: whole lines."},
            "signal": {"enum": list(_SIGNALS)},
            **ACTIONS,
        },
        "required": ["action"],
        "additionalProperties": False,
    },
}

_NEEDS: Mapping[str, Sequence[str]] = {"write": ("text",), "signal": ("signal",), **NEEDED}
_ONLY: Mapping[str, str] = {
    **dict.fromkeys(("from", "lines", "grep"), "log"),
    **dict.fromkeys(("pattern", "port", "quiet", "timeout"), "wait"),
    "text": "write",
    "signal": "signal",
    **ONLY,
}
_CHANGES = {
    "close_input": "closes its input",
    "remove": "ends it and deletes its log",
    "resize": "changes the size of its terminal",
}
_TYPES = ("write", "close_input", "keys")


def validate(args: Mapping[str, Any]) -> None:
    """Check what JSON Schema cannot express. Raises InvalidArguments."""
    action = args["action"]
    if action != "list" and not args.get("name"):
        raise InvalidArguments(f"name: {action} needs the name of a process; action list shows them")
    for key in _NEEDS.get(action, ()):
        if args.get(key) is None:
            raise InvalidArguments(f"{key}: {action} needs it" + (f", one of {', '.join(_SIGNALS)}" if key == "signal" else ""))
    for key, only in _ONLY.items():
        if args.get(key) is not None and only != action:
            raise InvalidArguments(f"{key}: belongs to action {only}, not {action}")
    text = "".join([args.get("text") or "", *(args.get("keys") or ())])
    if "\0" in text or (not text.isprintable() and any(0xD800 <= ord(char) < 0xE000 for char in text)):
        raise InvalidArguments("text: contains a NUL character or half a surrogate pair, which can't be sent")


async def effects(args: Mapping[str, Any], ctx: ToolCallContext) -> Sequence[Effect]:
    """Return what a call does to a process. Raises NotFound and ExecutionFailed for a write that is not possible, and
    EnvironmentFailed.
    """
    action, name = args["action"], str(args.get("name") or "")
    if action == "signal":
        return [UsesProcess(name, f"sends it {args['signal']}")]
    if action in _TYPES and (action == "keys" or name in table_of(ctx).terminals):
        from tools.terminals.actions import typing_effects  # here and below: not loaded to show the tools

        return await typing_effects(table_of(ctx), args, recorded(ctx.snapshot, name))
    if action != "write":
        return [UsesProcess(name, _CHANGES.get(action, ""))]
    table = table_of(ctx)
    process = await table.one(name)  # a person is not asked about a write that is not possible
    if not process.runs:
        raise ExecutionFailed(f"nothing was written: {name} has ended")
    if not process.reads:
        raise ExecutionFailed(f"the input of {name} is closed: start the process with input: true")
    record, given = recorded(ctx.snapshot, name), table.inputs.get(name)
    shell, before = (None, None) if given is None else (given.shell, given.written)
    command, cwd = str(record.get("command", "")), str(record.get("cwd", ""))
    return [WritesInput(name, _lines_of(args), command, cwd, shell, before)]


def _lines_of(args: Mapping[str, Any]) -> str:
    """Return the text to write. It ends with a line feed, so that no line is completed by a later call."""
    text = str(args["text"])
    return text if text.endswith("\n") else f"{text}\n"


async def process(args: dict[str, Any], ctx: ToolCallContext) -> ToolResult | ToolOutput:
    """Do what the call asks for. Raises NotFound for an unknown name, and ExecutionFailed."""
    try:
        return await _DOES[args["action"]](table_of(ctx), args, ctx)
    except EnvironmentFailed as error:
        raise ExecutionFailed(str(error)) from error


# -- looking -------------------------------------------------------------------------------------------------------------


async def _list(table: ProcessTable, args: Mapping[str, Any], ctx: ToolCallContext) -> ToolResult:
    found = await table.look()
    rows = [await _with_use(table, one, ctx) for one in found.values()]
    return _result(ctx, {"processes": rows, "where": table.environment.identity})


async def _poll(table: ProcessTable, args: Mapping[str, Any], ctx: ToolCallContext) -> ToolResult:
    if args["name"] in table.terminals:
        return await _looked(table, args, ctx)
    one = await table.one(args["name"], ahead=True)
    if not one.runs:  # of a running one this would take longer than the rest
        one, _ = await table.in_use(one)
    return _result(ctx, {**_about(one, ctx), **await _news(table, one)})


async def _wait(table: ProcessTable, args: Mapping[str, Any], ctx: ToolCallContext) -> ToolResult:
    from tools.processes.waiting import Until, wait_until

    until = Until(args.get("pattern"), args.get("port"), args.get("quiet"), float(args.get("timeout") or 60.0))
    if args["name"] in table.terminals:
        from tools.terminals.actions import wait_for

        prompt = args.get("prompt") is True
        came, _ = await wait_for(table, args["name"], until, lambda: ctx.cancelled, prompt=prompt)
        return await _looked(table, args, ctx, came=came)
    if args.get("prompt"):
        raise ExecutionFailed("only a terminal has prompts; wait for a pattern")
    came, one = await wait_until(table, args["name"], until, lambda: ctx.cancelled)
    return _result(ctx, {"came": came, **await _with_use(table, one, ctx), **await _news(table, one)})


async def _log(table: ProcessTable, args: Mapping[str, Any], ctx: ToolCallContext) -> ToolResult:
    one = await table.one(args["name"])
    most = args.get("lines") or _LINES
    if one.name in table.terminals:
        return await _terminal_log(table, one, args, ctx)
    begin = args.get("from")
    if args.get("grep"):
        return _found(await table.grep(one, max(0, begin or 0), [args["grep"]], most), one, ctx)
    if begin is None:
        begin = -KEEP
    begin = max(0, one.printed + begin) if begin < 0 else min(begin, one.printed)
    if pieces := one.pieces(begin, one.printed):
        begin = pieces[0][0] + pieces[0][1]  # after a gap, if the log no longer has that byte
    said = await table.read(one, begin, min(one.printed, begin + KEEP))
    if args.get("from") is None:  # the last lines
        said = b"".join(said.splitlines(keepends=True)[-most:])
        begin = one.printed - len(said)
    else:
        said = b"".join(said.splitlines(keepends=True)[:most])
    data = {**_about(one, ctx), "output": _text(said), "from": begin}
    return _result(ctx, {**data, **({"next": begin + len(said)} if begin + len(said) < one.printed else {})})


async def _terminal_log(table: ProcessTable, one: Process, args: Mapping[str, Any], ctx: ToolCallContext) -> ToolResult:
    from tools.environments.shell.driver import quote
    from tools.terminals.actions import log_lines, terminal_of

    if args.get("from") is not None:
        raise ExecutionFailed("from: the log of a terminal has lines, not bytes; use lines or grep")
    terminal, most = terminal_of(table, one.name), args.get("lines") or _LINES
    if args.get("grep"):
        return _found(await table.search(f"printf %s {quote(terminal.text(ctx.redact))}", [args["grep"]], most), one, ctx)
    text, count = log_lines(terminal, ctx.redact, most)
    return _result(ctx, {**_about(one, ctx), "output": text, "lines": count})


def _found(lines: Sequence[str], one: Process, ctx: ToolCallContext) -> ToolResult:
    said = "\n".join(lines).encode()[:KEEP]
    return _result(ctx, {**_about(one, ctx), "output": _text(said), "lines": len(lines)})


def _about(one: Process, ctx: ToolCallContext) -> dict[str, Any]:
    """Return what is known about a process without asking for more."""
    record = recorded(ctx.snapshot, one.name)
    data: dict[str, Any] = {"process": one.name, "state": one.state, "printed": one.printed}
    if one.exit_code is not None:
        data["exit_code"] = one.exit_code
    if one.missing:
        data["missing"] = f"{one.missing:,} bytes between the beginning and the end are no longer kept"
    if one.full:
        data["full"] = "the disk was full: later output was lost"
    if one.reads:
        data["input"] = "open"
    if one.terminal and one.name not in table_of(ctx).terminals:
        data["note"] = f"it {GONE}"
    if record:
        data |= {"command": record["command"], "cwd": record["cwd"]}
        data["seconds"] = int(one.ended_at or time.time()) - int(float(record.get("at", 0.0)))
    return data


async def _with_use(table: ProcessTable, one: Process, ctx: ToolCallContext) -> dict[str, Any]:
    """Return what is known about a process; if it or its descendants run, also their ports, processor time and memory."""
    one, use = await table.in_use(one)
    if use is None:
        return _about(one, ctx)
    ports = await table.ports_of(use.pids)
    return {
        **_about(one, ctx),
        **({await table.pid_key(): one.pid} if one.runs else {}),
        **({"ports": list(ports)} if ports else {}),
        "cpu_seconds": round(use.seconds, 2),
        "memory_mb": round(use.bytes / (1 << 20), 1),
    }


async def _news(table: ProcessTable, one: Process) -> dict[str, Any]:
    """Return what a process printed since the model last read it, its end if that is too long."""
    seen = min(table.read_to.get(one.name, 0), one.printed)
    begin = max(seen, one.printed - KEEP)
    said = await table.read(one, begin, one.printed)
    table.read_to[one.name] = one.printed
    data: dict[str, Any] = {"output": _text(said)}
    if begin > seen:
        data["omitted"] = f"{begin - seen:,} bytes before this; read them with action log, from {seen}"
    return data


def _text(said: bytes) -> str:
    return readable(Captured(said, total=len(said)))


# -- changing ------------------------------------------------------------------------------------------------------------


async def _keys(table: ProcessTable, args: Mapping[str, Any], ctx: ToolCallContext) -> ToolResult:
    from tools.terminals.actions import press

    await press(table, args, recorded(ctx.snapshot, args["name"]), ctx.effects)
    return await _looked(table, args, ctx)


async def _screen(table: ProcessTable, args: Mapping[str, Any], ctx: ToolCallContext) -> ToolResult:
    return await _looked(table, args, ctx, whole=True)


async def _resize(table: ProcessTable, args: Mapping[str, Any], ctx: ToolCallContext) -> ToolResult:
    from tools.terminals.actions import resize

    await resize(table, args)
    return await _looked(table, args, ctx, whole=True)


async def _looked(
    table: ProcessTable, args: Mapping[str, Any], ctx: ToolCallContext, *, whole: bool = False, **more: Any
) -> ToolResult:
    """Return what is known about a terminal, and its screen or what changed on it."""
    from tools.terminals.actions import shown, terminal_of

    one = await table.one(args["name"])
    screen = shown(terminal_of(table, one.name), ctx.redact, whole=whole)
    person = {"person": screen.get("screen", screen.get("changed", ""))}
    return ToolResult(ctx.tool_name, ToolStatus.SUCCESS, {**more, **_about(one, ctx), **screen}, views=person)


async def _write(table: ProcessTable, args: Mapping[str, Any], ctx: ToolCallContext) -> ToolResult:
    if args["name"] in table.terminals:
        return await _keys(table, args, ctx)
    judged = ctx.effects[0] if ctx.effects else None
    if not isinstance(judged, WritesInput) or judged.text != _lines_of(args):
        raise ExecutionFailed("nothing was written: the text differs from the judged text")
    given = table.inputs.get(judged.process)
    if judged.before != (None if given is None else given.written):
        raise ExecutionFailed("nothing was written: another call wrote to the process; call again")
    if not (await table.one(judged.process)).runs:
        raise ExecutionFailed(f"nothing was written: {judged.process} has ended")
    await table.write(judged.process, judged.text)
    return _result(ctx, {"process": judged.process, "written": len(judged.text)})


async def _close_input(table: ProcessTable, args: Mapping[str, Any], ctx: ToolCallContext) -> ToolResult:
    await table.one(args["name"])
    if args["name"] in table.terminals:
        return await _keys(table, args, ctx)
    await table.close_input(args["name"])
    return _result(ctx, {"process": args["name"], "input": "closed"})


async def _signal(table: ProcessTable, args: Mapping[str, Any], ctx: ToolCallContext) -> ToolResult:
    await table.one(args["name"])
    pids = await table.signal(args["name"], args["signal"])
    if (terminal := table.terminals.get(args["name"])) is not None:
        terminal.interrupt_lines()
    return _result(ctx, {"process": args["name"], "signalled": list(pids)})


async def _remove(table: ProcessTable, args: Mapping[str, Any], ctx: ToolCallContext) -> ToolOutput:
    await table.one(args["name"])
    await table.end(args["name"])
    await table.remove(args["name"])
    return ToolOutput(_result(ctx, {"process": args["name"], "removed": True}), [removed([args["name"]])])


def _result(ctx: ToolCallContext, data: dict[str, Any]) -> ToolResult:
    return ToolResult(ctx.tool_name, ToolStatus.SUCCESS, data)


_Does: TypeAlias = "Callable[[ProcessTable, Mapping[str, Any], ToolCallContext], Awaitable[ToolResult | ToolOutput]]"
_DOES: Mapping[str, _Does] = {
    "list": _list,
    "poll": _poll,
    "log": _log,
    "wait": _wait,
    "write": _write,
    "close_input": _close_input,
    "signal": _signal,
    "remove": _remove,
    "screen": _screen,
    "keys": _keys,
    "resize": _resize,
}


def _subject(args: Mapping[str, Any]) -> str:
    given = [str(args[key]).strip() for key in ("action", "name", "signal", "pattern", "port", "text") if args.get(key)]
    return " ".join([*given, *map(str, args.get("keys") or ())])


def _polls(args: Mapping[str, Any]) -> bool:
    return args.get("action") in ("list", "poll", "wait", "screen")


def _outcome(data: Mapping[str, Any]) -> tuple[str, Any] | None:
    if "state" not in data:
        return None
    code = data.get("exit_code")
    return (f"{data['state']}" if code is None else f"exit code {code}", "ok" if code in (None, 0) else "bad")


registry.register(
    name=TOOL,
    toolset=TOOLSET,
    schema=SCHEMA,
    handler=process,
    check_fn=needs_binary("bash"),
    emoji="⏳",
    kind="execute",
    effects=effects,
    state=(PROCESSES,),
    validate=validate,
    timeout=MAX_WAIT + 30,
    max_result_chars=64_000,
    polls=_polls,
    display=ToolDisplay(subject=_subject, below="output", outcome=_outcome),
)
