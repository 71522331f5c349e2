"""The files that a judgement read: gathered through the environment, remembered, and bound to the answer."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.environment import Environment
from toolcrib.contract.errors import EnvironmentFailed, ExecutionFailed
from toolcrib.contract.records import NO_ENTRIES
from toolcrib.contract.regex import Regex
from tools.approval.origins import ELSEWHERE, UNKNOWN_OWNER, Origins
from tools.approval.uncommitted import ask_git, ask_git_here, read_status
from tools.environments.own_files import MatchesHardLinks
from tools.environments.session_mark import MOST_LOCKS
from tools.judge.file_view import UNSEEN, WorkTree
from tools.judge.folders import TEMPORARY, may_be_made, under
from tools.judge.globs import is_wild
from tools.judge.meaning.state import Seen
from tools.judge.meaning.value import OF_JOBS, Taint

MAX_BYTES = 200_000
"""Maximum size of a script that is read, in bytes. The user is asked about a longer one."""

ROUNDS = 16
"""Maximum nesting of scripts that run scripts: a script is known only after the script that runs it was read and judged."""

_LOCKS = Regex(r"(?m)^Max file locks +(\d+) ")
NO_JOBS: Mapping[str, Taint] = MappingProxyType({})
NO_OWNERS: Mapping[str, frozenset[str]] = MappingProxyType({})
_NOTHING_MADE: Mapping[str, tuple[str, str]] = MappingProxyType({})
_UNREADABLE = Seen("unreadable")
_OWN = Taint.WRITTEN | Taint.REMOTE | Taint.DECODED
_UNKNOWN = Seen("missing")


class GatheredFiles:
    """A Snapshot for one judgement. Files that were not read yet are collected in ``wanted``; ``gather`` reads them.

    After each ``gather`` the judgement is repeated, until nothing is wanted. ``taints``: origins that earlier commands of the
    session left, by path; ``copies``: the original of each program that they copied, by the copy's path; ``others``: possible
    origins of any file, if not all are known. ``workspace``: the session's folder, "" for none. ``made``: see Judgement.
    ``of_jobs``: marks of the files that the session's background processes may read or open while they run; ``owners`` and
    ``are_shared``: see Origins.
    """

    def __init__(
        self,
        taints: Mapping[str, Taint],
        copies: Mapping[str, str] = NO_ENTRIES,
        *,
        others: Taint = Taint.NONE,
        workspace: str = "",
        made: Mapping[str, tuple[str, str]] = _NOTHING_MADE,
        of_jobs: Mapping[str, Taint] = NO_JOBS,
        owners: Mapping[str, frozenset[str]] = NO_OWNERS,
        are_shared: bool = False,
    ) -> None:
        self._made = made
        self._of_jobs = of_jobs
        self._owners = owners
        self._are_shared = are_shared
        self._running: frozenset[str] | None = None
        """Commands of the background processes that run, "" for an unknown one; None if it is unknown which run."""
        self._job_names: list[str] = []
        self._own_locks: Collection[int] = ()
        self.met_jobs = False
        self._inside = (*((workspace,) if workspace else ()), *TEMPORARY)
        self._taints = taints
        self._copies = copies
        self._others = others
        self._seen: dict[str, Seen] = {}
        self._digests: dict[str, str] = {}
        self._real: dict[str, str] = {}
        self._trees: dict[tuple[str, str], WorkTree] = {}
        self.wanted: set[str] = set()
        self.unresolved: set[str] = set()
        self.unseen: set[tuple[str, str]] = set()

    @classmethod
    def of(cls, origins: Origins, workspace: str) -> GatheredFiles:
        """Return a Snapshot for one judgement in a session with these origins."""
        return cls(
            origins.taints,
            origins.copies,
            others=origins.others,
            workspace=workspace,
            made=origins.made,
            of_jobs=origins.of_jobs,
            owners=origins.owners,
            are_shared=origins.are_shared,
        )

    def inspect_path(self, path: str) -> Seen:
        seen = self._seen.get(path)
        if seen is None:
            self.wanted.add(path)
            return _UNKNOWN
        return seen

    def real(self, path: str) -> str:
        """Return the path that an absolute path leads to; the path itself until ``gather`` has resolved it."""
        known = self._real.get(path)
        if known is None:
            self.unresolved.add(path)
            return path
        return known

    def temporary(self, variables: Mapping[str, str]) -> frozenset[str]:
        """Return the names of the ``variables`` that certainly hold the output of ``mktemp -d`` from an earlier call."""
        given = ((name, text, before, variables.get(name, "")) for name, (text, before) in self._made.items())
        return frozenset(name for name, text, before, now in given if now == text or (now != before and may_be_made(now, text)))

    def is_inside(self, path: str) -> bool:
        """Return whether a path is in the workspace or a temporary folder, after following links; False until ``gather`` has
        checked.
        """
        return any(under(path, folder) for folder in self._inside) and self.real(path) == path and path in self._real

    def is_new(self, path: str) -> bool:
        """Return whether nothing exists at a path that ``is_inside``; False until ``gather`` has checked."""
        kind = self.inspect_path(path).kind
        return kind == "missing" and path in self._seen and self.is_inside(path)

    def work_tree(self, folder: str, commit: str = "") -> WorkTree:
        """Return the state of the working tree around a folder; UNSEEN until ``gather`` has checked."""
        known = self._trees.get((folder, commit))
        if known is None:
            self.unseen.add((folder, commit))
            return UNSEEN
        return known

    def taint(self, path: str) -> Taint:
        """Return a file's origins in this session: by its path, its links' targets, and its folders."""
        taints = self._taints
        if not taints:
            return self._others
        found = self._recorded(path) | self._others
        if (there := self._real.get(path, path)) != path:
            found |= self._recorded(there)
        at = path.rfind("/")
        while at > 0:
            found |= self._recorded(f"{path[:at]}/**")
            at = path.rfind("/", 0, at)
        return found

    def _recorded(self, path: str) -> Taint:
        found = self._taints.get(path, Taint.NONE)
        if found & OF_JOBS:
            self.met_jobs = True
            if not self._is_used(path, found):
                found &= ~OF_JOBS
        return found

    def _is_used(self, path: str, mark: Taint) -> bool:
        """Return whether a process that marked the file may run."""
        owners = self._owners.get(path, UNKNOWN_OWNER)
        if mark & Taint.LEFT or self._running is None or ELSEWHERE in owners:
            return True
        return bool(self._running) and ("" in owners | self._running or not owners.isdisjoint(self._running))

    def own_below(self, folder: str) -> Sequence[str]:
        """Return the files in ``folder`` that this session wrote or downloaded."""
        start = f"{folder.rstrip('/')}/"
        return [path for path, taint in self._taints.items() if path.startswith(start) and taint & _OWN and path[-3:] != "/**"]

    def was_brought(self, path: str) -> bool:
        """Return whether the path, or anything above or below it, was moved there from outside the session's folders."""
        return any(taint & Taint.BROUGHT and (under(path, at) or under(at, path)) for at, taint in self._taints.items())

    def of_jobs(self) -> Mapping[str, Taint]:
        """Return the marks of the files that a process of the session may still read or open."""
        self.met_jobs = self.met_jobs or bool(self._of_jobs)
        return {path: mark for path, mark in self._of_jobs.items() if self._is_used(path, mark)}

    def is_of_another_session(self, pid: str) -> bool:
        """Return whether a process has the mark (``locks`` in Process) of one that is not in the session's records."""
        found = _LOCKS.search(self.inspect_path(f"/proc/{pid}/limits").text or "")
        return found is not None and int(found[1]) <= MOST_LOCKS and int(found[1]) not in self._own_locks

    def job_names(self) -> Sequence[str]:
        return self._job_names

    def copy_of(self, path: str) -> str:
        """Return the original path of a copied compiled program, or ""."""
        return self._copies.get(path) or self._copies.get(self._real.get(path, path), "")

    async def ask_jobs(self, ctx: ToolCallContext) -> None:
        """Ask which background processes of the call's session run, if a file depends on that."""
        from tools.processes.records import PROCESSES, table_of

        records = ctx.state(PROCESSES) or {}
        self._own_locks = {one.get("locks", 0) for one in records.values()}
        if not self.met_jobs or self._are_shared:
            return
        try:
            table = table_of(ctx)
            found = await table.look()
            running = [one.name for one in found.values() if one.runs or (await table.use(one.name)).pids]
            commands = {name: str(records.get(name, {}).get("command", "")) for name in sorted(running)}
            self._running = frozenset(commands.values())
            self._job_names = [f"{name} ({command})" if command else name for name, command in commands.items()]
        except (OSError, ValueError, EnvironmentFailed, ExecutionFailed):
            return  # they may run

    @property
    def has_taints(self) -> bool:
        return bool(self._taints) or self._others != Taint.NONE or bool(self._made)

    @property
    def is_open(self) -> bool:
        """True if the judge needs something that only ``gather`` can read."""
        return bool(self.wanted or self.unresolved or self.unseen)

    def give_up(self) -> None:
        """Stop reading: files that are still wanted count as present and unreadable."""
        for path in self.wanted:
            self._keep(path, _UNREADABLE, b"")
        self._trees |= dict.fromkeys(self.unseen, UNSEEN)
        self.wanted, self.unseen = set(), set()

    async def gather(self, environment: Environment) -> None:
        """Read what is wanted. Anything unreadable counts as unreadable, never as absent."""
        for path in sorted(self.wanted):
            seen, data, self._real[path] = await _read(environment, path)
            self._keep(path, seen, data)
        patterns = isinstance(environment, MatchesHardLinks)
        for path in sorted(self.unresolved):
            self._real[path] = path
            if is_wild(path) and not patterns:
                continue
            try:
                self._real[path] = await environment.resolve(path)
            except (OSError, EnvironmentFailed, ValueError):
                continue  # nothing can be opened there
        for folder, commit in sorted(self.unseen):
            told = await ask_git(environment, folder, commit)
            self._trees[folder, commit] = read_status(told)
            self._digests[f"{folder} (work tree{commit and ', '}{commit})"] = hashlib.sha256(told).hexdigest()
        self.wanted, self.unresolved, self.unseen = set(), set(), set()

    def digests(self) -> dict[str, str]:
        """Return the kind and SHA-256 of each path that was read, and the targets of links."""
        return {**self._digests, **{f"{path} ->": there for path, there in self._real.items() if there != path}}

    def _keep(self, path: str, seen: Seen, data: bytes) -> None:
        taint = self.taint(path)
        self._seen[path] = seen._replace(taint=taint) if taint and seen.kind != "missing" else seen
        self._digests[path] = f"{seen.kind}:{hashlib.sha256(data).hexdigest()}"


