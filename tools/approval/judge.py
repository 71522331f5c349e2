"""A call's effects, whatever tool declares them, to findings: equal effects, equal verdicts."""

from __future__ import annotations

from collections.abc import Sequence

from toolcrib import DeletesFile, Effect, ReadsFile, RunsCommand, ToolEntry, WritesFile
from tools.approval.findings import MAX_COMMAND_CHARS, Finding
from tools.approval.paths import judge_change, judge_read


def judge(
    entry: ToolEntry, effects: Sequence[Effect], *, protected: Sequence[str] = (), max_command_chars: int = MAX_COMMAND_CHARS
) -> list[Finding]:
    """All findings of one call. A tool that acts and does not say how is opaque; an effect of an unknown kind too."""
    if not effects:
        return [_opaque(entry.name)] if entry.effects is None and entry.kind in ("execute", "edit") else []
    found: list[Finding] = []
    for effect in effects:
        if isinstance(effect, RunsCommand):
            found += _command(effect, protected, max_command_chars)
        else:
            found += _file(entry.name, effect, protected)
    return found


def _command(effect: RunsCommand, protected: Sequence[str], max_chars: int) -> list[Finding]:
    from tools.approval.detect import detect_dangerous_command  # the rules load with the first command, not at the start

    return detect_dangerous_command(effect.command, effect.cwd, protected=protected, max_chars=max_chars)


def _file(name: str, effect: object, protected: Sequence[str]) -> list[Finding]:
    match effect:
        case WritesFile(path):
            return judge_change(path, f"{name}: write {path}", protected)
        case DeletesFile(path):
            return judge_change(path, f"{name}: delete {path}", protected)
        case ReadsFile(path):
            return judge_read(path, f"{name}: read {path}", protected)
        case _:  # a plugin may hand over anything
            return [_opaque(name)]


def _opaque(name: str) -> Finding:
    return Finding(f"tool.opaque@{name}", "ask", "this tool acts, and does not say on what", name)
