"""``terminal``: run a shell command in the session's environment, and report the result in plain words."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.display import ToolDisplay
from toolcrib.contract.effects import Effect, RunsCommand, ShellState
from toolcrib.contract.environment import Captured, Environment, ExecOutcome, ExecRequest, SearchesPath
from toolcrib.contract.errors import EnvironmentFailed, ExecutionFailed, InvalidArguments
from toolcrib.contract.terminal import OpensTerminals
from toolcrib.contract.types import ToolOutput, ToolResult, ToolStatus
from tools.availability import needs_binary
from tools.contained.hosts import allowing, needed_hosts, refused
from tools.contained.outside import NOTICE, is_elsewhere, judged_in, offer_after, outside_effect
from tools.judge.folders import under
from tools.output_text import differences, readable
from tools.processes.arguments import BACKGROUND, check_background, schema_for
from tools.processes.records import PROCESSES
from tools.registry import registry
from tools.terminals.arguments import IN_TERMINAL
from tools.time_limit import TimeLimit

if TYPE_CHECKING:
    import asyncio

_WRITABLE = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - only compared, not used
DEFAULT_TIMEOUT = 120
MAX_TIMEOUT = 600
"""Maximum time limit in seconds."""
KEEP = 24_000
"""Bytes of each stream shown to the model; the rest goes to a file."""
_LAST = 8_000
"""Bytes shown of the output of an interrupted command."""
_CONTROL = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
_BETWEEN_REPORTS = 0.1
"""Seconds between two reports of a command's output."""
TIMED_OUT = 124
"""The exit code of a command that its time limit ended, as in timeout(1)."""

SCHEMA: Mapping[str, Any] = {
    "description": (
        "Run a bash command. The shell's variables, functions and folder carry over, but not from pty or background. "
        "Without pty there is no input: use non-interactive flags. For servers and long builds: background."
    ),
    "parameters": {
        "type": "object",
        "properties": {
            "command": {"type": "string", "minLength": 1},
            "timeout": {
                "type": "integer",
                "minimum": 1,
                "maximum": MAX_TIMEOUT,
                "description": f"Seconds, usually {DEFAULT_TIMEOUT}.",
            },
            "cwd": {"type": "string", "minLength": 1, "description": "For this call only."},
            **BACKGROUND,
            **IN_TERMINAL,
            "outside": {
                "type": "boolean",
                "description": "Run it outside the sandbox, in another shell; the user is asked. For what can't work inside.",
            },
            "hosts": {
                "type": "array",
                "items": {"type": "string"},
                "description": "Denied hosts it needs; the user is asked.",
            },
        },
        "required": ["command"],
        "additionalProperties": False,
    },
}


def validate(args: Mapping[str, Any]) -> None:
    """Check what JSON Schema cannot express. Raises InvalidArguments."""
    for name in ("command", "cwd"):
        text = args.get(name) or ""
        if "\0" in text:
            raise InvalidArguments(f"{name}: contains a NUL character; write it as an escape, such as printf '\\0'")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InvalidArguments(f"{name}: contains half a surrogate pair; send it as plain Unicode text") from None
    check_background(args)


async def effects(args: dict[str, Any], ctx: ToolCallContext) -> Sequence[Effect]:
    if (outside := await outside_effect(args, ctx)) is not None:
        return [outside]
    environment = ctx.environment
    cwd = await environment.resolve(args["cwd"]) if args.get("cwd") else environment.cwd
    shell = await environment.shell_state() or _shell(ctx, cwd)
    hosts, in_terminal = await needed_hosts(args, ctx), args.get("pty") is True
    if in_terminal and not isinstance(environment, OpensTerminals):  # a user is not asked about it
        raise ExecutionFailed(f"the command was not run: {environment.identity} opens no terminals; leave out pty")
    background = in_terminal or args.get("background") is True
    opened = in_terminal or (background and args.get("input") is True)
    return [RunsCommand(args["command"], cwd, shell, False, hosts, background, opened, in_terminal)]