async def _read(environment: Environment, path: str) -> tuple[Seen, bytes, str]:
    """Return the kind of file, its content, and the path that its links lead to."""
    resolved = path
    try:
        resolved = await environment.resolve(path)
        info = await environment.stat(resolved)
        if info is None:
            return _UNKNOWN, b"", resolved
        if info.kind == "dir":
            return Seen("dir"), b"", resolved
        if info.kind != "file":
            return _UNREADABLE, str((info.size, info.mtime)).encode(), resolved
        if info.size > MAX_BYTES:
            head = await environment.read_file(resolved, limit=8)
            return _long(head), str((info.size, info.mtime)).encode(), resolved
        data = await environment.read_file(resolved, limit=MAX_BYTES + 1)
    except (OSError, EnvironmentFailed, ValueError):
        return _UNREADABLE, b"", resolved
    return (_long(data) if len(data) > MAX_BYTES else _as_text(data)), data, resolved


_PROGRAMS = (b"\x7fELF", b"MZ", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\0asm", b"!<arch>")
"""First bytes of compiled programs, the only files that are ``binary``.

A shell runs any other file as text, whatever else it contains.
"""


def _long(data: bytes) -> Seen:
    return Seen("binary") if data.startswith(_PROGRAMS) else _UNREADABLE


def _as_text(data: bytes) -> Seen:
    if data.startswith(_PROGRAMS):
        return Seen("binary")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return _UNREADABLE
    return _UNREADABLE if "\0" in text else Seen("file", text)


class LocalFiles:
    """A Snapshot that reads this machine's files when the judge asks for them, to show a user what a command would do here."""

    def work_tree(self, folder: str, commit: str = "") -> WorkTree:
        return read_status(ask_git_here(folder, commit))

    def real(self, path: str) -> str:
        try:
            return os.path.realpath(path)
        except (OSError, ValueError):
            return path

    def inspect_path(self, path: str) -> Seen:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY)  # a pipe must not block
            try:
                kind = os.fstat(handle).st_mode
                if not stat.S_ISREG(kind):
                    return Seen("dir") if stat.S_ISDIR(kind) else _UNREADABLE
                with os.fdopen(handle, "rb", closefd=False) as file:
                    data = file.read(MAX_BYTES + 1)
            finally:
                os.close(handle)
        except FileNotFoundError:
            return Seen("missing")
        except (OSError, ValueError):
            return _UNREADABLE
        return _long(data) if len(data) > MAX_BYTES else _as_text(data)
