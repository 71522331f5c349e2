"""Old contents: each stored once, bounded, private, whole or absent."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent.store.contents import SqliteContents
from toolcrib import StoreFailed
from tools.undo.contents import Contents, MemoryContents, digest_of

MIB = 1024 * 1024
Open = Callable[..., SqliteContents]


@pytest.fixture
def open_contents(tmp_path: Path) -> Iterator[Open]:
    made: list[SqliteContents] = []

    def make(*, max_bytes: int = MIB, seconds: float = 1000.0, later: float = 0.0) -> SqliteContents:
        path = tmp_path / "undo" / "contents.db"
        made.append(SqliteContents(path, max_bytes=max_bytes, seconds=seconds, clock=lambda: time.time() + later))
        return made[-1]

    yield make
    for each in made:
        each.close()


async def put(contents: Contents, data: bytes) -> str:
    await contents.put(digest_of(data), data)
    return digest_of(data)


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_contents_come_back_and_the_oldest_go_first(open_contents: Open, kind: str) -> None:
    contents: Contents = MemoryContents(100_000) if kind == "memory" else open_contents(max_bytes=100_000)
    digests = []
    for number in range(40):
        digests.append(await put(contents, bytes([number]) * 9000))
        await put(contents, b"\0" * 9000)
    assert await contents.get(digests[0]) == b"\0" * 9000, "what is replaced again stays"
    assert await contents.get(digests[1]) is None
    assert await contents.get(digests[39]) == bytes([39]) * 9000
    assert await contents.get(digest_of(b"never kept")) is None
    assert await put(contents, b"") == digest_of(b"")
    assert await contents.get(digest_of(b"")) == b""
    assert len([one for one in digests if await contents.get(one) is not None]) < 13


async def test_it_is_private_and_made_when_it_is_needed(open_contents: Open, tmp_path: Path) -> None:
    contents = open_contents()
    assert await contents.get("0" * 64) is None
    assert list(tmp_path.iterdir()) == []
    await put(contents, b"kept")
    for path in [tmp_path / "undo", *(tmp_path / "undo").iterdir()]:
        assert path.stat().st_mode & 0o077 == 0, path


async def test_old_contents_go_from_the_file_too(open_contents: Open, tmp_path: Path) -> None:
    old = await put(open_contents(), b"an old secret")
    await put(open_contents(later=500.0), b"other")
    assert await open_contents().get(old) == b"an old secret"
    late = open_contents(later=1100.0)
    await put(late, b"newer")
    assert await late.get(old) is None
    late.close()
    for each in (tmp_path / "undo").iterdir():
        database = sqlite3.connect(tmp_path / "undo" / "contents.db")
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        database.close()
        assert not each.exists() or b"an old secret" not in each.read_bytes()


async def test_a_clock_that_was_wrong_for_a_while_costs_nothing(open_contents: Open) -> None:
    ahead = await put(open_contents(later=1e9, max_bytes=100_000), b"a" * 60_000)
    now = open_contents(max_bytes=100_000)
    kept = [await put(now, bytes([number]) * 30_000) for number in range(3)]
    assert await now.get(ahead) is None, "it is the oldest"
    assert None not in [await now.get(digest) for digest in kept]
    behind = open_contents(later=-1e9, max_bytes=100_000)
    kept = [kept[-1], await put(behind, b"b" * 30_000)]
    await put(open_contents(max_bytes=100_000), b"c")
    assert None not in [await now.get(digest) for digest in kept]


async def test_a_bound_holds_over_many_short_processes(open_contents: Open) -> None:
    for number in range(20):
        contents = open_contents(max_bytes=100_000)
        newest = await put(contents, bytes([number]) * 30_000)
        contents.close()
    contents = open_contents(max_bytes=100_000)
    assert await contents.get(newest)
    assert [await contents.get(digest_of(bytes([number]) * 30_000)) for number in range(20)].count(None) == 17


async def test_what_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "contents.db").mkdir()
    contents = SqliteContents(tmp_path / "contents.db", max_bytes=MIB, seconds=1.0)
    with pytest.raises(StoreFailed, match=r"contents\.db"):
        await put(contents, b"x")


async def test_what_was_kept_survives_kill_9(open_contents: Open, tmp_path: Path, root: Path) -> None:
    code = (
        "import asyncio, os, sys; from pathlib import Path; from agent.store.contents import SqliteContents, digest_of\n"
        "contents = SqliteContents(Path(sys.argv[1]), max_bytes=1 << 30, seconds=1e9)\n"
        "async def main():\n  while True:\n    data = os.urandom(100_000); await contents.put(digest_of(data), data)\n"
        "    print(digest_of(data), flush=True)\nasyncio.run(main())\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "undo" / "contents.db")]
    with subprocess.Popen(command, cwd=root, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        told = [process.stdout.readline().strip() for _ in range(5)]
        process.send_signal(signal.SIGKILL)
        told += process.stdout.read().split()
    contents = open_contents(max_bytes=1 << 30)
    assert None not in [await contents.get(digest) for digest in told if len(digest) == 64]
