"""Sandbox on this machine: a process that keeps its namespaces and starts shells in them."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.passing import SHORTAGE, shortage
from tools.environments._started import started
from tools.environments._workers import Workers
from tools.environments.local import limits
from tools.environments.local.appearing import AppearingPaths
from tools.environments.local.holding import how_to_get_more
from tools.environments.local.limits import usage
from tools.environments.local.plan import INNER, SandboxPlan, launcher_argv
from tools.environments.local.sandboxed import SandboxedShell, children, has_files, is_dying, is_in, is_readable
from tools.environments.shell.launcher import ShellProcess
from tools.environments.shell.watchdog import watchdog

if TYPE_CHECKING:  # most sandboxes need none
    from tools.environments.local.network import NetworkGuard

_LOOKS = 100
_enders = Workers("toolcrib-sandbox-end", 4)
_START_LIMIT = 20.0
_SHELLS = "env -i TERM=dumb setsid bash --noprofile --norc bash"
_FIRST = rf"""
set -m
keeper() {{
  trap : INT TERM HUP
  printf 'ready\n'
  while IFS= read -r folder; do
    {{
      cd "$folder" && {{ {_SHELLS}; printf '%s\n' $? >status; }}
    }} </dev/null >/dev/null 2>&1 &
  done
}}
keeper <&0 &
exec </dev/null >/dev/null 2>&1
wait $!
"""
"""Script of the sandbox's first process, which waits for the keeper. The keeper starts a shell for each line that it reads.

