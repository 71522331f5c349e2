"""The processes of a sandbox on this machine: started, kept beyond the end of this process, and ended."""

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
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from toolcrib.contract.errors import EnvironmentFailed
from toolcrib.contract.passing import SHORTAGE, shortage
from tools import alive
from tools.environments import leftovers
from tools.environments._started import started
from tools.environments.local import limits
from tools.environments.local.appearing import AppearingPaths
from tools.environments.local.first import FIRST
from tools.environments.local.holding import how_to_get_more
from tools.environments.local.limits import usage
from tools.environments.local.plan import INNER, SandboxPlan
from tools.environments.local.sandboxed import children, is_dying, is_readable
from tools.environments.local.survivor import LOST, SandboxRecord, SandboxSurvivor, SurvivorInput
from tools.environments.shell.watchdog import watchdog

if TYPE_CHECKING:  # most sandboxes need none
    from tools.environments.local.network import NetworkGuard

START_LIMIT = 20.0
"""Maximum seconds that a sandbox, or a shell in it, may take to start."""


class SandboxProcesses:
    """The first process of a sandbox, its keeper and its launcher. Started on first use, and again if they died.

    If commands kill the keeper, everything left in the sandbox is ended before another one starts. ``survivor``: first use this
    sandbox, which an ended process started; ``record`` is then locked. Without ``record`` the sandbox ends with this process.
    ``notice`` is a sentence for ``why_ended``.
    """

    def __init__(
        self,
        root: str,
        plan: SandboxPlan,
        where: str,
        reach: NetworkGuard | None = None,
        record: SandboxRecord | None = None,
        survivor: SandboxSurvivor | None = None,
        notice: str = "",
    ) -> None:
        self.root, self.where, self._plan, self._reach = root, where, plan, reach
        self._record, self._survivor = record or SandboxRecord(), survivor
        self.keeps = ""
        """Folder of the background processes that the sandbox is kept for if this process is killed, "" for none."""
        self.inner = INNER if plan.mode == "workspace" else root
        self._process: subprocess.Popen[bytes] | SurvivorInput | None = None
        self._first = self._keeper = 0
        self._pidfds: tuple[int, ...] = ()
        """Descriptors of the first process, whose end kills all others, and of the keeper."""
        self.reserved: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._line: socket.socket | None = None
        """Connection for the guard of the network to a sandbox that is starting."""
        self._is_at_limit, self._why_ended = False, notice
        self._has_links = False
        self._git: Mapping[str, Any] = survivor.git if survivor is not None else {}
        self._appearing = AppearingPaths([*plan.masked, *plan.links], lambda: self._plan.sockets())

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

    def add_notice(self, text: str) -> None:
        """Add a sentence for the user to ``why_ended``."""
        self._why_ended = " ".join(filter(None, [self._why_ended, text]))

    def why_ended(self) -> str:
        """Return the sentences for the user since the last call, such as about the limit that ended the sandbox."""
        why, self._why_ended = self._why_ended, ""
        return why

    # -- the sandbox itself --------------------------------------------------------------------------------------

    def _running(self, links: Sequence[tuple[str, str]] = ()) -> subprocess.Popen[bytes] | SurvivorInput:
        if self._survivor is not None:
            self._adopt(self._survivor)
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
            line_fd = [*given, -1][0]
            locks = [lock for folder in self._folders() if (lock := leftovers.lock(folder)) >= 0] if self._record else []
            for lock in locks:
                opened.callback(os.close, lock)
            first = ["bash", "--noprofile", "--norc", "-c", FIRST, "bash", *map(str, locks)]
            return started(
                self._plan.argv(first, self.root, links=links, line=line_fd),
                sys.executable,
                env={"PATH": os.environ.get("PATH", os.defpath)},
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                cwd="/", start_new_session=True, bufsize=0, pass_fds=[*given, *locks],
            )  # fmt: skip

    def _folders(self) -> list[str]:
        return [folder for folder in (self.root, self._plan.private) if folder]

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
        self._stop_keeping(process.pid)
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
            if self._survivor is not None:
                self._survivor.end()
                self._survivor = None
                self._record.drop()
            self._forget()

    # -- beyond the end of this process ----------------------------------------------------------------------------

    def keep(self, wanted: Callable[[], str]) -> None:
        """If this process is killed, keep the running sandbox for the background processes recorded in the folder ``wanted()``.
        If that is "", the sandbox ends with this process.
        """
        with self._lock:
            folder = wanted()
            if self._process is None or not self._lives() or folder == self.keeps:
                return
            if not folder:
                self._stop_keeping(self._process.pid)
            assert self._process.stdin is not None  # noqa: S101 - it was given a pipe
            with contextlib.suppress(BrokenPipeError):  # the sandbox has just ended
                said = self._process.stdin.write(f"keep {folder}\n".encode())
                if folder and said and self._record.write(self._facts(self._process.pid, folder)):
                    self.keeps = folder
                    watchdog.remove(self._process.pid)
                    for each in self._folders():
                        watchdog.leave(each)

    def _stop_keeping(self, leader: int) -> None:
        if self.keeps:
            self.keeps = ""
            for folder in self._folders():
                watchdog.enter(folder)
            watchdog.add(leader)
            self._record.drop()

    def _update_record(self) -> None:
        if self.keeps and self._process is not None and not self._record.write(self._facts(self._process.pid, self.keeps)):
            self._stop_keeping(self._process.pid)

    def _facts(self, leader: int, keeps: str) -> SandboxSurvivor:
        return SandboxSurvivor(
            session=self._record.session,
            boot=alive.boot(),
            first=(self._first, alive.started(self._first) or ""),
            keeper=(self._keeper, alive.started(self._keeper) or ""),
            leader=leader,
            plan=self._plan.digest(),
            root=self.root,
            inode=os.stat(self.root).st_ino,  # noqa: PTH116 - a string everywhere else
            private=self._plan.private,
            blanked=self._plan.blanked,
            keeps=keeps,
            git=self._git,
        )

    def _adopt(self, survivor: SandboxSurvivor) -> bool:
        """Use the sandbox that an ended process started. If that is impossible, end everything in it, and return False."""
        self._survivor, self.keeps = None, survivor.keeps
        try:
            self._pidfds = survivor.pidfds()
            self._process = SurvivorInput(survivor)
            self._first, self._keeper = int(survivor.first[0]), int(survivor.keeper[0])
            if not self._lives():
                raise _ended_early()
            if self._reach is not None:
                self._reach.join(self._keeper)
        except (OSError, EnvironmentFailed) as error:
            self.add_notice(f"{LOST.format(error)} {survivor.kill()}".strip())
            if self._process is None:
                for pidfd in self._pidfds:
                    os.close(pidfd)
                self._pidfds = ()
            self._stop_keeping(survivor.leader)
            self._forget()
            watchdog.remove(survivor.leader)
            return False
        limits.watch(self)
        return True


def _ended_early() -> EnvironmentFailed:
    why = SHORTAGE if shortage() else "call again to start another"
    return EnvironmentFailed(f"the sandbox ended while it was starting: {why}")


def _read_start(fd: int) -> list[bytes]:
    """Return what the launcher and the keeper print, in any order: a number and "ready". Return [] if one is missing."""
    said = b""
    give_up = time.monotonic() + START_LIMIT
    while is_readable(fd, max(0.0, give_up - time.monotonic())) and (chunk := os.read(fd, 4096)):
        said += chunk
        lines = said.split()
        if said.endswith(b"\n") and b"ready" in lines and any(line.isdigit() for line in lines):
            return lines
    return []
