"""The guard of git's configuration, synchronised with a running sandbox."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from tools.environments.local.gitguard import GitGuard, about_reverted
from tools.environments.local.sandbox import Sandbox

_LOOKS = 5


class GuardedSandbox:
    """Runs a GitGuard for the writable ``folders`` of a sandbox. Safe for use from several threads; its methods may block."""

    def __init__(self, sandbox: Sandbox, folders: Sequence[str]) -> None:
        self._sandbox = sandbox
        self._lock = threading.Lock()
        self._guard = GitGuard(folders, sandbox.root, sandbox.inner)
        self._is_noted = False
        self._keeper = 0

    def is_as_noted(self) -> bool:
        """Return True if there is nothing to do before or after a command. Fast."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            return self._is_noted and self._keeper == self._sandbox.keeper and self._guard.is_as_noted()
        finally:
            self._lock.release()

    def start(self) -> None:
        """Start the sandbox, if it does not run, with links to private copies. Raises EnvironmentFailed."""
        with self._lock:
            if self._sandbox.is_up():
                return
            if (git := self._sandbox.adopt()) is not None:
                self._guard.restore(git, links=True)
                self._is_noted, self._keeper = True, self._sandbox.keeper
                self._sandbox.add_notice(self._put_back())
                return
            self._guard.unmounted()
            links = self._note()
            if self._sandbox.begin([(config, self._link_of(copy)) for config, copy in links]):
                self._keeper = self._sandbox.keeper
                for config, _ in links:
                    self._guard.mounted(config)
            self._sandbox.note_git(self._guard.state)

    def before(self) -> None:
        """Prepare for a command: record the state of the user's git, and mount missing links to private copies."""
        with self._lock:
            if self._keeper != self._sandbox.keeper:
                self._guard.unmounted()
                self._keeper = self._sandbox.keeper
            if self._is_noted and not self._is_idle():
                return
            links = self._note()
            if links and self._sandbox.link([(config, self._link_of(copy)) for config, copy in links]):
                for config, _ in links:
                    self._guard.mounted(config)
            self._sandbox.note_git(self._guard.state)

    def _note(self) -> list[tuple[str, str]]:
        self._guard.accept_current()
        self._is_noted = True
        return self._guard.links()

    def _is_idle(self) -> bool:
        """Return True if nothing runs in the sandbox. The kernel may list a process for a moment after its end."""
        for _ in range(_LOOKS):
            if self._sandbox.is_idle():
                return True
            time.sleep(0.005)
        return False

    def _link_of(self, copy: str) -> str:
        """Return the path of the link to a copy, as commands see it."""
        return f"{self._sandbox.inner}{copy[len(self._sandbox.root) : -len('config')]}link"

    def after(self, *, last: bool = False) -> str:
        """Revert changes that would run programs. Return a sentence about them, or "". ``last``: the sandbox has ended."""
        with self._lock:
            return self._put_back(last=last)

    def _put_back(self, *, last: bool = False) -> str:
        reverted = self._guard.put_back(last=last) if self._is_noted else []
        self._sandbox.note_git(self._guard.state)
        return about_reverted(reverted)
