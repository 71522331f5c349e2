"""A call's effects, whatever tool declares them, to findings: equal effects, equal verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from toolcrib import DeletesFile, Effect, ReadsFile, RunsCommand, ShellState, ToolEntry, WritesFile
from toolcrib._dataclass import dataclass
from tools.approval.findings import Finding
from tools.approval.meaning.state import NoFiles, Snapshot
from tools.approval.meaning.value import Taint
from tools.approval.patterns import added
from tools.approval.setting import Setting

if TYPE_CHECKING:  # the table loads with the first command
    from tools.approval.detect import Examined


@dataclass(slots=True)
class Judgement:
    """``files``: what the call leaves behind with a taint, by path."""

    findings: list[Finding] = field(default_factory=list)
    files: dict[str, Taint] = field(default_factory=dict)


def judge(
    entry: ToolEntry, effects: Sequence[Effect], *, setting: Setting | None = None, files: Snapshot | None = None
) -> Judgement:
    """All findings of one call. A tool that acts and does not say how is opaque; an effect of an unknown kind too.

    Reads no file but through ``files``.
    """
    setting = setting or Setting()
    judged = Judgement()
    if not effects:
        if entry.effects is None and entry.kind in ("execute", "edit"):
            judged.findings.append(_opaque(entry.name))
        return judged
    for effect in effects:
        if isinstance(effect, RunsCommand):
            found, left = _command(effect, setting, files or NoFiles())
            judged.findings += found
            judged.files.update(left)
        else:
            judged.findings += _file(entry.name, effect, setting.protected, setting.home)
    return judged


def _command(effect: RunsCommand, setting: Setting, files: Snapshot) -> tuple[Sequence[Finding], Mapping[str, Taint]]:
    from tools.approval.detect import judge_command  # the rules load with the first command, not at the start

    return judge_command(effect, setting, files)


def _file(name: str, effect: object, protected: Sequence[str], home: str) -> list[Finding]:
    from tools.approval.paths import judge_change, judge_read  # its patterns are compiled with the first file

    match effect:
        case WritesFile(path):
            return judge_change(path, f"{name}: write {path}", protected, home=home)
        case DeletesFile(path):
            return judge_change(path, f"{name}: delete {path}", protected, mode="delete", home=home)
        case ReadsFile(path):
            return judge_read(path, f"{name}: read {path}", protected)
        case _:  # a plugin may hand over anything
            return [_opaque(name)]


def _opaque(name: str) -> Finding:
    return Finding(f"tool.opaque@{name}", "ask", "this tool acts, and does not say on what", name)


class Harmless:
    """Commands that were judged without a finding, and without a look at any file or at what earlier ones left: in the same
    folder, read by a shell in the very same state, the same text is judged alike. Safe to use from several threads.
    """

    _MOST = 256

    def __init__(self) -> None:
        self._known: dict[tuple[str, str, int], ShellState | None] = {}
        self._patterns = added()
        """The state is kept, so that its number is no other's."""

    def knows(self, effects: Sequence[Effect]) -> bool:
        if added() != self._patterns:
            self._known, self._patterns = {}, added()
        return len(effects) == 1 and isinstance(effects[0], RunsCommand) and _key(effects[0]) in self._known

    def add(self, effects: Sequence[Effect]) -> None:
        if len(effects) == 1 and isinstance(effects[0], RunsCommand):
            if len(self._known) >= self._MOST:
                self._known = {}
            self._known[_key(effects[0])] = effects[0].shell


def _key(effect: RunsCommand) -> tuple[str, str, int]:
    return effect.command, effect.cwd, id(effect.shell)


class Judge:
    """Judges single commands as a session's gate would: for those who ask what a command would do."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting

    def examine(self, command: str, cwd: str, *, files: bool = True) -> Examined:
        """``files``: scripts that it would run are read, on this machine. Raises nothing."""
        from tools.approval.detect import examine
        from tools.approval.snapshot import LocalFiles

        return examine(command, cwd, None, LocalFiles() if files else NoFiles(), self.setting)
