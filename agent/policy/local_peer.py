"""The process at the other end of a UNIX socket: its account, and whether it may decide for a user."""

from __future__ import annotations

import os
import select
import socket
import struct
from collections.abc import Iterable
from pathlib import Path

from agent.policy.self_protection import is_outside
from toolcrib.contract.passing import raise_passing

_CREDENTIALS = struct.Struct("3i")
_SO_PEERPIDFD = 77
"""Socket option of Linux 6.5 and later, which Python does not name. It identifies the process even if its number was reused."""


class LocalPeer:
    """The process that connected or listens, even if another process now has its socket. ``uid`` is its account."""

    def __init__(self, link: socket.socket) -> None:
        """Raise OSError if the kernel does not report the process, or no descriptor is left."""
        self._pid, self.uid, _ = _CREDENTIALS.unpack(link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
        self._pidfd = _pidfd(link, self._pid)

    def is_outside(self, folders: Iterable[Path]) -> bool:
        """Return whether the process runs and is proven to be outside of all sessions. This process always is."""
        if self._pid == os.getpid():
            return True
        return self._lives() and is_outside(self._pid, folders) and self._lives()

    def close(self) -> None:
        """Close the descriptor of the process; then nothing can be proven."""
        if self._pidfd >= 0:
            os.close(self._pidfd)
            self._pidfd = -1

    def _lives(self) -> bool:
        if self._pidfd < 0:
            return False
        watch = select.poll()
        watch.register(self._pidfd, select.POLLIN)
        return not watch.poll(0)


def _pidfd(link: socket.socket, pid: int) -> int:
    """Return a descriptor of the process, -1 if it has ended or is invisible."""
    try:
        return link.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except ProcessLookupError:
        return -1
    except OSError as error:  # an older kernel
        raise_passing(error)
        try:
            return os.pidfd_open(pid)
        except (AttributeError, OSError) as second:
            raise_passing(second)
            return -1
