"""Guard git settings that run programs: a sandboxed command's changes to them do not reach the user's git.

A git folder is recognised by its contents: HEAD and objects, or HEAD and commondir. These files in it make git run something or
read from elsewhere: ``config``, ``config.worktree``, ``commondir``, and the files in ``hooks``.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import stat
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from toolcrib.contract.dataclass import dataclass
from tools.environments.local.gitconfig import MOST_BYTES, GitPlace, merge
from tools.environments.local.plan import is_within, outermost
from tools.environments.local.programs import program

_CONFIGS = ("config", "config.worktree")
_SETTLED_NS = 100_000_000
"""For this many nanoseconds after a change, another one may get the same timestamp: clocks of file systems are coarse."""
_MANY = 1_000
"""With at most this number of folders, every check walks them all."""
_SHARE = 30
"""For larger trees: the pause after a walk is this many times as long as the walk."""
_FLAGS = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


class GitGuard:
    """Guard of the git folders below the writable ``folders`` (absolute, links resolved). The caller may add folders.

    Call ``accept_current`` before a command, except while another command runs: that command's changes are not the user's. Call
    ``put_back`` after each command. If ``copies`` names a folder, each configuration in the ``.git`` of one of the ``folders``
    gets a private copy in it. (The sandbox pins these ``.git`` folders.) ``links`` lists the copies that are not mounted yet.
    The sandbox mounts a link to the copy over the configuration and reports it to ``mounted``. From then on commands write to
    the copy, and the user's git reads only merged changes. ``inner`` is the path of ``copies`` in the sandbox. Not safe for use
    from several threads at once.
    """

    def __init__(self, folders: Sequence[str], copies: str = "", inner: str = "") -> None:
        self._folders = folders
        self._copies = copies
        self._inner = inner or copies
        self._links: dict[str, _Copy] = {}
        self._seen: dict[str, tuple[tuple[int, int], list[str], bool]] = {}
        self._noted: dict[str, _Noted] = {}
        self._marks: dict[str, object] = {}
        self._found: list[str] = []
        self._walk_again = 0.0

    def links(self) -> list[tuple[str, str]]:
        """Return pairs of a configuration and its private copy, for each unmounted link. The link is beside the copy."""
        return [(config, copy.path) for config, copy in self._links.items() if not copy.is_mounted]

    def mounted(self, config: str) -> None:
        """Record that the sandbox has the link of this configuration."""
        self._links[config].is_mounted = True

    def unmounted(self) -> None:
        """Record that the sandbox with the links has ended."""
        for copy in self._links.values():
            copy.is_mounted = False

    def is_as_noted(self) -> bool:
        """Return True if a quick check finds no change since the last ``accept_current`` or ``put_back``."""
        if any(copy.inode == 0 for copy in self._links.values()):  # a command removed the copy
            return False
        found = self._git_folders()
        return found == list(self._noted) and all(_mark(path, self._links) == self._marks[path] is not None for path in found)

    def accept_current(self) -> None:
        """Record the current state of the git folders as the user's."""
        noted, self._noted = self._noted, {}
        pinned = {f"{folder}/.git" for folder in self._folders}
        for path in self._git_folders():
            self._marks[path] = _mark(path, self._links)
            if path in noted:
                self._noted[path] = noted[path]
            with contextlib.suppress(OSError), self._opened(path) as folder:  # replaced meanwhile, or another account's
                self._noted[path] = _Noted(folder)
                for name in _CONFIGS:
                    text = self._noted[path].texts[name]
                    if self._copies and path in pinned and text is not None and text != _OTHER:
                        self._link(f"{path}/{name}", text, _inode(folder, name))

    def _link(self, config: str, text: bytes, inode: int) -> None:
        """Make the copy of a configuration, or a new one if the user's git replaced the file, which unmounts the link."""
        if config in self._links and self._links[config].inode == inode:
            return
        # Commands see the link's target, and approvals are bound to it, so the name is the same in every process.
        made = f"git-{hashlib.sha256(os.fsencode(config)).hexdigest()[:16]}"
        try:
            Path(self._copies, made).mkdir(mode=0o700)
        except FileExistsError:  # commands can write to the folder of the copies too, but cannot guess the next name
            made = f"git-{secrets.token_hex(8)}"
            Path(self._copies, made).mkdir(mode=0o700)
        folder = os.open(Path(self._copies, made), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _replace(folder, "config", text)
            os.symlink(f"{self._inner}/{made}/config", "link", dir_fd=folder)
        finally:
            os.close(folder)
        self._links[config] = _Copy(f"{self._copies}/{made}/config", text, inode)

    def put_back(self, *, last: bool = False) -> list[str]:
        """Keep the harmless changes since ``accept_current``, revert the others, and return what was reverted: ``PATH: what``.

        ``last``: no command follows, so all folders are checked, however many there are.
        """
        self._walk_again = 0 if last else self._walk_again
        found = self._git_folders()
        reverted: list[str] = []
        noted, self._noted = self._noted, {}
        for path in found:
            before = noted.get(path) or _Noted()
            if path in noted:
                self._noted[path] = before
            with contextlib.suppress(OSError), self._opened(path) as folder:  # as above; the next check finds the change
                reverted += [f"{path}/{what}" for what in self._revert(folder, path, before, found)]
                self._marks[path] = _mark(path, self._links)
                self._noted[path] = _Noted(folder)
        return reverted

    def _revert(self, folder: int, path: str, noted: _Noted, found: Sequence[str]) -> Iterator[str]:
        git = program("git", os.environ.get("PATH", os.defpath), self._folders)
        place = GitPlace(path, self._root_of(path), git)
        for name in _CONFIGS:
            copy = self._links.get(f"{path}/{name}")
            if copy is not None and copy.is_mounted and copy.inode == _inode(folder, name):
                refused = _merge_copy(folder, name, copy, place)
            else:
                refused = _merge_file(folder, name, noted.texts[name], place)
            yield from (f"{name}: {key}" for key in refused)
        text, wanted = _read(folder, "commondir"), noted.texts["commondir"]
        is_worktree = text is not None and text.strip() == b"../.." and path.rsplit("/", 2)[0] in found
        if text is not None and (text != wanted or text == _OTHER) and not is_worktree:
            _replace(folder, "commondir", wanted)
            yield "commondir"
        for name in _disabled(folder, noted):
            yield f"hooks/{name}" if name else "hooks"

    # -- finding git folders -------------------------------------------------------------------------------------------

    def _git_folders(self) -> list[str]:
        """Return the git folders in a stable order.

        A walk lists only changed folders again. With many folders that still takes long, so the last result is reused for a
        while.
        """
        begun = time.thread_time()
        if len(self._seen) > _MANY and time.monotonic() < self._walk_again:
            return self._found
        found: list[str] = []
        seen: dict[str, tuple[tuple[int, int], list[str], bool]] = {}
        stack, now = outermost(self._folders), time.time_ns()
        while stack:
            path = stack.pop()
            try:
                facts = os.lstat(path)
                mark = (facts.st_ino, facts.st_ctime_ns)  # ctime, which no program can set
                known = self._seen.get(path)
                if known is None or known[0] != mark:
                    known = (mark, *_entries_of(path))
            except OSError:  # gone, or unreadable for this user, whose git cannot read it either
                continue
            if now - facts.st_ctime_ns > _SETTLED_NS:
                seen[path] = known
            stack += known[1]
            if known[2]:
                found.append(path)
        self._seen, self._found = seen, sorted(found)
        self._walk_again = time.monotonic() + _SHARE * (time.thread_time() - begun)
        return self._found

    def _root_of(self, path: str) -> str:
        return next(root for root in outermost(self._folders) if is_within(path, root))

    @contextlib.contextmanager
    def _opened(self, path: str) -> Iterator[int]:
        """Open a folder without following a link below the writable folder: commands may replace any part of the path."""
        root = self._root_of(path)
        folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for name in path[len(root) :].split("/"):
                if name:
                    inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                    os.close(folder)
                    folder = inner
            yield folder
        finally:
            os.close(folder)


@dataclass(slots=True)
class _Copy:
    """The private copy of a configuration. ``text``: what the guard wrote to it last; ``inode``: the configuration's inode."""

    path: str
    text: bytes
    inode: int
    is_mounted: bool = False


class _Noted:
    """A git folder as it was recorded. Without ``folder``: a new git folder, so that nothing in it counts as the user's."""

    def __init__(self, folder: int | None = None) -> None:
        self.texts: dict[str, bytes | None] = dict.fromkeys((*_CONFIGS, "commondir"))
        self.hooks: dict[str, tuple[int, int]] = {}
        if folder is not None:
            self.texts = {name: _read(folder, name) for name in self.texts}
            self.hooks = dict(_hooks(folder))


def _mark(path: str, links: Mapping[str, _Copy]) -> object:
    """Return a value that differs after any change of the guarded files, or None if they changed too recently to be sure."""
    copies = [links[config].path for name in _CONFIGS if (config := f"{path}/{name}") in links]
    paths = [f"{path}/{name}" for name in (*_CONFIGS, "commondir", "hooks")] + copies
    with contextlib.suppress(OSError), os.scandir(f"{path}/hooks") as hooks:  # a link, or missing
        paths += sorted(hook.path for hook in hooks if not hook.name.endswith(".sample"))
    marks = [_facts(each) for each in paths]
    newest = max(changed for _, changed in marks)
    return (paths, marks) if newest < time.time_ns() - _SETTLED_NS else None


def _facts(path: str) -> tuple[int, int]:
    try:
        facts = os.lstat(path)
    except OSError:
        return 0, 0
    return facts.st_ino, facts.st_ctime_ns


def _entries_of(path: str) -> tuple[list[str], bool]:
    folders, names = [], set()
    with os.scandir(path) as entries:
        for entry in entries:
            names.add(entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(f"{path.rstrip('/')}/{entry.name}")
    return folders, "HEAD" in names and ("objects" in names or "commondir" in names)


# -- files in a git folder, by its descriptor --------------------------------------------------------------------------

_OTHER = b"\0"
"""Stands for anything but a readable plain file: a link, a folder, a file that is too large. It always counts as changed."""


def _read(folder: int, name: str) -> bytes | None:
    try:
        file = os.open(name, os.O_RDONLY | _FLAGS, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError:
        return _OTHER
    try:
        facts = os.fstat(file)
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > MOST_BYTES:
            return _OTHER
        return os.read(file, MOST_BYTES + 1)
    finally:
        os.close(file)


def _replace(folder: int, name: str, text: bytes | None) -> None:
    """Replace a file or link of that name with this content; None removes it. A folder of that name is renamed."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.rename(name, f"{name}.{time.time_ns()}", src_dir_fd=folder, dst_dir_fd=folder)
        elif text is None or text == _OTHER:
            os.unlink(name, dir_fd=folder)
    if text is None or text == _OTHER:
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


def _merge_file(folder: int, name: str, base: bytes | None, place: GitPlace) -> list[str]:
    """Revert all but the harmless changes of a configuration that has no copy. Return what was reverted."""
    now = _read(folder, name)
    if now == base and now != _OTHER:
        return []
    if now == _OTHER or base == _OTHER:
        _replace(folder, name, base)
        return ["all of it, because it is not a plain file"]
    if now is None:  # the user's settings would be lost
        _replace(folder, name, base)
        return ["its removal"]
    text, refused = merge(base or b"", base or b"", now, place)
    if text != now:
        _replace(folder, name, text if text or base is not None else None)
    return refused


def _merge_copy(folder: int, name: str, copy: _Copy, place: GitPlace) -> list[str]:
    """Merge the harmless settings of a private copy into the configuration, and update the copy. Return what was not merged."""
    ours = _read(folder, name)
    if ours is None or ours == _OTHER:
        return []
    try:
        where = os.open(Path(copy.path).parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:  # a command removed it: the next check makes another
        copy.inode = 0
        return ["all of it, because its private copy is gone"]
    try:
        now = _read(where, "config")
        if now == copy.text == ours:
            return []
        is_plain = now is not None and now != _OTHER
        text, refused = (
            merge(ours, copy.text, now or b"", place) if is_plain else (ours, ["all of it, because it is not a plain file"])
        )
        if text != ours:
            _overwrite(folder, name, text)
        if text != now:
            _replace(where, "config", text)
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


def _inode(folder: int, name: str) -> int:
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


def _disabled(folder: int, noted: _Noted) -> Iterator[str]:
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
