"""The channels of one environment: opened when needed, reused, and drained while unused."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import select
import signal
import threading
import time
from collections.abc import Awaitable, Callable

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments import _owner
from tools.environments.remote import left, oneshot, processes
from tools.environments.remote.aside import aside, aside_within, why_lost
from tools.environments.remote.beginning import drop_result
from tools.environments.remote.channel import Channel, ChannelEnded, Link
from tools.environments.remote.once import run_once
from tools.environments.remote.shell_channel import ARGV, ChannelLost, Halted, Keeper, NeverBegan, ScriptResult
from tools.environments.shell.driver import quote

_GREET_LIMIT = 45.0
"""Seconds for a new shell's first answer. A restarted engine may need 30 before it runs anything in a used container."""
_SCRIPT_LIMIT = 20.0
_OPEN_LIMIT = 120.0
"""Seconds to create a container, or to make a connection. The backends have shorter limits for each step."""
_UNHEARD = 1.5
"""Seconds between two checks whether the backend is halted, such as a paused container."""
_UNANSWERED = 3
"""Number of failed checks in a row that end the attempt. Single checks also fail if an engine starts many containers at once."""
_CLOSE_LIMIT = 5.0
_CLOSE_GRACE = 0.5
"""Seconds that background processes have between SIGTERM and SIGKILL."""
_KILLS = 50
"""Maximum number of times that processes which must end are signalled."""
_MISSING = (126, 127)
"""Exit codes of a program that cannot be started."""
_IDLE = 16
"""Maximum number of channels that are kept for later."""
_BASES = '/dev/shm "${TMPDIR:-/tmp}" /tmp /var/tmp "$HOME"'  # noqa: S108 - the folder created there is private, with a random name
"""Folders that may hold the private folder; memory first, which works even when the disk is full."""


class NoBash(EnvironmentFailed):
    """Bash is missing, so no shell can be kept."""


