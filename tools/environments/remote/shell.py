"""The session's remote shell: its keeper, its private folder and its reported state."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Mapping

from toolcrib.contract.environment import ExecRequest
from tools.environments.remote import frame, processes
from tools.environments.remote.aside import aside
from tools.environments.remote.call import Beside, RemoteCommand
from tools.environments.remote.channel import Link
from tools.environments.remote.shell_channel import ChannelLost, Exchange, Keeper, ScriptResult
from tools.environments.shell import driver
from tools.environments.shell.driver import arm, quote
from tools.environments.shell.snapshot import ShellSnapshot, with_status
from tools.time_limit import seconds_left

_STUCK = 2.0
_PAUSE = 0.002
_REPORT_LIMIT = 20.0
"""Seconds that a shell has to report its state after a command."""
_ENDED = tuple(str(128 + number) for number in (signal.SIGTERM, signal.SIGKILL))


class RemoteShell:
    """A session's shell. ``cwd``: its folder with links resolved, or None if unknown. ``snapshot``: its last report."""

    def __init__(self, keeper: Keeper, folder: str, status: int = 0) -> None:
        self.keeper = keeper
        self.folder = folder
        self.alive = False
        self.cwd: str | None = None
        self.snapshot: ShellSnapshot | None = None
        self.stale = self.unknown = False
        """``stale``: the state after the last command could not be read when the shell was lost; ``unknown``: nor could the
        state before it.
        """
        self.damaged = False
        """True if files that the shell needs were replaced."""
        self.open_files: int | None = None
        """The limit of open files when the shell ended; None if unknown."""
        self._mark = secrets.token_hex(16)
        self._files = {"g": frame.report(folder, self._mark), "x": frame.at_exit(folder, self._mark)}
        self._before = self._runs = self._ended = self._told = ""
        """Commands, by the nonces that end their frames: the last two that were given, the last one that ended, the one whose
        state is known.
        """
        self.status, self.pid = status, 0
        self._called = b""
        self._first_lines = ""

    async def prepare(self) -> None:
        """Create the shell's files in place of existing ones. Raises ChannelLost."""
        text = "".join(f"printf %s {quote(each)} >|{self.folder}/{name} && " for name, each in self._files.items())
        whole = f"cd {self.folder} 2>/dev/null && rm -rf s z g x; cd / && mkdir -p -m 700 {self.folder} && {text}:"
        answer = await self.keeper.run(f"{{ {whole}; }} || {{ rm -f {self.folder}/../spare; {whole}; }}", limit=_REPORT_LIMIT)
        if answer.status:
            raise ChannelLost(
                f"the shell's folder can't be created in {self.folder}: {answer.err.decode(errors='replace').strip()}"
            )

    def start(self, state: ShellSnapshot | None, env: Mapping[str, str], cwd: str) -> None:
        """Start the shell with the next command, unless it lives. It gets ``state``, or without one the variables of ``env``."""
        if not self.alive:
            self._before = self._runs = self._ended = self._told  # the new shell begins with the known state
            restore = driver.exports(env) if state is None else state.restore()
            self._first_lines = frame.start(self.keeper.pid, self.folder, cwd, restore, bare=state is not None)
            self.alive, self.cwd, self._called = True, cwd, os.fsencode(cwd)

    async def begin(self, call: RemoteCommand, command: str, request: ExecRequest, cwd: str, *, brief: bool) -> None:
        """Send a command to the shell. ``brief``: it changes nothing, so its state need not be reported. Raises ChannelLost."""
        lines = self._first_lines
        if self.pid and not lines:
            call.waits_for_files(self.pid, frame.replaced(self.folder, self._files))
        if self.snapshot is not None and not self.snapshot.has_exit_trap:
            lines += f"\\builtin [ $$ != {self.keeper.pid} ] && {arm(self.folder)}"
        self._first_lines = ""
        exchange = call.exchange
        stdin = f"{self.folder}/i" if request.stdin else "/dev/null"
        command = with_status(self.snapshot, self.status, command)
        lines += frame.run(self.keeper.pid, command, exchange.first, cwd=cwd, moved=cwd != self.cwd, stdin=stdin, env=request.env)
        brief = brief and cwd == self.cwd
        lines += frame.finish_shell(self.keeper.pid, exchange.last, self.folder, brief=brief)
        if not brief:
            self._before, self._runs = self._runs, exchange.last
        await self.keeper.send(lines.encode("utf-8", "surrogateescape"))

    def ended(self, call: RemoteCommand) -> bool:
        """Read the frame of an ended command. Return True if the shell itself answered, False if its keeper did."""
        out = call.exchange.out
        self.status, self.pid = int(out.status), int(out.pid)
        self._ended = self._runs
        self.alive = self.pid != self.keeper.pid
        if self.alive and (out.folder != self._called or not out.folder):
            self.cwd, self._called = None, out.folder
        return self.alive

    async def end(self, limit: float) -> bool:
        """Ask the shell to end by itself. Return False if it does not, or is out of reach."""
        out: list[bytes] = []
        exchange = Exchange(out.append, out.append)
        lines = f"\\builtin [ $$ != {self.keeper.pid} ] && \\builtin exit\n{frame.finish(exchange.last)}"
        try:
            await self._exchange(lines, exchange, limit)
        except ChannelLost:
            return False
        return exchange.done and exchange.out.pid == str(self.keeper.pid)

    async def look_where(self, beside: Beside, pid: int) -> None:
        """Read the shell's folder into ``cwd``, and check whether its files are ``damaged``. Raises ChannelLost."""
        answer = await beside(f"readlink /proc/{pid}/cwd; [[ {frame.whole(self.folder)} ]]")
        path, self.damaged = answer.out, answer.status != 0
        self.cwd = path.removesuffix(b"\n").removesuffix(b" (deleted)").decode("utf-8", "surrogateescape")

    async def living(self, beside: Beside) -> list[int]:
        """Return the processes in the lost shell's session, and end the shell if it is idle. Raises ChannelLost."""
        members = processes.read((await beside(processes.listing([self.keeper.session]))).out).members
        own = [self.keeper.pid]
        if self.pid and (await beside(frame.idle(self.pid))).out:
            own.append(self.pid)
            await beside(processes.signal(signal.SIGKILL, own))
        return [one.pid for one in members if one.pid not in own]

    # -- state ---------------------------------------------------------------------------------------------------

    @property
    def owes(self) -> bool:
        """True while the state after the last command was not fetched; ``snapshot`` is then an earlier one."""
        return self._told != self._ended

    async def learn(self, beside: Beside) -> bool:
        """Fetch the state after the last command. Return False if it is unavailable. Raises ChannelLost.

        The state follows the command's frame, so this may run while the next command does. It takes at most half the time that
        the current call has left: the rest is for ``report_state``.
        """
        loop = asyncio.get_running_loop()
        since = loop.time()
        give_up, before = since + min(_REPORT_LIMIT, seconds_left(2 * _REPORT_LIMIT) / 2), b""
        while self.owes and not self.keeper.lost and loop.time() < give_up:
            data = await self._fetch(beside)
            if data is None:
                return True
            if data != before:
                before, since = data, loop.time()
            elif loop.time() - since > _STUCK and (await beside(f"printf %9999s x >|{self.folder}/w")).status:
                return False  # no more data follows: the disk is full, or the folder is gone
            await asyncio.sleep(_PAUSE)
        return not self.owes

    async def report_state(self) -> bool:
        """Make an idle shell print its state, if it could not write the file. Return True on success. Raises ChannelLost."""
        said: list[bytes] = []
        exchange = Exchange(said.append, lambda data: None)
        report = driver.report(self._mark, f"&{frame.OUT}")
        lines = f"\\builtin [ $$ != {self.keeper.pid} ] && {{ {frame.begin(exchange.first)}; \\builtin eval {quote(report)}; }}\n"
        await self._exchange(lines + frame.finish(exchange.last), exchange, _REPORT_LIMIT)
        told = ShellSnapshot.read(self._report(b"".join(said)), self._mark.encode(), self.folder) if exchange.done else None
        self.snapshot, self._told = told or self.snapshot, self._ended if told else self._told
        return told is not None

    async def _exchange(self, lines: str, exchange: Exchange, limit: float) -> None:
        deadline = asyncio.get_running_loop().time() + seconds_left(limit)
        await self.keeper.send(lines.encode())
        with self.keeper.listening():
            while not self.keeper.pump(exchange) and asyncio.get_running_loop().time() < deadline:
                await self.keeper.next(deadline)

    async def _fetch(self, beside: Beside, *also: str) -> bytes | None:
        """Read the last report. Return None if it is complete and belongs to the current command or ``also``, else the data.

        The shell may start a new report meanwhile, so the first line is read twice.
        """
        file = f"{self.folder}/s"
        text = f"mapfile -d '' _t <{file}; mapfile -tn1 _l <{file}; printf '%s\\n%s\\n' \"$_t\" \"$_l\""
        answer = await beside(f"[[ ! -f {file} ]] || {{ {text}; }}")
        data, _, again = answer.out.removesuffix(b"\n").rpartition(b"\n")
        of, _, report = data.partition(b"\n")
        who = of.decode("ascii", "replace")
        if who and of == again and who in (self._ended, self._runs, *also) and report.endswith(f"{self._mark} END\n".encode()):
            told = ShellSnapshot.read(self._report(report), self._mark.encode(), self.folder)
            if told is not None:
                self.snapshot, self._told, self._ended = told, who, who
                return None
        return data

    async def recover(self, beside: Beside) -> bool:
        """Read the last report of a shell that is out of reach. Return True if there is a state. Raises ChannelLost."""
        told = self._told
        if told and told == self._runs:  # the shell printed it itself, and the file may be older
            self.stale = self.unknown = False
            return self.snapshot is not None
        missing = await self._fetch(beside, self._before) is not None
        self.stale = missing and told != self._ended
        self.unknown = self.stale and told != self._before
        self._told = self._ended
        return self.snapshot is not None

    async def testament(self, beside: Beside) -> bool:
        """Read the state that the shell wrote when it ended. Return False if there is none."""
        z = f"{self.folder}/z"
        answer: ScriptResult = await beside(f"[[ ! -f {z} ]] || {{ mapfile -d '' _t <{z}; printf %s \"$_t\"; }}")
        mark = self._mark.encode()
        head, _, rest = answer.out.partition(b" EXIT\n")
        limit, _, rest = rest.partition(b"\n")
        path, found, state = rest.partition(b"\n" + mark + b"\n")
        told = (
            ShellSnapshot.read(self._report(state), mark, self.folder)
            if head == mark and found and state.endswith(mark + b" END\n")
            else None
        )
        if told is None:
            return False
        await beside(f"rm -f {self.folder}/z {self.folder}/s")
        self.snapshot, self._told = told, self._ended
        self.open_files = int(limit) if limit.isdigit() else None
        self.cwd = os.fsdecode(path) if path.startswith(b"/") else self.cwd
        return True

    def _report(self, data: bytes) -> bytes:
        return data.removesuffix(f"{self._mark} END\n".encode())


async def ended_by_silence(link: Link, shell: RemoteShell, call: RemoteCommand) -> str:
    """Return the result of ``Link.silence``, or "" if the command can't have ended for that reason."""
    if call.ended != "exited" or (shell.alive and call.exchange.out.status not in _ENDED):
        return ""
    return await aside(link.silence)


def what_happened(call: RemoteCommand) -> str:
    """Return the outcome's notice for a shell that has ended."""
    if call.lost:
        return (
            "The shell no longer answered after this command (did it redefine or disable builtins, or lower its limit of open "
            "files?); its exit code is not known."
        )
    if not call.exchange.begun:
        return "The shell did not accept this command in time and was stopped; the command was not run."
    if call.ended != "exited":
        return "The shell did not stop this command when requested and was killed with it."
    code = int(call.exchange.out.status)
    if code > 128:
        with contextlib.suppress(ValueError):
            return f"This command ended the shell itself ({signal.Signals(code - 128).name})."
    return "This command ended or replaced the shell itself (exec, or exit with an EXIT trap)."
