"""Check and repair the file of artifacts: the digest of each content shows whether it is complete."""

from __future__ import annotations

import logging
import sqlite3
from contextlib import closing
from functools import partial
from pathlib import Path

from agent.store import _damage, _file, _schema
from agent.store._artifacts import TABLES, backups_of
from agent.store._drafting import connected, connected_damaged, replace_damaged
from agent.store._rows import copy_rows
from agent.store.repair import examine, is_damaged
from toolcrib.contract.dataclass import dataclass
from toolcrib.contract.errors import StoreFailed

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RepairedArtifacts:
    """Outcome of a repair. ``kept`` is the damaged file's new name.

    ``saved`` counts the saved contents, and ``lost`` the missing ones that sessions refer to.
    """

    path: Path
    kept: Path
    saved: int
    lost: int


def examine_artifacts(path: Path, store: Path) -> int:
    """Check the whole file, each content by its digest, and return how many contents in use are missing. Nothing is written.

    Raises StoreDamaged, and another StoreFailed if the file can't be checked.
    """
    examine(path, tables=TABLES)
    try:
        return len(_used(store) - _digests(path))
    except sqlite3.Error as error:
        raise _file.explained(path, error) from error


def _digests(path: Path) -> set[str]:
    if not path.exists() or not path.stat().st_size:
        return set()
    with closing(_damage.read_only(path)) as connection:
        return _contained(connection)


def _contained(connection: sqlite3.Connection) -> set[str]:
    return {digest for (digest,) in connection.execute("SELECT digest FROM contents")}


def _used(store: Path) -> set[str]:
    """Return the digests that sessions refer to; empty if the store can't be read."""
    try:
        if not store.exists():
            return set()
        with closing(_damage.read_only(store)) as connection:
            return {digest for (digest,) in connection.execute("SELECT digest FROM artifacts")}
    except (OSError, sqlite3.Error, StoreFailed) as error:
        _log.info("which artifacts are in use is unknown: %s", error)
        return set()


def repair_artifacts(path: Path, store: Path) -> RepairedArtifacts | None:
    """Replace a damaged file with one that has all complete contents of the file and its backups. Return None if it is sound.

    Raises StoreFailed and leaves everything unchanged if a process uses the file, or if the disk is full.
    """
    done = replace_damaged(path, partial(is_damaged, path, tables=TABLES), partial(_fill, path), _contained)
    if done is None:
        return None
    kept, saved, _ = done
    return RepairedArtifacts(path, kept, len(saved), len(_used(store) - saved))


def _fill(path: Path, fresh: Path, damaged: Path) -> None:
    """Fill ``fresh`` with the complete contents of the damaged file and its backups."""
    with closing(connected(fresh)) as connection:
        _schema.upgrade(connection, fresh, TABLES)
        for file in (damaged, *backups_of(path).found()):
            with closing(connected_damaged(file)) as source:
                copy_rows(source, connection)
