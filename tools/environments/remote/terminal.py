"""A background command of a remote environment in a terminal (PTY).

The text that it runs comes from a file: typed into the terminal it would be echoed, and as an argument others could read it.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from toolcrib.contract.environment import ExecRequest
from toolcrib.contract.errors import EnvironmentFailed
from tools.environments._request import command_text, folder_of
from tools.environments.remote import frame, left
from tools.environments.remote.aside import aside, in_spite
from tools.environments.remote.call import Beside
from tools.environments.remote.channel import ChannelBroken, ChannelEnded, TerminalChannel
from tools.environments.remote.environment import NOWHERE, RemoteEnvironment
from tools.environments.remote.shell_channel import ARGV, ChannelLost, NeverBegan
from tools.environments.remote.spawned import NO_FOLDER, RemoteBackgroundProcess, state_lines
from tools.environments.shell.driver import FIRST_LINE, quote
from tools.environments.shell.terminal import END_OF_INPUT, TERM, UNSET

if TYPE_CHECKING:
    from toolcrib.contract.terminal import OpensTerminals, TerminalProcess, TerminalSize

_START = 20.0
_LOOK = 0.02
_AHEAD = 1 << 18
"""Maximum bytes read while waiting for the end."""
_SIGN = b"\x1e"
# SIGWINCH shows that the terminal has its size. It has none at the beginning, so the signal always comes.
_WAIT = r"""
trap _w=1 WINCH
IFS= read -rd '' _l </proc/$$/stat; _l=(${_l##*) })
printf '\036%s %s %s\036' "$2" $$ "${_l[3]}"
for ((_n = 0; _n < 2000 && !_w; _n++)); do read -rt 0.01; done
((_w)) || exit
stty iutf8 2>/dev/null
"""
_EVAL = r'\builtin eval "$(<"$1")"'


def _argv(path: str, mark: str, *, bare: bool) -> list[str]:
    """Return the command line of the terminal's shell: it prints its numbers, waits for the size, and runs the file ``path``.

    ``bare``: without the inherited variables, because the file sets them.
    """
    again = f'exec {"-c " if bare else ""}-a bash "$BASH" {" ".join(ARGV[1:])} -c {quote(_EVAL)} bash "$1"'
    return [*ARGV, "-c", f"{_WAIT}{frame.STREAMS}{again}", "bash", path, mark]


def _script(state: str, command: str, mark: str, env: Mapping[str, str]) -> str:
    """Return the file's text: it sets the state, prints the mark and runs the command."""
    given = "".join(f"{name}={quote(value)} " for name, value in {"TERM": TERM, **env}.items())
    return (
        f"\\builtin set --\n{state}{UNSET}"
        f"\\exec >&{frame.OUT} 2>&{frame.ERR} {frame.OUT}>&- {frame.ERR}>&-\n"
        f"\\builtin printf '\\036{mark} \\036'\n"
        f"{given}\\eval {quote(FIRST_LINE.decode() + command)}\n\\builtin exit\n"
    )


class TerminalStream(frame.Stream):
    """The output of a terminal after the second of two marks. ``facts``, from the first: the shell's process id and session."""

    def add(self, chunk: bytes) -> None:
        if self.begun:
            self._give(chunk)
            return
        self._held += chunk
        _, found, said = self._held.partition(self._first)
        if found and _SIGN in said:
            self.facts = said.partition(_SIGN)[0]
        _, found, said = self._held.partition(self._last + _SIGN)
        if found:
            self.begun, self._held = True, b""
            self._give(said)


class RemoteTerminal(RemoteBackgroundProcess):
    """A background process in a terminal. ``marks``: the nonces that it prints before the command."""

    signals = (signal.SIGHUP, *RemoteBackgroundProcess.signals)

    def __init__(
        self,
        channel: TerminalChannel,
        marks: tuple[str, str],
        beside: Beside,
        forget: Callable[[RemoteBackgroundProcess], None],
    ) -> None:
        super().__init__(channel, beside, forget)
        self._terminal, self._owes_end = channel, False
        stream = TerminalStream(*marks, lambda data: self._chunks.append(("stdout", data)))
        self.exchange.out = self.exchange.err = stream

    @property
    def session(self) -> int:
        return int(self.exchange.out.facts.rpartition(b" ")[2] or 0) or self.pid

    async def until(self, is_so: Callable[[], object]) -> None:
        """Wait while the terminal starts. Raises ChannelLost; NeverBegan if its shell has ended."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _START
        while not is_so():
            if self._look() is not None and not is_so():
                raise self._fault or NeverBegan(f"its shell ended before the command (exit code {self._code})")
            if loop.time() >= give_up:
                raise ChannelLost(f"no answer within {_START:g} seconds")
            await self._pause(give_up)

    async def wait(self) -> int:
        """Wait for the process and return its exit code. A program that prints more than is read has to wait. Raises
        EnvironmentFailed if the connection was lost before the end, so that the code is unknown.
        """
        while (code := self._code) is None:
            if sum(len(data) for _, data in self._chunks) > _AHEAD:
                await asyncio.sleep(_LOOK)
            elif self._look() is None:
                await self._pause(None)
        if self._fault is not None:
            raise EnvironmentFailed(f"the exit code is unknown: {self._fault}") from self._fault
        return code

    @property
    def lacks_folder(self) -> bool:
        """True if its shell has ended because it could not enter the folder."""
        return self._code == NO_FOLDER and not self.exchange.begun

    def close_stdin(self) -> None:
        """Type the end of input, later if the channel has no room."""
        self._owes_end = True
        self._look()

    def _look(self) -> int | None:
        with contextlib.suppress(ChannelEnded, ChannelBroken, OSError, ValueError):  # reading reports it
            if self._owes_end and not self._keeper.lost:
                self._owes_end = not self._terminal.write(END_OF_INPUT)
        return super()._look()

    async def resize(self, size: TerminalSize) -> None:
        if self._code is None:
            await aside(self._terminal.resize, size)


class TerminalEnvironment(RemoteEnvironment):
    """A remote environment whose link opens terminals."""

    async def open_terminal(self, request: ExecRequest, size: TerminalSize) -> TerminalProcess:
        """See OpensTerminals."""
        text = command_text(request)
        cwd = await folder_of(request, self._cwd, self.resolve)
        if self._closed:
            raise EnvironmentFailed("this environment is closed: open another")
        keepers = self._keepers
        keepers.give_back(await keepers.take())  # raises NoBash if bash is missing
        snapshot = await self._snapshot_now()
        marks = secrets.token_hex(16), secrets.token_hex(16)
        path = f"{keepers.root}/{marks[0][:8]}"
        script = _script(state_lines(cwd, snapshot, {**self._env, **self._restored}), text, marks[1], request.env)
        terminal: RemoteTerminal | None = None
        try:
            if (await keepers.beside(f"printf %s {quote(script)} >|{quote(path)}")).status:
                raise EnvironmentFailed(f"the command can't be written to {path} in {self._link.where}, so it was not run")
            channel = await aside(self._link.open_terminal, _argv(path, marks[0], bare=snapshot is not None))
            terminal = RemoteTerminal(channel, marks, keepers.beside, self._spawned.discard)
            await self._begin(terminal, size)
            with contextlib.suppress(BrokenPipeError):  # the command needed no input
                await terminal.write(request.stdin)
        except BaseException as error:
            if terminal is not None:
                await in_spite(terminal.kill())
            if not isinstance(error, ChannelLost):
                raise
            if terminal is not None and terminal.lacks_folder:
                raise EnvironmentFailed(NOWHERE.format(cwd)) from error
            begun = terminal is not None and terminal.exchange.begun
            known = "the command may have run" if begun else "the command was not run"
            raise await self._broke(error, f"{known}; it was not retried") from error
        finally:
            await in_spite(self._remove(path))
        return terminal

    async def _begin(self, terminal: RemoteTerminal, size: TerminalSize) -> None:
        """Record the terminal's session, and let it run the command. Raises ChannelLost."""
        self._spawned.add(terminal)
        await terminal.until(lambda: terminal.session > 1)
        self._keepers.sessions.add(terminal.session)
        await self._keepers.beside(left.record(self._keepers.root, terminal.session))
        await terminal.resize(size)
        await terminal.until(lambda: terminal.exchange.begun)

    async def _remove(self, path: str) -> None:
        with contextlib.suppress(ChannelLost):  # its folder is removed at the end
            await self._keepers.beside(f"rm -f -- {quote(path)}")


if TYPE_CHECKING:

    def _conforms(environment: TerminalEnvironment, terminal: RemoteTerminal) -> tuple[OpensTerminals, TerminalProcess]:
        return environment, terminal
