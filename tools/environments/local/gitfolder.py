"""The guarded files of one git folder: their recorded state, their private copies, and changes by the folder's descriptor."""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from toolcrib.contract.dataclass import dataclass
from tools.environments.local.gitconfig import MOST_BYTES, GitPlace, merge

CONFIGS = ("config", "config.worktree")
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


@dataclass(slots=True)
class GitConfigCopy:
    """The private copy of a configuration. ``text``: what the guard wrote to it last; ``inode``: the configuration's inode."""

    path: str
    text: bytes
    inode: int
    is_mounted: bool = False


class NotedGitFolder:
    """A git folder as it was recorded. Without ``folder``: a new git folder, so that nothing in it counts as the user's."""

    def __init__(self, folder: int | None = None) -> None:
        self.texts: dict[str, bytes | None] = dict.fromkeys((*CONFIGS, "commondir"))
        self.hooks: dict[str, tuple[int, int]] = {}
        if folder is not None:
            self.texts = {name: read_file(folder, name) for name in self.texts}
            self.hooks = dict(_hooks(folder))


OTHER = b"\0"
"""Stands for anything but a readable plain file: a link, a folder, a file that is too large. It always counts as changed."""


def read_file(folder: int, name: str) -> bytes | None:
    try:
        file = os.open(name, os.O_RDONLY | _FLAGS, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError:
        return OTHER
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MOST_BYTES:
            return OTHER
        return os.read(file, MOST_BYTES + 1)
    finally:
        os.close(file)


def replace_file(folder: int, name: str, text: bytes | None) -> None:
    """Replace a file or link of that name with this content; None removes it. A folder of that name is renamed."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.rename(name, f"{name}.{time.time_ns()}", src_dir_fd=folder, dst_dir_fd=folder)
        elif text is None or text == OTHER:
            os.unlink(name, dir_fd=folder)
    if text is None or text == OTHER:
        return
    made = f".{name}.{time.time_ns()}"
    file = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _FLAGS, 0o644, dir_fd=folder)
    try:
        with contextlib.suppress(OSError):  # a new file has no mode to keep
            os.fchmod(file, stat.S_IMODE(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode) & 0o666)
        while text:
            text = text[os.write(file, text) :]
    finally:
        os.close(file)
    os.rename(made, name, src_dir_fd=folder, dst_dir_fd=folder)


def merge_file(folder: int, name: str, base: bytes | None, place: GitPlace) -> list[str]:
    """Revert all but the harmless changes of a configuration that has no copy. Return what was reverted."""
    now = read_file(folder, name)
    if now == base and now != OTHER:
        return []
    if now == OTHER or base == OTHER:
        replace_file(folder, name, base)
        return ["all of it, because it is not a plain file"]
    if now is None:  # the user's settings would be lost
        replace_file(folder, name, base)
        return ["its removal"]
    text, refused = merge(base or b"", base or b"", now, place)
    if text != now:
        replace_file(folder, name, text if text or base is not None else None)
    return refused


def merge_copy(folder: int, name: str, copy: GitConfigCopy, place: GitPlace) -> list[str]:
    """Merge the harmless settings of a private copy into the configuration, and update the copy. Return what was not merged."""
    ours = read_file(folder, name)
    if ours is None or ours == OTHER:
        return []
    try:
        where = os.open(Path(copy.path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # a command removed it: the next check makes another
        copy.inode = 0
        return ["all of it, because its private copy is gone"]
    try:
        now = read_file(where, "config")
        if now == copy.text == ours:
            return []
        is_plain = now is not None and now != OTHER
        text, refused = (
            merge(ours, copy.text, now or b"", place) if is_plain else (ours, ["all of it, because it is not a plain file"])
        )
        if text != ours:
            _overwrite(folder, name, text)
        if text != now:
            replace_file(where, "config", text)
        copy.text = text
        return refused
    finally:
        os.close(where)


def _overwrite(folder: int, name: str, text: bytes) -> None:
    """Write a file in place, because a rename would unmount the sandbox's link over it."""
    file = os.open(name, os.O_WRONLY | _FLAGS, dir_fd=folder)
    try:
        os.pwrite(file, text, 0)
        os.ftruncate(file, len(text))
    finally:
        os.close(file)


def inode_of(folder: int, name: str) -> int:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False).st_ino
    except OSError:
        return 0


def _hooks(folder: int) -> Iterator[tuple[str, tuple[int, int]]]:
    """Yield each hook that git would run, with a mark that changes with it. "" stands for ``hooks`` if it is not a folder."""
    try:
        hooks = os.open("hooks", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return
    except OSError:
        facts = os.stat("hooks", dir_fd=folder, follow_symlinks=False)
        yield "", (facts.st_ino, facts.st_ctime_ns)
        return
    try:
        for name in os.listdir(hooks):  # noqa: PTH208 - a Path takes no descriptor
            if name.endswith(".sample"):
                continue
            facts = os.stat(name, dir_fd=hooks, follow_symlinks=False)
            if stat.S_ISLNK(facts.st_mode) or facts.st_mode & 0o111:
                yield name, (facts.st_ino, facts.st_ctime_ns)
    finally:
        os.close(hooks)


def disable_hooks(folder: int, noted: NotedGitFolder) -> Iterator[str]:
    """Disable new and changed hooks by removing the execute permission, or the link. Yield their names."""
    for name, mark in list(_hooks(folder)):
        if noted.hooks.get(name) == mark:
            continue
        if not name:
            os.unlink("hooks", dir_fd=folder)
            yield name
            continue
        hooks = os.open("hooks", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            facts = os.stat(name, dir_fd=hooks, follow_symlinks=False)
            if stat.S_ISLNK(facts.st_mode):
                os.unlink(name, dir_fd=hooks)
            elif stat.S_ISREG(facts.st_mode):
                file = os.open(name, os.O_RDONLY | _FLAGS, dir_fd=hooks)
                try:
                    os.fchmod(file, stat.S_IMODE(facts.st_mode) & ~0o111)
                finally:
                    os.close(file)
            else:
                continue  # a folder, which git does not run
        finally:
            os.close(hooks)
        yield name
