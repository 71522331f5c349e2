"""Signals between the processes that use one file: each listening process has a socket in a private folder beside the file."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import secrets
import socket
import stat
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

Heard = Callable[[str], None]
_log = logging.getLogger(__name__)
_LONGEST_PATH = 100
"""Bytes of a socket path that every system accepts (Linux 107, others 103)."""
_LARGEST = 65_536
_PAUSES = (0.002, 0.01, 0.05, 0.2)
"""Seconds before a signal is sent again to a process with a full queue: the system queues few (Linux 10)."""
_BYE = b"\xff"
"""The message that ends our own listener. It cannot be a topic, because it is not UTF-8."""


def folder_of(store: Path) -> Path:
    """Return the folder of the sockets for a store's file."""
    return store.with_name(f"{store.name}-signals")


def dead_sockets(folder: Path) -> list[Path]:
    """Return the sockets of processes that have ended."""
    found: list[Path] = []
    if not folder.is_dir() or not is_private(folder):
        return found
    with reachable(folder) as near:
        for path in sorted(folder.iterdir()):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as probe:
                try:
                    probe.connect(os.fsencode(near / path.name))
                except ConnectionRefusedError:
                    found.append(path)
                except OSError as error:  # not a socket, or already removed
                    _log.debug("%s is not a socket that answers: %s", path, error)
    return found


class SocketSignals:
    """Signals over datagram sockets, which cost nothing while idle. Any sender removes the sockets of dead processes.

    If no socket can be made (a path that is too long, a full disk), signals are lost; the protocol allows that.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._listeners: dict[object, Heard] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._path: Path | None = None

    async def send(self, topic: str) -> None:
        """Send a signal to the listeners in all processes that use this file. Never blocks on a socket, and raises nothing."""
        datagram, full = topic.encode("utf-8", "surrogatepass"), None
        try:
            for pause in _PAUSES:
                full = self._send(datagram, full)
                if not full:
                    return
                await asyncio.sleep(pause)
            _log.debug("a signal was lost: %d processes do not read theirs", len(full or ()))
        except OSError as error:
            _log.debug("a signal was lost: %s", error)

    def listen(self, heard: Heard) -> Callable[[], None]:
        """Call ``heard(topic)`` for every signal, in the thread that receives signals. Return a function that stops this."""
        mark = object()
        with self._lock:
            self._listeners[mark] = heard
            if self._thread is None:
                self._open()

        def end() -> None:
            with self._lock:
                self._listeners.pop(mark, None)
                thread = None if self._listeners else self._close()
            _join(thread)

        return end

    def close(self) -> None:
        """Stop all listeners."""
        with self._lock:
            self._listeners.clear()
            thread = self._close()
        _join(thread)

    # -- sending -------------------------------------------------------------------------------------------------

    def _send(self, datagram: bytes, names: list[str] | None) -> list[str]:
        """Send to the named sockets, or to all, and return those whose queue is full."""
        full: list[str] = []
        if not is_private(self._folder):
            return full
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, reachable(self._folder) as near:
            sender.setblocking(False)
            for name in names or [path.name for path in self._folder.iterdir()]:
                try:
                    sender.sendto(datagram, os.fsencode(near / name))
                except BlockingIOError:
                    full.append(name)
                except ConnectionRefusedError:  # its process has ended
                    with contextlib.suppress(FileNotFoundError):
                        (self._folder / name).unlink()
                except OSError as error:
                    _log.debug("a signal to %s was lost: %s", name, error)
        return full

    # -- listening -----------------------------------------------------------------------------------------------

    def _open(self) -> None:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not is_private(self._folder):
                raise PermissionError(errno.EPERM, "the folder must be private to this user", str(self._folder))
            path = self._folder / f"{os.getpid()}-{secrets.token_hex(4)}"
            listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            try:
                with reachable(self._folder) as near:
                    listening.bind(os.fsencode(near / path.name))
            except OSError:
                listening.close()
                raise
        except OSError as error:
            _log.warning("can't receive signals from other processes; polling instead: %s", error)
            return
        self._path = path
        self._thread = threading.Thread(target=self._hear, args=(listening,), name="receives signals", daemon=True)
        self._thread.start()

    def _hear(self, listening: socket.socket) -> None:
        with listening:
            while (datagram := listening.recv(_LARGEST)) != _BYE:
                topic = datagram.decode("utf-8", "surrogatepass")
                with self._lock:
                    listeners = list(self._listeners.values())
                for heard in listeners:
                    try:
                        heard(topic)
                    except Exception:  # noqa: BLE001 - one listener's failure must not stop the others
                        _log.exception("a listener failed on the signal %r", topic)

    def _close(self) -> threading.Thread | None:
        thread, path, self._thread, self._path = self._thread, self._path, None, None
        if (
            thread is None or path is None or not path.name.startswith(f"{os.getpid()}-")
        ):  # a forked child: the socket is its parent's
            return None
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, reachable(self._folder) as near:
                sender.sendto(_BYE, os.fsencode(near / path.name))
            path.unlink()  # the folder stays: another process may be about to listen in it
        except OSError as error:  # the socket was removed: the thread keeps waiting, and ends with the process
            _log.debug("%s could not be closed: %s", path, error)
            return None
        return thread


def _join(thread: threading.Thread | None) -> None:
    if thread is not None and thread is not threading.current_thread():
        thread.join()


def is_private(folder: Path) -> bool:
    """Return whether only this account can use the folder."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o077


@contextlib.contextmanager
def reachable(folder: Path) -> Iterator[Path]:
    """Yield a path of the folder that is short enough for a socket, through an open handle if needed (Linux)."""
    if len(os.fsencode(folder)) + 20 <= _LONGEST_PATH:
        yield folder
        return
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield Path(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
