"""Origins of a session's files, as recorded from its commands: a downloaded file stays marked as downloaded."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.records import NO_ENTRIES
from toolcrib.contract.store import OriginStore

if TYPE_CHECKING:  # the judge is not imported at the start, but before the first call
    from tools.judge.calls import Judgement
    from tools.judge.meaning.value import Taint

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Origins:
    """Origins of one session's files. ``unknown``: not all are known, so any file may have any origin.

    ``all_written``: more files were written than are remembered, so any file may be the session's own.
    """

    taints: dict[str, Taint] = field(default_factory=dict)
    unknown: bool = False
    copies: dict[str, str] = field(default_factory=dict)
    all_written: bool = False
    made: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Variables of the session's shell that hold the output of ``mktemp -d``: see Judgement."""
    of_jobs: dict[str, Taint] = field(default_factory=dict)
    """Marks of the files that background processes may read or open while they run."""
    owners: dict[str, frozenset[str]] = field(default_factory=dict)
    """The commands of the background processes that marked a file, "" for an unknown one. Not stored: files that are read from
    the store have no entry, so any process may have marked them. ``ELSEWHERE``: a process of another session did.
    """
    are_shared: bool = False
    """True if processes of another session, which shares these origins, may have marked files."""

    @property
    def others(self) -> Taint:
        """Origins that any file without a record may have."""
        from tools.judge.meaning.value import Taint

        return (Taint.REMOTE if self.unknown else Taint.NONE) | (Taint.WRITTEN if self.all_written else Taint.NONE)

    @property
    def is_clean(self) -> bool:
        return not self.taints and not self.unknown

    def only_new(self, judged: Judgement) -> None:
        """Drop from a judgement what is already recorded about the files and folders that the call leaves behind."""
        judged.files, judged.copies = self.new(judged.files, judged.copies)
        judged.made = None if judged.made == self.made else judged.made

    def new(self, taints: Mapping[str, Taint], copies: Mapping[str, str]) -> tuple[dict[str, Taint], dict[str, str]]:
        """Return the new facts about the files that a call leaves behind, and about the programs that it copies.

        ``copies`` are all files and folders that it copies or moves: known facts about a file apply to its copy.
        """
        from tools.judge.meaning.value import OF_JOBS, Taint

        found: dict[str, Taint] = dict(taints)
        programs: dict[str, str] = {}
        for target, source in copies.items():
            if not source:
                programs[target] = ""
                continue
            for path, taint in [*self.taints.items(), *found.items()]:
                if (place := _moved(path, source, target)) is not None:
                    found[place] = found.get(place, Taint.NONE) | taint
            for path, program in [*self.copies.items(), *programs.items()]:
                if (place := _moved(path, source, target)) is not None:
                    programs[place] = program
            if found.get(target, Taint.NONE) & Taint.PROGRAM:
                programs[target] = programs.get(target) or source
        # A mark of a process is always recorded again: the process that set it before may end earlier than this one.
        left = {path: taint for path, taint in found.items() if taint & (OF_JOBS | ~self.taints.get(path, Taint.NONE))}
        left = {path: taint for path, taint in left.items() if not (self.all_written and taint == Taint.WRITTEN)}
        return left, {path: source for path, source in programs.items() if self.copies.get(path, "") != source}


def _moved(path: str, source: str, target: str) -> str | None:
    """Return the location of ``path`` after ``source`` became ``target``; None if it is not in ``source``."""
    if path == source or path.startswith(f"{source}/"):
        return target + path[len(source) :]
    return None


_CLEAN = Origins()
UNKNOWN_OWNER = frozenset({""})
ELSEWHERE = "\0"
"""Owner of a mark that is never lifted, because this session does not know when the process ends. No command is this text."""
_VARIABLE = "$"
"""Prefix of a variable's name among the stored paths of copies. No absolute path begins with it."""


def _made(text: str) -> tuple[str, str]:
    template, _, before = text.partition("\n")
    return template, before


