"""Detect which sandbox mode this machine supports, why it supports no stronger one, and how to change that."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import threading
from pathlib import Path
from typing import Literal

from toolcrib.contract.dataclass import dataclass
from tools.environments.local import landlock
from tools.environments.local.plan import SandboxPlan, may_mount
from tools.environments.rows import ROWS
from tools.environments.shell.launcher import is_supported

Mode = Literal["workspace", "own", "none"]
_LIMIT = 30.0
"""Maximum seconds for the trial, which makes a sandbox. It is generous, because the machine may be under load."""
_lock = threading.Lock()
"""Held while the trial starts or is awaited."""
_USER_NAMESPACES = (
    ("kernel.unprivileged_userns_clone", "1"),
    ("kernel.apparmor_restrict_unprivileged_userns", "0"),
    ("user.max_user_namespaces", ""),
)
"""Kernel settings that forbid user namespaces, each with the value that allows them; "" stands for any number above 0."""


@dataclass(frozen=True, slots=True)
class SandboxHolding:
    """The strongest mode, up to the requested one, that works on this machine.

    ``why_not_more`` is the reason why the sandbox is weaker than it could be, and ``fix`` the way to change that. Both are "" if
    namespaces work, or if the mode ``none`` was requested. ``by``: ``namespaces``, or ``landlock``, which does not block sockets;
    "" for the mode ``none``.
    """

    mode: Mode
    why_not_more: str = ""
    fix: str = ""
    by: Literal["namespaces", "landlock", ""] = ""


def sandbox_here(wanted: Mode) -> SandboxHolding:
    """Return the strongest mode up to ``wanted`` that works on this machine. The trial runs once per process."""
    if wanted == "none":
        return SandboxHolding("none")
    if not is_supported():
        lack = "bash is not found on PATH" if sys.platform == "linux" else "sandboxes need Linux"
        elsewhere = " or ".join(row.name for row in ROWS.values() if row.is_contained and not row.runs_here)
        fix = "install bash" if sys.platform == "linux" else f"use the backend {elsewhere}"
        return SandboxHolding("none", lack, fix)
    why = _fault()
    if not why:
        return SandboxHolding(wanted, by="namespaces")
    fix = how_to_get_more(why)
    if landlock.version() > 0:
        return SandboxHolding(
            "own",
            f"namespaces are unavailable ({why}), so Landlock is used, which protects only toolcrib's own files and sandbox.mask",
            fix,
            "landlock",
        )
    return SandboxHolding("none", f"namespaces are unavailable ({why}), and this kernel has no Landlock", fix)


def start_trial() -> None:
    """Start the trial in the background, for a process that will soon call ``sandbox_here``."""
    if is_supported():
        with _lock, contextlib.suppress(OSError):  # ``sandbox_here`` reports it
            _trial()


def _fault() -> str:
    """Return the reason why this machine can't make a sandbox, "" if it can."""
    with _lock:
        return _trial_fault()


@functools.cache
def _trial() -> subprocess.Popen[bytes]:
    argv = SandboxPlan().argv(["true"], person=True)
    return subprocess.Popen(argv, cwd="/", stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)


@functools.cache
def _trial_fault() -> str:
    try:
        with _trial() as trial:
            try:
                said = trial.communicate(timeout=_LIMIT)[1].decode(errors="replace").strip()
            except subprocess.TimeoutExpired as error:
                trial.kill()
                return str(error)
    except OSError as error:
        return str(error)
    return (said or f"exit code {trial.returncode}") if trial.returncode else ""


def how_to_get_more(why: str) -> str:
    """Return how to change this machine so that it can make a sandbox. ``why``: the error of the attempt."""
    for name, good in _USER_NAMESPACES:
        with contextlib.suppress(OSError):  # this kernel has no such setting
            found = Path("/proc/sys", name.replace(".", "/")).read_text().strip()
            if not may_mount() and ((good and found != good) or (not good and found == "0")):
                return f"allow user namespaces: sudo sysctl {name}={good or 10000}"
    if "not implemented" in why:
        return "use Linux 5.12 or newer, or choose sandbox: none"
    if Path("/.dockerenv").exists() or Path("/run/.containerenv").exists():
        return (
            "start this container with --security-opt seccomp=unconfined --security-opt systempaths=unconfined, or choose "
            "sandbox: none, as the container is a sandbox itself"
        )
    return "choose sandbox: none to run commands without one"
