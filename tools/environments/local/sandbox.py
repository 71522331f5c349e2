"""Sandbox on this machine: all files readable, few writable, no network, no other processes, a /tmp of its own."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from toolcrib import EnvironmentFailed
from tools.environments import _groups
from tools.environments._census import Sessions
from tools.environments._started import started
from tools.environments._workers import Workers
from tools.environments.shell.launcher import ShellProcess
from tools.environments.shell.watchdog import watchdog

_INNER = "/dev/.toolcrib"
"""Path in the sandbox of the folder through which we speak to its shells: nowhere that commands list or clean."""
_EPHEMERAL = ("/tmp", "/run", "/dev/shm")  # noqa: S108 - in the sandbox
"""Folders where its commands can leave files that are deleted with the sandbox."""
_LOOKS = 100
_enders = Workers("toolcrib-sandbox-end", 4)
_START_LIMIT = 20.0
_STATUS_LIMIT = 5.0
"""Seconds that a wrapper has to say how its shell ended, most of it for a machine under load."""
_NEEDED = "install it (apt install bubblewrap), or choose sandbox: none"
_KEEPER = r"""
set -m
trap : INT TERM HUP
printf 'ready\n' >&3
while IFS= read -r folder; do
  {
    cd "$folder" && { env -i TERM=dumb setsid bash --noprofile --norc bash; printf '%s\n' $? >status; }
  } </dev/null >/dev/null 2>&1 3>&- &
