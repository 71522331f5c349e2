"""Program in the sandbox's namespaces that passes sockets made there to the guard outside.

Usage: python -I -S _inner.py DESCRIPTOR PID

The guard has one end of a pair of sockets, and DESCRIPTOR is the other. The launcher of a sandbox calls ``serve`` in its own
process. Started as a program, it first enters the user and network namespaces of the process PID. It brings ``lo`` up, drops its
capabilities, and listens for commands that use the proxy. A socket stays in the namespace of the process that made
it, so the guard accepts and connects itself and no data passes through this process. Commands see neither this process, which
stays outside their process namespace, nor its sockets. It ends when the guard closes the connection.
"""

from __future__ import annotations

import _socket  # the module socket takes as long to import as everything else here
import ctypes
import errno
import fcntl
import os
import struct
import sys

PROXY_PORT = 3128
"""Port of the proxy on the sandbox's own loopback. It is free, because the namespace is new."""
_BACKLOG = 128


def main() -> None:
    """Enter the namespaces, then serve."""
    descriptor, pid = sys.argv[1:]
    for kind in ("user", "net"):
        _enter(f"/proc/{pid}/ns/{kind}")
    serve(int(descriptor))


def serve(descriptor: int) -> None:
    """Bring loopback up, send the proxy's listener, then answer ``listen PORT`` and ``socket FAMILY`` with a socket each.

    A failure is answered with its error number. Returns when the guard has closed the connection.
    """
    line = _socket.socket(fileno=descriptor)
    try:
        try:
            _loopback_up()
            _drop_capabilities()
        except OSError as error:
            line.send(_number(error))
            return
        _send(line, "listen", PROXY_PORT)
        while request := line.recv(64).decode():
            verb, _, number = request.partition(" ")
            _send(line, verb, int(number))
    except ConnectionError:  # the guard has closed it
        pass
    finally:
        line.close()


def _send(line: _socket.socket, verb: str, number: int) -> None:
    """Send a listener on a port, or a new socket of a family; on failure the error number."""
    family = number if verb == "socket" else _socket.AF_INET
    try:
        made = _socket.socket(family, _socket.SOCK_STREAM)
        try:
            if verb == "listen":
                made.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
                made.bind(("127.0.0.1", number))
                made.listen(_BACKLOG)
            line.sendmsg([b"0"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, struct.pack("i", made.fileno()))])
        finally:
            made.close()
    except ConnectionError:
        raise
    except OSError as error:
        line.send(_number(error))


def _number(error: OSError) -> bytes:
    return str(error.errno or errno.EIO).encode()


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
    any_socket = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM)
    try:
        answer = fcntl.ioctl(any_socket.fileno(), get_flags, struct.pack("16sH22x", b"lo", 0))
        flags = struct.unpack("16sH22x", answer)[1]
        if not flags & up:
            fcntl.ioctl(any_socket.fileno(), set_flags, struct.pack("16sH22x", b"lo", flags | up))
    finally:
        any_socket.close()


def _drop_capabilities() -> None:
    """Drop the rights over the sandbox that its user namespace gives. This process needs none of them."""
    library = ctypes.CDLL(None, use_errno=True)
    header, none = struct.pack("=Ii", 0x20080522, 0), bytes(24)
    if library.capset(header, none) != 0 or library.prctl(38, 1, 0, 0, 0) != 0:  # PR_SET_NO_NEW_PRIVS
        raise OSError(ctypes.get_errno(), "can't drop capabilities")


if __name__ == "__main__":
    main()
