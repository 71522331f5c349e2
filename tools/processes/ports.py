"""TCP ports that processes listen on, read from /proc."""

from __future__ import annotations

from collections.abc import Sequence

_LISTENS = "0A"
"""State of a listening socket in /proc/net/tcp (include/net/tcp_states.h of Linux)."""


def script(pids: Sequence[int]) -> str:
    """Return a script that prints the sockets of processes, and all TCP sockets of their network."""
    folders = " ".join(f"/proc/{pid}/fd" for pid in pids)
    return f"cat /proc/net/tcp /proc/net/tcp6 2>/dev/null; ls -l {folders} 2>/dev/null; :"


def listening(said: bytes) -> Sequence[int]:
    """Return the ports in the output of ``script``, in ascending order."""
    sockets: dict[str, int] = {}
    owned: set[str] = set()
    for line in said.decode(errors="replace").splitlines():
        words = line.split()
        if len(words) > 9 and words[0].endswith(":") and words[3] == _LISTENS:
            sockets[words[9]] = int(words[1].rpartition(":")[2], 16)
        elif words and words[-1].startswith("socket:["):
            owned.add(words[-1][8:-1])
    return sorted({port for inode, port in sockets.items() if inode in owned})
