"""Sandbox on this machine: all files readable, few writable, no network, no other processes, a /tmp of its own."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from toolcrib import EnvironmentFailed
from tools.environments._started import started
from tools.environments._workers import Workers
from tools.environments.local.sandboxed import SandboxedShell, is_in, is_readable
from tools.environments.shell.launcher import ShellProcess
from tools.environments.shell.watchdog import watchdog

_INNER = "/dev/.toolcrib"
"""Path in the sandbox of the folder through which we speak to its shells: nowhere that commands list or clean."""
_EPHEMERAL = ("/tmp", "/run", "/dev/shm")  # noqa: S108 - in the sandbox
"""Folders where its commands can leave files that are deleted with the sandbox."""
_LOOKS = 100
_enders = Workers("toolcrib-sandbox-end", 4)
_START_LIMIT = 20.0
_STARTS = 5
"""Attempts where a mount ended while the sandbox was built over it: containers come and go."""
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


class _MountEndedError(EnvironmentFailed):
    """A mount ended between the moments when bubblewrap saw it and when it made it read-only."""


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

    def start(self, inner_folder: str, folder: str) -> SandboxedShell:
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

    def _find(self, folder: str) -> SandboxedShell | None:
        """The shell that was started in that folder, of which no other knows. The kernel's lists may leave somebody out."""
        for wrapper in _children(self._keeper):
            for pid in _children(wrapper) if is_in(wrapper, folder) else ():
                with contextlib.suppress(OSError):  # not yet a shell, or gone
                    return SandboxedShell(pid, wrapper, folder)
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
        for name in ("setsid", "unshare"):
            if shutil.which(name) is None:
                raise EnvironmentFailed(f"{name} is not found on PATH: install it (apt install util-linux)")
        for _ in range(_STARTS - 1):
            with contextlib.suppress(_MountEndedError):
                return self._begun(path)
        return self._begun(path)

    def _begun(self, path: str) -> subprocess.Popen[bytes]:
        info, ready = os.pipe(), os.pipe()
        try:
            os.makedirs(self.root, mode=0o700, exist_ok=True)  # noqa: PTH103 - it is a string everywhere else
            process = started(
                [
                    *private_mounts(),
                    path,
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
                shutil.which("unshare") or "unshare",
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
            failed = _MountEndedError if "apply mount flags" in why else EnvironmentFailed
            raise failed(
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
        return len(self._pidfds) == 2 and not any(map(is_readable, self._pidfds)) and os.path.isdir(f"/proc/{self._keeper}/root")  # noqa: PTH112 - before each command

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
            is_readable(pidfd, 5)  # its shells must not be taken for living ones
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


def private_mounts() -> list[str]:
    """Return the program that starts bubblewrap in a mount namespace of its own, which no later mount of this machine enters.

    bubblewrap makes the mounts that it finds read-only. On a system whose / is shared, one that appears later would be writable.
    """
    namespaces = ["--mount"] if os.geteuid() == 0 else ["--user", "--map-current-user", "--mount"]
    return ["unshare", *namespaces, "--propagation", "private", "--"]


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


def _read_all(fd: int, end: bytes) -> bytes:
    """Read up to ``end``; b"" where it does not come."""
    said = b""
    give_up = time.monotonic() + _START_LIMIT
    while not said.rstrip(b" \n" if end != b"\n" else b"").endswith(end):
        if not is_readable(fd, max(0.0, give_up - time.monotonic())):
            return b""
        chunk = os.read(fd, 4096)
        if not chunk:
            return b""
        said += chunk
    return said
