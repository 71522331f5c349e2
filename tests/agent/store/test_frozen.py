"""A store that can't be written is read without a change of any file, and refuses every write."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent.store.frozen import FrozenStore
from agent.store.sqlite import SqliteStore
from toolcrib.contract.errors import StoreFailed
from toolcrib.contract.store import AuditEntry, Fence

Open = Callable[..., SqliteStore]
DATA = b"a long result " * 1_000


def files(folder: Path) -> dict[str, bytes]:
    """Return the content of the files, without the index of a log, which SQLite makes anew in a writable folder."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith("-shm")}


async def fill(store: SqliteStore) -> str:
    await store.sessions.create("s", platform="cli", user="")
    await store.sessions.append_many("s", [{"role": "user", "text": "which walnut?"}, {"role": "assistant", "text": "that"}])
    return await store.artifacts.put("s", DATA)


async def shows_it_all(store: Any, digest: str) -> None:
    assert [info.id for info in await store.sessions.list(9)] == ["s"]
    assert [record["text"] for record in await store.sessions.messages("s")] == ["which walnut?", "that"]
    assert await store.artifacts.get("s", digest) == DATA
    assert [hit.session_id for hit in await store.search.find("walnut")] == ["s"]
    assert list(await store.grants.all(None, "")) == []


@pytest.mark.parametrize("ends", ["closed", "killed"])
async def test_it_shows_all_and_writes_nothing(open_file: Open, file: Path, tmp_path: Path, ends: str) -> None:
    """Also the log of a killed process is read."""
    first = open_file()
    digest = await fill(first)
    if ends == "closed":
        first.close()
    copy = tmp_path / "copy"
    shutil.copytree(file.parent, copy)
    if ends == "killed":
        assert (copy / "store.db-wal").stat().st_size > 0
        (copy / "store.db-shm").unlink()
    before = files(copy)
    store = FrozenStore(copy / "store.db")
    await shows_it_all(store, digest)
    for write in (
        store.sessions.create("t", platform="cli", user=""),
        store.fenced(Fence()).sessions.append_many("s", [{"role": "user", "text": "more"}]),
        store.audit.record(AuditEntry(0.0, "s", "", "terminal", "allow", "x", {})),
        store.artifacts.put("s", b"more"),
        store.delete(["s"]),
    ):
        with pytest.raises(StoreFailed, match=r"store.db can't be written; make it and its folder writable"):
            await write
    assert [info.id for info in await store.sessions.list(9)] == ["s"]
    store.close()
    assert files(copy) == before
