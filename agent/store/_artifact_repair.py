"""Checking the file of artifacts, and making it anew: each content says itself whether it is whole."""

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

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RepairedArtifacts:
    """Outcome of a repair: the damaged file under its new name, how many artifacts were saved, and of how many that sessions
    refer to the content is gone.
    """

    path: Path
    kept: Path
    saved: int
    lost: int


def examine_artifacts(path: Path, store: Path) -> int:
    """Check the whole file, each content by its digest; nothing is written. Return of how many artifacts that sessions of the
    store refer to the content is not there. Raises StoreDamaged, and another StoreFailed where it can't be checked.
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
    """Return the digests that sessions refer to; none where the store can't say."""
    try:
        if not store.exists():
            return set()
        with closing(_damage.read_only(store)) as connection:
            return {digest for (digest,) in connection.execute("SELECT digest FROM artifacts")}
    except (OSError, sqlite3.Error) as error:
        _log.info("which artifacts are in use is unknown: %s", error)
        return set()


def repair_artifacts(path: Path, store: Path) -> RepairedArtifacts | None:
    """Replace a damaged file by one with all contents that are whole in it or in a backup. Return None for a sound file.

    Raises StoreFailed, and then leaves everything as it was: where a process uses the file, and where there is no room.
    """
    done = replace_damaged(path, partial(is_damaged, path, tables=TABLES), partial(_fill, path), _contained)
    if done is None:
        return None
    kept, saved, _ = done
    return RepairedArtifacts(path, kept, len(saved), len(_used(store) - saved))


def _fill(path: Path, fresh: Path, damaged: Path) -> None:
    """Fill ``fresh`` with what is whole in the damaged file and in its backups."""
    with closing(connected(fresh)) as connection:
        _schema.upgrade(connection, fresh, TABLES)
        for file in (damaged, *backups_of(path).found()):
            with closing(connected_damaged(file)) as source:
                copy_rows(source, connection)
