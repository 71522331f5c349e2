"""Sandbox on this machine: a process that keeps its namespaces and starts shells in them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments._workers import Workers
from tools.environments.local.plan import SandboxPlan, launcher_argv
from tools.environments.local.sandbox_processes import START_LIMIT, SandboxProcesses
from tools.environments.local.sandboxed import SandboxedShell, children, has_files, is_in
from tools.environments.shell.launcher import ShellProcess

_LOOKS = 100
_enders = Workers("toolcrib-sandbox-end", 4)


class Sandbox(SandboxProcesses):
    """A sandbox and the shells in it: a Launcher of shells."""

    descriptors = 20
    """Number of descriptors that this process uses for a shell, including those of the sandbox itself."""

    # -- shells --------------------------------------------------------------------------------------------------

    def start(self, inner_folder: str, folder: str) -> SandboxedShell:
        give_up = time.monotonic() + START_LIMIT
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

    def adopt(self) -> Mapping[str, Any] | None:
        """Use the sandbox that an ended process started. Return the state of its git guard, or None if there is none to use."""
        with self._lock:
            survivor = self._survivor
            return survivor.git if survivor is not None and self._adopt(survivor) else None

    def note_git(self, state: Callable[[], Mapping[str, Any]]) -> None:
        """Record the state of the git guard, if the sandbox has a record."""
        if self._record:
            with self._lock:
                self._git = state()
                self._update_record()

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
            self._update_record()

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
