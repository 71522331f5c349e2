"""Checks of permissions for `toolcrib doctor`: only the user may change the configuration, and read keys and memory."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from agent.cli.finding import CheckFinding, Level, Repair
from agent.config import secrets_path, state_dir

_OTHERS_WRITE = 0o022
_OTHERS = 0o077


def check_permissions(config: Path) -> Iterator[CheckFinding]:
    """Check the configuration file ``config``, its folder, the keys beside it and the state folder."""
    again = partial(check_permissions, config)
    secrets, state = secrets_path(config.parent), state_dir()
    mode = _mode(config.parent)
    if config.parent != state and mode & _OTHERS_WRITE and not mode & stat.S_ISVTX:
        what = f"others may write the folder of the configuration, {config.parent}"
        level: Level = "wrong" if mode & stat.S_IWOTH else "note"  # the group may have no other member
        yield _finding("config.folder-permissions", level, what, config.parent, mode & ~_OTHERS_WRITE, "go-w", again)
    if (mode := _mode(config)) & _OTHERS_WRITE:
        what = f"others may write {config}"
        yield _finding("config.permissions", "wrong", what, config, mode & ~_OTHERS_WRITE, "go-w", again)
    if _mode(secrets) & _OTHERS:
        what = f"others may read or write {secrets}, so none of its secrets are used"
        yield _finding("secrets.permissions", "wrong", what, secrets, 0o600, "600", again)
    if (mode := _mode(state)) & _OTHERS:
        writes = bool(mode & _OTHERS_WRITE)
        what = f"others may {'write' if writes else 'read'} {state}"
        yield _finding("state.permissions", "wrong" if writes else "note", what, state, 0o700, "700", again)


def _mode(path: Path) -> int:
    """Return the permissions of a file or folder, or 0 if it does not exist."""
    try:
        return stat.S_IMODE(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _finding(
    name: str, level: Level, text: str, path: Path, mode: int, said: str, again: partial[Iterator[CheckFinding]]
) -> CheckFinding:
    """Return the finding. It has no repair if the user does not own ``path``, or if ``path`` is a shared folder such as /tmp."""

    def act() -> Iterator[str]:
        path.chmod(mode)
        yield f"the mode of {path} is now {mode:04o}"

    about, line = path.stat(), f"chmod {said} {path}"
    if about.st_mode & stat.S_ISVTX:
        return CheckFinding(
            name, level, text, "other users share that folder: set TOOLCRIB_STATE or TOOLCRIB_CONFIG to your own folder"
        )
    return CheckFinding(name, level, text, line, Repair(line, act, again) if about.st_uid == os.geteuid() else None)
