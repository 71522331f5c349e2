"""A store that can only be read, because its file or folder can't be written: a copy of the file in memory."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agent.store import _damage, _file, _placing, _schema
from agent.store._artifacts import path_of, unpacked
from agent.store._memory_database import MemoryDatabase, connected
from agent.store.memory import MemorySignals, search_of
from agent.store.sqlite import Later, SqliteView
from toolcrib.contract.errors import StoreFailed

if TYPE_CHECKING:
    from agent.store._jobs import Work
    from toolcrib.contract.store import Store

T = TypeVar("T")


class FrozenDatabase(MemoryDatabase):
    """A copy of a SQLite file in memory, made at the first use. Raises StoreFailed in each write."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path

    async def write(self, work: Work[T]) -> T:
        raise _file.unwritable(self.path)

    async def alone(self, work: Work[T]) -> T:
        return await self.write(work)

    async def rows(self, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
        return await self.read(lambda connection: connection.execute(sql, parameters).fetchall())

    async def records(self, make: Callable[..., T], sql: str, parameters: Sequence[Any] = ()) -> list[T]:
        return await self.read(lambda connection: self.made(make, connection.execute(sql, parameters)))

    def _copy(self, connection: sqlite3.Connection) -> None:
        copy_file(self.path, connection)
        _schema.upgrade(connection, self.path, _schema.FOLDER)


class FrozenArtifacts:
    """The contents of artifacts in a file that can only be read: see StoredContents."""

    def __init__(self, store: FrozenDatabase) -> None:
        self._store = store
        self._path = path_of(store.path)

    async def put(self, digest: str, data: bytes) -> None:
        await self._store.write(lambda connection: None)

    async def get(self, digest: str) -> bytes | None:
        if not self._path.exists():
            return None
        try:
            with closing(connected()) as connection:
                copy_file(self._path, connection)
                found = connection.execute("SELECT body FROM contents WHERE digest = ?", (digest,)).fetchone()
                return None if found is None else unpacked(found[0], digest)
        except ValueError as error:
            raise _damage.damaged(self._path, [str(error)]) from error

    async def sweep(self) -> None:
        """Do nothing: nothing can be deleted."""

    def close(self) -> None:
        """Do nothing: no file is open."""


class FrozenStore(SqliteView):
    """Implements toolcrib.contract.store.Store for a file that can only be read; each write raises StoreFailed."""

    def __init__(self, path: Path) -> None:
        database = FrozenDatabase(_placing.real(path))
        later = Later(partial(search_of, database), partial(FrozenArtifacts, database))
        super().__init__(database, database, time.time, MemorySignals(), later)


def copy_file(path: Path, connection: sqlite3.Connection) -> None:
    """Copy a read-only SQLite file into an empty database. Raises StoreFailed."""
    try:
        try:
            with closing(_damage.read_only(path)) as source:
                source.backup(connection)
        except sqlite3.OperationalError:  # its process was killed: to read the log, SQLite would write
            with tempfile.TemporaryDirectory() as folder:
                copy = Path(folder) / path.name
                for one in (path, _placing.beside(path)[0]):
                    if one.exists():
                        shutil.copyfile(one, copy.with_name(one.name))
                with closing(sqlite3.connect(copy)) as source:
                    source.backup(connection)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise _file.explained(path, error) from error
    except OSError as error:
        raise StoreFailed(f"{path} can't be read: {error.strerror or error}; make it and its folder readable") from error


if TYPE_CHECKING:

    def _conforms(store: FrozenStore) -> Store:
        return store
