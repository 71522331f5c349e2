"""Watchdog process that ends this process's shells when this process is killed."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from pathlib import Path

_SCRIPT = str(Path(__file__).with_name("_watchdog.sh"))


class ShellWatchdog:
    """A small process that waits for the end of a pipe that only this process holds open. One serves all environments.

    If it was killed, the next message starts another, which gets all known facts.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: set[str] = set()
        self._sessions: set[int] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def enter(self, root: str) -> None:
        """Register an environment. ``root`` is its folder, which must not outlive this process."""
        with self._lock:
            if self._owner != os.getpid():  # after a fork the state is the parent's
                self._owner, self._process = os.getpid(), None
                self._users, self._sessions = set(), set()
            self._users.add(root)
            self._say(f"/{root}")

    def leave(self, root: str) -> None:
        """Unregister an environment. The watchdog ends with the last one."""
        with self._lock:
            self._users.discard(root)
            if not self._users and self._process is not None and self._owner == os.getpid():
                process, self._process = self._process, None
                with contextlib.suppress(OSError):  # it was killed
                    _write(process, f"0{root}")
                process.communicate()
            else:
                self._say(f"0{root}")

    def add(self, session: int) -> None:
        """Add a session that must not outlive this process."""
        with self._lock:
            self._sessions.add(session)
            self._say(f"+{session}")

    def remove(self, session: int) -> None:
        """Forget an empty session, whose number the kernel may reuse from now on."""
        with self._lock:
            self._sessions.discard(session)
            self._say(f"-{session}")

    def _say(self, line: str) -> None:
        if self._owner != os.getpid() or not self._users:
            return
        if self._process is not None:
            with contextlib.suppress(OSError):  # it was killed
                _write(self._process, line)
                return
            dead, self._process = self._process, None
            dead.kill()
            dead.communicate()
        with contextlib.suppress(OSError):  # no process can be started; starting a shell will report that
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


watchdog = ShellWatchdog()
