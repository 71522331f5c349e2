"""Run each command in its own sh on a host without bash. Only the folder carries over."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import signal
import threading
import time
from collections.abc import Callable, Mapping

from toolcrib.contract.environment import ExecOutcome, ExecRequest
from toolcrib.contract.errors import EnvironmentFailed
from tools.environments._output import Output
from tools.environments._request import never_run
from tools.environments.remote import left
from tools.environments.remote.aside import aside, in_spite, why_lost
from tools.environments.remote.beginning import RemoteBeginning
from tools.environments.remote.channel import ChannelEnded, Link
from tools.environments.remote.once import run_once
from tools.environments.remote.shell_channel import ChannelLost, Exchange, Keeper, ScriptResult
from tools.environments.shell.driver import exports, quote

WHY = (
    "bash is missing in {}, so each command runs in a new sh: variables and functions are not kept. "
    "Install it there (apk add bash, apt install bash; for a container in its image)"
)

_STEPS = ((signal.SIGINT, 0.5), (signal.SIGTERM, 0.5), (signal.SIGKILL, 5.0))
_AGAIN = 0.1
_CLOSE_LIMIT = 5.0
_NO_FOLDER = 93
_LARGEST = 120_000
"""Maximum bytes of a command, which is passed as an argument here."""
_ROOT = """
for _d in /dev/shm "${TMPDIR:-/tmp}" /tmp /var/tmp "$HOME"; do mkdir -m 700 "$_d/NAME" 2>/dev/null && break; _d=; done
[ -n "$_d" ] && printf %s "$_d/NAME"
"""
# The end of the frame is read only after the command, so that the command cannot know it.
_RUN = r"""
IFS= read -r _first; trap : INT TERM HUP
cd -P -- "$2" || exit NO_FOLDER
unset OLDPWD
printf '\036%s %s\036%s\n' "$_first" $$ "$_first"; printf '\036%s \036%s\n' "$_first" "$_first" >&2
( _c=$1 _to=$4; trap 'pwd -P >"$_to"' EXIT; exec <"$3"; set --; eval "$_c" )
_s=$?; IFS= read -r _last
printf '\036%s %s %s \036%s\n' "$_last" $_s $$ "$_last"; printf '\036%s \036%s\n' "$_last" "$_last" >&2
""".replace("NO_FOLDER", str(_NO_FOLDER))
_END = r"""
for _f in /proc/[0-9]*/stat; do
  _l=; IFS= read -r _l <"$_f"; _p=${_l%% *}
  set -- ${_l##*) }
  case " SESSIONS " in *" $4 "*) ;; *) continue ;; esac
  case $1 in Z | X) continue ;; esac
  [ $_p = "$4" ] && [ -z "ALL" ] || { kill -NUMBER $_p; kill -CONT $_p; echo $_p; }
