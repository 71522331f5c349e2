"""The terminals of one session's table of processes."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Iterator, Mapping

from toolcrib.contract.dataclass import replace
from toolcrib.contract.environment import Environment, ExecRequest
from toolcrib.contract.errors import EnvironmentFailed, ExecutionFailed
from toolcrib.contract.terminal import OpensTerminals, TerminalSize
from tools.environments.shell.driver import quote
from tools.processes.helper import Helper, HelperRefused
from tools.processes.process import Process
from tools.processes.scripts import MARK
from tools.terminals.terminal import SessionTerminal

NONE = "{} opens no terminals: leave out pty"
_VARIABLES: Mapping[str, str] = {
    "LESSSECURE": "1", "HISTFILE": "", "PYTHON_BASIC_REPL": "1", "GIT_PAGER": "less || cat",
}  # fmt: skip
"""Variables of programs in terminals: pagers start no programs, shells keep no history in the user's file, Python adds no
indentation to typed lines, and git takes no pager from the configuration of a repository.
"""
_ENDS = 1.0
"""Seconds that the end of a program may take to be seen."""
# The first lines of a terminal. It is its own keeper; its status is written by this side.
_RUN = r"""
(
\builtin set +eux; \builtin set -f; IFS=$' \t\n'; \builtin umask 077
\builtin read -r s </proc/self/stat; \builtin set -- ${s##*) }; p=$4
[[ $p -gt 0 && -e /proc/$p/stat ]] || p=$$
\builtin read -r s </proc/$p/stat; \builtin set -- ${s##*) }
\builtin printf '%s' "$(readlink /proc/self/fd/0)" >|@FOLDER@/tty
\builtin printf '%s %s %s %s\n' "$p" "${20}" "$p" "${20}" >|@FOLDER@/pid
)
\builtin ulimit -x @LOCKS@ 2>/dev/null || \builtin :
\builtin eval @COMMAND@
"""


class Terminals:
    """The terminals that a table opened. Methods raise EnvironmentFailed if the environment is lost."""

    def __init__(self, environment: Environment, helper: Helper) -> None:
        self._environment, self._helper = environment, helper
        self._known: dict[str, SessionTerminal | None] = {}
        """Terminals by name; None while one is being opened."""
        self._orphans: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._known))

    def get(self, name: str) -> SessionTerminal | None:
        """Return a terminal, None for another process."""
        return self._known.get(name)

    def is_orphan(self, name: str) -> bool:
        """Return, once for each name, whether a killed toolcrib had the terminal: its program may ignore the end of that."""
        found = not {name} & (self._known.keys() | self._orphans)
        self._orphans |= {name} if found else set()
        return found

    async def open(self, name: str, command: str, cwd: str, folder: str, locks: int, size: TerminalSize) -> str:
        """Run a command in a new terminal, with the state of the session's shell. Return the number and start time of its first
        process. ``folder``: that of the process.

        Raises HelperRefused if the name is taken or nothing could be started.
        """
        if not isinstance(self._environment, OpensTerminals):
            raise ExecutionFailed(NONE.format(self._environment.identity))
        await self._helper.run(f"place {quote(name)} {quote(command)} {quote(cwd)}")
        self._known[name] = terminal = None
        words = {"FOLDER": quote(folder), "LOCKS": str(locks), "COMMAND": quote(command)}
        text = _RUN
        for word, value in words.items():
            text = text.replace(f"@{word}@", value)
        try:
            request = ExecRequest(text, cwd=cwd, env={**_VARIABLES, MARK: folder})
            process = await self._environment.open_terminal(request, size)
            terminal = SessionTerminal(process, size, lambda code: self._ended(name, code))
            said, _, terminal.device = (await self._helper.run(f"placed {quote(name)}")).decode().partition("\n")
            terminal.pid = int(said.split()[0])
        except BaseException:
            self._known.pop(name, None)
            if terminal is not None:
                await terminal.end()
            with contextlib.suppress(EnvironmentFailed):
                await self._helper.run(f"forget {quote(name)}")
            raise
        self._known[name] = terminal
        return said

    async def _ended(self, name: str, code: int | None) -> None:
        if name in self._known and code is not None:
            await self._helper.run(f"ended {quote(name)} {code}")

    def with_facts(self, found: Mapping[str, Process]) -> dict[str, Process]:
        """Return processes, with facts of their terminals."""
        return {name: self._with_facts(one) for name, one in found.items()}

    def _with_facts(self, process: Process) -> Process:
        terminal = self.get(process.name)
        if terminal is None:
            return process
        runs, code, printed = terminal.runs, terminal.code, [(0, terminal.printed)]
        return replace(process, runs=runs, writes=runs, reads=runs, exit_code=code, ended_at=terminal.ended_at, parts=printed)

    async def settings(self, terminal: SessionTerminal) -> str:
        """Return what ``stty -a`` prints about a terminal. Raises ExecutionFailed if it can't, or if the program has ended."""
        try:
            said = await self._helper.run(f"LC_ALL=C stty -a -F {quote(terminal.device)}")
        except HelperRefused as error:
            give_up = time.monotonic() + _ENDS
            while terminal.runs and time.monotonic() < give_up:  # noqa: ASYNC110 - its end is seen in another event loop
                await asyncio.sleep(0.02)
            if not terminal.runs:
                raise ExecutionFailed("nothing was typed: the program has ended") from error
            raise ExecutionFailed(f"nothing was typed: stty can't find out whether it asks for a password: {error}") from error
        return said.decode(errors="replace")

    async def awaits_input(self, terminal: SessionTerminal) -> bool:
        """Return whether the terminal's programs get single keys, or one of them is seen to read from it. False if that is
        unknown.
        """
        try:
            await self._helper.run(f"awaits {quote(terminal.device)} {terminal.pid}")
        except HelperRefused:
            return False
        return True

    async def end(self, name: str) -> None:
        """End the program of a terminal; does nothing for another process."""
        if (terminal := self.get(name)) is not None and terminal.runs:
            with contextlib.suppress(OSError, EnvironmentFailed):
                await terminal.end()

    def forget(self, name: str) -> None:
        """Forget a terminal whose program has ended."""
        self._known.pop(name, None)

    async def close(self) -> None:
        """End all of them."""
        await asyncio.gather(*(self.end(name) for name in self))
        self._known = {}
