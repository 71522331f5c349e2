"""The background processes of one session in its environment."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
import weakref
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from typing import Any

from toolcrib.contract.dataclass import replace
from toolcrib.contract.effects import ShellState
from toolcrib.contract.environment import Environment, ExecRequest, KeepsProcesses
from toolcrib.contract.errors import EnvironmentFailed, ExecutionFailed, InvalidArguments, NotFound
from toolcrib.contract.terminal import TerminalSize
from tools import alive
from tools.environments.session_mark import MOST_LOCKS
from tools.environments.shell.driver import quote
from tools.processes import ports, scripts
from tools.processes.helper import Helper, HelperRefused
from tools.processes.process import Process, Use, parse, use_in
from tools.processes.watching import TableWatch, Tell
from tools.terminals.terminals import Terminals

LOG_BYTES = 64 << 20
"""Bytes of a process's log that are kept if nothing else is configured."""
_GRACE = (("INT", 0.5), ("TERM", 2.0), ("KILL", 5.0))
"""The signals that end a process, each with the seconds until the next."""
_LOOK = 0.05
_CLOSED_INPUT = 3
_NO_ANSWER = 124
"""Exit codes of ``feed``: the input is closed; the process did not read within the time limit."""


_tables: weakref.WeakSet[ProcessTable] = weakref.WeakSet()


def running_of(principal: str) -> int:
    """Return how many background processes of a principal run in this process's sessions, as far as their tables know."""
    return sum(len(table.names) for table in list(_tables) if table.principal == principal)


class Input:
    """Text that was written to a process. ``shell``: the state of the session's shell when the process started."""

    def __init__(self, shell: ShellState | None) -> None:
        self.shell = shell
        self.written = ""


