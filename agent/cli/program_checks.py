"""Checks of programs for `toolcrib doctor`: which are missing, and the command that installs them on this system."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from agent.cli.finding import CheckFinding, Level, Repair
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.namedtuple import NamedTuple
from tools.environments.rows import ROWS, BackendProgram

OS_RELEASE = Path("/etc/os-release")
_SECONDS = 900.0
"""Time limit of an installation in seconds."""
_SHOWN = 5
"""Number of last lines shown of a failed installation."""


class _Program(NamedTuple):
    """A program, the effect if it is missing, its package, and the package's other names by package manager."""

    name: str
    level: Level
    without: str
    package: str
    packages: Mapping[str, str] = {}
    backend: BackendProgram | None = None
    """The backend's description of its program."""


class _Manager(NamedTuple):
    """A package manager: the systems that use it (ID or ID_LIKE in /etc/os-release), and its command to install a package."""

    name: str
    systems: frozenset[str]
    command: tuple[str, ...]


_PROGRAMS: tuple[_Program, ...] = (
    _Program("bash", "wrong", "the terminal tool needs bash to run commands", "bash"),
    _Program("rg", "note", "search_files works without ripgrep, but more slowly", "ripgrep"),
    _Program("git", "note", "without git, models do not get the branch, and repositories are not recognised as projects", "git"),
    *(
        _Program(row.program.name, "note", row.program.without, row.program.name, row.program.packages, row.program)
        for row in ROWS.values()
        if row.program is not None
    ),
    _Program(
        "ssh",
        "note",
        "without ssh, git cannot use ssh servers (the backend ssh works without it)",
        "openssh",
        {"apt-get": "openssh-client", "dnf": "openssh-clients", "zypper": "openssh-clients", "apk": "openssh-client"},
    ),
)
_MANAGERS = (
    _Manager("apt-get", frozenset(["debian", "ubuntu"]), ("apt-get", "install", "-y")),
    _Manager("dnf", frozenset(["fedora", "rhel", "centos"]), ("dnf", "install", "-y")),
    _Manager("pacman", frozenset(["arch"]), ("pacman", "-S", "--noconfirm")),
    _Manager("zypper", frozenset(["suse", "opensuse", "sles"]), ("zypper", "--non-interactive", "install")),
    _Manager("apk", frozenset(["alpine"]), ("apk", "add")),
)
_BREW = _Manager("brew", frozenset(), ("brew", "install"))


def check_programs() -> Iterator[CheckFinding]:
    """Check whether each program is on PATH."""
    for program in _PROGRAMS:
        where = shutil.which(program.name)
        if where:
            yield CheckFinding("program.found", "ok", f"{program.name} at {where}")
        elif program.backend is not None and _is_superfluous(program.backend):
            yield CheckFinding("program.found", "ok", program.backend.instead)
        else:
            yield _missing(program)


def _is_superfluous(program: BackendProgram) -> bool:
    return bool(os.environ.get(program.variable)) or (bool(program.socket) and Path(program.socket).exists())


def _missing(program: _Program) -> CheckFinding:
    fix = f"install {program.package if program.level == 'note' else program.name}, and make sure that it is on PATH"
    name, manager = f"program.{program.name}", _manager()
    if manager is None:
        return CheckFinding(name, program.level, program.without, fix)
    words = [*manager.command, program.packages.get(manager.name, program.package)]
    is_root = os.geteuid() == 0
    line = shlex.join(words if is_root or manager is _BREW else ["sudo", *words])
    repair = None
    if shutil.which(manager.name) and (is_root or manager is _BREW):  # no password is needed
        cost = "the packages of this system are changed"
        repair = Repair(line, lambda: install(words), check_programs, loses=cost, is_outside=True)
    return CheckFinding(name, program.level, program.without, f"{fix}: {line}", repair)


def _manager() -> _Manager | None:
    """Return this system's package manager, or None if it is unknown."""
    if sys.platform == "darwin":
        return _BREW
    known = systems()
    return next((one for one in _MANAGERS for system in known if system in one.systems), None)


def systems() -> list[str]:
    """Return the names of this system and of the systems that it resembles: ID and ID_LIKE of /etc/os-release."""
    try:
        lines = OS_RELEASE.read_text("utf-8", "replace").splitlines()
    except OSError:
        return []
    told = {key: value.strip("\"'") for key, _, value in (line.partition("=") for line in lines)}
    return [*told.get("ID", "").split(), *told.get("ID_LIKE", "").split()]


def install(words: Sequence[str]) -> Iterator[str]:
    """Run an installer without a terminal; yield its last line of output. Raises ToolcribError with the last lines on failure."""
    import subprocess

    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            timeout=_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ToolcribError(f"stopped after {_SECONDS:g} s: {shlex.join(words)}") from None
    said = [line for line in done.stdout.decode("utf-8", "replace").splitlines() if line.strip()]
    if done.returncode:
        raise ToolcribError("\n".join([f"exit code {done.returncode}: {shlex.join(words)}", *said[-_SHOWN:]]))
    yield from said[-1:]
