"""Owners of resources outside a process: the next start of toolcrib removes the resources of a killed process."""

from __future__ import annotations

import contextlib
import os
import socket

from tools import alive


def us() -> str:
    """Return this process's identity: host, boot, process namespace, process number and start time."""
    return " ".join((*_here(), str(os.getpid()), alive.started(os.getpid()) or ""))


def _here() -> tuple[str, str, str]:
    space = "?"
    with contextlib.suppress(OSError):  # not Linux
        space = os.readlink("/proc/self/ns/pid")  # noqa: PTH115 - the result is used as a string
    return socket.gethostname(), alive.boot() or "?", space


def is_dead(owner: str) -> bool:
    """Return True if the owner has ended; False if it lives or if this process cannot find out."""
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