done
"""
"""Script that starts a shell for each line that it reads; at the end of its input it ends, and with it all that is in the
sandbox.
"""


class _Process:
    """A shell in the sandbox, and the ``wrapper`` that started it and will say how it ended. ``folder`` is where both began.

    Numbers of its session count only in the sandbox's own process namespace: out here they may be another's one day.
    Raises OSError where it is gone or is not that shell.
    """

    def __init__(self, pid: int, wrapper: int, folder: str) -> None:
        self.pid = self.session = pid
        self._status = f"{folder}/status"
        self._code: int | None = None
        self._wrapper = self._pidfd = -1
        try:
            self._wrapper, self._pidfd = os.pidfd_open(wrapper), os.pidfd_open(pid)
            self._space = os.readlink(f"/proc/{pid}/ns/pid")  # noqa: PTH115 - a string is compared
            if not _is_in(pid, folder) or os.getsid(pid) != pid:
                raise ProcessLookupError(errno.ESRCH, os.strerror(errno.ESRCH))
        except OSError:
            self._drop()
            raise

    def fileno(self) -> int:
        return self._pidfd

    def exit_code(self) -> int | None:
        if self._code is None and self._pidfd >= 0 and _has_ended(self._pidfd):
            self._code = self._said()
        return self._code

    def members(self, since: _groups.Moment | None = None) -> list[_groups.Member]:
        return [one for one in _groups.members(self.session, since) if self._is_inside(one.pid)]

    def among(self, sessions: Sessions) -> list[_groups.Member]:
        return [one for one in sessions.get(self.session, ()) if self._is_inside(one.pid)]

    def _is_inside(self, pid: int) -> bool:
        try:
            return os.readlink(f"/proc/{pid}/ns/pid") == self._space  # noqa: PTH115 - as above
        except OSError:  # gone
            return False

    def send(self, number: int) -> None:
        if self._pidfd >= 0:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, number)

    def reap(self) -> None:
        """The sandbox does that itself."""

    def _said(self) -> int:
        """The wrapper writes its status and ends right after it; unless that died too, with the whole sandbox."""
        _has_ended(self._wrapper, _STATUS_LIMIT)
        with contextlib.suppress(OSError, ValueError):  # it is not there
            # What is there may be anything: commands can reach it.
            fd = os.open(self._status, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
            try:
                return int(os.read(fd, 8)) & 0xFF
            finally:
                os.close(fd)
        return 128 + signal.SIGKILL

    def close(self) -> None:
        if self._pidfd >= 0:
            self.exit_code()
        self._drop()

    def _drop(self) -> None:
        for fd in (self._pidfd, self._wrapper):
            if fd >= 0:
                os.close(fd)
        self._pidfd = self._wrapper = -1


class Sandbox:
    """A bubblewrap process and the shells in it: a Launcher of shells. Started when first needed, and again after it died.

    Where commands kill its keeper, everything that still runs in it is ended before another sandbox is started.
    """

    where = "local:bubblewrap"
    descriptors = 12
    """The number of our descriptors for a shell, with those of the sandbox itself."""

    def __init__(self, root: str, writable: Sequence[str], masked: Sequence[str], network: bool, processes: int) -> None:
        self.root, self.inner = root, _INNER
        self._writable, self._masked, self._network, self._processes = writable, masked, network, processes
        self._process: subprocess.Popen[bytes] | None = None
        self._keeper = 0
        self._pidfds: tuple[int, ...] = ()
        """Descriptors of its first process, which takes all others with it when it ends, and of the keeper."""
        self._lock = threading.Lock()

    # -- shells --------------------------------------------------------------------------------------------------

    def start(self, inner_folder: str, folder: str) -> _Process:
        give_up = time.monotonic() + _START_LIMIT
        with self._lock:
            while time.monotonic() < give_up and not os.path.lexists(f"{folder}/status"):
                process = self._running()
                assert process.stdin is not None  # noqa: S101 - it was given a pipe
                with contextlib.suppress(BrokenPipeError):  # the sandbox has just ended: nothing was run, another will do
                    process.stdin.write(f"{inner_folder}\n".encode())
                while time.monotonic() < give_up and self._lives() and not os.path.lexists(f"{folder}/status"):
                    found = self._find(folder)
                    if found is not None:
                        return found
                    time.sleep(0.0005)
        raise EnvironmentFailed(
            "no shell could be started in the sandbox: too many processes may run already, or memory is short"
        )

    def _find(self, folder: str) -> _Process | None:
        """The shell that was started in that folder, of which no other knows. The kernel's lists may leave somebody out."""
        for wrapper in _children(self._keeper):
            for pid in _children(wrapper) if _is_in(wrapper, folder) else ():
                with contextlib.suppress(OSError):  # not yet a shell, or gone
                    return _Process(pid, wrapper, folder)
        return None

    def attach(self, process: ShellProcess, said_pid: int) -> None:
        """Do nothing: the process number that the shell reports means nothing outside the sandbox."""

    # -- files ---------------------------------------------------------------------------------------------------

    def view(self) -> str:
        """A path to its root folder, as its commands see it. Raises EnvironmentFailed."""
        with self._lock:
            self._running()
            return f"/proc/{self._keeper}/root"

    def is_up(self) -> bool:
        """Return True if the sandbox runs now, as far as no other thread starts or ends it at this moment."""
        return self._process is not None and self._lives()

    def serves(self, view: str) -> bool:
        """Return True if ``view`` still shows the sandbox: then a file that is not found there does not exist."""
        with self._lock:
            return view == f"/proc/{self._keeper}/root" and self._lives()

    async def rest(self) -> bool:
        """End the sandbox. False where a shell is in it, or commands left files there that would be gone with it."""
        return self._process is None or await _enders.run(self._rest)

    def _rest(self) -> bool:
        for _ in range(_LOOKS):
            with self._lock:
                if self._process is None or not self._lives():
                    self._forget()
                    return True
                if not _children(self._keeper):
                    return self._end_empty()
            time.sleep(0.002)  # the keeper has not yet waited for a shell that has just ended, or another one has begun
        return False

    def _end_empty(self) -> bool:
        ephemeral = {*_EPHEMERAL, os.path.realpath(tempfile.gettempdir())} - {*self._writable}
        mounted = {*self._writable, *self._masked, *ephemeral}
        if any(_has_files(f"/proc/{self._keeper}/root", folder, mounted) for folder in ephemeral):
            return False
        self._forget()
        return True

    # -- the sandbox itself --------------------------------------------------------------------------------------

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._lives():
            return self._process
        self._forget()
        path = shutil.which("bwrap")
        if path is None:
            raise EnvironmentFailed(f"bubblewrap is not found on PATH, and nothing runs outside of the sandbox: {_NEEDED}")
        if shutil.which("setsid") is None:
            raise EnvironmentFailed("setsid is not found on PATH: install it (apt install util-linux)")
        info, ready = os.pipe(), os.pipe()
        try:
            os.makedirs(self.root, mode=0o700, exist_ok=True)  # noqa: PTH103 - it is a string everywhere else
            process = started(
                [
                    "bwrap",
                    "--info-fd",
                    str(info[1]),
                    *self.options(),
                    *("--bind", self.root, _INNER, "--chdir", "/"),
                    "--",
                    "bash",
                    "--noprofile",
                    "--norc",
                    "-c",
                    f"ulimit -u {self._processes} 2>/dev/null; exec 3>&{ready[1]} {ready[1]}>&-\n{_KEEPER}",
                ],
                path,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=[info[1], ready[1]],
                start_new_session=True,
                bufsize=0,
            )
        except OSError as error:
            raise EnvironmentFailed(f"bubblewrap cannot be started: {error.strerror}: {_NEEDED}") from error
        finally:
            os.close(info[1])
            os.close(ready[1])
        watchdog.add(process.pid)
        self._process = process
        try:
            self._await(process, info[0], ready[0])
        finally:
            os.close(info[0])
            os.close(ready[0])
        return process

    def _await(self, process: subprocess.Popen[bytes], info: int, ready: int) -> None:
        said = _read_all(ready, b"\n")
        if not said:
            assert process.stderr is not None  # noqa: S101 - it was given a pipe
            process.kill()
            why = process.stderr.read(4000).decode(errors="replace").strip() or "it did not answer"
            self._forget()
            raise EnvironmentFailed(
                f"bubblewrap cannot work here, and nothing runs outside of the sandbox: {why}. User namespaces may be turned off "
                "(sysctl kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns); or choose sandbox: none"
            )
        pidfds: list[int] = []
        try:
            first = int(json.loads(_read_all(info, b"}"))["child-pid"])
            pidfds.append(os.pidfd_open(first))
            self._keeper = _children(first)[0]
            pidfds.append(os.pidfd_open(self._keeper))
        except (OSError, ValueError, LookupError) as error:
            process.kill()
            self._forget()
            raise EnvironmentFailed("the sandbox ended while it was started: call again to start another") from error
        finally:
            self._pidfds = tuple(pidfds)

    def _lives(self) -> bool:
        """Return True if the sandbox and its keeper live. Without its keeper it could start no shell, and nothing would end
        it.
        """
        # A process that dies loses its root folder first.
        return len(self._pidfds) == 2 and not any(map(_has_ended, self._pidfds)) and os.path.isdir(f"/proc/{self._keeper}/root")  # noqa: PTH112 - before each command

    def options(self) -> list[str]:
        """Return bubblewrap's options, except for the folder through which we speak to shells."""
        options = ["--unshare-all", *(["--share-net"] if self._network else []), "--cap-drop", "ALL", "--ro-bind", "/", "/"]
        options += ["--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp", "--tmpfs", "/run"]  # noqa: S108 - one of its own
        temporary = os.path.realpath(tempfile.gettempdir())  # where other sessions keep their output and their shells' folders
        if temporary not in ("/", "/tmp", *self._writable):  # noqa: S108 - as above
            options += ["--tmpfs", temporary]
        names = os.path.realpath("/etc/resolv.conf")
        if self._network and names.startswith("/run/") and Path(names).exists():
            options += ["--ro-bind", names, names]
        for path in sorted(self._writable):
            options += ["--bind", path, path]
        for path in self._masked:
            if Path(path).is_dir():
                options += ["--tmpfs", path, "--remount-ro", path]
            elif Path(path).exists():
                options += ["--ro-bind", "/dev/null", path]
        return options

    def _forget(self) -> None:
        process, self._process, self._keeper = self._process, None, 0
        if process is None:
            return
        for pidfd in self._pidfds:
            with contextlib.suppress(ProcessLookupError):  # the first process takes all others with it
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        for pidfd in self._pidfds:
            _has_ended(pidfd, 5)  # its shells must not be taken for living ones
            os.close(pidfd)
        self._pidfds = ()
        for pipe in (process.stdin, process.stderr):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:  # something is stuck in the kernel
            process.kill()
            process.wait()
        watchdog.remove(process.pid)

    def close(self) -> None:
        """End everything in the sandbox."""
        with self._lock:
            self._forget()


