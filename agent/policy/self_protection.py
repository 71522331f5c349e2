"""Limits on changes and decisions by a session's commands. All of toolcrib's self-protection uses this module.

A process that hosts sessions holds a shared lock on the folders of its configuration and state, and its commands get the folders'
numbers in a variable. toolcrib's own commands that change settings, grants or trust read the variable and the locks of their
ancestors, and refuse if they use one of the folders found there. They compare numbers, so other names of a folder or of the
program make no difference. Processes with other folders keep working, such as toolcrib's own tests in a session.

A decision is refused whatever the folders are: a process below any session (``is_below_any``) answers no question, and a local
interface accepts decisions only from a process that is proven to run outside of all sessions (``is_outside``). Both check for
the mark that every descendant of a session's shell has (tools/environments/session_mark.py), even after its parent has ended.
A marked process without a session's shell above it belongs to an unknown session, which may use any folder.
"""

from __future__ import annotations

import fcntl
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from toolcrib.contract.errors import Denied
from toolcrib.contract.passing import raise_passing
from toolcrib.contract.paths import real_path

if TYPE_CHECKING:
    from agent.config import Config

_log = logging.getLogger(__name__)
BELOW = "TOOLCRIB_BELOW"
"""Variable of commands: the numbers of their sessions' folders, ``DEVICE:INODE`` separated by blanks."""
_ELSEWHERE = "do it in your own terminal, not in a tmux or screen that a session's command started"
_MOST_ANCESTORS = 1_000
_LOCKS = Path("/proc/locks")

FolderId: TypeAlias = tuple[int, int]


def folders_of(config: Config) -> list[Path]:
    """Return the folders that a session of this configuration uses."""
    from agent.config import state_dir

    return list(dict.fromkeys([config.path.parent, real_path(config.path).parent, state_dir()]))


def marks_of(folders: Iterable[Path]) -> str:
    """Return the value of BELOW for commands: these folders, and the folders in this process's own variable."""
    numbers = [f"{device}:{inode}" for device, inode in map(_number, folders)]
    return " ".join(dict.fromkeys([*os.environ.get(BELOW, "").split(), *numbers]))


