"""Find and end background processes, on this machine and outside of sandboxes, that a killed toolcrib left."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from toolcrib.contract.dataclass import dataclass
from tools import alive
from tools.processes.scripts import FOLDERS, MARK, OWNER

_TRIES = 100


@dataclass(frozen=True, slots=True)
class LeftSession:
    """The folder of a session's processes. ``running``: the numbers of its processes and keepers that still run."""

    folder: Path
    running: Sequence[int]

    @property
    def names(self) -> list[str]:
        """The names of its processes, also of ended ones."""
        return sorted(file.parent.name for file in self.folder.glob("*/pid"))

    def end(self) -> None:
        """Kill the processes, and delete the folder with their logs."""
        for _ in range(_TRIES):
            left = [pid for pid in _members(self.folder) if _kill(pid)]
            if not left:
                break
            time.sleep(0.02)
        shutil.rmtree(self.folder, ignore_errors=True)


def left_sessions() -> list[LeftSession]:
    """Return the sessions of this user whose toolcrib has ended without ending their processes."""
    found = []
    for folder in session_folders():
        with contextlib.suppress(OSError, ValueError):  # deleted meanwhile, or another user's
            pid, start = (folder / OWNER).read_text().split()
            if folder.lstat().st_uid == os.geteuid() and alive.started(int(pid)) != start:
                found.append(LeftSession(folder, sorted(_members(folder))))
    return found


def session_folders() -> Iterator[Path]:
    """Yield the folders of this user's sessions, on this machine and outside of sandboxes."""
    for base in dict.fromkeys([tempfile.gettempdir(), *(str(Path(each).expanduser()) for each in FOLDERS)]):
        yield from sorted(Path(base).glob(f".toolcrib-processes-{os.geteuid()}/*"))


def _members(folder: Path) -> Iterator[int]:
    """Yield the processes of a session's folder: first processes and keepers by their start times, and all their descendants."""
    sessions = set()
    for file in folder.glob("*/pid"):
        with contextlib.suppress(OSError, ValueError):
            words = file.read_text().split()
            for number, start in zip(words[::2], words[1::2], strict=False):
                if alive.started(int(number)) == start:
                    sessions.add(os.getsid(int(number)))
    marked = f"{MARK}={folder}/".encode()
    for one in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is another user's
            pid = int(one.name)
            if alive.started(pid) is None or one.stat().st_uid != os.geteuid():
                continue
            if os.getsid(pid) in sessions or marked in (one / "environ").read_bytes():
                yield pid


def _kill(pid: int) -> bool:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return False
    return True