def _shell(ctx: ToolCallContext, cwd: str) -> ShellState | None:
    """Return a state with PATH if the session may write to a folder in it, which may hold another ``git``. Otherwise None."""
    environment = ctx.environment
    path = environment.search_path if isinstance(environment, SearchesPath) else ""
    if all(entry.startswith("/") and not entry.startswith(_WRITABLE) and not under(entry, cwd) for entry in path.split(":")):
        return None
    return ShellState(variables={"PATH": path}) if path else None


async def _require_unchanged(judged: RunsCommand, environment: Environment, own_folder: bool, ctx: ToolCallContext) -> None:
    """Raise ExecutionFailed if the folder or the shell differs from when the command was judged."""
    if own_folder and environment.cwd != judged.cwd:
        raise ExecutionFailed(
            f"the command was not run: it was judged in {judged.cwd}, but the working folder is now {environment.cwd}; call again"
        )
    if not own_folder and await environment.resolve(judged.cwd) != judged.cwd:  # the user may have taken a while to answer
        raise ExecutionFailed(f"the command was not run: its folder {judged.cwd} now leads elsewhere; call again")
    if judged.shell is not None and judged.shell != (await environment.shell_state() or _shell(ctx, judged.cwd)):
        raise ExecutionFailed("the command was not run: another command changed the shell; call again")


async def terminal(args: dict[str, Any], ctx: ToolCallContext) -> ToolResult | ToolOutput:
    """Run exactly the command that the gates judged. Raises ExecutionFailed if the command could not run at all."""
    import asyncio

    judged = ctx.effects[0] if ctx.effects else None
    if not isinstance(judged, RunsCommand) or judged.command != args["command"]:
        raise ExecutionFailed("the command was not run: it differs from the judged command")
    environment = judged_in(ctx)
    own_folder = not args.get("cwd") and not judged.outside
    timeout = args.get("timeout") or ctx.settings.get("terminal.timeout", DEFAULT_TIMEOUT)
    with TimeLimit(timeout):
        await _require_unchanged(judged, environment, own_folder, ctx)
    if judged.background or args.get("background") or args.get("pty"):
        from tools.processes.starting import start

        return await start(args, ctx, judged)
    report = None if ctx.activity_sink is None else lambda text: ctx.report_activity("terminal-output", {"text": text})
    printed = LastOutput(report)
    where = None if own_folder else judged.cwd
    request = ExecRequest(
        judged.command, cwd=where, timeout=timeout, keep=KEEP, spill=ctx.spill_dir, on_output=printed, last_frames=True
    )
    began = time.time()
    try:
        with allowing(environment, judged.hosts):
            outcome = await environment.execute(request)
    except asyncio.CancelledError as cancelled:
        if told := str(printed):
            cancelled.add_note(f"Its output:\n{told}")
        raise
    except EnvironmentFailed as error:
        raise ExecutionFailed(str(error)) from error
    finally:
        printed.end()
    data = describe(judged.command, outcome, timeout)
    for name, captured in (("output", outcome.stdout), ("stderr", outcome.stderr)):
        if captured.omitted and captured.spilled_to is not None:
            data["truncated"][name]["full_output"] = await ctx.keep_file(captured.spilled_to)
    if notice := "; ".join(filter(None, [outcome.notice, NOTICE if judged.outside else "", ctx.notice])):
        data["notice"] = notice
    if not judged.outside and (stopped := offer_after(outcome, environment, ctx.settings, refused(environment, began))):
        data["stopped"] = stopped
    if own_folder and outcome.cwd != judged.cwd:
        data["cwd"] = outcome.cwd
    return ToolResult(ctx.tool_name, ToolStatus.SUCCESS, data, views={"person": for_person(data)})


