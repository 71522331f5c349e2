"""The session's shell over there: its keeper, its private folder and what it told."""

from __future__ import annotations

import asyncio
import os
import secrets

from toolcrib import ExecRequest
from tools.environments.remote import frame
from tools.environments.remote.call import Beside, Call
from tools.environments.remote.keeper import Answer, Exchange, Keeper, Lost
from tools.environments.shell.driver import arm, quote
from tools.environments.shell.snapshot import Snapshot

_STUCK = 2.0
_REPORT_LIMIT = 10.0
"""Seconds that a shell has to tell its state after a command."""


class Shell:
    """``cwd`` is where it is, free of links; None where that is not known. ``snapshot`` is what it told last."""

    def __init__(self, keeper: Keeper, folder: str) -> None:
        self.keeper = keeper
        self.folder = folder
        self.alive = False
        self.cwd: str | None = None
        self.snapshot: Snapshot | None = None
        self.fresh = True
        """Whether the snapshot is of now: nothing has been run since."""
        self.behind = False
        """Whether the command that runs began before its predecessor's state was fetched."""
        self._mark = secrets.token_hex(16)
        self._last = self._before = ""
        self.status = self.pid = 0
        self._called = b""
        self._first_lines = ""

    async def prepare(self) -> None:
        """Its files. Raises Lost."""
        files = {"g": frame.report(self.folder, self._mark), "x": frame.at_exit(self.folder, self._mark)}
        text = "".join(f"printf %s {quote(each)} >|{self.folder}/{name} && " for name, each in files.items())
        answer = await self.keeper.run(f"mkdir -p -m 700 {self.folder} && rm -f {self.folder}/z && {text}:", limit=_REPORT_LIMIT)
        if answer.status:
            raise Lost(f"the shell's folder cannot be made in {self.folder}: {answer.err.decode(errors='replace').strip()}")

    def start(self, restore: str, cwd: str, *, bare: bool) -> None:
        """With the next command."""
        self._first_lines = frame.start(self.keeper.pid, self.folder, cwd, restore, bare=bare)
        self.alive, self.cwd, self._called = True, cwd, os.fsencode(cwd)

    async def begin(self, call: Call, command: str, request: ExecRequest, cwd: str) -> None:
        """Hands the command over. Raises Lost."""
        lines = self._first_lines
        if self.snapshot is not None and not self.snapshot.has_exit_trap:
            lines += f"\\builtin [ $$ != {self.keeper.pid} ] && {arm(self.folder)}"
        self._first_lines = ""
        exchange = call.exchange
        stdin = f"{self.folder}/i" if request.stdin else "/dev/null"
        lines += frame.run(self.keeper.pid, command, exchange.first, cwd=cwd, moved=cwd != self.cwd, stdin=stdin, env=request.env)
        lines += frame.finish_shell(self.keeper.pid, exchange.last, self.folder)
        self.behind = not self.fresh
        self._before, self._last, self.fresh = self._last, exchange.last, False
        await self.keeper.send(lines.encode("utf-8", "surrogateescape"))

    def ended(self, call: Call) -> bool:
        """Takes in the frame of a command. Whether the shell itself has answered, and not its keeper."""
        out = call.exchange.out
        self.status, self.pid = int(out.status), int(out.pid)
        self.alive = self.pid != self.keeper.pid
        if self.alive and out.folder != self._called:
            self.cwd, self._called = None, out.folder
        return self.alive

    async def end(self, limit: float) -> bool:
        """Asks it to end by itself. False where it does not, or cannot be reached."""
        out: list[bytes] = []
        exchange = Exchange(out.append, out.append)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit
        try:
            await self.keeper.send(
                f"\\builtin [ $$ != {self.keeper.pid} ] && \\builtin exit\n{frame.finish(exchange.last)}".encode()
            )
            with self.keeper.listening():
                while not self.keeper.pump(exchange) and loop.time() < deadline:
                    await self.keeper.next(deadline)
        except Lost:
            return False
        return exchange.done and exchange.out.pid == str(self.keeper.pid)

    # -- its state -----------------------------------------------------------------------------------------------

    async def learn(self, beside: Beside) -> bool:
        """Fetches its state. False where it cannot be had: the shell is not to be used any more. Raises Lost."""
        loop = asyncio.get_running_loop()
        give_up = loop.time() + _REPORT_LIMIT
        before, since = b"", loop.time()
        while loop.time() < give_up:
            data = (await beside(f"printf %s \"$(<{self.folder}/s)\"; printf '\\n'")).out
            if data.startswith(self._last.encode()) and data.endswith(f"{self._mark} END\n".encode()):
                told = Snapshot.read(self._report(data.partition(b"\n")[2]), self._mark.encode())
                self.snapshot, self.fresh = told or self.snapshot, told is not None
                return self.fresh
            if data != before:
                before, since = data, loop.time()
            elif loop.time() - since > _STUCK and (data.startswith(self._last.encode()) or not data.strip()):
                return False  # it has told half, and no more comes: a full disk
            await asyncio.sleep(0.002)
        return False

    async def recover(self, beside: Beside) -> bool:
        """What it told last, of a shell that can no longer be reached. Raises Lost."""
        data = (await beside(f"printf %s \"$(<{self.folder}/s)\"; printf '\\n'")).out
        said, _, rest = data.partition(b"\n")
        if said.decode("ascii", "replace") in (self._last, self._before) and rest.endswith(f"{self._mark} END\n".encode()):
            self.snapshot = Snapshot.read(self._report(rest), self._mark.encode()) or self.snapshot
        return self.snapshot is not None

    async def testament(self, beside: Beside) -> bool:
        """What it told at its end, where it could."""
        answer: Answer = await beside(f"printf %s \"$(<{self.folder}/z)\"; printf '\\n'")
        mark = self._mark.encode()
        head, _, rest = answer.out.partition(b" EXIT\n")
        path, found, state = rest.partition(b"\n" + mark + b"\n")
        told = Snapshot.read(self._report(state), mark) if head == mark and found and state.endswith(mark + b" END\n") else None
        if told is None:
            return False
        await beside(f"rm -f {self.folder}/z {self.folder}/s")
        self.snapshot, self.fresh = told, True
        self.cwd = os.fsdecode(path) if path.startswith(b"/") else self.cwd
        return True

    def _report(self, data: bytes) -> bytes:
        return data.removesuffix(f"{self._mark} END\n".encode())
