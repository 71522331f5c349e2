"""Turn a call's effects into findings, the same for every tool, so that equal effects get equal verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.effects import (
    CallsServer,
    DeletesFile,
    Effect,
    ReadsFile,
    RunsCommand,
    SchedulesJob,
    SendsMessage,
    UsesProcess,
    WritesFile,
    WritesInput,
)
from toolcrib.contract.entry import ToolEntry
from tools.judge.findings import Finding, Level, digest_of, visible
from tools.judge.folders import may_be_made
from tools.judge.meaning.state import NoFiles, Snapshot, knows_jobs
from tools.judge.meaning.value import Taint, unknown
from tools.judge.setting import Setting

if TYPE_CHECKING:  # the rules load with the first command
    from tools.judge.detect import Examined
    from tools.judge.meaning.act import Act


@dataclass(slots=True)
class Judgement:
    """The judgement of a call. ``files``: tainted files that it leaves, by path. ``commands`` and ``looked_at``: see Examined."""

    findings: list[Finding] = field(default_factory=list)
    files: dict[str, Taint] = field(default_factory=dict)
    commands: list[tuple[str, ...]] = field(default_factory=list)
    looked_at: list[str] = field(default_factory=list)
    copies: dict[str, str] = field(default_factory=dict)
    """Files and folders that the call copies, moves or writes: the old path by the new one, "" for a file with new content."""
    made: Mapping[str, tuple[str, str]] | None = None
    """The template (see Meaning) and the value before the call, for each variable of the session's shell that holds the output of
    ``mktemp -d``. None if the call leaves these variables unchanged.
    """


def judge(
    entry: ToolEntry, effects: Sequence[Effect], *, setting: Setting | None = None, files: Snapshot | None = None
) -> Judgement:
    """Return all findings of one call. A tool that acts without declared effects is opaque, as is an unknown kind of effect.

    Reads files only through ``files``.
    """
    setting = setting or Setting()
    judged = Judgement()
    if not effects:
        if entry.effects is None and entry.kind in ("execute", "edit"):
            judged.findings.append(_opaque(entry))
        return judged
    for effect in effects:
        if isinstance(effect, RunsCommand | WritesInput):
            examined = _command(effect, setting, files or NoFiles())
            judged.findings += examined.findings
            judged.files.update(examined.files)
            judged.copies.update(examined.copies)
            judged.commands += examined.commands
            judged.looked_at += examined.looked_at
            judged.findings += _signalled(examined.acts, files)
            judged.findings += _rewritten(examined.rewrites, files.job_names() if files is not None and knows_jobs(files) else ())
            if isinstance(effect, WritesInput):
                continue
            judged.findings += [_host(host) for host in effect.hosts]
            if effect.outside:
                judged.findings.append(_outside(effect))
            elif examined.made is not None:
                held = effect.shell.variables if effect.shell is not None else {}
                judged.made = {name: (text, _fitting(held.get(name, ""), text)) for name, text in examined.made.items()}
        elif isinstance(effect, SendsMessage | SchedulesJob | CallsServer | UsesProcess):
            judged.findings += _beyond_files(entry, effect)
        else:
            judged.findings += _file(entry, effect, setting, files or NoFiles())
            if isinstance(effect, WritesFile):
                _note_written(judged, effect.path, files)
    return judged


def _beyond_files(entry: ToolEntry, effect: SendsMessage | SchedulesJob | CallsServer | UsesProcess) -> Sequence[Finding]:
    match effect:
        case SendsMessage():
            return _message(effect)
        case SchedulesJob():
            return [_job(effect)]
        case CallsServer():
            return [_server(entry, effect)]
        case UsesProcess():
            return ()  # it is the session's own, which the user allowed to start


def _note_written(judged: Judgement, path: str, files: Snapshot | None) -> None:
    judged.files[path] = judged.files.get(path, Taint.NONE) | Taint.WRITTEN
    judged.copies[path] = ""
    if files is not None and knows_jobs(files) and files.of_jobs().get(path, Taint.NONE) & Taint.RUNNING:
        judged.findings += _rewritten([(path, Taint.RUNNING)], files.job_names())


def _fitting(before: str, template: str) -> str:
    """Return a variable's earlier value if it looks like the output of ``mktemp``, else "": no other value is kept."""
    return before if may_be_made(before, template) else ""


def _command(effect: RunsCommand | WritesInput, setting: Setting, files: Snapshot) -> Examined:
    from tools.judge.detect import examine  # the rules load with the first command, not at the start

    if isinstance(effect, WritesInput):
        from tools.judge.inputs import examine_input

        return examine_input(effect, setting, files)
    stdin = unknown(Taint.INPUT) if effect.open_input else None
    background = effect.background or effect.open_input
    return examine(effect.command, effect.cwd, effect.shell, files, setting, stdin=stdin, background=background)


