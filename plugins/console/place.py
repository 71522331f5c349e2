"""The socket between a terminal and the gateway, and its format: a JSON object per line."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import json
import os
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from agent.config import state_dir
from toolcrib import ConfigError, ToolcribError
from toolcrib.contract.paths import real_path, with_home

LINE_BYTES = 1024 * 1024
_RECORD = "console-socket"
"""Name of the file in the state folder that names the gateway's socket."""


def socket_path(given: str = "") -> Path:
    """Return the socket's path: as given, else in a folder that only this account can enter, named after the state folder."""
    if given:
        return with_home(given)
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    base = Path(runtime) if runtime else Path(tempfile.gettempdir())
    state = hashlib.sha256(os.fsencode(real_path(state_dir()))).hexdigest()[:12]
    return base / f"toolcrib-console-{os.getuid()}" / f"gateway-{state}"


def gateway_path() -> Path:
    """Return the socket that the last gateway of the state folder recorded, or the default one if none is recorded."""
    try:
        kept = (state_dir() / _RECORD).read_text()
    except (OSError, UnicodeDecodeError):
        return socket_path()
    return Path(kept) if kept.startswith("/") else socket_path()


def record_path(path: Path) -> None:
    """Record the gateway's socket for ``gateway_path``. Do nothing if the state folder can't be written."""
    with suppress(OSError):
        state_dir().mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = state_dir() / f"{_RECORD}-{os.getpid()}"
        fresh.write_text(str(path.absolute()))
        fresh.replace(state_dir() / _RECORD)


def private_folder(path: Path) -> None:
    """Make the socket's folder if it is missing, and check that only this account can use it. Raises ToolcribError if not."""
    folder = path.parent
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid() or about.st_mode & 0o077:
        raise ToolcribError(f"{folder} is not private to this account: remove it, or set platforms.console.settings.socket")


def bound(path: Path) -> socket.socket:
    """Return a socket that listens at the path, and replace one that an ended process left behind. Raises ConfigError if another
    process listens there, whatever its store and configuration, or if the path is not a socket.
    """
    with _alone(path):
        if os.path.lexists(path):
            if not stat.S_ISSOCK(path.lstat().st_mode):
                raise ConfigError(f"{path} is not a socket: remove it, or set platforms.console.settings.socket")
            if _answers(path):
                raise ConfigError(
                    f"another gateway of this account listens at {path}: stop that one, or set platforms.console.settings.socket"
                )
            path.unlink()
        listening = socket.socket(socket.AF_UNIX)
        try:
            listening.bind(str(path))
            path.chmod(0o600)
            listening.listen()
        except BaseException:
            listening.close()
            raise
        return listening


def inode(path: Path) -> tuple[int, int]:
    """Return a socket's device and inode, to recognise it later, or (0, 0) if it does not exist."""
    try:
        about = path.lstat()
    except OSError:
        return 0, 0
    return about.st_dev, about.st_ino


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Lock the socket's folder, so that only one of two processes replaces a dead socket. Raises ConfigError."""
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise ConfigError(f"another gateway of this account is about to listen at {path}: stop one of them") from error
    finally:
        os.close(folder)


def _answers(path: Path) -> bool:
    """Return whether a process listens at the path, even if it is too busy to answer."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            return True
        return True


async def next_line(reader: asyncio.StreamReader) -> bytes | None:
    """Return the next line, b"" at the end, or None for a line longer than the reader's limit, which is skipped."""
    is_too_long = False
    while True:
        try:
            line = await reader.readuntil(b"\n")
        except asyncio.IncompleteReadError as error:
            line = error.partial
        except asyncio.LimitOverrunError as error:
            is_too_long = True
            await reader.readexactly(error.consumed)
            continue
        return None if is_too_long else line


def packed(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line."""
    return json.dumps(message).encode() + b"\n"
