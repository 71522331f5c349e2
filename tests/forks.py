"""Programs that start quickly: a process that has loaded toolcrib once is forked, instead of loading it for each start.

Most of a short start is the loading of hundreds of modules. Importing a module only defines things (tests/house/test_start.py),
so a fork is like a new process that has just loaded them. It is a child of the test's process, and has its own session, terminal,
working directory, environment, command line and standard streams. It ends as a new process does. tests/e2e/test_forks.py compares
the two.
"""

from __future__ import annotations

import atexit
import ctypes
import fcntl
import gc
import io
import json
import os
import platform
import pty
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import pexpect
from pexpect.pty_spawn import ptyprocess

COMMAND = Path(sys.executable).with_name("toolcrib")
_ROOT = Path(__file__).resolve().parents[1]
_CLONE = {"x86_64": 56, "aarch64": 220}
"""Numbers of the system call."""
_CLONE_PARENT = 0x8000
_LOADED: dict[str, ModuleType] = {}
"""Modules that only a process which is forked has loaded."""
_READ_AT_START = ("PYTHON", "LC_", "LANG", "COVERAGE", "LD_", "MALLOC_")
"""Beginnings of variables that a process reads when it starts."""


def _read_at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(_READ_AT_START) and name != "PYTHONPATH"}


def _python_path(env: Mapping[str, str]) -> list[str]:
    """Return the folders that come first in sys.path."""
    return [folder for folder in env.get("PYTHONPATH", "").split(os.pathsep) if folder]


class _Forked(subprocess.Popen[Any]):
    """A forked program."""

    def __init__(self, forks: Forks, job: dict[str, Any], **options: Any) -> None:
        self._forks = forks
        self._job = job
        super().__init__([str(COMMAND), *job["argv"]], **options)

    def _execute_child(self, *given: Any) -> None:
        pipes: tuple[int, ...] = given[10:16]
        reads, _, _, writes, _, errors = pipes
        try:
            streams = [number if opened < 0 else opened for number, opened in enumerate((reads, writes, errors))]
            self.pid = self._forks._start(self._job, streams)
            self._child_created = True
        finally:
            self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]  # as in the method that this one replaces


