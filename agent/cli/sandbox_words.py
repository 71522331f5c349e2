"""Descriptions of the sandbox of this machine: the chat's first line, and the rows of `toolcrib sandbox`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent.backends import project_of
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.paths import real_path

if TYPE_CHECKING:
    from agent.backends import Backend
    from agent.config import Config
    from agent.conversation.session import Session
    from agent.sandbox_trial import SandboxTrial
    from toolcrib.contract.containment import Containment
    from tools.environments.local.holding import Mode, SandboxHolding

_MODES: dict[str, str] = {
    "workspace": "Commands write only {folders}.",
    "own": "Commands cannot reach toolcrib's own files, but otherwise have all your rights.",
    "none": "Commands are not sandboxed.",
}
"""Mode -> what the sandbox enforces."""
_HOLDS_LESS = "sandbox.mode {wanted} does not work here; for the reason: toolcrib sandbox"
_NETWORK = {"none": "none", "on": "this machine's", "hosts": "only hosts that you allow"}
_LINES = {"none": " They have no network.", "on": "", "hosts": " They reach only hosts that you allow."}


@dataclass(frozen=True, slots=True)
class SandboxStatus:
    """The sandbox of a backend on this machine. ``containment`` is None if commands run without one."""

    backend: str
    wanted: Mode
    holding: SandboxHolding
    containment: Containment | None
    own: Sequence[str]
    hosts: Sequence[str] = ()
    """Rules of sandbox.hosts."""

    def as_json(self) -> dict[str, Any]:
        return {
            "backend": self.backend,
            "wanted": self.wanted,
            "holds": self.holding.mode,
            "by": self.holding.by,
            "why_not_more": self.holding.why_not_more,
            "fix": self.holding.fix,
            "hosts": list(self.hosts),
            "containment": None if self.containment is None else asdict(self.containment),
        }


def first_line(config: Config, backend: Backend, start: str) -> str:
    """Return one line about what the sandbox of ``local`` prevents in a folder, and whether snapshots are taken.

    Return "" for other backends.
    """
    from tools.environments.local.holding import sandbox_here
    from tools.environments.local.plan import working_folder

    if not backend.row.has_mode:
        return ""
    settings = config.sandbox
    held = sandbox_here(settings.mode)
    caches = "private caches" if settings.caches == "private" else "your caches"
    folders = [*map(short, settings.write), caches, "a private /tmp"]
    if held.mode == "workspace" and (folder := working_folder(start)):
        folders.insert(0, "your home folder" if folder == str(real_path(Path.home())) else "this project")
    line = _MODES[held.mode].format(folders=_listed(folders))
    if held.by == "namespaces":
        line += _LINES[settings.network]
    elif held.by == "landlock":
        line += " Only Landlock enforces this, so sockets and file tools are not limited."
    if held.mode != settings.mode:
        line += f" {_HOLDS_LESS.format(wanted=settings.mode)}."
    if config.snapshots.enabled and config.undo.enabled and not real_path(Path.home()).is_relative_to(project_of(start)):
        line += " /undo reverts what they change in the project."
    return line


def where_line(session: Session) -> str:
    """Return one line about where the commands of a session run, and what their sandbox prevents."""
    backend, scope = session.backend, session.scope
    told = f"commands run in {backend.name}: {backend.shown}."
    try:
        return first_line(session.config, backend, scope.start) or told
    except EnvironmentFailed as error:
        return f"Commands cannot run here: {error}."


def status_rows(status: SandboxStatus) -> list[list[str]]:
    """Return the status as rows of a name and a value."""
    held, holding = status.containment, status.holding
    by = " (by Landlock: sockets are not closed)" if holding.by == "landlock" else ""
    rows = [["backend", status.backend], ["wanted", status.wanted], ["holds", f"{holding.mode}{by}"]]
    rows += [[name, text] for name, text in (("why", holding.why_not_more), ("fix", holding.fix)) if text]
    if held is None:
        return rows
    from agent.sandbox_trial import keys_of
    from tools.environments.local.system_calls import has_filter

    keys = keys_of(held, status.own)
    absent = sum(not Path(path).exists() for path in held.masked)
    rows += [
        ["writable", "everything that you can write" if held.mode == "own" else _short(held.writable)],
        ["private", _short(held.ephemeral)],
        ["masked", f"{_short(keys)}{f' ({absent} more do not exist)' if absent else ''}"],
        ["closed", f"toolcrib's own files: {_short(status.own)}"],
        ["read-only", _short(held.read_only)],
        ["network", _NETWORK[held.network]],
        ["system calls", "filtered" if has_filter() else f"all: no filter for {os.uname().machine}"],
    ]
    if held.network == "hosts":
        rows.append(["hosts", f"hosts of your package managers{''.join(f', {host}' for host in status.hosts)}"])
    return rows


def trial_line(trial: SandboxTrial) -> str:
    """Return a line of `toolcrib sandbox test`."""
    if trial.untried:
        return f"- {trial.what}: not tested, {trial.untried}"
    return f"✗ {trial.what}\n    {trial.problem}" if trial.problem else f"✓ {trial.what}"


def short(path: str) -> str:
    """Return a path with ~ for the home folder."""
    home = str(real_path(Path.home()))
    return f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path


def _short(paths: Iterable[str]) -> str:
    return ", ".join(map(short, paths)) or "nothing"


def _listed(words: Sequence[str]) -> str:
    return f"{', '.join(words[:-1])} and {words[-1]}"
