"""Processes of toolcrib that are watched line by line, and killed with their group after a number of events."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[2]
_MAIN = (
    "import fcntl, os, sys, termios\n"
    "if os.isatty(0): fcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"  # as a terminal's window does
    "from agent.cli import main\n"
    "sys.exit(main(sys.argv[1:]))"
)
_PATIENCE = 60.0
"""Seconds after which a process counts as hanging."""


class Progress:
    """A counter of events: lines that are read, requests, replies."""

    def __init__(self) -> None:
        self._count = 0
        self._changed = threading.Condition()

    def begin(self) -> None:
        """Count from 0."""
        with self._changed:
            self._count = 0

    def __call__(self) -> None:
        with self._changed:
            self._count += 1
            self._changed.notify_all()

    def reached(self, count: int, seconds: float) -> bool:
        """Wait until the counter has reached ``count``, and return whether it did in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._count >= count, seconds)


@dataclass(frozen=True)
class KillPoint:
    """A process is killed ``seconds`` after ``events`` events; or ``instead`` is called."""

    events: int
    seconds: float
    instead: Callable[[], None] | None = None

    def __str__(self) -> str:
        return f"{self.seconds * 1000:.0f} ms after event {self.events}"


@dataclass
class Ended:
    """A process's identity and output. ``code`` is its exit code, less than 0 for a signal; None for one that hung. ``struck``:
    the planned kill happened before it ended.
    """

    argv: list[str]
    code: int | None
    struck: KillPoint | None
    lines: list[str]
    errors: str
    seconds: float = 0.0

    @property
    def events(self) -> list[dict[str, Any]]:
        """The events in the complete lines of its output."""
        return [json.loads(line) for line in self.lines if line.startswith("{") and line.endswith("}\n")]


class Starter:
    """Starts processes in ``project``. With ``forks`` they are forked from a process that has loaded toolcrib, which is faster;
    else each is started like a user's.
    """

    def __init__(self, project: Path, env: dict[str, str], progress: Progress, *, forks: ForkServer | None = None) -> None:
        self._project = project
        self._env = {**env, "PYTHONPATH": str(_ROOT)}
        self._progress = progress
        self._forks = forks

    def run(self, *argv: str, at: KillPoint | None = None, typed: str = "", terminal: bool = False) -> Ended:
        """Run ``toolcrib ARGV`` to its end, or to the kill point. ``typed`` is piped in; ``terminal``: it has a terminal for
        questions.
        """
        self._progress.begin()
        begun = time.monotonic()
        folder = self._project.parent
        out, err, given = folder / "out", folder / "err", folder / "given"
        err.write_text("")
        given.write_text(typed)
        master, slave = pty.openpty() if terminal else (-1, -1)
        lines: list[str] = []
        out.unlink(missing_ok=True)
        os.mkfifo(out)
        reader = threading.Thread(target=self._read, args=(out, lines), daemon=True)
        reader.start()
        job = {"argv": [*argv], "cwd": str(self._project), "env": self._env, "out": str(out), "err": str(err)}
        job |= {"input": str(given) if typed else "", "tty": os.ttyname(slave) if terminal else ""}
        started = _Forked(self._forks, job) if self._forks is not None else _Executed(job, slave)
        drained = threading.Thread(target=_drain, args=(master,), daemon=True)
        drained.start()
        if slave >= 0:
            os.close(slave)
        struck: list[KillPoint] = []
        watch = threading.Thread(target=self._strike, args=(started, at, struck), daemon=True) if at is not None else None
        if watch is not None:
            watch.start()
        code = started.wait(_PATIENCE)
        hung = code is None
        if hung:
            started.kill()
            started.wait(_PATIENCE)
        with contextlib.suppress(OSError):  # a process that was killed before it opened its output leaves the reader waiting
            os.close(os.open(out, os.O_WRONLY | os.O_NONBLOCK))
        reader.join()
        if watch is not None:
            self._progress_is_over()
            watch.join()
        drained.join()
        if master >= 0:
            os.close(master)
        told = struck[0] if struck and (code == -signal.SIGKILL or struck[0].instead) and not hung else None
        return Ended([*argv], None if hung else code, told, lines, err.read_text(), time.monotonic() - begun)

    def _read(self, out: Path, lines: list[str]) -> None:
        with out.open(encoding="utf-8", errors="replace") as pipe:
            for line in pipe:
                lines.append(line)
                self._progress()

    def _strike(self, started: Any, at: KillPoint, struck: list[KillPoint]) -> None:
        if self._progress.reached(at.events, _PATIENCE) and not started.ended.wait(at.seconds):
            struck.append(at)
            (at.instead or started.kill)()

    def _progress_is_over(self) -> None:
        for _ in range(1_000):
            self._progress()


def _drain(master: int) -> None:
    with contextlib.suppress(OSError):  # no process has it open any more
        while master >= 0 and os.read(master, 4096):
            continue


class _Executed:
    def __init__(self, job: dict[str, Any], slave: int) -> None:
        self.ended = threading.Event()
        given = slave if slave >= 0 else os.open(job["input"] or os.devnull, os.O_RDONLY)
        err = os.open(job["err"], os.O_WRONLY | os.O_CREAT, 0o600)
        out = os.open(job["out"], os.O_WRONLY)
        self._process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, *job["argv"]],
            stdin=given,
            stdout=out,
            stderr=err,
            cwd=job["cwd"],
            env=job["env"],
            start_new_session=True,
        )
        for opened in {given, err, out} - {slave}:
            os.close(opened)

    def wait(self, seconds: float) -> int | None:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            if self._process.returncode is not None:
                self.ended.set()

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)


class ForkServer:
    """A connection to the process of tests/fuzz/kill_forks.py."""

    def __init__(self) -> None:
        script = str(Path(__file__).with_name("kill_forks.py"))
        # Forks end abruptly, so coverage's data would be lost, and they are slower under it.
        env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
        self.process = subprocess.Popen(
            [sys.executable, script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**env, "PYTHONPATH": str(_ROOT)},
        )
        self.line()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def send(self, job: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()

    def close(self) -> None:
        self.process.communicate()


class _Forked:
    def __init__(self, server: ForkServer, job: dict[str, Any]) -> None:
        self.ended = threading.Event()
        self._code: int | None = None
        server.send(job)
        self._pid = int(server.line())
        self._waiter = threading.Thread(target=self._wait, args=(server,), daemon=True)
        self._waiter.start()

    def _wait(self, server: ForkServer) -> None:
        self._code = int(server.line() or -1)
        self.ended.set()

    def wait(self, seconds: float) -> int | None:
        self.ended.wait(seconds)
        return self._code

    def kill(self) -> None:
        if self.ended.is_set():
            return
        for kill in (os.killpg, os.kill):  # it may have no group of its own yet
            with contextlib.suppress(ProcessLookupError):
                kill(self._pid, signal.SIGKILL)
                return
