"""Program that runs in the sandbox's namespaces and passes sockets made there to the guard outside.

Usage: python -I -S inner.py DESCRIPTOR PID

The guard starts it outside, with one end of a pair of sockets. It enters the user and network namespaces of the process PID,
brings ``lo`` up, drops its capabilities, and listens for commands that use the proxy. A socket stays in the namespace where
it was made, so the guard accepts and connects itself and no data passes through this program. Commands see neither this program,
which stays outside their process namespace, nor its sockets. It ends when the guard closes the connection.
"""

import contextlib
import ctypes
import errno
import fcntl
import os
import socket
import struct
import sys

PROXY_PORT = 3128
"""Port of the proxy on the sandbox's own loopback. It is free, because the namespace is new."""
_BACKLOG = 128


def main() -> None:
    """Bring loopback up, send the proxy's listener, then answer ``listen PORT`` and ``socket FAMILY`` with a socket each."""
    descriptor, pid = sys.argv[1:]
    for kind in ("user", "net"):
        _enter(f"/proc/{pid}/ns/{kind}")
    _loopback_up()
    _drop_capabilities()
    with socket.socket(fileno=int(descriptor)) as line, contextlib.suppress(ConnectionError):  # the guard may have closed it
        _send(line, "listen", PROXY_PORT)
        while request := line.recv(64).decode():
            verb, _, number = request.partition(" ")
            _send(line, verb, int(number))


def _send(line: socket.socket, verb: str, number: int) -> None:
    """Send a listener on a port, or a new socket of a family; on failure the error number."""
    family = number if verb == "socket" else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as made:
            if verb == "listen":
                made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                made.bind(("127.0.0.1", number))
                made.listen(_BACKLOG)
            socket.send_fds(line, [b"0"], [made.fileno()])
    except ConnectionError:
        raise
    except OSError as error:
        line.send(str(error.errno or errno.EIO).encode())


def _enter(path: str) -> None:
    """Enter a namespace, unless this process is in it already. Raises OSError."""
    own = "/proc/self/ns/" + path.rpartition("/")[2]
    if os.stat(path).st_ino == os.stat(own).st_ino:  # noqa: PTH116 - pathlib takes long to import
        return
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    library = ctypes.CDLL(None, use_errno=True)
    if library.setns(fd, 0) != 0:
        raise OSError(ctypes.get_errno(), f"can't enter {path}")
    os.close(fd)


def _loopback_up() -> None:
    get_flags, set_flags, up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, get_flags, struct.pack("16sH22x", b"lo", 0))
        flags = struct.unpack("16sH22x", answer)[1]
        if not flags & up:
            fcntl.ioctl(any_socket, set_flags, struct.pack("16sH22x", b"lo", flags | up))


def _drop_capabilities() -> None:
    """Drop the rights over the sandbox that entering the user namespace gave. This program needs none."""
    library = ctypes.CDLL(None, use_errno=True)
    header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    if library.capset(header, none) != 0 or library.prctl(38, 1, 0, 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS
        raise OSError(ctypes.get_errno(), "can't drop capabilities")


if __name__ == "__main__":
    main()
