"""Copies of an empty store, for tests of other things: its tables take ten times as long to create as to copy."""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from sqlite3 import Connection

import pytest

_WITHOUT = "tests/agent/store/"
"""Tests of stores: each of their files is created as for a user."""
_COUNT = itertools.count()
_CREATING = threading.Lock()
_OPENING = threading.local()


@contextmanager
def copied(folder: Path) -> Iterator[None]:
    """Let this process begin each store file that it creates as a copy of an empty one, which it keeps in ``folder``.

    The first file of each kind is created as always, and so is each file of another process.
    """
    from agent.store import _file, _schema

    make_file, open_writer = _file._make_file, _file.open_writer

    def empty(tables: Path) -> Path | None:
        if tables.parent != _schema.FOLDER.parent or os.environ.get("PYTEST_CURRENT_TEST", "").startswith(_WITHOUT):
            return None
        file = folder / tables.name / "store.db"
        with _CREATING:
            if not file.exists():
                open_writer(file, "NORMAL", tables).close()
        return file

    def open_copied(path: Path, synchronous: str, tables: Path, evidence: Sequence[Path] = ()) -> Connection:
        _OPENING.source = empty(tables)
        try:
            return open_writer(path, synchronous, tables, evidence)
        finally:
            _OPENING.source = None

    def make_copied(path: Path) -> bool:
        source: Path | None = getattr(_OPENING, "source", None)
        return (source is not None and _copy(source, path)) or make_file(path)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_file, "_make_file", make_copied)
        patch.setattr(_file, "open_writer", open_copied)
        yield


def _copy(source: Path, path: Path) -> bool:
    """Create the file with its content at once, so that no process sees a part of it. Return False if that is not possible."""
    if path.exists():
        return False
    whole = path.with_name(f".{path.name}.{os.getpid()}-{next(_COUNT)}")
    with suppress(OSError):
        try:
            shutil.copyfile(source, whole)
            whole.chmod(0o600)
            os.link(whole, path)
        finally:
            whole.unlink(missing_ok=True)
        return True
    return False
