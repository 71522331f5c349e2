"""A process in a container, with its streams as the engine multiplexes them over one socket."""

from __future__ import annotations

import contextlib
import secrets
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING

from tools.environments.remote.channel import ChannelBroken, ChannelEnded, Stream

if TYPE_CHECKING:
    from toolcrib.contract.terminal import TerminalSize

_CHUNK = 1 << 16
_HEADER = 8


class DockerChannel:
    """A process in a container. ``left`` keeps the socket's owner alive, which would close the socket when garbage-collected.
    ``code`` asks the engine for the exit code.
    """

    def __init__(self, sock: socket.socket, left: object, code: Callable[[], int | None]) -> None:
        self._sock = sock
        self._left = left
        self._code = code
        self._stream: Stream = "stdout"
        self._due = 0
        self._buffer = b""
        self._at = 0
        self._closed = False
        sock.setblocking(False)

    def fileno(self) -> int:
        return self._sock.fileno()

    def read(self) -> tuple[Stream, bytes] | None:
        while (found := self._next()) is None:
            try:
                more = self._sock.recv(_CHUNK)
            except BlockingIOError:
                return None
            except OSError as error:
                raise ChannelBroken(f"the connection to the docker engine was lost: {error.strerror or error}") from error
            if not more:
                raise ChannelEnded(self._code())
            self._buffer = self._buffer[self._at :] + more if self._at < len(self._buffer) else more
            self._at = 0
        return found

    def _next(self) -> tuple[Stream, bytes] | None:
        """Return the next data of a stream, or None if more must arrive first. Each message has a header and may arrive in
        parts.
        """
        if not self._due:
            header = self._buffer[self._at : self._at + _HEADER]
            if len(header) < _HEADER:
                return None
            self._at += _HEADER
            self._stream = "stderr" if header[0] == 2 else "stdout"
            self._due = int.from_bytes(header[4:], "big")
        data = self._buffer[self._at : self._at + self._due]
        self._at += len(data)
        self._due -= len(data)
        return (self._stream, data) if data else None

    def write(self, data: bytes | memoryview) -> int:
        try:
            return self._sock.send(data)
        except BlockingIOError:
            return 0
        except OSError as error:
            raise ChannelBroken(f"the connection to the docker engine was lost: {error.strerror or error}") from error

    def close_input(self) -> None:
        with contextlib.suppress(OSError):  # the process has ended already
            self._sock.shutdown(socket.SHUT_WR)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        for each in (self._sock, self._left):
            with contextlib.suppress(OSError):  # the connection is lost already
                getattr(each, "close", lambda: None)()
        self._left = None


class DockerTerminal(DockerChannel):
    """A process in a container's terminal. Its output is not multiplexed. ``resize`` asks the engine: height=, width=."""

    def __init__(self, sock: socket.socket, left: object, code: Callable[[], int | None], resize: Callable[..., object]) -> None:
        super().__init__(sock, left, code)
        self._resize = resize

    def resize(self, size: TerminalSize) -> None:
        import docker
        import requests

        with contextlib.suppress(docker.errors.DockerException, requests.RequestException, OSError):  # reading reports the end
            self._resize(height=size.rows, width=size.columns)

    def _next(self) -> tuple[Stream, bytes] | None:
        data, self._buffer = self._buffer, b""
        return ("stdout", data) if data else None


def detach_keys() -> str:
    """Return keys after which the engine detaches from a terminal. They are random, so no user types them. The engine holds
    the first one back until the next key, so it is a rare one; the engine's own choice is C-p.
    """
    return ",".join(["ctrl-^", *secrets.token_hex(8)])