class LastOutput:
    """The last output of a command on either stream: for ``report``, and for a cancelled command, which has no outcome.

    Only whole lines are reported, a few times a second: an unfinished line may hold the first half of a secret.
    """

    def __init__(self, report: Callable[[str], object] | None) -> None:
        self._told = report
        self._tail = bytearray()
        self._total = 0
        self._reported = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def __call__(self, stream: str, data: bytes) -> None:
        self._total += len(data)
        self._tail += data
        if len(self._tail) > 2 * _LAST:
            del self._tail[:-_LAST]
        if self._told is not None and (b"\n" in data or b"\r" in data) and self._timer is None:
            import asyncio

            due = self._reported + _BETWEEN_REPORTS - time.monotonic()
            if due <= 0:
                self._report()
                return
            try:
                self._timer = asyncio.get_running_loop().call_later(due, self._report)
            except RuntimeError:  # in a thread of the environment
                return

    def end(self) -> None:
        """Stop reporting."""
        if self._timer is not None:
            self._timer.cancel()

    def __str__(self) -> str:
        from tools.environments._output import last_frames  # a start without a command does not need this

        tail = last_frames(bytes(self._tail[-_LAST:]))
        omitted = self._total - min(self._total, _LAST)
        return re.sub("\r+\n?", "\n", readable(Captured(tail=tail, total=omitted + len(tail)))).strip("\n")

    def _report(self) -> None:
        self._timer, self._reported = None, time.monotonic()
        text = readable(Captured(tail=bytes(self._tail[-_LAST:]), total=len(self._tail[-_LAST:])))
        text = re.sub("\r+\n?", "\n", text)
        if self._total > len(self._tail[-_LAST:]):  # its first line is cut, and may hold the second half of a secret
            text = text[text.find("\n") + 1 :]
        if self._told is not None:
            self._told(text[: text.rfind("\n") + 1])


# -- the result ----------------------------------------------------------------------------------------------------


def describe(command: str, outcome: ExecOutcome, timeout: float) -> dict[str, Any]:
    """Return the result's data: ``output``, ``exit_code`` and ``where`` (the backend), and, if there is any, ``stderr``,
    ``meaning`` (of the exit code), ``truncated`` (the omitted bytes) and ``notes`` (how the text differs from the bytes).
    """
    streams = {"output": outcome.stdout, **({"stderr": outcome.stderr} if outcome.stderr.total else {})}
    data: dict[str, Any] = {name: readable(captured) for name, captured in streams.items()}
    data |= {"exit_code": outcome.exit_code, "where": outcome.where}
    if outcome.ended == "timeout":
        data["exit_code"] = TIMED_OUT
        data["meaning"] = f"time limit of {timeout:g} s reached; stopped. " + (
            f"For longer work pass a larger timeout (at most {MAX_TIMEOUT}) or background: true"
            if timeout < MAX_TIMEOUT
            else "For longer work pass background: true"
        )
    elif outcome.ended == "interrupted":
        data["meaning"] = "interrupted; stopped before it finished"
    elif outcome.exit_code and (meaning := meaning_of(outcome.exit_code, command)):
        data["meaning"] = meaning
    if clipped := {name: _omission(captured) for name, captured in streams.items() if captured.omitted}:
        data["truncated"] = clipped
    if notes := [f"{name}: {note}" for name, captured in streams.items() for note in differences(captured, data[name])]:
        data["notes"] = notes
    return data


