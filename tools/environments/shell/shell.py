"""A bash and its reports: it gets one command at a time, and answers with a frame and then with its state."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import select
import signal
import threading
import time
from collections.abc import Callable, Mapping

from toolcrib.contract.errors import EnvironmentFailed
from tools.environments._census import Sessions
from tools.environments.shell import driver
from tools.environments.shell.beyond import limits_of
from tools.environments.shell.folder import Folder
from tools.environments.shell.launcher import Launcher, ShellProcess, kill_session
from tools.environments.shell.snapshot import ShellSnapshot

_CHUNK = 1 << 16
_TURN = 32
"""Chunks to read before other work gets its turn."""
_HEADING = 1 << 12
"""Maximum bytes of a heading."""
_MOST = 1 << 26
"""Maximum bytes of a report."""
EDGE = select.EPOLLIN | select.EPOLLET
"""Events of a stream of commands: the next one comes only after the stream was read to its end."""


class Shell:
    """A bash process that runs one call at a time. Creating this object blocks for some milliseconds.

    ``restore`` is the text that restores its state, ``cwd`` its start folder; ``apart``: its state has a DEBUG trap. ``last``:
    text that sets an EXIT trap. ``closed`` is called after this process's side is closed.

    ``snapshot`` is the last complete report. ``whole`` is True if it is current; a killed shell may not have reported again.
    ``is_quick``: its last command ended almost at once.
    """

    def __init__(
        self,
        launcher: Launcher,
        restore: str,
        cwd: str,
        *,
        apart: bool = False,
        last: str = "",
        closed: Callable[[], None] = lambda: None,
    ) -> None:
        self._launcher = launcher
        self._closed = closed
        self.folder = Folder(launcher.root, launcher.inner)
        self._mark = secrets.token_hex(16)
        self._end, self._exit = f"{self._mark} END\n".encode(), f"{self._mark} EXIT\n".encode()
        self._brief = False
        self._buffer = bytearray()
        self._seen = 0
        self._nonce = b""
        self._in_report = self._leaving = False
        self._reading = threading.Lock()
        self._late = False
        self._mixed = self._will_mix = not apart
        """True if a DEBUG trap's output may be in this report; ``_will_mix``: in the one after the running command."""
        self._said_pid = 0
        self._apart = apart
        self._armed = True
        self.no_folder = self.disowned = False
        self.was_whole = self.is_usable = True
        self.running = False
        self.is_quick = False
        self.status: int | None = None
        self.snapshot: ShellSnapshot | None = None
        self.whole = False
        self.cwd = cwd
        self._poll = select.poll()
        with contextlib.ExitStack() as failed:
            failed.callback(self.folder.close)
            self.epoll = _epoll()
            failed.callback(self.epoll.close)
            self._write_files(restore, last)
            self.process: ShellProcess = launcher.start(self.folder.inner, self.folder.path)
            failed.pop_all()
        self.limits = limits_of(self.process.pid)
        self.epoll.register(self.folder.reports, select.EPOLLIN)  # level-triggered: not always read to its end
        for fd in self.folder.streams.values():
            self.epoll.register(fd, EDGE)
        self._poll.register(self.folder.reports, select.POLLIN)
        if self.process.fileno() >= 0:
            self.epoll.register(self.process.fileno(), select.EPOLLIN)
        self._waiting = driver.waiting(self.folder.inner).encode()
        begin = driver.start(self.folder.inner, cwd, self._mark, last=bool(last))
        self._feed(begin.encode("utf-8", "surrogateescape") + self._waiting)

    def _write_files(self, restore: str, last: str) -> None:
        inner, folder = self.folder.inner, self.folder
        texts = {
            "r": restore,
            "f": driver.report(self._mark),
            "g": driver.report(self._mark, f"{inner}/s"),
            "x": driver.at_exit(inner, self._mark),
            **({"t": last} if last else {}),
        }
        try:
            for name, text in texts.items():
                folder.write(name, text.encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise EnvironmentFailed(
                f"no shell can be started, as its state cannot be written to {folder.path}: {error.strerror}"
            ) from error

    # -- a call --------------------------------------------------------------------------------------------------

    def begin(self, command: bytes, stdin: bytes | None, cwd: str | None, env: Mapping[str, str], *, brief: bool = False) -> int:
        """Start a command, whose exit code becomes ``status``. Raises EnvironmentFailed if the shell cannot get it.

        ``brief``: the command changes nothing, so its state need not be reported. With ``stdin`` None, the caller writes the
        input to the returned descriptor, and may close it when ``running`` is True.
        """
        if self._in_report:
            self.collect()
        folder, feed = self.folder, -1
        try:
            if stdin:
                folder.give_input(stdin)
            elif stdin is None:
                feed = folder.feed_input()
                command = self.saying_running.encode() + command
            if env or cwd is not None:
                folder.write("v", driver.FIRST_LINE + command)
                command = driver.run_with(folder.inner, cwd, env).encode("utf-8", "surrogateescape")
            if not self._armed:
                command = driver.arm(folder.inner).encode() + command
            line = driver.run(command)
            if line is None:
                folder.write("c", command)
                line = driver.run_long(folder.inner)
        except OSError as error:
            why = "the command's text or input" if error.errno == errno.ENOSPC else "the shell's folder"
            raise EnvironmentFailed(f"{why} cannot be written to {folder.path}: {error.strerror}") from error
        nonce = secrets.token_urlsafe(9)
        with self._reading:
            self._nonce = nonce.encode()
            self.status, self.whole, self._late = None, False, self._in_report
            self._brief, self._will_mix = brief and not self._apart, not self._apart
            given = driver.with_input(folder.inner) if stdin != b"" else b""
            self._feed(b"%s%s\n%s\n%s" % (line, given, self._finish(nonce).encode(), self._waiting))
        return feed

    @property
    def saying_running(self) -> str:
        """Text for the beginning of a command that sets ``running``."""
        return driver.running(self.folder.inner, self._mark)

    def _finish(self, nonce: str) -> str:
        if self._brief:
            return driver.finish_only(nonce)
        inner = self.folder.inner
        finish = driver.finish_apart if self._apart else driver.finish
        return f"{finish(inner, nonce)}\n{driver.speak(inner)}"

    def over(self) -> None:
        """Remove the input of an ended command."""
        self.folder.no_input()

    def _feed(self, data: bytes) -> None:
        with contextlib.suppress(OSError):  # full: the shell no longer reads, which the waiting call detects
            os.write(self.folder.input, data)

    def says(self, give_up: float) -> bool:
        """Return True if the shell reports anything before ``give_up``, in ``perf_counter`` time. Output of commands does not
        count.

        This polls and yields the processor. Waking an idle processor takes longer than the shortest commands, above all on a
        virtual machine.
        """
        while time.perf_counter() < give_up:
            if self._poll.poll(0):
                return True
            os.sched_yield()
        return False

    # -- reports -------------------------------------------------------------------------------------------------

    def collect(self) -> None:
        """Read the available reports of the shell, or only a part if a command writes there endlessly.

        Callable from any thread.
        """
        with self._reading:
            for _ in range(_TURN):
                if self.folder.reports < 0:
                    return
                try:
                    chunk = os.read(self.folder.reports, _CHUNK)
                except BlockingIOError:
                    return
                self._buffer += chunk
                self._read()
                if len(self._buffer) > _MOST:
                    self._buffer.clear()
                    self._disown()
                if len(chunk) < _CHUNK:
                    return

    def _read(self) -> None:
        while self._buffer:
            if self._in_report:
                at = self._buffer.find(self._end, max(0, self._seen - len(self._end)))
                if at < 0:
                    self._seen = len(self._buffer)
                    return
                told = bytes(self._buffer[:at])
                del self._buffer[: at + len(self._end)]
                self._in_report, self._seen = False, 0
                self._take(told)
                continue
            if not self._is_heard():
                del self._buffer[: max(self._buffer.rfind(b"\n") + 1, len(self._buffer) - _HEADING)]
                return
            at = self._buffer.find(b"\n")
            if at < 0:
                return
            line = bytes(self._buffer[:at])
            del self._buffer[: at + 1]
            self._heading(line)

    def _is_heard(self) -> bool:
        """Return True if the buffer may hold a heading. Anything else comes from a foreign writer."""
        return self._mark.encode() in self._buffer or (bool(self._nonce) and self._nonce in self._buffer)

    def _heading(self, line: bytes) -> None:
        """Read one heading. Any other line was written by a foreign process, and is ignored."""
        who, _, said = line.partition(b" ")
        if self._nonce and who.endswith(self._nonce) and said.isdigit():
            self.status, self._nonce, self._mixed = int(said), b"", self._will_mix
            self._in_report, self.whole = not self._brief, self._brief
        elif said == b"EXIT" and who.endswith(self._mark.encode()):  # a signal may have cut the previous report short
            self._in_report = self._leaving = True
        elif who != self._mark.encode():
            return
        elif said == b"RUN":
            self.running = True
        elif said == b"NOCD" and not self._said_pid:  # nothing has run yet; later, a command could forge this
            self.no_folder = True
        elif said.startswith(b"PID ") and not self._said_pid:
            self._said_pid = int(said[4:])
            self._launcher.attach(self.process, self._said_pid)

    def _take(self, data: bytes) -> None:
        # A signal may end the shell during its report, which then starts again.
        _, at, last = data.rpartition(self._exit)
        leaves, self._leaving = self._leaving or bool(at), False
        mark = self._mark.encode()
        path, traps = b"", None
        if leaves:
            said, _, last = last.partition(mark + b"\n")
            path, _, last = last.partition(b"\n" + mark + b"\n")
            traps = said.decode("utf-8", "surrogateescape")
        snapshot = ShellSnapshot.read(last, mark, self.folder.inner, traps)
        # A path of several lines may contain text of other writers.
        is_path = path.startswith(b"/") and (b"\n" not in path or os.path.isdir(path))  # noqa: PTH112 - a path as bytes
        if is_path:
            self.cwd = os.fsdecode(path)
        if snapshot is None or (leaves and not is_path):
            self._disown(leaves=leaves)
            return
        self._armed, was_late, self._late = snapshot.has_exit_trap, self._late, False
        self._apart = snapshot.has_debug_trap
        if (self._apart or not snapshot.is_sound) and self._mixed and not leaves:  # a trap's output is part of it
            self._ask_again()
            return
        if not snapshot.is_sound:
            self._disown(leaves=leaves)
            return
        self.whole = leaves or not was_late
        if self.snapshot is None or self.snapshot.sections != snapshot.sections:  # else keep cached values
            self.snapshot = snapshot

    def _disown(self, *, leaves: bool = False) -> None:
        """End the shell, because its state is unknown: the next command would be judged by an old state.

        ``leaves``: it has reported that it is ending, and killing it would hide its exit code.
        """
        self.disowned, self.is_usable = True, False
        if not leaves:
            kill_session(self.process)

    def _ask_again(self) -> None:
        if not self._nonce:  # otherwise the next command reports the state
            self._in_report, self._mixed = True, False
            self._feed(b"' >/dev/null 2>&1\n%s\n%s" % (driver.tell_apart(self.folder.inner).encode(), self._waiting))

    @property
    def owes(self) -> bool:
        """True while the state after the last command was not fully reported: ``snapshot`` is then an earlier one."""
        return self._in_report

    @property
    def is_telling(self) -> bool:
        """True until the shell starts the last command, because it reports or restores its state first.

        A signal at this time would corrupt the report.
        """
        return self._said_pid == 0 or self._late

    @property
    def attached(self) -> bool:
        """True when the shell has reported its process number, which it does before it runs anything."""
        return self._said_pid > 0

    def where(self) -> str:
        """Return the shell's working folder with links resolved, or its last name if it no longer exists."""
        with contextlib.suppress(OSError):  # the shell has ended: use its last known folder
            path = os.readlink(f"/proc/{self.process.pid}/cwd")  # noqa: PTH115 - a Path would drop a trailing slash or dot
            gone = " (deleted)"
            self.cwd = path.removesuffix(gone) if path.endswith(gone) and not os.path.isdir(path) else path  # noqa: PTH112 - as above
        return self.cwd

    # -- streams -------------------------------------------------------------------------------------------------

    def renew(self, stream: str) -> int | None:
        """Replace a stream that a process still holds, and return the old read end.

        Return None if no new one can be made, as in a folder that a command removed: then the shell is no longer usable.
        """
        old = self.folder.streams[stream]
        try:
            new = self.folder.renew(stream)
        except OSError:
            self.is_usable = False
            return None
        self.epoll.unregister(old)
        self.epoll.register(new, EDGE)
        return old

    def is_well(self) -> bool:
        """Return whether the shell can run another command."""
        return self.exit_code() is None and self.is_usable and self.folder.is_whole()

    def end(self) -> None:
        """Ask the shell to end by itself, which runs its EXIT trap."""
        self._feed(b"\\builtin exit'\n")

    # -- end -----------------------------------------------------------------------------------------------------

    def exit_code(self) -> int | None:
        """Return the shell's exit code, or None while it runs."""
        return self.process.exit_code()

    def leaves(self, sessions: Sessions) -> bool:
        """Close this process's descriptors of an ended shell. Return True if ``sessions``, a scan after its end, has a process of
        its session.
        """
        self._close()
        if self.process.among(sessions):
            return True
        self.process.reap()
        return False

    def vanish(self, patience: float = 2.0) -> None:
        """Kill the shell at once, without its EXIT trap. Call it only if no other process is in its session."""
        give_up = time.monotonic() + patience
        self.process.send(signal.SIGKILL)
        while self.process.exit_code() is None and time.monotonic() < give_up:
            time.sleep(0.0005)
        self._close()
        self.process.reap()

    def kill(self) -> None:
        """Kill the shell and all processes of its session."""
        kill_session(self.process)
        self._close()
        self.process.reap()

    def _close(self) -> None:
        self.epoll.close()
        with self._reading:
            self.folder.close()
        self.process.close()
        closed, self._closed = self._closed, lambda: None
        closed()


def _epoll() -> select.epoll:
    try:
        return select.epoll()
    except OSError as error:
        raise EnvironmentFailed(f"no shell can be started: {error.strerror}") from error
