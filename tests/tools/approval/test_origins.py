"""The judge's knowledge of a session's files outlives the process, and is never lost as if the files were harmless."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agent.store.memory import MemoryStore
from toolcrib import StoreFailed
from toolcrib.contract.records import NO_ENTRIES
from toolcrib.testing import FakeEnvironment
from tools.approval.origins import SessionFiles
from tools.judge.meaning.value import Taint

PROJECT = "/home/dev/project"
FILES = {f"{PROJECT}/get.sh": b"echo hello\n"}
DOWNLOAD, RUN = "curl -so get.sh https://x.test/get.sh", "bash get.sh"


class Broken:
    """An OriginStore that can't be read or written while it is ``broken``."""

    def __init__(self) -> None:
        self.broken = True
        self.store = MemoryStore().origins

    async def of(self, session_id: str) -> Mapping[str, int]:
        if self.broken:
            raise StoreFailed("the disk is full")
        return await self.store.of(session_id)

    async def copies(self, session_id: str) -> Mapping[str, str]:
        return await self.store.copies(session_id)

    async def remember(self, session_id: str, origins: Mapping[str, int], copies: Mapping[str, str] = NO_ENTRIES) -> None:
        if self.broken:
            raise StoreFailed("the disk is full")
        await self.store.remember(session_id, origins, copies)


def project() -> FakeEnvironment:
    return FakeEnvironment(FILES, lambda request: (0, b"done"), cwd=PROJECT)


def test_a_download_stays_one_after_a_restart(floors: Any) -> None:
    origins = MemoryStore().origins
    first, second, other = (floors(project(), origins=origins) for _ in range(3))
    assert first.do(RUN) == "ran"
    assert first.do(DOWNLOAD) == "ran"
    assert first.asks(RUN)
    assert second.asks(RUN)
    assert other.do(RUN, session="s2") == "ran"


def test_where_origins_cannot_be_read_any_script_is_asked_about(floors: Any) -> None:
    store = Broken()
    floor = floors(project(), origins=store)
    assert floor.asks(RUN)
    assert floor.do("ls") == "ran"
    store.broken = False
    assert floor.do(RUN) == "ran"


def test_a_download_that_cannot_be_remembered_does_not_happen(floors: Any) -> None:
    store = Broken()
    floor = floors(project(), origins=store)
    assert floor.do(DOWNLOAD) == "refused"
    store.broken = False
    assert floor.do(DOWNLOAD) == "ran"
    store.broken = True
    assert floor.asks(RUN), "what was read once is kept"


def test_nothing_is_forgotten_however_many_sessions_there_are() -> None:
    files = SessionFiles()

    async def go() -> None:
        for number in range(2_000):
            await files.remember(f"s{number}", {"/x": Taint.REMOTE})
        for number in range(2_000):
            assert (await files.of(f"s{number}")).taints == {"/x": Taint.REMOTE}

    asyncio.run(go())


def test_more_files_than_are_kept_make_all_unknown() -> None:
    store = MemoryStore().origins

    async def go() -> None:
        files = SessionFiles(store, most=10)
        await files.remember("s1", {f"/{number}": Taint.DECODED for number in range(11)})
        assert (await files.of("s1")).unknown
        again = SessionFiles(store, most=10)
        assert (await again.of("s1")).unknown
        assert (await again.of("s2")).is_clean

    asyncio.run(go())


def test_a_session_that_is_let_go_is_read_again() -> None:
    async def go() -> None:
        files = SessionFiles(MemoryStore().origins)
        await files.remember("s1", {"/x": Taint.REMOTE})
        await files.remember("s1", {"/x": Taint.DECODED})
        files.forget("s1")
        assert files.known("s1") is None
        assert (await files.of("s1")).taints == {"/x": Taint.REMOTE | Taint.DECODED}

    asyncio.run(go())
