"""Watchdog process that ends our shells when this process is killed and can end nothing itself."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from pathlib import Path

_SCRIPT = str(Path(__file__).with_name("_watchdog.sh"))


class Watchdog:
    """A small process that waits for the end of a pipe which only we hold. One for all environments, while there are any.

    Where somebody killed it, the next thing that it is to be told starts another, which is told everything.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: set[str] = set()
        self._sessions: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def enter(self, root: str) -> None:
        """Watch for an environment. ``root`` is a folder that must not outlive this process."""
        with self._lock:
            if self._owner != os.getpid():  # a fork: what was here is our parent's
                self._owner, self._process = os.getpid(), None
                self._users, self._sessions = set(), set()
            self._users.add(root)
            self._say(f"/{root}")

    def leave(self, root: str) -> None:
        with self._lock:
            self._users.discard(root)
            if not self._users and self._process is not None and self._owner == os.getpid():
                process, self._process = self._process, None
                with contextlib.suppress(OSError):  # somebody killed it
                    _write(process, f"0{root}")
                process.communicate()
            else:
                self._say(f"0{root}")

    def add(self, session: int) -> None:
        with self._lock:
            self._sessions.add(session)
            self._say(f"+{session}")

    def remove(self, session: int) -> None:
        """Forget a session that is empty: the kernel may reuse its number from now on."""
        with self._lock:
            self._sessions.discard(session)
            self._say(f"-{session}")

    def _say(self, line: str) -> None:
        if self._owner != os.getpid() or not self._users:
            return
        if self._process is not None:
            with contextlib.suppress(OSError):  # it has been killed
                _write(self._process, line)
                return
            dead, self._process = self._process, None
            dead.kill()
            dead.communicate()
        with contextlib.suppress(OSError):  # no more processes: the shells themselves will say so
            self._process = process = _started()
            for known in (*(f"/{root}" for root in self._users), *(f"+{session}" for session in self._sessions)):
                _write(process, known)


def _started() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        ["bash", "--noprofile", "--norc", _SCRIPT],
        cwd="/",
        env={},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        bufsize=0,
    )


def _write(process: subprocess.Popen[bytes], line: str) -> None:
    assert process.stdin is not None  # noqa: S101 - it was given a pipe
    process.stdin.write(line.encode() + b"\n")


watchdog = Watchdog()