class Keepers:
    """The keepers (see shell_channel) of one environment. Safe to use from several threads and event loops at once.

    ``root`` is toolcrib's private folder on the far side.
    """

    def __init__(self, link: Link) -> None:
        self.link = link
        self.root = ""
        self.home = "/"
        self.bare = False
        """True if bash is missing."""
        self.sessions: set[int] = set()
        self.ended: list[str] = []
        """Number and name of each process that a killed toolcrib left running and that this process ended."""
        self.halted: tuple[int, set[int]] | None = None
        """The epoch of a container, and its sessions whose processes could not be ended while it was halted (see Link.halted)."""
        self._name = f"{left.NAME}{secrets.token_hex(8)}"
        self._epoch = link.epoch
        self._idle: list[Keeper] = []
        self._lock = threading.Lock()
        self._reader = _IdleReader()
        self._closed = self._rests = False
        self._scripts = 0

    async def awake(self) -> None:
        """Wait until a running ``release_idle`` has finished: a call that starts meanwhile would use channels that are about to
        close.
        """
        while self._rests:  # noqa: ASYNC110 - it may run in the loop of another thread
            await asyncio.sleep(0.005)

    async def release_idle(self, may: Callable[[Keeper], Awaitable[bool]], give_back: Callable[[], Awaitable[bool]]) -> bool:
        """Close all channels, remove the private folder and close the connection, if ``may`` and then ``give_back`` return True.

        No call starts while ``give_back`` runs. Raises ChannelLost, EnvironmentFailed.
        """
        if not self.root:
            return not self._scripts
        keeper = await self.take()
        try:
            with self._lock:
                busy = self._rests or self._scripts
            if busy or not await may(keeper):
                self.give_back(keeper)
                return False
            with self._lock:
                if self._rests or self._scripts:
                    return False
                self._rests = True
            try:
                if not await give_back():
                    return False
                await keeper.run(f"rm -rf {self.root}", limit=_SCRIPT_LIMIT)
                self.root, self.sessions = "", set()
                self.close_idle()
                self._reader.stop()
                keeper.close()
                await aside(self.link.release_connections)
            finally:
                self._rests = False
        finally:
            keeper.close()
        return True

    async def take(self) -> Keeper:
        """Return an unused keeper, or a new one. If it raises EnvironmentFailed, no command has run."""
        await self.awake()
        while True:
            with self._lock:
                keeper = self._idle.pop() if self._idle else None
            if keeper is None:
                return await self._open()
            self._reader.leave(keeper)
            if keeper.drain():  # it may have ended just now
                return keeper
            keeper.close()

    async def _open(self) -> Keeper:
        if self._closed:
            raise EnvironmentFailed("this environment is closed: open another")
        keeper = Keeper(await self._channel(), self.link.halted)
        if self.link.epoch != self._epoch:
            self._epoch, self.root, self.sessions = self.link.epoch, "", set()
        bases = f"'{self.root.rpartition('/')[0]}'" if self.root else _BASES
        whose = f'printf "%s\\n" {quote(_owner.us())} >|"$_d/owner"'
        greeting = (
            f"for _d in {bases}; do _d=$_d/{self._name}\n"
            f'[ -d "$_d" ] || {{ mkdir -m 700 "$_d" && {whose} && {left.SPARE} || rm -r "$_d"; }} 2>/dev/null\n'
            '[ -d "$_d" ] && break; _d=; done\n'
            'printf "%s\\n%s\\n" "$_d" "${HOME:-/}"\n'
            f'if [ -n "$_d" ]; then {{ {left.record("$_d", "$$")} }} 2>/dev/null\n'
            f"{'' if self.root else left.find(_BASES)}\n:; else false; fi"
        )
        try:
            answer = await keeper.greet(greeting, _GREET_LIMIT)
        except ChannelLost as error:
            keeper.close()
            why = await why_lost(self.link)
            ended = error.__cause__.code if isinstance(error.__cause__, ChannelEnded) else None
            # A host with too many processes can't start bash either, and a bash that has answered before is not missing.
            self.bare = not why and not self.sessions and ended in _MISSING
            if self.bare:
                raise NoBash(f"{oneshot.WHY.format(self.link.where)}; nothing was run") from error
            raise EnvironmentFailed(
                f"no shell could be started in {self.link.where} ({why or error}); nothing was run: {self.link.advice()}"
            ) from error
        except BaseException:
            keeper.close()
            raise
        if answer.status:
            keeper.close()
            raise EnvironmentFailed(
                f"no private folder can be created in {self.link.where} (tried {_BASES}): make one writable, or free space"
            )
        first = not self.root
        self.root, self.home, others = os.fsdecode(answer.out).split("\n", 2)
        if first:
            await self._end_left(keeper, others)
        self.link.leave(self.root)
        with self._lock:
            self.sessions.add(keeper.session)
        return keeper

    async def _channel(self) -> Channel:
        """Open a channel. Raises EnvironmentFailed; before the limit if the backend is halted."""
        opening = asyncio.create_task(aside_within(_OPEN_LIMIT, self.link, self.link.open, ARGV))
        in_a_row = 0
        try:
            while not (await asyncio.wait({opening}, timeout=_UNHEARD))[0]:
                why = await aside(self.link.halted)
                in_a_row = in_a_row + 1 if why else 0
                if in_a_row == _UNANSWERED:
                    raise EnvironmentFailed(f"{self.link.where}: {why}; nothing was run") from Halted(why)
            return opening.result()
        except BaseException:
            opening.cancel()
            opening.add_done_callback(lambda task: drop_result(task, lambda made: made.close()))
            raise

    async def _end_left(self, keeper: Keeper, others: str) -> None:
        for folder, owner in left.read(others):
            if folder != self.root and _owner.is_dead(owner):
                with contextlib.suppress(ChannelLost):  # the next use of the channel reports it
                    answer = await keeper.run(left.end(folder), limit=_SCRIPT_LIMIT)
                    words = (line.partition(" ") for line in answer.out.decode("utf-8", "replace").splitlines())
                    self.ended += [f"process {pid} ({name})" for pid, _, name in words]

    def park(self, keeper: Keeper) -> None:
        """Read the keeper's output between two commands of its shell."""
        if not keeper.lost:
            self._reader.join(keeper)

    def unpark(self, keeper: Keeper) -> None:
        """Stop reading the keeper's output here, because its shell gets a command."""
        self._reader.leave(keeper)

    def give_back(self, keeper: Keeper) -> None:
        """Keep an idle keeper for the next use, or close it."""
        if keeper.lost or self._closed or len(self._idle) >= _IDLE:
            keeper.close()
            return
        self._reader.join(keeper)
        with self._lock:
            self._idle.append(keeper)

    async def beside(self, text: str) -> ScriptResult:
        """Run a script on the far side, beside the session's shell. Raises ChannelLost, NeverBegan."""
        await self.awake()
        with self._lock:
            self._scripts += 1
        try:
            return await self._beside(text)
        finally:
            with self._lock:
                self._scripts -= 1

    async def _beside(self, text: str) -> ScriptResult:
        try:
            if self.bare:
                return await aside(run_once, self.link, text, [], b"")
            keeper = await self.take()
        except NoBash:
            return await self._beside(text)
        except EnvironmentFailed as error:
            if isinstance(error.__cause__, Halted):
                raise error.__cause__ from error
            raise NeverBegan(str(error)) from error
        try:
            answer = await keeper.run(text, limit=_SCRIPT_LIMIT)
        except BaseException:
            keeper.close()
            raise
        self.give_back(keeper)
        return answer

    async def end_halted(self) -> None:
        """End the processes that could not be ended while the backend was halted. Raises ChannelLost, Halted,
        EnvironmentFailed.
        """
        halted = self.halted
        if halted is None:
            return
        if why := await aside(self.link.halted):
            raise Halted(why)
        keeper = await self.take()
        try:
            for _ in range(_KILLS if self.link.epoch == halted[0] else 0):  # otherwise all have ended with the container
                members = processes.read((await keeper.run(processes.listing(halted[1]), limit=_SCRIPT_LIMIT)).out).members
                if not members:
                    break
                await keeper.run(processes.signal(signal.SIGKILL, [one.pid for one in members]), limit=_SCRIPT_LIMIT)
                await asyncio.sleep(0.02)
        except BaseException:
            keeper.close()
            raise
        self.halted = self.halted if self.halted != halted else None
        self.give_back(keeper)

    def to_end(self, keeper: Keeper) -> None:
        """Record that the processes of this keeper's session must be ended later."""
        known = self.halted[1] if self.halted and self.halted[0] == self.link.epoch else set()
        self.halted = self.link.epoch, known | {keeper.session}

    async def end(self) -> None:
        """End the shells' background processes, and remove the private folder, the channels and the connection.

        The channels and the connection are closed even if the call is cancelled.
        """
        try:
            with contextlib.suppress(ChannelLost, EnvironmentFailed):  # out of reach: nothing more can be done from here
                await self._end_all()
        finally:
            self.close()
            await aside(self.link.close)

    async def _end_all(self) -> None:
        """End all processes of the sessions, and remove the private folder. Raises ChannelLost, EnvironmentFailed."""
        if not self.sessions:
            return
        keeper = await self.take()
        self.close_idle()
        try:
            for number in (signal.SIGTERM, signal.SIGKILL):
                give_up = time.monotonic() + _CLOSE_GRACE
                while time.monotonic() < give_up:
                    answer = await keeper.run(processes.listing(self.sessions), limit=_CLOSE_LIMIT)
                    living = [one.pid for one in processes.read(answer.out).members if one.pid not in self.sessions]
                    if not living:
                        break
                    await keeper.run(processes.signal(number, living), limit=_CLOSE_LIMIT)
                    await asyncio.sleep(0.02)
            await keeper.run(f"rm -rf {self.root}", limit=_CLOSE_LIMIT)
        finally:
            keeper.close()

    def close_idle(self) -> None:
        """Close the channels that are kept for later."""
        with self._lock:
            idle, self._idle = self._idle, []
        for keeper in idle:
            self._reader.leave(keeper)
            keeper.close()

    def close(self) -> None:
        """Close all channels."""
        self._closed = True
        self.close_idle()
        self._reader.close()