At the end of its input the keeper ends, and with it everything in the sandbox.
"""


class Sandbox:
    """A sandbox and the shells in it: a Launcher of shells. Started on first use, and again if it died.

    If commands kill its keeper, everything left in it is ended before another sandbox starts.
    """

    descriptors = 20
    """Number of descriptors that this process uses for a shell, including those of the sandbox itself."""

    def __init__(self, root: str, plan: SandboxPlan, where: str, reach: NetworkGuard | None = None) -> None:
        self.root, self.where, self._plan, self._reach = root, where, plan, reach
        self.inner = INNER if plan.mode == "workspace" else root
        self._process: subprocess.Popen[bytes] | None = None
        self._first = self._keeper = 0
        self._pidfds: tuple[int, ...] = ()
        """Descriptors of the first process, whose end kills all others, and of the keeper."""
        self.reserved: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._line: socket.socket | None = None
        """Connection for the guard of the network to a sandbox that is starting."""
        self._is_at_limit, self._why_ended = False, ""
        self._has_links = False
        self._appearing = AppearingPaths([*plan.masked, *plan.links], lambda: self._plan.sockets())

    # -- shells --------------------------------------------------------------------------------------------------

    def start(self, inner_folder: str, folder: str) -> SandboxedShell:
        give_up = time.monotonic() + _START_LIMIT
        with self._lock:
            while time.monotonic() < give_up and not os.path.lexists(f"{folder}/status"):
                process = self._running()
                assert process.stdin is not None  # noqa: S101 - it was given a pipe
                with contextlib.suppress(BrokenPipeError):  # the sandbox has just ended and nothing ran: start another
                    if process.stdin.write(f"{inner_folder}\n".encode()) is None:  # the keeper was stopped, so its input is full
                        self._forget()
                while time.monotonic() < give_up and self._lives() and not os.path.lexists(f"{folder}/status"):
                    found = self._find(folder)
                    if found is not None:
                        return found
                    time.sleep(0.0005)
        raise EnvironmentFailed(
            "no shell could be started in the sandbox: too many processes may run already, or memory is short"
        )

    def _find(self, folder: str) -> SandboxedShell | None:
        """Return the new shell that was started in that folder, or None. The kernel's lists may be incomplete."""
        for wrapper in children(self._keeper):
            for pid in children(wrapper) if is_in(wrapper, folder) else ():
                with contextlib.suppress(OSError):  # not a shell yet, or gone
                    return SandboxedShell(pid, wrapper, folder)
        return None

    def attach(self, process: ShellProcess, said_pid: int) -> None:
        """Do nothing: the process number that the shell reports is only valid in the sandbox."""

    # -- files ---------------------------------------------------------------------------------------------------

    def view(self) -> str:
        """Return the path of the sandbox's root folder, and start the sandbox if needed. Raises EnvironmentFailed."""
        with self._lock:
            self._running()
            return f"/proc/{self._keeper}/root"

    @contextlib.contextmanager
    def held(self) -> Iterator[str]:
        """Yield the path of ``view``, and keep the sandbox's mounts until the end of the block, even if the sandbox ends.

        Without the mounts the masked files would be visible. Raises OSError if the sandbox ends at this moment.
        """
        with self._lock:
            self._running()
            view = f"/proc/{self._keeper}/root"
            mounts = os.open(f"/proc/{self._keeper}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield view
        finally:
            os.close(mounts)

    def shown(self) -> list[str]:
        """Return the paths that must be masked now: files that were created or replaced after the sandbox started."""
        return self._appearing.found(f"/proc/{self._keeper}/root")

    def hide(self, paths: Collection[str]) -> None:
        """Make these paths empty in the sandbox, or start another sandbox if that fails. Raises EnvironmentFailed."""
        with self._lock:
            self._running()
            argv = launcher_argv("hide", str(self._keeper), *paths)
            if subprocess.run(argv, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, check=False).returncode:
                self._forget()
                self._running()

    def begin(self, links: Sequence[tuple[str, str]]) -> bool:
        """Start the sandbox with these links, as in ``link``. Return whether it was started now and has them."""
        with self._lock:
            if self.is_up():
                return False
            self._running(links)
            return self._has_links

    def is_up(self) -> bool:
        """Return True if the sandbox runs. Another thread may start or end it at this moment."""
        return self._process is not None and self._lives()

    def serves(self, view: str) -> bool:
        """Return True if ``view`` still shows the sandbox, so that a file not found there does not exist."""
        with self._lock:
            return view == f"/proc/{self._keeper}/root" and self._lives()

    async def release_idle(self) -> bool:
        """End the sandbox. Return False if a shell or daemon runs in it, or if files would be deleted with it."""
        return self._process is None or await _enders.run(self._rest)

    def _rest(self) -> bool:
        for _ in range(_LOOKS):
            with self._lock:
                if self._process is None or not self._lives():
                    self._forget()
                    return True
                if not children(self._keeper) and children(self._first) == [self._keeper]:  # no shell, and no daemon
                    return self._end_empty()
            time.sleep(0.002)  # the keeper has not reaped an ended shell yet, or another shell has started
        return False

    def _end_empty(self) -> bool:
        ephemeral = self._plan.temporary()
        mounted = {*self._plan.writable, *self._plan.masked, *self._plan.caches, *ephemeral}
        if any(has_files(f"/proc/{self._keeper}/root", folder, mounted) for folder in ephemeral):
            return False
        self._forget()
        return True

    def allow(self, plan: SandboxPlan, folder: str) -> None:
        """Use another plan with one more writable folder, also in a running sandbox. Raises EnvironmentFailed."""
        with self._lock:
            if self._process is not None and self._lives():
                argv = plan.grant_argv(self._keeper, folder)
                done = subprocess.run(argv, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, check=False)
                if done.returncode:
                    why = done.stderr.decode(errors="replace").strip()
                    raise EnvironmentFailed(
                        f"{folder} can't be made writable in the running sandbox ({why}): add it to sandbox.write, and open "
                        "another session"
                    )
            self._plan = plan

    def link(self, links: Sequence[tuple[str, str]]) -> bool:
        """Mount symbolic links over files in the sandbox: pairs of a file and a link, as commands see both.

        Return whether it succeeded.
        """
        with self._lock:
            if self._process is None or not self._lives():
                return False
            argv = launcher_argv("link", str(self._keeper), *(word for pair in links for word in pair))
            done = subprocess.run(argv, cwd="/", stdin=subprocess.DEVNULL, capture_output=True, check=False)
            return done.returncode == 0

    @property
    def keeper(self) -> int:
        """Process number of the running sandbox's keeper, 0 if none runs."""
        return self._keeper

    def is_idle(self) -> bool:
        """Return whether nothing runs in the sandbox except its shells and the processes that started them."""
        with self._lock:
            try:
                running = sum(name.isdigit() for name in os.listdir(f"/proc/{self._keeper}/root/proc"))  # noqa: PTH208 - strings
            except OSError:
                return False
            return running <= 2 + 2 * len(children(self._keeper))

    # -- limits ---------------------------------------------------------------------------------------------------

    def look_at_limits(self) -> None:
        """End the sandbox if its processes are at a limit in two checks in a row."""
        if not self._lock.acquire(blocking=False):  # another thread starts or ends it
            return
        try:
            if self._process is None or not self._lives():
                return
            threads, memory = usage(f"/proc/{self._keeper}/root/proc")
            most, why = self._plan.processes, ""
            if most and threads >= most - max(4, most // 50):  # the network's inner program counts too, but is not in this /proc
                why = f"limit of {most} processes (sandbox.processes)"
            elif self._plan.memory and memory > self._plan.memory:
                why = f"limit of {self._plan.memory >> 20} MB of memory (sandbox.memory_mb)"
            if why and self._is_at_limit:
                self._why_ended = f"The sandbox and everything in it was stopped: it reached its {why}."
                signal.pidfd_send_signal(self._pidfds[0], signal.SIGKILL)
            self._is_at_limit = bool(why)
        finally:
            self._lock.release()

    def why_ended(self) -> str:
        """Return a sentence about the limit that ended the sandbox since the last call; "" if none did."""
        why, self._why_ended = self._why_ended, ""
        return why

    # -- the sandbox itself --------------------------------------------------------------------------------------

    def _running(self, links: Sequence[tuple[str, str]] = ()) -> subprocess.Popen[bytes]:
        if self._process is not None and self._lives():
            return self._process
        if self._process is not None:
            self._forget()
        if shutil.which("setsid") is None:
            raise EnvironmentFailed("setsid is not found on PATH: install it (apt install util-linux)")
        try:
            os.makedirs(self.root, mode=0o700, exist_ok=True)  # noqa: PTH103 - the path is a string everywhere else
            process = self._launched(links)
        except OSError as error:
            self._drop_line()
            raise EnvironmentFailed(f"the sandbox cannot be started: {error.strerror}") from error
        watchdog.add(process.pid)
        self._process = process
        assert process.stdin is not None  # noqa: S101 - it was given a pipe
        os.set_blocking(process.stdin.fileno(), False)
        self._await(process)
        return process

    def _launched(self, links: Sequence[tuple[str, str]]) -> subprocess.Popen[bytes]:
        given: list[int] = []
        with contextlib.ExitStack() as opened:
            if self._reach is not None:
                from tools.environments.local.network.guard import line

                self._line, theirs = line()
                given.append(opened.enter_context(theirs).fileno())
            return started(
                self._plan.argv(["bash", "--noprofile", "--norc", "-c", _FIRST], self.root, links=links, line=[*given, -1][0]),
                sys.executable,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                cwd="/", start_new_session=True, bufsize=0, pass_fds=given,
            )  # fmt: skip

    def _drop_line(self) -> None:
        if self._line is not None:
            self._line.close()
            self._line = None

    def _await(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for the keeper. Then kill the launcher, unless it answers the guard of the network. As long as the launcher runs,
        the first process's number is not reused.
        """
        assert process.stdout is not None  # noqa: S101 - it was given a pipe
        said = _read_start(process.stdout.fileno())
        if not said:
            assert process.stderr is not None  # noqa: S101 - as above
            process.kill()
            why = process.stderr.read(4000).decode(errors="replace").strip() or "it did not answer"
            self._forget()
            raise EnvironmentFailed(
                f"the sandbox can't be created, and nothing runs outside of it: {why}. {how_to_get_more(why)}"
            )
        pidfds: list[int] = []
        self._has_links = b"unlinked" not in said
        try:
            self._first = next(int(line) for line in said if line.isdigit())
            pidfds.append(os.pidfd_open(self._first))
            self._keeper = children(self._first)[0]
            pidfds.append(os.pidfd_open(self._keeper))
        except (OSError, LookupError) as error:
            ended = _ended_early()
            self._forget()
            raise ended from error
        finally:
            self._pidfds = tuple(pidfds)
            if self._line is None:
                process.kill()
        self._join(process.pid)
        limits.watch(self)

    def _join(self, pid: int) -> None:
        """Connect the guard to the sandbox of the launcher ``pid``. Raises EnvironmentFailed: a sandbox is not used without its
        guard.
        """
        if self._reach is None or self._line is None:
            return
        ours, self._line = self._line, None
        try:
            self._reach.join_at(ours, pid)
            if not self._lives():
                raise _ended_early()
        except EnvironmentFailed:
            self._forget()
            raise

    def _lives(self) -> bool:
        """Return True if the sandbox and its keeper live. Without its keeper it could neither start a shell nor be ended."""
        return len(self._pidfds) == 2 and not any(map(is_readable, self._pidfds)) and not is_dying(self._keeper)

    def _forget(self) -> None:
        process, self._process, self._keeper = self._process, None, 0
        limits.forget(self)
        self._drop_line()
        while self.reserved:
            self.reserved.pop()()
        if process is None:
            return
        if self._reach is not None:
            self._reach.leave()
        for pidfd in self._pidfds:
            with contextlib.suppress(ProcessLookupError):  # the end of the first process kills all others
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        for pidfd in self._pidfds:
            is_readable(pidfd, 5)  # its shells must not be mistaken for living ones
            os.close(pidfd)
        self._pidfds = ()
        process.kill()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:  # a process is stuck in the kernel
            process.kill()
            process.wait()
        watchdog.remove(process.pid)

    def close(self) -> None:
        """End all processes in the sandbox."""
        with self._lock:
            self._forget()


def _ended_early() -> EnvironmentFailed:
    why = SHORTAGE if shortage() else "call again to start another"
    return EnvironmentFailed(f"the sandbox ended while it was starting: {why}")


def _read_start(fd: int) -> list[bytes]:
    """Return what the launcher and the keeper print, in any order: a number and "ready". Return [] if one is missing."""
    said = b""
    give_up = time.monotonic() + _START_LIMIT
    while is_readable(fd, max(0.0, give_up - time.monotonic())) and (chunk := os.read(fd, 4096)):
        said += chunk
        lines = said.split()
        if said.endswith(b"\n") and b"ready" in lines and any(line.isdigit() for line in lines):
            return lines
    return []
