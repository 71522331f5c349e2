"""What ends our shells when this process is killed and can end nothing itself."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from pathlib import Path

_SCRIPT = str(Path(__file__).with_name("_watchdog.sh"))


class Watchdog:
    """A small process that waits for the end of a pipe which only we hold. One for all environments, while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: set[str] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def enter(self, root: str) -> None:
        """``root`` is a folder that must not outlive us."""
        with self._lock:
            self._users.add(root)
            if self._process is None or self._owner != os.getpid() or self._process.poll() is not None:
                self._start()
            self._say(f"/{root}")

    def leave(self, root: str) -> None:
        with self._lock:
            self._users.discard(root)
            self._say(f"0{root}")
            if not self._users and self._process is not None and self._owner == os.getpid():
                process, self._process = self._process, None
                process.communicate()

    def add(self, session: int) -> None:
        with self._lock:
            self._say(f"+{session}")

    def remove(self, session: int) -> None:
        """Nothing of that session is left: its number may be another's from now on."""
        with self._lock:
            self._say(f"-{session}")

    def _start(self) -> None:
        self._owner = os.getpid()
        with contextlib.suppress(OSError):  # no more processes: the shells themselves will say so
            self._process = subprocess.Popen(
                ["bash", "--noprofile", "--norc", _SCRIPT],
                cwd="/",
                env={},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                bufsize=0,
            )

    def _say(self, line: str) -> None:
        if self._process is not None and self._process.stdin is not None and self._owner == os.getpid():
            with contextlib.suppress(OSError):  # somebody killed it; the next environment starts another
                self._process.stdin.write(line.encode() + b"\n")


watchdog = Watchdog()