class Forks:
    """A context manager: the process that is forked. It is started when first used.

    Its methods start ``toolcrib ARGV``, or ``python -c CODE ARGV`` if they get ``code``. On machines that can't fork for another
    process, and under coverage, whose data each process writes at its end, they start a new program.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: socket.socket | None = None
        self._env = dict(os.environ)

    def __enter__(self) -> Forks:
        return self

    def __exit__(self, *error: object) -> None:
        if self._process is not None and self._channel is not None:
            self._channel.close()
            self._process.wait()

    def popen(self, *argv: str, cwd: Path, env: Mapping[str, str] | None = None, code: str = "", **options: Any) -> Any:
        """Start it in its own session, as ``subprocess.Popen``. ``options`` are those for pipes."""
        env = dict(os.environ if env is None else env)
        if self._can_start(env):
            return _Forked(self, {"argv": argv, "cwd": str(cwd), "env": env, "code": code}, **options)
        command = [sys.executable, "-c", code, *argv] if code else [str(COMMAND), *argv]
        return subprocess.Popen(command, cwd=cwd, env=env, start_new_session=True, **options)

    def run(self, *argv: str, stdin: str = "", timeout: float = 60, **options: Any) -> subprocess.CompletedProcess[str]:
        """Start it and wait for its end, as ``subprocess.run``."""
        given = subprocess.PIPE if stdin else subprocess.DEVNULL
        with self.popen(*argv, stdin=given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options) as process:
            try:
                out, err = process.communicate(stdin or None, timeout)
            except BaseException:
                process.kill()
                raise
        return subprocess.CompletedProcess(argv, process.returncode, out, err)

    def spawn(self, *argv: str, cwd: Path, env: Mapping[str, str] | None = None, **options: Any) -> Any:
        """Start it at a terminal, as ``pexpect.spawn``."""
        env = dict(os.environ if env is None else env)
        spawn = partial(_Spawned, self) if self._can_start(env) else pexpect.spawn
        return spawn(str(COMMAND), [*argv], cwd=str(cwd), env=env, preexec_fn=heeds_interrupts, **options)

    def _can_start(self, env: Mapping[str, str]) -> bool:
        is_measured = any(name.startswith("COVERAGE_PROCESS") for name in env)
        is_known = sys.platform == "linux" and platform.machine() in _CLONE
        is_like = _read_at_start(env) == _read_at_start(self._env) and {*_python_path(env)} >= {*_python_path(self._env)}
        return is_known and not is_measured and is_like

    def _start(self, job: dict[str, Any], streams: Sequence[int]) -> int:
        if self._channel is None:
            self._open()
        assert self._channel is not None
        data = json.dumps(job).encode()
        socket.send_fds(self._channel, [len(data).to_bytes(4, "big")], streams)
        self._channel.sendall(data)
        return int.from_bytes(_received(self._channel, 4), "big")

    def _open(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._channel = ours
            self._process = subprocess.Popen(
                [sys.executable, str(Path(__file__)), str(theirs.fileno())],
                cwd=Path(__file__).parent,  # it outlives the test whose folder it would be in
                env=self._env,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )


class _Spawned(pexpect.spawn):  # type: ignore[misc]  # pexpect has no types
    """A forked program at a terminal."""

    def __init__(self, forks: Forks, *args: Any, **options: Any) -> None:
        self._forks = forks
        super().__init__(*args, **options)

    def _spawnpty(
        self, args: list[str], *, env: Mapping[str, str], cwd: str, dimensions: tuple[int, int], echo: bool = True, **_: Any
    ) -> Any:
        master, slave = pty.openpty()
        try:
            termios.tcsetwinsize(slave, dimensions)
            if not echo:
                modes = termios.tcgetattr(slave)
                modes[3] &= ~termios.ECHO
                termios.tcsetattr(slave, termios.TCSANOW, modes)
            pid = self._forks._start(
                {"argv": [os.fsdecode(one) for one in args[1:]], "cwd": os.fsdecode(cwd), "env": env}, [slave] * 3
            )
        finally:
            os.close(slave)
        return ptyprocess.PtyProcess(pid, master)


def heeds_interrupts() -> None:
    """Handle Ctrl-C as at a user's terminal: a test run that a script started in the background ignores SIGINT, and its children
    inherit that.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _received(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        if not (more := channel.recv(size - len(data))):
            raise EOFError("the process that is forked has ended")
        data += more
    return data


# -- in the process that is forked -----------------------------------------------------------------------------------


def fork_for_parent() -> int:
    """Fork. The new process is a child of our parent, which can wait for it; ``os.fork`` has no such flag."""
    api, libc = ctypes.pythonapi, ctypes.PyDLL(None, use_errno=True)  # both keep the interpreter's lock
    api.PyOS_BeforeFork()
    pid = int(libc.syscall(_CLONE[platform.machine()], _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0))
    if pid == 0:
        api.PyOS_AfterFork_Child()
    else:
        api.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return pid


def become(job: Mapping[str, Any], streams: Sequence[int]) -> None:
    """Give this fork what a new process has."""
    os.setsid()
    for number, opened in enumerate(streams):
        os.dup2(opened, number)
    os.closerange(3, 1024)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(job["cwd"])
    sys.path[: len(_python_path(os.environ))] = _python_path(job["env"])
    os.environ.clear()
    os.environ.update(job["env"])
    sys.argv = ["-c" if job.get("code") else "toolcrib", *job["argv"]]
    sys.stdin = sys.__stdin__ = _like(sys.stdin, 0, "r")
    sys.stdout = sys.__stdout__ = _like(sys.stdout, 1, "w")
    sys.stderr = sys.__stderr__ = _like(sys.stderr, 2, "w")


def _like(old: Any, number: int, mode: str) -> io.TextIOWrapper:
    """Open a standard stream as Python does; ``old`` is the one of this process."""
    direct = bool(old.write_through)  # PYTHONUNBUFFERED
    raw = open(number, f"{mode}b", buffering=0 if direct and mode == "w" else -1, closefd=False)  # noqa: SIM115 - it stays open
    by_lines = not direct and (number == 2 or os.isatty(number))
    return io.TextIOWrapper(raw, old.encoding, old.errors, line_buffering=by_lines, write_through=direct)


def keep_modules() -> None:
    """Keep what was loaded before the fork to the end of this process. Deleting all its objects would copy most of the memory
    that the processes share, which takes three times as long as a short command.
    """
    for name, module in _LOADED.items():
        if sys.modules.pop(name, None) is module:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(module))


def run_code(code: str) -> None:
    """Run a program as ``python -c`` does."""
    sys.path.insert(0, "")
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(compile(code, "<string>", "exec"), main.__dict__)  # noqa: S102 - the code of a test


def serve(channel: socket.socket) -> dict[str, Any] | None:
    """Fork for each job. Return its job in a fork, which then runs the program, and None after the last job."""
    while True:
        data, streams, _, _ = socket.recv_fds(channel, 4, 3)
        if not data:
            return None
        job: dict[str, Any] = json.loads(_received(channel, int.from_bytes(data, "big")))
        if (pid := fork_for_parent()) == 0:
            channel.detach()
            become(job, streams)
            return job
        for opened in streams:
            os.close(opened)
        channel.sendall(pid.to_bytes(4, "big"))


if __name__ == "__main__":
    sys.path[0] = str(_ROOT)  # for tests alone
    from tests.fuzz.kill_forks import load

    atexit.register(keep_modules)  # first, so that it runs last
    before = set(sys.modules)
    load()
    _LOADED.update((name, module) for name, module in sys.modules.items() if name not in before)
    del sys.path[0]
    gc.collect()
    gc.freeze()
    if job := serve(socket.socket(fileno=int(sys.argv[1]))):
        if job.get("code"):
            run_code(job["code"])
        else:
            from agent.cli import main

            sys.exit(main())
