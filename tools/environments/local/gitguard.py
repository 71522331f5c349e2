"""Guard git settings that run programs: a sandboxed command's changes to them do not reach the user's git.

A git folder is recognised by its contents: HEAD and objects, or HEAD and commondir. These files in it make git run something or
read from elsewhere: ``config``, ``config.worktree``, ``commondir``, and the files in ``hooks``.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tools.environments.local.gitconfig import GitPlace
from tools.environments.local.gitfolder import (
    CONFIGS,
    OTHER,
    GitConfigCopy,
    NotedGitFolder,
    disable_hooks,
    inode_of,
    merge_copy,
    merge_file,
    read_file,
    replace_file,
)
from tools.environments.local.plan import is_within, outermost
from tools.environments.local.programs import program

_log = logging.getLogger(__name__)
_SETTLED_NS = 100_000_000
"""For this many nanoseconds after a change, another one may get the same timestamp: clocks of file systems are coarse."""
_MANY = 1_000
"""With at most this number of folders, every check walks them all."""
_SHARE = 30
"""For larger trees: the pause after a walk is this many times as long as the walk."""


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
        self._links: dict[str, GitConfigCopy] = {}
        self._seen: dict[str, tuple[tuple[int, int], list[str], bool]] = {}
        self._noted: dict[str, NotedGitFolder] = {}
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

    def state(self) -> dict[str, Any]:
        """Return the recorded state as plain data. Another process passes it to ``restore``."""
        noted = [
            [
                path,
                [[name, None if text is None else text.decode("latin-1")] for name, text in one.texts.items()],
                [*one.hooks.items()],
            ]
            for path, one in self._noted.items()
        ]
        links = [[config, one.path, one.text.decode("latin-1"), one.inode, one.is_mounted] for config, one in self._links.items()]
        return {"folders": list(self._folders), "noted": noted, "links": links}

    def restore(self, state: Mapping[str, Any], *, links: bool) -> None:
        """Continue with the data of another process. ``links``: the sandbox with the links still runs."""
        for path, texts, hooks in state["noted"]:
            self._noted[path] = one = NotedGitFolder()
            one.texts.update({name: None if text is None else text.encode("latin-1") for name, text in texts})
            one.hooks.update({name: (mark[0], mark[1]) for name, mark in hooks})
            self._marks[path] = None
        for config, path, text, inode, is_mounted in state["links"] if links else ():
            self._links[config] = GitConfigCopy(path, text.encode("latin-1"), inode, is_mounted)

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
                self._noted[path] = NotedGitFolder(folder)
                for name in CONFIGS:
                    text = self._noted[path].texts[name]
                    if self._copies and path in pinned and text is not None and text != OTHER:
                        self._link(f"{path}/{name}", text, inode_of(folder, name))

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
            replace_file(folder, "config", text)
            os.symlink(f"{self._inner}/{made}/config", "link", dir_fd=folder)
        finally:
            os.close(folder)
        self._links[config] = GitConfigCopy(f"{self._copies}/{made}/config", text, inode)

    def put_back(self, *, last: bool = False) -> list[str]:
        """Keep the harmless changes since ``accept_current``, revert the others, and return what was reverted: ``PATH: what``.

        ``last``: no command follows, so all folders are checked, however many there are.
        """
        self._walk_again = 0 if last else self._walk_again
        found = self._git_folders()
        reverted: list[str] = []
        noted, self._noted = self._noted, {}
        for path in found:
            before = noted.get(path) or NotedGitFolder()
            if path in noted:
                self._noted[path] = before
            with contextlib.suppress(OSError), self._opened(path) as folder:  # as above; the next check finds the change
                reverted += [f"{path}/{what}" for what in self._revert(folder, path, before, found)]
                self._marks[path] = _mark(path, self._links)
                self._noted[path] = NotedGitFolder(folder)
        return reverted

    def _revert(self, folder: int, path: str, noted: NotedGitFolder, found: Sequence[str]) -> Iterator[str]:
        git = program("git", os.environ.get("PATH", os.defpath), self._folders)
        place = GitPlace(path, self._root_of(path), git)
        for name in CONFIGS:
            copy = self._links.get(f"{path}/{name}")
            if copy is not None and copy.is_mounted and copy.inode == inode_of(folder, name):
                refused = merge_copy(folder, name, copy, place)
            else:
                refused = merge_file(folder, name, noted.texts[name], place)
            yield from (f"{name}: {key}" for key in refused)
        text, wanted = read_file(folder, "commondir"), noted.texts["commondir"]
        is_worktree = text is not None and text.strip() == b"../.." and path.rsplit("/", 2)[0] in found
        if text is not None and (text != wanted or text == OTHER) and not is_worktree:
            replace_file(folder, "commondir", wanted)
            yield "commondir"
        for name in disable_hooks(folder, noted):
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


def about_reverted(reverted: Sequence[str]) -> str:
    """Return a sentence for the user about changes that were reverted, or ""."""
    if not reverted:
        return ""
    _log.warning("git settings were restored: %s", "; ".join(reverted))
    shown = "; ".join(reverted[:5]) + ("; ..." if len(reverted) > 5 else "")
    why = "restored, because git would run programs with it outside the sandbox"
    return f"{why}: {shown}. To keep it, change it outside the sandbox"


def _mark(path: str, links: Mapping[str, GitConfigCopy]) -> object:
    """Return a value that differs after any change of the guarded files, or None if they changed too recently to be sure."""
    copies = [links[config].path for name in CONFIGS if (config := f"{path}/{name}") in links]
    paths = [f"{path}/{name}" for name in (*CONFIGS, "commondir", "hooks")] + copies
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
