"""A command in a remote shell: read its output, wait until it ends, and end it at its time limit or on an interrupt."""

from __future__ import annotations

import asyncio
import itertools
import signal
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from toolcrib.contract.environment import Ended
from tools.environments._groups import Member, Moment
from tools.environments._output import Output
from tools.environments.remote import frame, processes
from tools.environments.remote.aside import in_spite
from tools.environments.remote.shell_channel import ChannelLost, Exchange, Halted, Keeper, NeverBegan, ScriptResult

Beside: TypeAlias = Callable[[str], Awaitable[ScriptResult]]
"""Function that runs a script in another channel of the backend. Raises ChannelLost, NeverBegan."""

_STEPS = ((signal.SIGINT, 0.5), (signal.SIGTERM, 0.5), (signal.SIGKILL, 5.0))
"""Steps to end a command: each signal, and the maximum seconds until the next."""
_SOON = (0.015, 0.02)
_AGAIN = 0.04
"""Seconds between checks of a command that is being ended, at first and later."""
_BUSY = 12
"""An interrupted shell that was scheduled this often since the signal is not ending: it starts one program after another."""
_REST = 0.05
"""Seconds within which a process that reacts to a signal becomes active."""
_WATCH = 0.25
_LOOKS = 5
_WATCH_MOST = 4.0
"""Seconds between checks that the shell still answers, at first and at most."""
_RACE = 3
"""Clock ticks. A process born this soon after a signal was being forked when the signal was sent, and did not receive it."""
_TRIES = 20
_BEGIN = 5.0
"""Maximum seconds to wait for the start of a command that must be ended."""
_UNHEARD = 1.0
"""Seconds to wait for the start before checking whether anything runs in the backend at all."""
_FAIR, _BEGIN_MOST = 10, 20.0
"""Minimum number of attempts to run a script that ends a command, even if each takes long, and the maximum seconds for them."""


_HALTED = "{}: this command could not be stopped. Its processes continue until the next command stops them."


