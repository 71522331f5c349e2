"""Owners of what processes keep outside themselves, so that the next start removes what a killed one left behind."""

from __future__ import annotations

import contextlib
import os
import socket

from tools import alive


def us() -> str:
    """Return this process's identity: machine, boot, process namespace, number, start."""
    return " ".join((*_here(), str(os.getpid()), alive.started(os.getpid()) or ""))


def _here() -> tuple[str, str, str]:
    space = "?"
    with contextlib.suppress(OSError):  # not Linux
        space = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - a string is wanted
    return socket.gethostname(), alive.boot() or "?", space


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
    return space == here[2] and (not pid.isdigit() or (alive.started(int(pid)) or "") != start)
