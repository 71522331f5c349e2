"""A process on the host, over one channel of a connection."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from tools.environments.remote.channel import ChannelBroken, ChannelEnded, Stream

if TYPE_CHECKING:
    import paramiko

    from toolcrib.contract.terminal import TerminalSize
    from tools.environments.ssh.transport import End

_CHUNK = 1 << 16
_ALL = 1 << 22
"""More bytes than a channel's window. Paramiko's buffer moves the bytes that remain after a read, so all are read at once."""
_GRACE = 1.0
"""Seconds to wait for the last output after a process's end, if other processes hold the channel open."""


class _Wake:
    """A descriptor that is readable while there may be data.

    Paramiko's own descriptor can lose one of two simultaneous events, and writes to a descriptor that may have been reused.
    ``set`` makes this one readable soon, ``now`` at once.
    """

    def __init__(self, fed: Callable[[Callable[[], None]], None]) -> None:
        self._fed = fed
        self._lock = threading.Lock()
        self._ends: tuple[int, int] | None = os.pipe()
        self.fd = self._ends[0]
        self._set = False

    def set(self) -> None:
        if not self._set:
            self._fed(self.now)

    def now(self) -> None:
        with self._lock:
            if self._ends is not None and not self._set:
                self._set = True
                os.write(self._ends[1], b"x")

    def clear(self) -> None:
        """Do nothing. Paramiko calls this when one of the two streams is empty, which does not concern the other."""

    def reset(self) -> None:
        with self._lock:
            if self._ends is not None and self._set:
                self._set = False
                os.read(self._ends[0], 1)

    def close(self) -> None:
        with self._lock:
            if self._ends is not None:
                for fd in self._ends:
                    os.close(fd)
                self._ends = None


class SshChannel:
    """A channel of a connection. ``room``: returns how many bytes can be sent without waiting.

    ``why``: returns the reason for a lost connection. ``fed``: calls its argument soon. ``done``: is called when the channel is
    closed.
    """

    def __init__(
        self,
        channel: paramiko.Channel,
        end: End,
        *,
        room: Callable[[], int],
        why: Callable[[], str],
        fed: Callable[[Callable[[], None]], None],
        done: Callable[[], None],
    ) -> None:
        self._channel = channel
        self._end = end
        self._room = room
        self._held: tuple[Stream, memoryview] = "stdout", memoryview(b"")
        self._why = why
        self._done = done
        self._wake = _Wake(fed)
        self._err_first = False
        self._dead_since = 0.0
        self._timer: threading.Timer | None = None
        self._closed = False
        channel.settimeout(0.0)
        end.on_data = self._wake.set
        for buffer in (channel.in_buffer, channel.in_stderr_buffer):
            buffer.set_event(self._wake)  # type: ignore[arg-type]  # has all methods of an event that paramiko calls
        if end.code is not None:
            self._wake.now()

    def fileno(self) -> int:
        return self._wake.fd

    def read(self) -> tuple[Stream, bytes] | None:
        found = self._next()
        if found is None:
            self._wake.reset()
            over = self._channel.closed  # check before the last read, which gets all earlier data
            found = self._next()
            if found is not None or over:
                self._wake.now()
            if found is None:
                self._check(over)
        return found

    def _next(self) -> tuple[Stream, bytes] | None:
        stream, held = self._held
        if not held:
            found = self._take()
            if found is None:
                return None
            stream, held = found[0], memoryview(found[1])
        self._held = stream, held[_CHUNK:]
        return stream, bytes(held[:_CHUNK])

    def _take(self) -> tuple[Stream, bytes] | None:
        import paramiko

        from tools.environments.ssh.transport import sending

        channel = self._channel
        self._err_first = not self._err_first
        for err in (self._err_first, not self._err_first):
            if not (channel.recv_stderr_ready() if err else channel.recv_ready()):
                continue
            try:
                with sending(channel):  # reading announces to the other side that there is room
                    return ("stderr", channel.recv_stderr(_ALL)) if err else ("stdout", channel.recv(_ALL))
            except (paramiko.SSHException, EOFError, OSError) as error:
                raise ChannelBroken(self._why()) from error
        return None

    def _check(self, over: bool) -> None:
        """Raise ChannelEnded or ChannelBroken if the channel has ended. Call it when everything was read."""
        if over and not self._end.closed and self._end.code is None:
            raise ChannelBroken(self._why())
        if over:
            raise ChannelEnded(self._end.code)
        if self._end.code is not None:
            now = time.monotonic()
            if not self._dead_since:
                self._dead_since = now
                self._timer = threading.Timer(_GRACE, self._wake.now)
                self._timer.daemon = True
                self._timer.start()
            elif now - self._dead_since >= _GRACE:
                raise ChannelEnded(self._end.code)

    def write(self, data: bytes | memoryview) -> int:
        import paramiko

        from tools.environments.ssh.transport import sending

        over = self._channel.closed  # read before the end is checked, because one event sets both
        if self._end.code is not None or self._end.closed:
            raise ChannelEnded(self._end.code)
        if over:
            raise ChannelBroken(self._why())
        room = self._room()
        if not data or not room:
            return 0
        try:
            with sending(self._channel):
                return self._channel.send(bytes(data[:room]))
        except TimeoutError:
            return 0
        except (paramiko.SSHException, EOFError, OSError) as error:
            if self._end.code is not None or self._end.closed:  # it ended while this was being sent
                raise ChannelEnded(self._end.code) from error
            raise ChannelBroken(self._why()) from error

    def close_input(self) -> None:
        def shut() -> None:
            from tools.environments.ssh.transport import sending

            with sending(self._channel):
                self._channel.shutdown_write()

        self._quietly(shut)

    def resize(self, size: TerminalSize) -> None:
        """Change the size of the process's terminal. See TerminalChannel."""
        import paramiko

        from tools.environments.ssh.transport import sending

        with contextlib.suppress(paramiko.SSHException, EOFError, OSError), sending(self._channel):  # reading reports the loss
            self._channel.resize_pty(size.columns, size.rows)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._end.on_data = lambda: None
        if self._timer is not None:
            self._timer.cancel()
        self._wake.close()
        self._quietly(self._channel.close)
        self._done()

    def _quietly(self, tell: Callable[[], None]) -> None:
        """Run ``tell``, in another thread if it would block."""
        import paramiko

        def run() -> None:
            try:
                tell()
            except (paramiko.SSHException, EOFError, OSError):  # the connection is gone, and the channel with it
                return

        if self._room() or self._channel.closed:
            run()
        else:
            threading.Thread(target=run, name="ssh-close", daemon=True).start()