class RemoteCommand:
    """A running command in a remote shell. It belongs to the event loop that created it.

    Only ``interrupt`` may be called from other threads.
    """

    def __init__(self, keeper: Keeper, output: Output, beside: Beside) -> None:
        self.ended: Ended = "exited"
        self.lost = False
        """True if the shell ran the command and then did not answer."""
        self.halted = ""
        """Notice about a command that could not be ended, because nothing runs in the backend now (see Link.halted)."""
        self.waited = False
        """True if the shell was ended because its files were replaced before it started this command: see
        ``_end_if_it_waits``.
        """
        self.simple = False
        """True if no trap can run when the shell is interrupted, so that programs which it starts afterwards are no cleanup."""
        self.exchange = Exchange(lambda data: output.take("stdout", data), lambda data: output.take("stderr", data))
        self._keeper = keeper
        self._beside = beside
        self._loop = asyncio.get_running_loop()
        self._told: set[Member] = set()
        self._asked = False
        self._silent: Halted | None = None
        """The reason why nothing runs in the backend now, if the last check of the shell found one."""
        self._before = 0, ""
        self._deadline: float | None = None

    @property
    def shell_pid(self) -> int:
        """The shell's process id, 0 before the command has started."""
        first = self.exchange.out.facts.split(b" ", 1)[0]
        return int(first) if first.isdigit() else 0

    @property
    def _begun(self) -> Moment:
        return processes.moment(self.exchange.out.facts.partition(b" ")[2].decode("ascii", "replace"))

    def waits_for_files(self, shell: int, replaced: str) -> None:
        """Record that a running shell gets the command. ``replaced`` is the script that checks the shell's files."""
        self._before = shell, replaced

    # -- until the end -------------------------------------------------------------------------------------------

    async def finish(self, limit: float | None) -> None:
        """Wait until the command has ended. End it after ``limit`` seconds, on an interrupt, or if this wait is cancelled.

        Raises ChannelLost.
        """
        with self._keeper.listening():
            try:
                await self._until(None if limit is None else self._loop.time() + limit)
                if self.ended != "exited":
                    await self._end_if_it_runs()
            except asyncio.CancelledError:
                self.ended = "interrupted"
                await in_spite(self._end_if_it_runs())  # takes some seconds at most
                raise

    async def _end_if_it_runs(self) -> None:
        try:
            if self._silent is not None:  # nothing runs in the backend, so no answer can arrive
                raise self._silent
            await self._end()
        except Halted as error:
            self.lost, self.halted = True, _HALTED.format(f"{str(error)[:1].upper()}{str(error)[1:]}")

    async def _until(self, deadline: float | None) -> None:
        self._deadline = deadline
        pause = _WATCH
        look = self._loop.time() + pause
        while not self._keeper.pump(self.exchange) and self.ended == "exited":
            now = self._loop.time()
            if deadline is not None and now >= deadline:
                self.ended = "timeout"
                return None
            if now >= look:
                if await self._is_lost():
                    return await self._give_up()
                await self._end_if_it_waits(self._look)
                if await self._is_gone():
                    await self._ask_again()
                pause = min(2 * pause, _WATCH_MOST)
                look = self._loop.time() + pause
            await self._keeper.next(look if deadline is None else min(look, deadline))
        return None

    async def _is_lost(self) -> bool:
        """Return True if the shell has run all its input and reported nothing: no report can follow.

        A line may still be on its way to the shell, so the shell is watched for a while. Before the command has started, that
        line may be long, so the result is False.
        """
        before = b""
        for _ in range(_LOOKS if self.exchange.begun else 0):
            said = await self._look(frame.idle(self.shell_pid))
            if not said or (before and said != before) or self._keeper.pump(self.exchange):
                return False
            before = said
            await self._keeper.next(self._loop.time() + _WATCH)
        return bool(before) and not self._keeper.pump(self.exchange) and self.ended == "exited"

    async def _end_if_it_waits(self, look: Callable[[str], Awaitable[bytes]]) -> None:
        """End a shell that has not started this command since its files were replaced: it may wait for one of them forever.

        Raises ChannelLost.
        """
        shell, replaced = self._before
        if self.waited or self.exchange.begun or not shell or not await look(replaced) or self.exchange.begun:
            return
        self.waited = True
        await self._do(processes.signal(signal.SIGKILL, [shell]))

    async def _is_gone(self) -> bool:
        """Return True if the shell ended after it read the line that asks for the command's end, so no answer follows."""
        if self._asked or not self.shell_pid or not await self._look(frame.gone(self.shell_pid)):
            return False
        await self._keeper.next(self._loop.time() + _WATCH)  # if its keeper has answered, the answer arrives soon
        self._asked = not self._keeper.pump(self.exchange)
        return self._asked

    async def _look(self, script: str) -> bytes:
        """Return the script's output. Return b"" if the command ends first, must be ended, or the script cannot run now.

        Raises ChannelLost if the command's own channel is lost.
        """
        work = self._loop.create_task(self._answer(script))
        work.add_done_callback(lambda _: self._keeper.notify())
        try:
            while not work.done() and not self._is_over():
                await self._keeper.next(self._deadline)
            return work.result() if work.done() else b""
        finally:
            work.cancel()

    def _is_over(self) -> bool:
        late = self._deadline is not None and self._loop.time() >= self._deadline
        return self._keeper.pump(self.exchange) or self.ended != "exited" or late

    async def _answer(self, script: str) -> bytes:
        try:
            answer, self._silent = await self._beside(script), None
            return answer.out
        except ChannelLost as error:  # if the command's own channel is lost, that channel reports it
            self._silent = error if isinstance(error, Halted) else None
            return b""

    async def _do(self, script: str) -> ScriptResult:
        """Run a script that ends a command. Raises ChannelLost.

        A host with too many processes, often the very ones to end, may fail to start another one now and succeed a moment later.
        """
        begun, tries = self._loop.time(), 0
        while True:
            try:
                return await self._beside(script)
            except NeverBegan:
                self._keeper.pump(self.exchange)  # if the whole connection is lost, this raises
                await self._keeper.need_running()
                tries, passed = tries + 1, self._loop.time() - begun
                if passed >= _BEGIN and (tries >= _FAIR or passed >= _BEGIN_MOST):
                    raise
            await self._pause(_AGAIN)

    async def _output_of(self, script: str) -> bytes:
        return (await self._do(script)).out

    async def _give_up(self) -> None:
        self.lost = True
        await self._do(processes.signal(signal.SIGKILL, [self.shell_pid]))
        await self._ask_again()
        give_up = self._loop.time() + _BEGIN
        while not self._keeper.pump(self.exchange):
            if self._loop.time() >= give_up:
                raise ChannelLost("the shell no longer answers, nor does its keeper")
            await self._keeper.next(give_up)

    async def _ask_again(self) -> None:
        """Ask for the command's end again: the shell read the previous request but did not answer."""
        await self._keeper.send(frame.finish(self.exchange.last).encode())

    async def _end(self) -> None:
        """Send INT, TERM and KILL, each only while a process lives: to the shell first, then to the command's processes.

        Raises ChannelLost, Halted.
        """
        give_up = self._loop.time() + _BEGIN
        unheard = self._loop.time() + _UNHEARD
        while not self._keeper.pump(self.exchange) and not self.exchange.begun and self._loop.time() < give_up:
            if self._loop.time() >= unheard:
                await self._keeper.need_running()
                await self._end_if_it_waits(self._output_of)
                unheard = self._loop.time() + _UNHEARD
            await self._keeper.next(min(give_up, unheard))
        for number, grace in _STEPS:
            if await self._step(number, self._loop.time() + grace):
                return
        if not self.exchange.done:
            raise ChannelLost("the command could not be stopped")

    async def _step(self, number: int, give_up: float) -> bool:
        """Send one signal and wait. Return True if no process is left, False if the next signal is due."""
        self._told = set()
        asked = False
        at_first = await self._tell(number, 0, number)
        first, before = at_first.now.tick, at_first.doing
        since = self._loop.time()
        for pause in itertools.chain(_SOON, itertools.repeat(_AGAIN)):
            await self._pause(pause)
            seen = await self._seen()
            left = self._ours(seen)
            if self.exchange.done and not left:
                return True
            now = self._doing(seen, left)
            if number == signal.SIGKILL:
                if not asked and not self.exchange.done:
                    asked = True
                    await self._ask_again()
            elif self._is_in_vain(number, now, before, self._loop.time() - since):
                return False
            if self._loop.time() >= give_up:
                return False
            forgot = self._goes_on(now.get(self.shell_pid), at_first.doing.get(self.shell_pid))
            if forgot or self._new(seen, number, first):
                await self._tell(number, first, max(number, signal.SIGTERM) if forgot else number)
            if now != before:
                before, since = now, self._loop.time()
        raise AssertionError("unreachable")

    async def _pause(self, seconds: float) -> None:
        """Wait for ``seconds``, or until the report of the command's end arrives."""
        again = self._loop.time() + seconds
        if self.exchange.done:
            await asyncio.sleep(seconds / 4)
        while not self._keeper.pump(self.exchange) and self._loop.time() < again:
            await self._keeper.next(again)

    def _doing(self, seen: processes.ProcessScan, left: list[Member]) -> dict[int, processes.Doing]:
        pids = [*(one.pid for one in left), *([] if self.exchange.done else [self.shell_pid])]
        return {pid: seen.doing[pid] for pid in pids if pid in seen.doing}

    def _goes_on(self, now: processes.Doing | None, at_first: processes.Doing | None) -> bool:
        """Return True if a ``simple`` shell was scheduled more often since the signal than a shell that is ending."""
        return self.simple and now is not None and at_first is not None and now.times - at_first.times >= _BUSY

    def _is_in_vain(self, number: int, now: dict[int, processes.Doing], before: dict[int, processes.Doing], long: float) -> bool:
        """Return True if all remaining processes ignore the signal or, after an interrupt, have been idle for a while.

        A program that cleans up gets time; one that caught the signal and kept waiting does not.
        """
        if not now:
            return False
        if all(each.ignores(number) for each in now.values()):
            return True
        return self.ended == "interrupted" and long >= _REST and now == before and all(each.waits for each in now.values())

    async def _tell(self, number: int, last: int, shells: int) -> processes.ProcessScan:
        """Signal processes. ``last``: only those born before that tick, or shortly after it. ``shells``: the shell's signal.

        The shell's group is stopped meanwhile: otherwise, if the shell waits for a process that ends by itself, the shell
        forgets its own interrupt. If such a process has just ended or started, the shell first continues briefly, unless it may
        be signalled again (``simple``): then it is signalled now.
        """
        shell = self.shell_pid if not self.exchange.done else 0
        still = bool(shell) and number != signal.SIGKILL
        for _ in range(_TRIES):
            seen = await self._seen(processes.freeze(shell) if still else "")
            if not still or self.simple or shell not in seen.changing:
                break
            await self._do(processes.thaw(shell))
        new = self._new(seen, number, last)
        self._told.update(one for one in new if not (self.simple and one.pid in seen.unborn))
        numbers = {shell: shells} if shell and (new or not last or self.simple) else {}
        numbers |= {one.pid: number for one in new}
        await self._do(processes.signals(numbers, shell if still else 0))
        return seen

    def _new(self, seen: processes.ProcessScan, number: int, last: int) -> list[Member]:
        """Return the processes that must be signalled and were not."""
        if not self.shell_pid and not self.exchange.done:  # the command never started: signal what the keeper waits for
            return [one for one in seen.members if one.pid != self._keeper.pid and one not in self._told]
        new = [one for one in self._ours(seen) if one not in self._told]
        if last and number != signal.SIGKILL:
            shell = self.shell_pid if not self.exchange.done else 0
            new = [one for one in new if one.start <= last + _RACE or (self.simple and seen.parents[one.pid] == shell)]
        return new

    async def _seen(self, before: str = "") -> processes.ProcessScan:
        return processes.read(await self._output_of(before + processes.listing([self._keeper.session])))

    def _ours(self, seen: processes.ProcessScan) -> list[Member]:
        begun, own = self._begun, (self._keeper.pid, self.shell_pid)
        return [one for one in seen.members if one.pid not in own and begun.is_before(one)] if self.shell_pid else []

    # -- interrupts ----------------------------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Interrupt the command. Callable from any thread."""
        try:
            self._loop.call_soon_threadsafe(self._interrupted)
        except RuntimeError:  # its loop is closed, so no task awaits it
            self._keeper.close()

    def _interrupted(self) -> None:
        if self.ended == "exited":
            self.ended = "interrupted"
            self._keeper.notify()