class _IdleReader:
    """A thread that reads from unused channels. A background server would block if its output stayed unread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keepers: dict[int, Keeper] = {}
        self._open: tuple[select.epoll, int, threading.Thread] | None = None
        """The epoll, the descriptor that wakes it, and the thread; set while there are channels to read."""
        self._closed = False

    def join(self, keeper: Keeper) -> None:
        with self._lock:
            if self._closed:
                return
            if self._open is None:
                self._open = self._opened()
            try:
                fd = keeper.channel.fileno()
                self._open[0].register(fd, select.EPOLLIN)
            except (OSError, ValueError):  # it was closed meanwhile
                keeper.lost = True
                return
            self._keepers[fd] = keeper

    def _opened(self) -> tuple[select.epoll, int, threading.Thread]:
        poll, (stop, wake) = select.epoll(), os.pipe()
        poll.register(stop, select.EPOLLIN)
        thread = threading.Thread(target=self._read, args=(poll, stop), name="remote-output", daemon=True)
        thread.start()
        return poll, wake, thread

    def leave(self, keeper: Keeper) -> None:
        with self._lock:
            for fd, each in list(self._keepers.items()):
                if each is keeper:
                    self._drop(fd)

    def _drop(self, fd: int) -> None:
        del self._keepers[fd]
        if self._open is not None:
            with contextlib.suppress(OSError, ValueError):  # closed meanwhile
                self._open[0].unregister(fd)

    def _read(self, poll: select.epoll, stop: int) -> None:
        while True:
            ready = {fd for fd, _ in poll.poll()}
            if stop in ready:
                break
            with self._lock:
                for fd in ready:
                    keeper = self._keepers.get(fd)
                    if keeper is not None and not keeper.drain():
                        self._drop(fd)
        poll.close()
        os.close(stop)

    def stop(self) -> None:
        """End the thread. Another one starts when a channel must be read again."""
        with self._lock:
            opened, self._open, self._keepers = self._open, None, {}
        if opened is not None:
            os.close(opened[1])
            opened[2].join()

    def close(self) -> None:
        """End the thread permanently. May be called twice."""
        with self._lock:
            self._closed = True
        self.stop()