class ProcessTable:
    """The processes of one session. Not bound to an event loop. Methods raise EnvironmentFailed if the environment is lost.

    ``session`` is unique among all sessions that may use the environment: it names the session's folder in it. ``principal`` is
    the session's owner. ``log_bytes`` limits each log. ``tell`` reports events that a caller of ``start`` asked for.
    """

    def __init__(
        self,
        environment: Environment,
        session: str,
        *,
        principal: str = "",
        log_bytes: int = LOG_BYTES,
        tell: Tell | None = None,
    ) -> None:
        self.environment = environment
        self.principal = principal
        _tables.add(self)
        self._watch = TableWatch(self, tell)
        self._held: dict[str, contextlib.ExitStack] = {}
        self.inputs: dict[str, Input] = {}
        """Text written to each process that this table started with open input, by name."""
        self.read_to: dict[str, int] = {}
        """Number of bytes that the model has read of each process's output."""
        self._known: dict[str, tuple[int, int, int]] = {}
        """The number, start time and limit of file locks of each process."""
        self._parts: dict[str, Sequence[tuple[int, int]]] = {}
        """The files of each process's log at the last look."""
        self._ahead: tuple[str, int, bytes] = "", 0, b""
        """Output that ``one`` read ahead: the process, the first byte, and the bytes from there on."""
        self.session = scripts.folder_name(session)
        self._log_bytes = log_bytes
        self._helper = Helper(environment, scripts.enter(self.session))
        self.terminals = Terminals(environment, self._helper)
        self._folder, self._has_our_numbers = "", False
        self._state: tuple[ShellState | None, str] | None = None
        """The shell's state that was written last, and its file. The state is the same object while it is unchanged."""
        self._states = 0
        self.elsewhere: Callable[[int], Awaitable[int]] | None = None
        """Counts the principal's processes in other processes of toolcrib, exactly if there are as many as its argument."""
        self.names: Collection[str] = frozenset()
        """Names of the processes that run as far as this table knows."""
        self.ended_by_user: set[str] = set()
        self.on_names: Callable[[], None] = lambda: None
        """Called, from any thread, when ``names`` has changed."""

    # -- start and end ---------------------------------------------------------------------------------------------

    async def start(
        self,
        name: str,
        command: str,
        cwd: str,
        *,
        reads: bool = False,
        end: bool = False,
        patterns: Sequence[str] = (),
        size: TerminalSize | None = None,
    ) -> Process:
        """Start a process with the folder ``cwd`` and the variables, functions and aliases of the session's shell.

        ``reads``: its input stays open. ``end`` and ``patterns``: report its end, and lines that match. ``size``: its terminal's.
        Raises ExecutionFailed if the name is taken or nothing could be started.
        """
        folder = await self._entered()
        locks = self._locks(name)
        if patterns:
            await self.search(":", patterns, 1)  # raises InvalidArguments
        try:
            if size is not None:
                said = await self.terminals.open(name, command, cwd, f"{folder}/{name}", locks, size)
            else:
                state = await self._current_state(folder)
                words = [name, str(self._log_bytes), "1" if reads else "0", state, f"{folder}/{name}", cwd, command, str(locks)]
                call = " ".join(["keep", *map(quote, words)])
                said = (await self._helper.run(f"start {quote(name)} {quote(call)}", "spare")).decode()
            pid, start = map(int, said.split())  # "start" fails if it prints nothing
        except HelperRefused as error:
            raise ExecutionFailed(f"the process {name} was not started: {error}") from error
        self._take_names({*self.names, name})
        await self._keep(folder)
        self._watch.add(name, end=end, patterns=patterns)
        if reads:
            self.inputs[name] = Input(await self.environment.shell_state())
        process = Process(name, pid, start, runs=True, reads=reads, locks=locks, terminal=size is not None)
        self._known[name] = pid, start, locks
        return process

    def _locks(self, name: str) -> int:
        """Return the limit of file locks that marks a process and its descendants."""
        return int(hashlib.sha256(f"{self.session}/{name}".encode()).hexdigest(), 16) % MOST_LOCKS + 1

    def know(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Take the numbers of processes from the session's records: see ``started``."""
        for name, record in records.items():
            with contextlib.suppress(KeyError, TypeError, ValueError):  # a record of an older toolcrib
                self._known.setdefault(name, (int(record["pid"]), int(record["start"]), int(record["locks"])))

    def _take_names(self, names: Collection[str]) -> None:
        before, self.names = self.names, frozenset(names)
        if before != self.names:
            self.on_names()

    def hold(self, name: str, entered: contextlib.ExitStack) -> None:
        """Leave entered contexts when the process has ended."""
        self._held[name] = entered

    def _release_ended(self) -> None:
        for name in self._held.keys() - {*self.names}:
            self._held.pop(name).close()

    async def _keep(self, folder: str) -> None:
        if isinstance(self.environment, KeepsProcesses):
            await self.environment.keep_processes(folder)

    @property
    def folder(self) -> str:
        """The session's folder in the environment, "" before the first start."""
        return self._folder

    async def free_name(self, name: str) -> str:
        """Return ``name``, or the first free one of ``name-2``, ``name-3`` and so on."""
        taken = (await self._helper.run("printf '%s ' *")).decode(errors="replace").split()
        number, free = 1, name
        while free in taken:
            number += 1
            free = f"{name}-{number}"
        return free

    async def _entered(self) -> str:
        if not self._folder:
            said = self._helper.entered or await self._helper.run("where")
            self._folder, _, kernel = said.decode("utf-8", "surrogateescape").partition("\n")
            ours = [alive.boot(), f"pid:[{alive.namespace()}]"]
            self._has_our_numbers = kernel.split() == ours and all(ours)
        return self._folder

    async def _current_state(self, folder: str) -> str:
        """Return the file with the state of the session's shell; /dev/null if the environment keeps no shell."""
        state = await self.environment.shell_state()
        if state is None:
            return "/dev/null"
        if self._state is None or self._state[0] is not state:
            self._states += 1
            path = f"{folder}/.state-{self._states}"
            outcome = await self.environment.execute(ExecRequest(scripts.state_into(path), timeout=20.0))
            if outcome.exit_code and not outcome.stdout.total:
                raise EnvironmentFailed("the state of the session's shell can't be read; call again")
            self._state = await self.environment.shell_state(), path
            await self._helper.run(f"find . -maxdepth 1 -name '.state-*' ! -name '.state-{self._states}' -delete")
        return self._state[1]

    async def end(self, name: str) -> None:
        """End a process and its descendants: INT, TERM and KILL, as far as needed. Does nothing if none is left."""
        await self.terminals.end(name)
        for number, seconds in _GRACE:
            give_up = time.monotonic() + seconds
            if not await self.signal(name, number):
                break
            while time.monotonic() < give_up:
                await asyncio.sleep(_LOOK)
                if not (await self.use(name)).pids:
                    break
            else:
                continue
            break
        self._take_names({one for one in self.names if one != name})

    async def signal(self, name: str, number: str) -> Sequence[int]:
        """Send a signal, such as ``TERM``, to a process and its descendants. Return their numbers."""
        pids = (await self.use(name)).pids
        if pids:
            listed = " ".join(map(str, pids))
            wakes = f"; kill -CONT {listed}" if number in ("INT", "TERM", "HUP") else ""  # a stopped process would not see it
            await self._helper.run(f"kill -{number} {listed} 2>/dev/null{wakes} 2>/dev/null; :")
        return pids

    async def remove(self, name: str) -> None:
        """Delete what is kept of a process that has ended."""
        self.terminals.forget(name)
        await self._helper.run(f"shut {quote(name)}; forget {quote(name)}")
        self._watch.forget(name)
        self._take_names({one for one in self.names if one != name})
        for kept in (self.inputs, self.read_to, self._known, self._parts):
            kept.pop(name, None)
        self.ended_by_user.discard(name)
        self._ahead = "", 0, b""

    # -- reading -----------------------------------------------------------------------------------------------------

    async def look(self, *names: str) -> Mapping[str, Process]:
        """Return the session's processes by name, or only those of these names."""
        found = self.terminals.with_facts(parse(await self._helper.run(" ".join(["look", *map(quote, names)]))))
        self._parts |= {name: one.parts for name, one in found.items()}
        await self._looked(found, names)
        return found

    async def _looked(self, found: Mapping[str, Process], names: Sequence[str]) -> None:
        running = {one.name for one in found.values() if one.runs}
        self._take_names(running if not names else {*self.names}.difference(names) | running)
        self._release_ended()
        await self._keep(await self._entered() if self.names else "")
        for one in found.values():
            if one.terminal and one.exit_code is None and self.terminals.is_orphan(one.name):
                await self.end(one.name)

    async def _news(self, name: str) -> Process | None:
        """Return a process, and read what it printed after ``read_to`` in the same step; None if that is not in the newest file
        of its log, or too long.
        """
        parts, begin = self._parts.get(name), self.read_to.get(name, 0)
        if not parts or begin < (part := parts[-1][0]):
            return None
        said, is_read, news = (await self._helper.run(f"news {quote(name)} {part:012d} {begin - part}")).partition(b"\x1e")
        found = parse(said)
        if name not in found or not is_read or len(news) >= scripts.AHEAD:
            return None
        self._ahead = name, begin, news
        await self._looked(found, [name])
        return replace(found[name], parts=[*parts[:-1], (part, begin - part + len(news))])

    async def sizes(self) -> frozenset[bytes]:
        """Return words ``NAME/...`` that change when the process prints or ends; this costs less than a look."""
        return frozenset((await self._helper.run("sizes")).split())

    async def one(self, name: str, *, ahead: bool = False) -> Process:
        """Return a process. Raises NotFound, with the names that exist.

        ``ahead``: read what it printed after ``read_to`` in the same step, for the next ``read``.
        """
        found = (await self._news(name) if ahead else None) or (await self.look(name)).get(name)
        if found is None:
            known = ", ".join(sorted(await self.look())) or "none"
            raise NotFound(f"there is no background process {name!r} (there are: {known})")
        return found

    async def read(self, process: Process, begin: int, end: int) -> bytes:
        """Return a process's output from byte ``begin`` to ``end``, without bytes that the log no longer has."""
        name, first, said = self._ahead
        if (name, first) == (process.name, begin) and len(said) >= end - begin:
            return said[: end - begin]
        script = _piece_script(process, begin, end)
        return await self._helper.run(script) if script else b""

    async def grep(
        self, process: Process, begin: int, patterns: Sequence[str], most: int, *, end: int | None = None
    ) -> Sequence[str]:
        """Return at most ``most`` lines from byte ``begin`` to ``end`` that match a pattern: an extended regular expression of
        POSIX. ``end`` None means the end of the output.

        Raises InvalidArguments for an invalid pattern, or if the search takes too long.
        """
        script = _piece_script(process, begin, process.printed if end is None else end)
        return await self.search(script or ":", patterns, most)

    async def search(self, script: str, patterns: Sequence[str], most: int) -> Sequence[str]:
        """Return lines that a script prints and that match; see ``grep``."""
        given = " ".join(f"-e {quote(pattern)}" for pattern in patterns)
        # Not searched in this process, where a hostile pattern would stop all other work.
        try:
            said = await self._helper.run(f"{{ {script}; }} | timeout 10 grep -a -E -m {most} {given} || [ $? = 1 ]")
        except HelperRefused as error:
            raise InvalidArguments(f"the pattern can't be searched for: {error}") from error
        return said.decode(errors="replace").splitlines()

    async def use(self, name: str) -> Use:
        """Return the numbers of a process and its descendants, and what they use."""
        # Not by the folder, which commands may change. Nothing was recorded if toolcrib was killed right after the start.
        pid, start, locks = self._known.get(name, (0, 0, self._locks(name)))
        return use_in(await self._helper.run(f"members {quote(name)} {pid} {start} {locks}"))

    async def in_use(self, process: Process) -> tuple[Process, Use | None]:
        """Return a process, with ``left``, and what it and its descendants use; None if none of them runs."""
        use = await self.use(process.name)
        return replace(process, left=not process.runs and bool(use.pids)), use if process.runs or use.pids else None

    async def pid_key(self) -> str:
        """Return the name for numbers of processes in results: ``pid``, or ``pid_inside`` if they are not this machine's."""
        await self._entered()
        return "pid" if self._has_our_numbers else "pid_inside"

    async def ports(self, name: str) -> Sequence[int]:
        """Return the TCP ports that a process and its descendants listen on."""
        return await self.ports_of((await self.use(name)).pids)

    async def ports_of(self, pids: Sequence[int]) -> Sequence[int]:
        """Return the TCP ports that these processes listen on."""
        return ports.listening(await self._helper.run(ports.script(pids))) if pids else ()

    # -- input -------------------------------------------------------------------------------------------------------

    async def write(self, name: str, text: str) -> None:
        """Write to the input of a process. Raises ExecutionFailed if it is closed, or if the process does not read."""
        if name in self.inputs:  # also if it fails, because a part may have been read
            self.inputs[name].written += text
        try:
            await self._helper.run(f"feed {quote(name)} {quote(text)}")
        except HelperRefused as error:
            if error.status == _CLOSED_INPUT:
                raise ExecutionFailed(f"the input of {name} is closed: start the process with input: true") from error
            if error.status == _NO_ANSWER:
                raise ExecutionFailed(f"{name} does not read its input: part of the text may still reach it") from error
            raise

    async def close_input(self, name: str) -> None:
        """Close the input of a process: it reads the end of its input."""
        await self._helper.run(f"shut {quote(name)}")

    # -- the end -----------------------------------------------------------------------------------------------------

    async def release(self) -> None:
        """End the helper and the terminals. Other processes continue, also after the end of this one, and their logs stay."""
        self._watch.close()
        await self.terminals.close()
        if self._helper.has_run:
            await self._keep(await self._entered())
        await self._helper.close()

    async def close(self) -> None:
        """End all processes of the session and delete their folder."""
        self._watch.close()
        try:
            await self.terminals.close()
            if self._helper.has_run:
                for name in list((await self.look()).keys()):
                    with contextlib.suppress(ExecutionFailed):
                        await self.end(name)
                await self._helper.run('cd .. && forget "$OLDPWD"')
        finally:
            self._take_names(())
            self._release_ended()
            await self._helper.close()


def _piece_script(process: Process, begin: int, end: int) -> str:
    """Return a script that prints a part of a process's log."""
    pieces = process.pieces(begin, end)
    return "; ".join(f"{_tail(process.name, part, skip)} | head -c {count}" for part, skip, count in pieces)


def _tail(name: str, part: int, skip: int) -> str:
    """Return the command that prints a file of a log without its first bytes."""
    path = quote(f"{name}/log/{part:012d}")
    return f"{{ [ ! -L {path} ] && tail -c +{skip + 1} -- {path}; }}"
