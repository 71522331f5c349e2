"""The network of a sandbox seen from outside: sockets made in it, and the listening ports of its commands."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import struct
import threading

from toolcrib.contract.regex import Regex
from tools.environments.local._inner import PROXY_PORT
from tools.environments.local.network.connections import connected

_PATIENCE = 10.0
"""Seconds that the inner program has to answer."""
_LISTEN = "0A"
_IN_USE = Regex(rb"(?m)^TCP6?: inuse (\d+)")
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - read from a table, nothing is bound to it


class InnerNetwork:
    """A sandbox's network namespace, reached through ``line``, the connection to its inner program, and the tables in /proc.

    The tables stay open, so they show this namespace even after the inner program ends. ``pid`` is the inner program. Raises
    OSError if it could not enter a sandbox's network. Threads may share this object.
    """

    def __init__(self, line: socket.socket, pid: int) -> None:
        self._line, self._turn = line, threading.Lock()
        self._tables: list[int] = []
        self._counts: list[int] = []
        self._reading = threading.Lock()
        line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack("ll", int(_PATIENCE), 0))
        with contextlib.ExitStack() as failed:
            failed.callback(self.close)
            self.listener = failed.enter_context(_received(line))
            """Socket where the proxy accepts connections from the sandbox's commands."""
            for name, count in (("tcp", "sockstat"), ("tcp6", "sockstat6")):
                with contextlib.suppress(FileNotFoundError):  # a kernel without IPv6
                    self._tables.append(os.open(f"/proc/{pid}/net/{name}", os.O_RDONLY | os.O_CLOEXEC))
                    self._counts.append(os.open(f"/proc/{pid}/net/{count}", os.O_RDONLY | os.O_CLOEXEC))
            if os.stat(f"/proc/{pid}/ns/net").st_ino == os.stat("/proc/self/ns/net").st_ino:  # noqa: PTH116 - no file is read
                raise PermissionError(errno.EPERM, "the inner program has this machine's network")
            if self.listener.getsockname() != ("127.0.0.1", PROXY_PORT):
                raise PermissionError(errno.EPERM, "the inner program sent another socket than the proxy's")
            failed.pop_all()

    def made(self, verb: str, number: int) -> socket.socket:
        """Return a socket made in the namespace: ``listen PORT`` or ``socket FAMILY``. Raises OSError."""
        with self._turn:
            try:
                self._line.send(f"{verb} {number}".encode())
                return _received(self._line)
            except BlockingIOError as error:  # a late answer would be mistaken for the next one
                self._line.shutdown(socket.SHUT_RDWR)
                raise TimeoutError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from error

    def connect(self, port: int) -> socket.socket:
        """Return a connection to the command that listens on a port in the sandbox. Raises OSError."""
        address = self.listening().get(port)
        if address is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
        made = self.made("socket", socket.AF_INET6 if ":" in address else socket.AF_INET)
        return connected(made, address, port, _PATIENCE)

    def listening(self) -> dict[int, str]:
        """Return the listening ports of the sandbox's processes, each with the address to connect to, except the proxy's."""
        found: dict[int, str] = {}
        with self._reading:
            # Reading a table takes milliseconds even if it is empty; reading the counts takes microseconds.
            if len(self._counts) == len(self._tables) and sum(map(_sockets, self._counts)) <= 1:  # the proxy's
                return found
            rows = [row.split() for table in self._tables for row in _read_listeners(table).splitlines()[1:]]
        for fields in rows:
            if len(fields) > 3 and fields[3] == _LISTEN:
                address, _, port = fields[1].partition(":")
                found.setdefault(int(port, 16), _as_text(address))
        found.pop(PROXY_PORT, None)
        return found

    def has_ended(self) -> bool:
        """Return True if the inner program, and so the sandbox, has ended."""
        if self._turn.locked():
            return False
        try:
            return not self._line.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        except OSError:
            return True

    def close(self) -> None:
        """Close the descriptors, which ends the inner program. A waiting call of ``made`` gets an OSError."""
        with contextlib.suppress(OSError):  # the inner program has ended
            self._line.shutdown(socket.SHUT_RDWR)
        with self._turn:
            self._line.close()
        with self._reading:
            for files in (self._tables, self._counts):
                while files:
                    os.close(files.pop())


def _received(line: socket.socket) -> socket.socket:
    answer, fds, _, _ = socket.recv_fds(line, 64, 4, socket.MSG_CMSG_CLOEXEC)
    if len(fds) != 1:
        for fd in fds:
            os.close(fd)
        number = int(answer) if answer.isdigit() and len(answer) < 5 else errno.EPIPE
        raise OSError(number, os.strerror(number))
    made = socket.socket(fileno=fds[0])
    if made.family not in (socket.AF_INET, socket.AF_INET6) or made.type != socket.SOCK_STREAM:
        made.close()
        raise PermissionError(errno.EPERM, "the inner program sent something other than a TCP socket")
    return made


def _sockets(counts: int) -> int:
    """Return the number of TCP listeners and connections in a file ``sockstat`` or ``sockstat6`` of /proc; 2 if it is unknown."""
    found = _IN_USE.search(os.pread(counts, 65536, 0))
    return int(found[1]) if found else 2


def _read_listeners(table: int) -> str:
    """Return the beginning of a table of /proc. Listeners are its first rows; thousands of connections may follow."""
    text = ""
    while part := os.pread(table, 65536, len(text)):
        text += part.decode("ascii", "replace")
        if f" {_LISTEN} " not in text[-len(part) :]:
            break
    return text


def _as_text(address: str) -> str:
    """Return an address of /proc/net/tcp, which has 32-bit words in the machine's byte order, as text."""
    words = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    family = socket.AF_INET if len(words) == 1 else socket.AF_INET6
    text = socket.inet_ntop(family, struct.pack(f"={len(words)}I", *words))
    return _ANY.get(text, text.removeprefix("::ffff:"))
