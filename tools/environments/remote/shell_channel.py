"""Channel to a persistent bash that runs toolcrib's scripts and keeps the session's shell alive."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tools.environments._waiter import Waiter
from tools.environments.remote import frame
from tools.environments.remote.aside import aside
from tools.environments.remote.channel import Channel, ChannelBroken, ChannelEnded
from tools.time_limit import seconds_left

ARGV = ("bash", "--noprofile", "--norc")
_TURN = 64
"""Chunks to read before other tasks in the event loop get their turn."""
_FULL = 0.001
"""Seconds until a full channel is tried again."""
_UNHEARD = 1.5
"""Seconds without a byte after which to check whether anything runs in the backend at all."""


class ChannelLost(Exception):
    """A channel ended or was lost, or did not answer in time. The text gives the known facts."""


class Halted(ChannelLost):
    """Raised if the environment runs nothing at present. The text is the reason that Link.halted returns."""


class NeverBegan(ChannelLost):
    """No shell started, or it ended or hung before it ran any script."""


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """Exit code and output of a script."""

    status: int
    out: bytes
    err: bytes


class Exchange:
    """Exchange with a shell: a text sent with two nonces, and the output between the frames of these nonces."""

    def __init__(self, out: Callable[[bytes], None], err: Callable[[bytes], None]) -> None:
        self.first, self.last = secrets.token_hex(16), secrets.token_hex(16)
        self.out = frame.Stream(self.first, self.last, out)
        self.err = frame.Stream(self.first, self.last, err)

    @property
    def begun(self) -> bool:
        """True when the first frame has arrived."""
        return self.out.begun

    @property
    def done(self) -> bool:
        """True when both streams have ended."""
        return self.out.ended and self.err.ended


class Keeper:
    """A bash on the far side that runs toolcrib's scripts, and its channel. Used by one call at a time. ``halted``: see Link.

    ``pid`` and ``session`` are the process id of the bash on the far side and the id of its session; 0 before ``greet``.
    """

    def __init__(self, channel: Channel, halted: Callable[[], str] = lambda: "") -> None:
        self.channel = channel
        self._halted = halted
        self.pid = self.session = 0
        self.lost = False
        self._chunks = 0
        self.has_more = False
        """True while the channel may have buffered data, which its descriptor does not show."""
        self.name = secrets.token_hex(4)
        self._waiter = Waiter()
        self._lock = threading.Lock()

    async def greet(self, text: str, limit: float) -> ScriptResult:
        """Run ``text`` as the first script. Raises ChannelLost."""
        await self.send(frame.HELLO.encode())
        answer = await self.run(f"{_WHO}\n{text}", limit=limit)
        who, _, rest = answer.out.partition(b"\n")
        pid, _, stat = who.decode("ascii", "replace").partition(" ")
        self.pid = int(pid) if pid.isdigit() else 0
        fields = stat.rpartition(")")[2].split()
        self.session = int(fields[3]) if len(fields) > 3 and fields[3].isdigit() else self.pid
        return ScriptResult(answer.status, rest, answer.err)

    async def run(self, text: str, *, limit: float, out: Callable[[bytes], None] | None = None) -> ScriptResult:
        """Run a script in the keeper itself. ``limit``: maximum seconds without a byte, at most what the current call
        has left. Raises ChannelLost.
        """
        limit = seconds_left(limit)
        parts: list[bytes] = []
        faults: list[bytes] = []
        exchange = Exchange(out or parts.append, faults.append)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit
        try:
            await self.send(frame.script(text, exchange.first, exchange.last).encode("utf-8", "surrogateescape"))
            with self.listening():
                unheard = loop.time() + _UNHEARD
                while not self.pump(exchange):
                    if loop.time() >= deadline:
                        raise ChannelLost(f"no answer within {limit:.2g} seconds")
                    before = self._chunks
                    await self.next(min(deadline, unheard))
                    if self.pump(exchange):
                        break
                    if self._chunks != before:
                        deadline, unheard = loop.time() + limit, loop.time() + _UNHEARD
                    elif loop.time() >= unheard:
                        await self.need_running()
                        unheard = loop.time() + _UNHEARD
        except BaseException:  # even if cancelled: late output must not be mistaken for the next answer
            self.close()
            raise
        return ScriptResult(int(exchange.out.status), b"".join(parts), b"".join(faults))

    # -- bytes ---------------------------------------------------------------------------------------------------

    async def send(self, data: bytes) -> None:
        """Send all data. Raises ChannelLost."""
        view = memoryview(data)
        loop = asyncio.get_running_loop()
        unheard = loop.time() + _UNHEARD
        while view:
            with self.told():
                taken = self.channel.write(view)
            view = view[taken:]
            if view and not taken:
                if loop.time() >= unheard:
                    await self.need_running()
                await asyncio.sleep(_FULL)
            if taken or loop.time() >= unheard:
                unheard = loop.time() + _UNHEARD

    async def need_running(self) -> None:
        """Raise Halted if nothing runs on the far side now."""
        if why := await aside(self._halted):
            raise Halted(why)

    def pump(self, exchange: Exchange, turns: int = _TURN) -> bool:
        """Read the available data. Return True when the exchange is over. If more can be read, ``next`` returns at once."""
        self.has_more = True
        for _ in range(turns):
            with self.told():
                found = self.channel.read()
            if found is None:
                self.has_more = False
                break
            self._chunks += 1
            (exchange.out if found[0] == "stdout" else exchange.err).add(found[1])
            if exchange.done:
                break
        return exchange.done

    def drain(self) -> bool:
        """Read and drop the output of background processes between commands. Return False if the channel is gone."""
        if self.lost:
            return False
        try:
            for _ in range(_TURN):
                if self.channel.read() is None:
                    return True
        except (ChannelEnded, ChannelBroken, OSError, ValueError):  # OSError, ValueError: the channel was closed meanwhile
            self.lost = True
            return False
        return True

    @contextlib.contextmanager
    def told(self) -> Iterator[None]:
        """Raise ChannelLost for an error of the channel in the block."""
        try:
            yield
        except (ChannelEnded, ChannelBroken) as error:
            self.lost = True
            raise ChannelLost(str(error)) from error
        except (OSError, ValueError) as error:  # the channel was closed meanwhile
            self.lost = True
            raise ChannelLost(f"the channel was closed ({error})") from error

    # -- waiting -------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Watch the channel in the running loop while the context lasts. Raises ChannelLost."""
        loop = asyncio.get_running_loop()
        with self.told():
            fd = self.channel.fileno()
            loop.add_reader(fd, self.notify)
        try:
            yield
        finally:
            if not loop.is_closed():
                loop.remove_reader(fd)

    async def next(self, deadline: float | None) -> None:
        """Wait until data arrives, ``notify`` is called or the deadline (by the loop's clock) passes."""
        if self.has_more:
            await asyncio.sleep(0)
            return
        await self._waiter.wait(deadline)

    def notify(self) -> None:
        """Wake the waiting coroutine. Must be called in its event loop."""
        self._waiter.wake()

    def close(self) -> None:
        """Close the channel."""
        with self._lock:
            self.lost = True
            self.channel.close()


_WHO = r"""IFS= read -rd '' _l </proc/$$/stat; _l=${_l%$'\n'}; printf '%s %s\n' $$ "${_l//$'\n'/ }" """