def for_person(data: Mapping[str, Any]) -> str:
    """Return plain text for the user: the output, then a line on how the command ended. No text in it can move the terminal's
    cursor.

    A carriage return, as in progress bars and files from Windows, begins a new line.
    """
    status = f"exit code {data['exit_code']}"
    if "meaning" in data:
        status += f": {data['meaning']}"
    if is_elsewhere(data["where"]):
        status += f" · {data['where']}"
    if "cwd" in data:
        status += f" · now in {data['cwd']}"
    if "notice" in data:
        status += f" · {data['notice']}"
    parts = [text.rstrip("\n") for text in (data["output"], data.get("stderr", "")) if text.strip()]
    parts += [f"[{status}]", *([data["stopped"]] if "stopped" in data else [])]
    shown = re.sub("\r+\n?", "\n", "\n".join(parts))
    return re.sub(_CONTROL, _escaped, shown)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def _omission(captured: Captured) -> dict[str, Any]:
    said: dict[str, Any] = {"omitted_bytes": captured.omitted}
    path = captured.spilled_to
    if path is None:
        said["full_output"] = "could not be kept"
        return said
    said["full_output"] = str(path)
    try:
        saved = path.stat().st_size
    except OSError:  # being deleted already; its former path is reported
        return said
    if saved < captured.total:
        said["saved_bytes"] = saved
    return said


# -- exit codes ----------------------------------------------------------------------------------------------------

_MEANINGS: Mapping[int, str] = {
    126: "found, but not executable: a folder, no execute permission, or the wrong format",
    127: "command not found: check its name and PATH, or install it",
}
_SIGNALS: Mapping[int, str] = {
    signal.SIGKILL: "killed, perhaps for using too much memory",
    signal.SIGSEGV: "it crashed: segmentation fault",
    signal.SIGABRT: "it aborted",
    signal.SIGPIPE: "the reader of its output has ended",
    signal.SIGINT: "interrupted",
    signal.SIGTERM: "terminated",
}
_OF_PROGRAMS: Mapping[tuple[str, int], str] = {
    **{(name, 1): "no lines matched" for name in ("grep", "egrep", "fgrep", "rg")},
    **{(name, 1): "they differ" for name in ("diff", "cmp")},
    **{(name, 1): "the condition is false" for name in ("test", "[", "[[")},
    ("pgrep", 1): "no process matched",
    ("timeout", 124): "the time limit given to timeout was reached",
    ("pytest", 1): "some tests failed",
    ("pytest", 5): "no tests were collected",
    ("curl", 6): "the host name could not be resolved",
    ("curl", 7): "no connection to the host",
    ("curl", 22): "the server answered with an HTTP error",
    ("curl", 28): "the time limit was reached",
    ("ssh", 255): "the connection failed",
}
_SEPARATORS = r"\|\||&&|[;|\n]"


def meaning_of(exit_code: int, command: str) -> str | None:
    """Return the meaning of an exit code other than 0, if it is known."""
    known = _OF_PROGRAMS.get((_last_program(command), exit_code)) or _MEANINGS.get(exit_code)
    if known is not None or exit_code <= 128:  # 128 + N is signal N
        return known
    try:
        name = signal.Signals(exit_code - 128)
    except ValueError:
        return None
    return f"ended by {name.name}" + (f": {_SIGNALS[name]}" if name in _SIGNALS else "")


def _last_program(command: str) -> str:
    """Return a guess at the last program of the command: its exit code is the exit code of the whole list or pipeline."""
    words = re.split(_SEPARATORS, command.rstrip("; \t\n"))[-1].split()
    while words and "=" in words[0] and words[0].partition("=")[0].isidentifier():
        del words[0]
    return words[0].rpartition("/")[2] if words else ""


def _waits(args: Mapping[str, Any]) -> bool:
    """Return whether the command sleeps, as one that waits for other work does."""
    return re.search(r"\bsleep\s+[\d.\"'$]", str(args.get("command", ""))) is not None


registry.register(
    name="terminal",
    toolset="terminal",
    schema=SCHEMA,
    handler=terminal,
    check_fn=needs_binary("bash", "sh"),
    emoji="💻",
    kind="execute",
    effects=effects,
    dynamic_schema=schema_for,
    state=(PROCESSES,),
    validate=validate,
    # Longer than the command's own limit, so that the environment ends the command and reports its output.
    timeout=MAX_TIMEOUT + 30,
    max_result_chars=64_000,
    changes="command",
    polls=_waits,
    display=ToolDisplay(verb="runs", subject=("command",), below="output"),
)