done 2>/dev/null
"""


class RemoteOneShot:
    """Runs one process per command. ``env`` is added to the variables that every process gets there."""

    def __init__(self, link: Link, env: Mapping[str, str]) -> None:
        self._link = link
        self._env = dict(env)
        self._root = ""
        self._lock = threading.Lock()
        self._running: set[_Running] = set()
        self._sessions: set[int] = set()

    async def execute(
        self, beginning: RemoteBeginning, request: ExecRequest, text: str, cwd: str, notice: str, interrupted: Callable[[], bool]
    ) -> ExecOutcome:
        """Run a command. ``interrupted`` returns True if the call was interrupted. Raises EnvironmentFailed, NotBegun."""
        if len(text.encode("utf-8", "surrogateescape")) > _LARGEST:
            raise EnvironmentFailed("the command is too long without bash: install bash there, or write it to a file")
        started = time.monotonic()
        output = Output(request)
        name = await beginning.wait_for(self._files(request.stdin))
        if interrupted():
            return never_run(cwd, self._link.where)
        try:
            text = exports({**self._env, **request.env}).replace("\\builtin ", "") + text
            argv = ["sh", "-c", _RUN, "sh", text, cwd, f"{name}.in" if request.stdin else "/dev/null", f"{name}.cwd"]
            channel = await beginning.wait_for(aside(self._link.open, argv), lambda made: made.close())
            running = _Running(self, Keeper(channel), output)
            with self._lock:
                self._running.add(running)
            if interrupted():  # the interrupt came while the channel opened
                running.interrupt()
            try:
                code = await running.finish(request.timeout)
            finally:
                running.keeper.close()
                with self._lock:
                    self._running.discard(running)
                    self._sessions |= {running.session} - {0}
            ended_in = (await self.beside(f"cat {name}.cwd; rm -f {name}.*")).out.decode("utf-8", "surrogateescape")[:-1] or cwd
        except ChannelLost as error:
            known = "the command may have run, and may still be running; it was not retried"
            raise EnvironmentFailed(f"{self._link.where} was lost: {await why_lost(self._link) or error}; {known}") from error
        finally:
            kept = output.finish()
        if not running.exchange.begun:
            why = f"the folder {cwd} cannot be entered" if code == _NO_FOLDER else f"sh cannot be started ({code})"
            raise EnvironmentFailed(f"{why} in {self._link.where}, so the command was not run: choose another cwd")
        return ExecOutcome(
            exit_code=code,
            stdout=kept["stdout"],
            stderr=kept["stderr"],
            cwd=ended_in,
            duration=time.monotonic() - started,
            where=self._link.where,
            ended="interrupted" if running.ended == "interrupted" else "timeout" if running.ended else "exited",
            notice=notice,
        )

    async def beside(self, text: str, data: bytes = b"") -> ScriptResult:
        """Run a script in a channel of its own. Raises ChannelLost."""
        try:
            return await aside(run_once, self._link, text, [], data)
        except EnvironmentFailed as error:
            raise ChannelLost(str(error)) from error

    async def _files(self, data: bytes) -> str:
        """Write a command's input, and return the name prefix of its files. Raises EnvironmentFailed."""
        try:
            return await self._written(data)
        except ChannelLost as error:
            why = await why_lost(self._link)
            said = f"no shell could be started in {self._link.where} ({why or error}): does it have an sh?"
            raise EnvironmentFailed(f"{said} The command was not run") from error

    async def _written(self, data: bytes) -> str:
        if not self._root:
            self._root = (await self.beside(_ROOT.replace("NAME", f"{left.NAME}{secrets.token_hex(8)}"))).out.decode()
            if not self._root:
                raise EnvironmentFailed(f"no private folder can be created in {self._link.where}: make /tmp writable there")
            self._link.leave(self._root)
        name = f"{self._root}/{secrets.token_hex(4)}"
        if data and (await self.beside(f"umask 077; cat >{quote(name)}.in", data)).status:
            raise EnvironmentFailed(f"the command's input can't be written to {name}, so it was not run: is the disk full?")
        return name

    async def signal_sessions(self, number: int, sessions: set[int], *, whole: bool) -> bool:
        """Send a signal to the sessions and return True if any process lived. ``whole``: also to their leaders.

        Raises ChannelLost.
        """
        names = {"SESSIONS": " ".join(map(str, sessions)), "NUMBER": str(int(number)), "ALL": "y" if whole else ""}
        text = _END
        for name, value in names.items():
            text = text.replace(name, value)
        return bool((await self.beside(text)).out)

    def interrupt(self) -> None:
        with self._lock:
            running = list(self._running)
        for each in running:
            each.interrupt()

    async def close(self) -> None:
        self.interrupt()
        give_up = time.monotonic() + _CLOSE_LIMIT
        while self._running and time.monotonic() < give_up:  # noqa: ASYNC110 - the commands may run in event loops of other threads
            await asyncio.sleep(0.01)
        with contextlib.suppress(ChannelLost):  # out of reach: nothing more can be done from here
            for number in (signal.SIGTERM, signal.SIGKILL):
                if self._sessions and await self.signal_sessions(number, self._sessions, whole=True):
                    await asyncio.sleep(_AGAIN)
            if self._root:
                await self.beside(f"rm -rf {quote(self._root)}")


class _Running:
    def __init__(self, place: RemoteOneShot, keeper: Keeper, output: Output) -> None:
        self.keeper = keeper
        self.ended = ""
        self._place = place
        self._loop = asyncio.get_running_loop()
        self.exchange = Exchange(lambda data: output.take("stdout", data), lambda data: output.take("stderr", data))

    @property
    def session(self) -> int:
        """The session's number, 0 before it has started."""
        return int(self.exchange.out.facts or 0)

    async def finish(self, limit: float | None) -> int:
        """Wait for the command and return its exit code. If this wait is cancelled, end the command. Raises ChannelLost."""
        try:
            await self.keeper.send(f"{self.exchange.first}\n{self.exchange.last}\n".encode())
            with self.keeper.listening():
                try:
                    await self._until(None if limit is None else self._loop.time() + limit)
                    if self.ended:
                        await self._end()
                except asyncio.CancelledError:
                    self.ended = "interrupted"
                    await in_spite(self._end())  # takes some seconds at most
                    raise
        except ChannelLost as error:
            if isinstance(error.__cause__, ChannelEnded) and error.__cause__.code is not None:
                return error.__cause__.code  # the command also ended the sh that waited for it
            raise
        return int(self.exchange.out.status)

    async def _until(self, deadline: float | None) -> None:
        while not self.keeper.pump(self.exchange) and not self.ended:
            if deadline is not None and self._loop.time() >= deadline:
                self.ended = "timeout"
                return
            await self.keeper.next(deadline)

    async def _end(self) -> None:
        """Send INT, TERM and KILL, each only while a process lives, to the command but not to the shell that waits for it."""
        give_up = self._loop.time() + _CLOSE_LIMIT
        while not self.keeper.pump(self.exchange) and not self.exchange.begun and self._loop.time() < give_up:
            await self.keeper.next(give_up)
        for number, grace in _STEPS:
            give_up = self._loop.time() + grace
            while self._loop.time() < give_up:
                lives = await self._place.signal_sessions(number, {self.session}, whole=False)
                again = self._loop.time() + _AGAIN
                while not self.keeper.pump(self.exchange) and self._loop.time() < again:
                    await self.keeper.next(again)
                if self.exchange.done and not lives:
                    return
        if not self.exchange.done:
            raise ChannelLost("the command could not be stopped")

    def interrupt(self) -> None:
        """Interrupt the command. Callable from any thread."""

        def mark_interrupted() -> None:
            self.ended = self.ended or "interrupted"
            self.keeper.notify()

        with contextlib.suppress(RuntimeError):  # its loop is closed, so no task awaits it
            self._loop.call_soon_threadsafe(mark_interrupted)