class SessionFiles:
    """Origins by session: read from ``store``, then cached here until ``forget``. Thread-safe.

    The cache is valid while no other process adds to the store: a process that takes a session over must call ``forget`` first.
    No file is ever treated as clean because its record was dropped. If the store is unreadable, or a session has more than
    ``most`` files with recorded origins, its origins count as unknown, and the user is asked before any file is run. At most
    ``most_written`` files that were only written are remembered; beyond that, all files count as written. Without a store the
    records live as long as this object.
    """

    def __init__(self, store: OriginStore | None = None, most: int = 20_000, most_written: int = 5_000) -> None:
        self._store = store
        self._most = most
        self._most_written = most_written
        self._known: dict[str, Origins] = {}
        self._lock = threading.Lock()

    def known(self, session_id: str) -> Origins | None:
        """Return the origins if the store need not be read, else None."""
        found = self._known.get(session_id)
        return _CLEAN if found is None and self._store is None else found

    async def of(self, session_id: str) -> Origins:
        """Return the origins. Never raises: unreadable ones count as unknown for now, and the next call reads them again."""
        found = self.known(session_id)
        if found is not None:
            return found
        assert self._store is not None  # noqa: S101 - without a store, known() has returned a value
        from tools.judge.meaning.value import Taint

        try:
            kept = await self._store.of(session_id)
            taints = {path: Taint(bits) for path, bits in kept.items()}
            kept_copies = await self._store.copies(session_id)
            copies = {path: source for path, source in kept_copies.items() if path[:1] != _VARIABLE}
            made = {name[1:]: _made(text) for name, text in kept_copies.items() if name[:1] == _VARIABLE and text}
        except (StoreFailed, ValueError) as error:
            _log.error("the origins of files could not be read, so the user is asked about every file: %s", error)
            return Origins(unknown=True)
        with self._lock:
            used = {path: taint for path, taint in taints.items() if taint & (Taint.RUNNING | Taint.USED)}
            return self._known.setdefault(session_id, self._bounded(Origins(taints, False, copies, False, made, used)))

    async def remember(
        self,
        session_id: str,
        taints: Mapping[str, Taint],
        copies: Mapping[str, str] = NO_ENTRIES,
        made: Mapping[str, tuple[str, str]] | None = None,
        *,
        owner: str = "",
    ) -> None:
        """Add to the records, in the store first. Raises StoreFailed: the caller must not run what was not recorded.

        ``made`` replaces the known variables, unless it is None. ``owner``: the command of the background process that these
        records are about.
        """
        from tools.judge.meaning.value import OF_JOBS, Taint

        if not taints and not copies and made is None:
            return
        if self._store is not None:
            known_before = (await self.of(session_id)).made
            variables = (
                {}
                if made is None
                else {**dict.fromkeys(known_before, ""), **{name: "\n".join(one) for name, one in made.items()}}
            )
            stored = {**copies, **{f"{_VARIABLE}{name}": text for name, text in variables.items()}}
            await self._store.remember(session_id, {path: int(taint) for path, taint in taints.items()}, stored)
        with self._lock:
            known = self._known.get(session_id)
            if known is None:
                if self._store is not None:  # the store could not be read: the next call reads all records
                    return
                known = self._known[session_id] = Origins()
            for path, taint in taints.items():
                if taint & OF_JOBS:
                    before = known.taints.get(path, Taint.NONE) & OF_JOBS
                    known.owners[path] = known.owners.get(path, UNKNOWN_OWNER if before else frozenset()) | {owner}
                known.taints[path] = known.taints.get(path, Taint.NONE) | taint
                if known.taints[path] & (Taint.RUNNING | Taint.USED):
                    known.of_jobs[path] = known.taints[path]
            known.copies.update(copies)
            known.made = known.made if made is None else made
            self._bounded(known)

    def forget(self, session_id: str) -> None:
        """Drop the cached origins of a session that the store also has. Without a store nothing is dropped."""
        if self._store is not None:
            with self._lock:
                self._known.pop(session_id, None)

    def _bounded(self, origins: Origins) -> Origins:
        from tools.judge.meaning.value import Taint

        if len(origins.taints) > self._most_written and not origins.all_written:
            origins.all_written = sum(taint == Taint.WRITTEN for taint in origins.taints.values()) > self._most_written
        if len(origins.taints) > self._most + self._most_written * origins.all_written:
            origins.taints.clear()
            origins.unknown = True
        return origins


class OriginsReader(SessionFiles):
    """Origins by session as ``files`` knows them, for read-only use: it remembers nothing itself."""

    def __init__(self, files: SessionFiles) -> None:
        super().__init__()
        self._files = files

    def known(self, session_id: str) -> Origins | None:
        return self._files.known(session_id)

    async def of(self, session_id: str) -> Origins:
        return await self._files.of(session_id)

    async def remember(
        self,
        session_id: str,
        taints: Mapping[str, Taint],
        copies: Mapping[str, str] = NO_ENTRIES,
        made: Mapping[str, tuple[str, str]] | None = None,
        *,
        owner: str = "",
    ) -> None:
        """Remember nothing."""