class Hold:
    """Shared locks on the folders of this process's sessions, until ``close``. Other processes' locks don't interfere."""

    def __init__(self) -> None:
        self._held: dict[Path, int] = {}

    def add(self, folders: Iterable[Path]) -> None:
        """Hold these folders, too. A folder that can't be locked is marked only by the variable of commands."""
        for folder in folders:
            if folder in self._held:
                continue
            try:
                handle = os.open(_there(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
                self._held[folder] = handle
                fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError as error:
                raise_passing(error)
                _log.debug("%s can't be locked: %s", folder, error)

    def close(self) -> None:
        """Release all folders."""
        while self._held:
            os.close(self._held.popitem()[1])


def refuse_below(folders: Iterable[Path], what: str) -> None:
    """Raise Denied if this process runs below a command of a session that uses one of ``folders``.

    ``what`` is the denied action.
    """
    if is_below(folders):
        raise Denied(
            f"{what} is for a user only, and this process runs below a command of a session with the same configuration or "
            f"state: {_ELSEWHERE}"
        )


def is_below(folders: Iterable[Path]) -> bool:
    """Return whether this process runs below a command of a session that uses one of ``folders``, or unknown ones."""
    wanted = {_number(folder): folder for folder in folders}
    if not {f"{device}:{inode}" for device, inode in wanted}.isdisjoint(os.environ.get(BELOW, "").split()):
        return True
    holders = _holders()
    above = list(_ancestors(os.getpid()))
    if _has_left(above):
        return True
    if any(not holders[pid].isdisjoint(wanted) for pid in above if pid in holders) or _below_unmarked(above, holders):
        return True
    known = {number for held in holders.values() for number in held}
    hosted = any(pid in holders for pid in above)
    return hosted and any(number not in known and _is_held(folder) for number, folder in wanted.items())


def is_below_any() -> bool:
    """Return whether this process runs below a command of any session, whatever its folders."""
    from tools.environments.session_mark import is_self_marked
    from tools.environments.shell.launcher import is_below_a_shell

    return bool(os.environ.get(BELOW)) or is_self_marked() or is_below_a_shell(os.getpid())


def refuse_below_any(what: str) -> None:
    """Raise Denied if this process runs below a command of any session. ``what`` is the denied action."""
    if is_below_any():
        raise Denied(f"{what} is for a user only, and this process runs below a command of a session: {_ELSEWHERE}")


def is_outside(pid: int, folders: Iterable[Path]) -> bool:
    """Return whether a process is proven to run outside of all sessions. Data that can't be read proves nothing.

    A descendant of the host of a session that uses one of ``folders`` is inside. The host itself is outside.
    """
    from tools.environments.session_mark import is_marked
    from tools.environments.shell.launcher import is_a_shell

    holders, numbers = _holders(), {_number(folder) for folder in folders}
    line = [pid, *_ancestors(pid)]
    if _parent(line[-1]) not in (0, 1):  # the chain of parents is incomplete: a process could not be read
        return False
    if any(is_marked(one) is not False or is_a_shell(one) or _has_variable(one) for one in line):
        return False
    return not any(holders.get(one, set()) & numbers for one in line[1:])


def _has_left(above: Sequence[int]) -> bool:
    """Return whether this process belongs to a session but left its shell. Then the session's folders are unknown."""
    from tools.environments.session_mark import is_self_marked
    from tools.environments.shell.launcher import is_a_shell

    return is_self_marked() and not any(map(is_a_shell, above))


def _has_variable(pid: int) -> bool:
    """Return whether a process started with the variable of commands. Processes of other accounts can't be read."""
    try:
        return f"\0{BELOW}=".encode() in b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError as error:
        raise_passing(error)
        return False


def _below_unmarked(above: Sequence[int], holders: Mapping[int, set[FolderId]]) -> bool:
    """Return whether an ancestor is a session's shell whose host holds no lock: then the session's folders are unknown."""
    from tools.environments.shell.launcher import is_a_shell

    return any(is_a_shell(pid) and not any(host in holders for host in above[at + 1 : at + 2]) for at, pid in enumerate(above))


def _number(folder: Path) -> FolderId:
    """Return the device and inode of a folder, or of the nearest existing folder above it."""
    about = _there(folder).stat()
    return about.st_dev, about.st_ino


def _there(folder: Path) -> Path:
    return next((one for one in (folder, *folder.parents) if one.is_dir()), Path("/"))


def _ancestors(pid: int) -> Iterator[int]:
    for _ in range(_MOST_ANCESTORS):
        if (pid := _parent(pid)) <= 1:
            return
        yield pid


def _parent(pid: int) -> int:
    """Return the parent of a process, 0 if that is outside of our process namespace, -1 if it can't be read."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[1])
    except (OSError, ValueError, IndexError) as error:
        raise_passing(error)
        return -1


def _holders() -> Mapping[int, set[FolderId]]:
    """Return the files that each process holds shared locks on, from the kernel; {} if it does not report them."""
    found: dict[int, set[FolderId]] = {}
    try:
        for line in _LOCKS.read_text("ascii", "replace").splitlines():
            fields = line.split()
            if fields[1:4:2] == ["FLOCK", "READ"]:
                found.setdefault(int(fields[4]), set()).add(_file_number(fields[5].split(":")))
    except OSError as error:
        raise_passing(error)
    return found


def _file_number(parts: Sequence[str]) -> FolderId:
    major, minor, inode = parts
    return os.makedev(int(major, 16), int(minor, 16)), int(inode)


def _is_held(folder: Path) -> bool:
    """Return whether any process holds a lock on the folder.

    ``_holders`` can miss a lock, because some file systems report a folder's number in two ways.
    """
    try:
        handle = os.open(_there(folder), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise_passing(error)
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    finally:
        os.close(handle)
    return False
