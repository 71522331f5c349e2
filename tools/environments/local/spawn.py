"""Start one shell command: its arguments, descriptors and session."""

from __future__ import annotations

import errno
import fcntl
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import EnvironmentFailed
from tools.environments._started import started

_REPORT = str(Path(__file__).with_name("_report_cwd.sh"))
_LONGEST_ARGUMENT = 100_000
"""Maximum bytes of an argument. Linux accepts 131,072; a longer command is read from a file."""
_HIGH = 200
"""Minimum number of the descriptor that reports cwd, because scripts use the low numbers themselves."""


@dataclass(frozen=True, slots=True)
class ShellProgram:
    """A shell by its path; ``is_bash`` selects how it reports a command's final folder."""

    path: str
    is_bash: bool


@dataclass(frozen=True, slots=True)
class Started:
    """A started command. ``pipes``: read ends of its output by stream name; ``report``: read end for its final folder."""

    process: subprocess.Popen[bytes]
    pipes: dict[str, int]
    report: int


def spawn(shell: ShellProgram, command: str, cwd: str, env: Mapping[str, str], stdin: bytes) -> Started:
    """Start the command in its own session, without a terminal. Raises EnvironmentFailed, and then leaves nothing open."""
    ours: list[int] = []
    theirs: list[int] = []
    try:
        stdout, stderr, report = (_pipe(ours, theirs) for _ in range(3))
        theirs.append(os.dup(theirs[2]) if theirs[2] >= _HIGH else fcntl.fcntl(theirs[2], fcntl.F_DUPFD_CLOEXEC, _HIGH))
        report_to = theirs[3]
        text = _as_bytes(command)
        passed = [report_to]
        if len(text) > _LONGEST_ARGUMENT:
            theirs.append(_file_of(text))
            passed.append(theirs[-1])
            text = b". /dev/fd/%d" % theirs[-1]
        if stdin:
            theirs.append(_file_of(stdin))
        process = started(
            _argv(shell, text, report_to),
            shell.path,
            stdin=theirs[-1] if stdin else subprocess.DEVNULL,
            stdout=theirs[0],
            stderr=theirs[1],
            cwd=cwd,
            env={"BASH_ENV": _REPORT, "TOOLCRIB_CWD_FD": str(report_to), **env, "PWD": cwd}
            if shell.is_bash
            else {**env, "PWD": cwd},
            start_new_session=True,
            pass_fds=passed,
        )
    except BaseException as error:
        for fd in ours:
            os.close(fd)
        if isinstance(error, (OSError, ValueError)):
            raise EnvironmentFailed(_why(error, shell, cwd)) from error
        raise
    finally:
        for fd in theirs:
            os.close(fd)
    return Started(process, {"stdout": stdout, "stderr": stderr}, report)


def reported_cwd(report: int, start: str) -> str:
    """Return the ended command's working folder with links resolved; ``start`` if it reported none."""
    os.set_blocking(report, False)
    try:
        said = os.read(report, 1 << 16)
    except BlockingIOError:
        return start
    # A signal during the report makes bash print it twice.
    path = os.fsdecode(said.rpartition(b"\0")[0].rpartition(b"\0")[2])
    return os.path.realpath(path) if path.startswith("/") and path != start else start


def _argv(shell: ShellProgram, text: bytes, report_to: int) -> list[str | bytes]:
    if shell.is_bash:
        return ["bash", "--norc", "-c", text]
    # sh reads no startup file. Some shells limit the digits after >&, but none limits a path.
    report = f"""trap '{{ printf "%s\\0" "${{PWD-}}"; }} 2>/dev/null >/dev/fd/{report_to}' EXIT; eval "$1" """
    return ["sh", "-c", report, "sh", text]


def _pipe(ours: list[int], theirs: list[int]) -> int:
    read, write = os.pipe()
    ours.append(read)
    theirs.append(write)
    return read


def _file_of(data: bytes) -> int:
    """Return an unnamed file with ``data``, positioned at its start. A pipe would need a writer while the command runs."""
    if hasattr(os, "memfd_create"):
        fd = os.memfd_create("toolcrib")
    else:
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(fd, view) :]
        os.lseek(fd, 0, os.SEEK_SET)
    except OSError:
        os.close(fd)
        raise
    return fd


def _as_bytes(command: str) -> bytes:
    text = os.fsencode(command)
    if b"\0" in text:
        raise ValueError("the command contains a NUL character: write it as an escape, such as printf '\\0'")
    return text


def _why(error: OSError | ValueError, shell: ShellProgram, cwd: str) -> str:
    if isinstance(error, UnicodeError):
        return "the command is not valid Unicode text: send it as plain UTF-8"
    if isinstance(error, ValueError):
        return str(error)
    if isinstance(error, (FileNotFoundError, NotADirectoryError, PermissionError)) and error.filename == cwd:
        return f"cannot start in {cwd}: {error.strerror}: choose another cwd"
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return f"too many open files to start {shell.path}: close some sessions, or raise `ulimit -n`"
    if error.errno in (errno.EAGAIN, errno.ENOMEM):
        return f"no process can be started ({error.strerror}): too many run already, or memory is short"
    if error.errno == errno.E2BIG:
        return "the environment given to the command is too large: pass fewer or shorter variables"
    return f"cannot start {shell.path}: {error.strerror or error}"
