"""A background command: in a copy of the session's shell, on its own channel, with streamed output and input."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import signal
from collections.abc import Callable, Mapping

from tools.environments._waiter import ReadableWaits
from tools.environments.remote import frame, processes
from tools.environments.remote.call import Beside
from tools.environments.remote.channel import Channel, ChannelBroken, ChannelEnded
from tools.environments.remote.shell_channel import ChannelLost, Exchange, Keeper, NeverBegan
from tools.environments.shell import driver
from tools.environments.shell.snapshot import ShellSnapshot

_START = 20.0
_LOOK = 0.02
_GRACE = 0.5
NO_FOLDER = 93
"""Exit code of a shell that could not enter the folder."""
_KEEP = 1 << 20
"""Maximum bytes read while waiting for the end that are kept for a later ``read``."""


def first_lines(cwd: str, snapshot: ShellSnapshot | None, env: Mapping[str, str]) -> str:
    """Return the first lines of a bash without a keeper. It restores the session's state, or sets the variables in ``env``."""
    fresh = "" if snapshot is None else 'exec -c -a bash "$BASH" --noprofile --norc\n'
    return f"{frame.STREAMS}{fresh}{state_lines(cwd, snapshot, env)}"


def state_lines(cwd: str, snapshot: ShellSnapshot | None, env: Mapping[str, str]) -> str:
    """Return the lines that enter the folder, or exit with NO_FOLDER, and set the state."""
    restore = driver.exports(env) if snapshot is None else snapshot.restore()
    there = f"\\builtin cd -P -- {driver.quote(cwd)} || \\builtin exit {NO_FOLDER}"
    first = f"\\builtin shopt -s expand_aliases\n{there}\n{driver.FRESH}\n"
    state = f"\\builtin eval {driver.quote(restore)}"
    return f"\\builtin eval {driver.quote(first + state)}\n"


class RemoteBackgroundProcess:
    """A background process. Not bound to an event loop. ``forget`` is called when it is over."""

    signals: tuple[int, ...] = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)
    """Signals that ``kill`` sends."""

    def __init__(self, channel: Channel, beside: Beside, forget: Callable[[RemoteBackgroundProcess], None]) -> None:
        self._keeper = Keeper(channel)
        self._beside = beside
        self._forget = forget
        self._chunks: collections.deque[tuple[str, bytes]] = collections.deque()
        self._code: int | None = None
        self._fault: ChannelLost | None = None
        """The loss of the channel, if the exit code of the process is unknown."""
        self._closed_input = False
        self._waits = ReadableWaits()
        self.exchange = Exchange(
            lambda data: self._chunks.append(("stdout", data)), lambda data: self._chunks.append(("stderr", data))
        )

    @property
    def pid(self) -> int:
        first = self.exchange.out.facts.split(b" ", 1)[0]
        return int(first) if first.isdigit() else 0

    @property
    def session(self) -> int:
        """The number of its session."""
        return self.pid

    async def start(self, first: str, command: str, env: Mapping[str, str]) -> bool:
        """Return True when the command has started, False if its folder is missing.

        Raises ChannelLost: the command may have started, unless the error is NeverBegan.
        """
        text = first + frame.run_open(command, self.exchange.first, self.exchange.last, env)
        await self._keeper.send(text.encode("utf-8", "surrogateescape"))
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _START
        while not self.exchange.begun and self._look() is None:
            if loop.time() >= give_up:
                raise ChannelLost(f"no answer within {_START:g} seconds")
            await self._pause(give_up)
        if self.exchange.begun or self._code == NO_FOLDER:
            return self.exchange.begun
        if self._fault is not None:
            raise self._fault
        raise NeverBegan(f"its shell ended before the command (exit code {self._code})")

    def _look(self) -> int | None:
        """Read a little. Return the exit code, or None while the process runs."""
        if self._code is None:
            try:
                if self._keeper.pump(self.exchange, 1):
                    self._code = int(self.exchange.out.status)
            except ChannelLost as error:
                cause = error.__cause__
                code = cause.code if isinstance(cause, ChannelEnded) else None
                self._code = code if code is not None else 1
                self._fault = error if code is None else None
        return self._code

    async def _pause(self, give_up: float | None) -> None:
        if self._keeper.lost:
            return
        if self._keeper.has_more:
            await asyncio.sleep(0)
            return
        seconds = 1.0 if give_up is None else max(0.0, give_up - asyncio.get_running_loop().time())
        with self._keeper.told():
            await self._waits.wait(self._keeper.channel.fileno(), seconds)

    # -- output and input ----------------------------------------------------------------------------------------

    async def read(self, *, within: float | None = None) -> tuple[str, bytes] | None:
        """Return the next chunk; None at the end; b"" of stdout after ``within`` seconds without output."""
        loop = asyncio.get_running_loop()
        give_up = None if within is None else loop.time() + within
        while True:
            if self._chunks:
                return self._chunks.popleft()
            if self._look() is not None and not self._chunks:
                return None
            if not self._chunks:
                if give_up is not None and loop.time() >= give_up:
                    return "stdout", b""
                await self._pause(give_up)

    async def write(self, data: bytes) -> None:
        """Write all data. Raises BrokenPipeError if the process no longer reads."""
        view = memoryview(data)
        while view:
            if self._closed_input or self._code is not None:
                raise BrokenPipeError("the process has ended, or its input was closed")
            try:
                taken = self._keeper.channel.write(view)
            except (ChannelEnded, ChannelBroken) as error:
                raise BrokenPipeError("the process has ended") from error
            view = view[taken:]
            if view and not taken:
                await asyncio.sleep(_LOOK / 4)

    def close_stdin(self) -> None:
        self._closed_input = True
        self._keeper.channel.close_input()

    # -- the end -------------------------------------------------------------------------------------------------

    async def wait(self) -> int:
        """Wait for the process and return its exit code. The last part of its output can still be read."""
        while (code := self._look()) is None:
            while sum(len(data) for _, data in self._chunks) > _KEEP:
                self._chunks.popleft()
            await self._pause(None)
        return code

    async def kill(self) -> None:
        """Send INT, TERM and KILL to all processes of the command, as far as needed."""
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ChannelLost):  # out of reach
            for number in self.signals:
                give_up = loop.time() + _GRACE
                while loop.time() < give_up:
                    listed = await self._beside(processes.listing([self.session]))
                    left = [one.pid for one in processes.read(listed.out).members]
                    if not left:
                        break
                    await self._beside(processes.signal(number, left))
                    await asyncio.sleep(_LOOK)
        self.end()

    def end(self) -> None:
        """Close the channel. May be called twice."""
        self._look()
        self._code = 128 + signal.SIGKILL if self._code is None else self._code
        self._keeper.close()
        self._forget(self)
