"""Whose something is, so that what a process left behind that was killed is put away at the next start."""

from __future__ import annotations

import contextlib
import os
import socket
from pathlib import Path


def us() -> str:
    """This process: machine, boot, process namespace, number, start."""
    return " ".join((*_here(), str(os.getpid()), _start_of(os.getpid())))


def _here() -> tuple[str, str, str]:
    boot, space = "?", "?"
    with contextlib.suppress(OSError):  # not Linux
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        space = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - a string is wanted
    return socket.gethostname(), boot, space


def _start_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def is_dead(owner: str) -> bool:
    """False where that cannot be known from here."""
    words = owner.split(" ")
    if len(words) != 5:
        return False
    machine, boot, space, pid, start = words
    here = _here()
    if machine != here[0] or "?" in (boot, space):
        return False
    if boot != here[1]:
        return True
    return space == here[2] and (not pid.isdigit() or _start_of(int(pid)) != start)
