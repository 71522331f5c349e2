"""Store the content of a file before a call replaces it."""

from __future__ import annotations

import logging
import math
import posixpath
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import field

from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.dataclass import dataclass, replace
from toolcrib.contract.environment import Environment, FileInfo, HoldsFiles
from toolcrib.contract.errors import EnvironmentFailed, ExecutionFailed, StoreFailed
from toolcrib.contract.undo import ChangeJournal, ChangeStep, FileChange, FileState, Keeping, UndoLog
from tools.files.attributes import attributes_of
from tools.undo.contents import Contents, digest_of
from tools.undo.locks import Slots, held

_log = logging.getLogger(__name__)
LOCK_SECONDS = 60.0
_DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class UndoStore:
    """Store of changes and old contents. Contents above ``max_file`` bytes are not kept; ``required`` then forbids the change."""

    journal: ChangeJournal
    contents: Contents
    slots: Slots
    max_file: int = 20 * 1024 * 1024
    required: bool = False
    seconds: float = math.inf
    """Seconds that a change is remembered."""
    _tidied: list[float] = field(default_factory=lambda: [-math.inf], repr=False)

    async def tidy(self) -> None:
        """Remove expired entries once a day. Errors are only logged: they must not fail the change in progress."""
        now = time.time()
        if abs(now - self._tidied[0]) < _DAY:  # also due if the clock was set back by a day
            return
        self._tidied[0] = now
        try:
            await self.journal.prune(now - self.seconds)
            await self.contents.prune()
        except StoreFailed as error:
            _log.warning("old undo data could not be removed: %s", error)

    def close(self) -> None:
        """Close the contents. The journal is closed with its store."""
        self.contents.close()

    def log(self, session_id: str) -> UndoLog:
        """Return the log of a session's changes."""
        return _SessionLog(self, session_id)


def holder_of(environment: Environment, path: str) -> str:
    """Return the holder of a file. Environments with equal holders reach the same file. By default the holder is the
    environment's identity.
    """
    return environment.holder(path) if isinstance(environment, HoldsFiles) else environment.identity