def _has_files(root: str, folder: str, mounted: Collection[str]) -> bool:
    """Return True if the folder holds anything but what else is ``mounted`` in it and the folders on the way there."""
    try:
        for entry in os.scandir(root + folder):
            path = f"{folder}/{entry.name}"
            if path in mounted:
                continue
            on_the_way = entry.is_dir(follow_symlinks=False) and any(each.startswith(f"{path}/") for each in mounted)
            if not on_the_way or _has_files(root, path, mounted):
                return True
    except FileNotFoundError:
        return False
    except OSError:  # it can't be told
        return True
    return False


def _children(pid: int) -> list[int]:
    try:
        return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_bytes().split()]
    except OSError:
        return []


def _is_in(pid: int, folder: str) -> bool:
    """Return True if ``folder`` is the process's working folder, whatever path either side has for it."""
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/cwd"), os.stat(folder))  # noqa: PTH116 - every half millisecond
    except OSError:
        return False


def _has_ended(pidfd: int, wait: float = 0) -> bool:
    return _is_readable(pidfd, wait)


def _is_readable(fd: int, wait: float) -> bool:
    poll = select.poll()  # not `select`, which knows no descriptor above 1023
    poll.register(fd, select.POLLIN)
    return bool(poll.poll(wait * 1000))


def _read_all(fd: int, end: bytes) -> bytes:
    """Read up to ``end``; b"" where it does not come."""
    said = b""
    give_up = time.monotonic() + _START_LIMIT
    while not said.rstrip(b" \n" if end != b"\n" else b"").endswith(end):
        if not _is_readable(fd, max(0.0, give_up - time.monotonic())):
            return b""
        chunk = os.read(fd, 4096)
        if not chunk:
            return b""
        said += chunk
    return said