def _rewritten(rewrites: Sequence[tuple[str, Taint]], jobs: Sequence[str]) -> list[Finding]:
    """Return one finding for the scripts that a call changes, and one for the paths that it may replace with links.

    ``jobs``: the processes that run, for users.
    """
    whose = visible(" or ".join(jobs), _MOST_SHOWN) if jobs else "a process"
    found: list[Finding] = []
    for mark, key, why in (
        (Taint.RUNNING, "process.script", f"changes a file whose text {whose} may still execute"),
        (Taint.USED, "process.path", f"may put a link where {whose} still changes files"),
    ):
        paths = tuple(path for path, one in rewrites if one & mark)
        if paths:
            more = f" and {len(paths) - 1} more" if len(paths) > 1 else ""
            found.append(Finding(key, "ask", why, visible(paths[0]) + more, visible(paths[0]) + more, paths, effect="local"))
    return found


def _signalled(acts: Sequence[Act], files: Snapshot | None) -> Iterator[Finding]:
    """Yield a finding for each background process of another session that a call signals by its number."""
    if files is None or not knows_jobs(files):
        return
    for act in acts:
        words = [one.text.removeprefix("-") for one in act.argv[1:]] if act.name in ("kill", "gkill") and not act.place else ()
        for word in words:
            if word.isdecimal() and files.is_of_another_session(word):
                why = "signals a process of another session"
                yield Finding("process.other", "ask-once", why, visible(f"kill {word}"), effect="outside")


_MOST_SHOWN = 200
"""Maximum number of characters of processes in a finding."""


def _file(entry: ToolEntry, effect: object, setting: Setting, files: Snapshot) -> list[Finding]:
    from tools.judge.installed import judge_file
    from tools.judge.paths import judge_change, judge_read  # imported with the first file, because this compiles patterns

    name, protected, home = entry.name, setting.protected, setting.home
    match effect:
        case WritesFile(path):
            text = f"{name}: write {path}"
            closed = judge_file(path, text, setting.installed)
            return closed or judge_change(path, text, protected, home=home, inspect_path=files.inspect_path)
        case DeletesFile(path):
            text = f"{name}: delete {path}"
            closed = judge_file(path, text, setting.installed)
            return closed or judge_change(path, text, protected, mode="delete", home=home, inspect_path=files.inspect_path)
        case ReadsFile(path, without):
            return judge_read(path, f"{name}: read {path}", protected, without, home=home)
        case _:  # a plugin may pass anything
            return [_opaque(entry)]


def _message(effect: SendsMessage) -> list[Finding]:
    if effect.is_free:
        return []
    whom = effect.whom or effect.to
    level: Level = "ask-once" if effect.aside else "ask"  # the name may later mean another chat
    why = f"other users would read it: {whom}"
    return [Finding(f"message.send@{effect.to}", level, why, f"a message to {whom}", effect="remote")]


def _job(effect: SchedulesJob) -> Finding:
    """Return the finding of a scheduled job. It will run unattended, so a user approves each job and each change."""
    shown = visible(f"{effect.name}: {effect.task}" if effect.name else effect.task)
    whose = "with the rights of its creator"  # the approver may be another user
    if effect.replaces:
        return Finding("cron.change", "ask-once", f"changes a scheduled task, {whose}", shown)
    return Finding("cron.create", "ask-once", f"schedules this task, {whose}", shown)


def _outside(effect: RunsCommand) -> Finding:
    why = "runs outside the sandbox, with all your rights"
    return Finding("sandbox.outside", "ask-once", why, visible(effect.command))


def _host(host: str) -> Finding:
    return Finding(f"net.host@{host}", "ask", f"reaches {host}, which the sandbox does not allow yet", host, effect="remote")


def _server(entry: ToolEntry, effect: CallsServer) -> Finding:
    """Return the finding of a call to an MCP server. A grant ends when the tool's schema or description changes."""
    level: Level = "ask-once" if effect.destroys else "ask"
    why = f"the MCP server {effect.server} ({effect.where}) does this, and toolcrib can't see how"
    why += "; it says that this may destroy something" if effect.destroys else ""
    text = visible(f"{effect.server}: {effect.tool}", _MOST_SHOWN)
    settings = ((f"tool:{entry.name}", digest_of(entry.claims)),)
    return Finding(f"mcp.call@{effect.server}/{effect.tool}", level, why, text, settings=settings, effect="remote")


def _opaque(entry: ToolEntry) -> Finding:
    # A plugin may register another tool with the same name: a grant is valid only while the tool's claims are the same.
    settings = () if entry.is_built_in else ((f"tool:{entry.name}", digest_of(entry.claims)),)
    why = "this tool acts, but does not declare its effects"
    return Finding(f"tool.opaque@{entry.name}", "ask", why, entry.name, settings=settings)