def size_of(number: int) -> str:
    """Return a size as text for the user."""
    if number < 1024:
        return f"{number} byte{'' if number == 1 else 's'}"
    size, units = number / 1024, ["KiB", "MiB", "GiB", "TiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{size:.3g} {units[0]}" if size < 1000 else f"{size:.0f} {units[0]}"


async def put(
    store: UndoStore, data: bytes, like: FileInfo | FileState, attributes: Mapping[str, bytes] | None = None
) -> tuple[FileState, str]:
    """Store ``data``. Return its state, with mode and owner of ``like``, and the reason if it was not stored, else ""."""
    state = FileState(digest_of(data), len(data), like.mode, like.owner, like.mtime_ns, attributes)
    if len(data) > store.max_file:
        return state, too_big(store, len(data))
    try:
        await store.contents.put(state.digest, data)
    except StoreFailed as error:
        return state, f"its content could not be kept: {error}"
    return state, ""


def too_big(store: UndoStore, size: int) -> str:
    """Return the reason why a file of that size is not kept."""
    return f"it was {size_of(size)}, and only files up to {size_of(store.max_file)} are kept (undo.max_file_mb)"


async def missing_folders(environment: Environment, path: str) -> tuple[str, ...]:
    """Return the folders that will be created for a file, outermost first."""
    found: list[str] = []
    folder = posixpath.dirname(path)
    while folder not in ("", "/") and await environment.stat(folder) is None:
        found.append(folder)
        folder = posixpath.dirname(folder)
    return tuple(reversed(found))


class _SessionLog:
    """See UndoLog."""

    def __init__(self, store: UndoStore, session_id: str) -> None:
        self.turn = 0
        self._store = store
        self._session_id = session_id

    @asynccontextmanager
    async def changing(self, ctx: ToolCallContext, paths: Sequence[str]) -> AsyncIterator[Keeping]:
        environment = ctx.environment
        keeping = _Keeping(self._store, environment, ChangeStep(self._session_id, self.turn, ctx.call_id, ctx.tool_name, 0.0, ()))
        entered = False
        try:
            async with held(self._store.slots, paths, LOCK_SECONDS):
                entered = True
                yield keeping
        except TimeoutError:
            if entered:
                raise
            raise ExecutionFailed(
                f"another session is changing {', '.join(paths)} and does not finish; nothing was done"
            ) from None
        except OSError as error:
            if entered:
                raise
            keeping.fail(f"the state folder can't be used: {error.strerror or error}")
            yield keeping


class _Keeping:
    """See Keeping."""

    def __init__(self, store: UndoStore, environment: Environment, step: ChangeStep) -> None:
        self._store = store
        self._environment = environment
        self._step = step
        self._changes: list[FileChange] = []
        self._failed = ""
        self._recorded: ChangeStep | None = None

    def fail(self, why: str) -> None:
        self._failed = why

    async def replaces(self, path: str, info: FileInfo | None, after: bytes | None, data: bytes | None = None) -> None:
        if self._failed:
            return
        environment, before, lost = self._environment, None, ""
        if info is not None:
            # A file that is not deleted keeps its attributes.
            attributes = (await attributes_of(environment, path))[0] if after is None else None
            before, lost = await self._before(path, info, data, attributes)
        mode, owner = (None, None) if info is None else (info.mode, info.owner)
        state = None if after is None else FileState(digest_of(after), len(after), mode, owner)
        if before == state:
            return
        folders = () if info is not None else await missing_folders(environment, path)
        self._changes.append(FileChange(path, holder_of(environment, path), before, state, lost, folders))

    async def _before(
        self, path: str, info: FileInfo, data: bytes | None, attributes: Mapping[str, bytes] | None
    ) -> tuple[FileState, str]:
        most = self._store.max_file
        unread = FileState("", info.size, info.mode, info.owner, info.mtime_ns)
        if data is None and info.size > most:
            return unread, too_big(self._store, info.size)
        if data is None:
            try:
                data = await self._environment.read_file(path, limit=most + 1)
            except OSError as error:
                return unread, f"it could not be read before: {error.strerror or error}"
        return (unread, too_big(self._store, len(data))) if len(data) > most else await put(self._store, data, info, attributes)

    async def record(self) -> None:
        if self._changes and not self._failed:
            try:
                self._recorded = await self._store.journal.begin(
                    replace(self._step, at=time.time(), changes=tuple(self._changes))
                )
            except StoreFailed as error:
                self.fail(str(error))
            else:
                await self._store.tidy()
        if self.warning and self._store.required:
            await self._drop([] if self._recorded is None else self._recorded.changes)
            raise ExecutionFailed(f"nothing was changed, because undo.required is set: {self.warning}")

    async def forget(self) -> None:
        made = () if self._recorded is None else self._recorded.changes
        await self._drop([change for change in made if await self._is_as_before(change)])

    async def _drop(self, changes: Sequence[FileChange]) -> None:
        if not changes:
            return
        try:
            await self._store.journal.forget([change.id for change in changes])
        except StoreFailed as error:  # an undo will see that the file is unchanged
            _log.warning("a change that was not made remains in the journal: %s", error)

    async def _is_as_before(self, change: FileChange) -> bool:
        """Return True if the change was not made, or was reverted. False if this is unknown: an undo checks it again."""
        before = change.before
        try:
            info = await self._environment.stat(change.path)
            if info is None or before is None:
                return info is None and before is None
            if (info.kind, info.size, info.mode, info.owner) != ("file", before.size, before.mode, before.owner):
                return False
            if not before.digest:
                return info.mtime_ns is not None and info.mtime_ns == before.mtime_ns
            return digest_of(await self._environment.read_file(change.path)) == before.digest
        except (OSError, EnvironmentFailed):
            return False

    @property
    def warning(self) -> str:
        if self._failed:
            return f"this can't be undone: {self._failed}"
        lost = [f"{change.path}: {change.lost}" for change in self._changes if change.lost]
        return f"this can't be undone: {'; '.join(lost)}" if lost else ""
