"""Old contents on disk: private, once each, bounded, whole or not at all."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tools.undo.contents import Contents, FolderContents, MemoryContents, digest_of
from tools.undo.locks import FileSlots, MemorySlots, Slots, held

MIB = 1024 * 1024


def make(folder: Path, *, max_bytes: int = MIB, seconds: float = 1000.0, later: float = 0.0) -> FolderContents:
    return FolderContents(folder / "undo", max_bytes=max_bytes, seconds=seconds, clock=lambda: time.time() + later)


def put(contents: Contents, data: bytes) -> str:
    contents.put(digest_of(data), data)
    return digest_of(data)


def files(folder: Path) -> list[Path]:
    return [path for path in (folder / "undo").glob("??/*") if path.is_file()]


@pytest.mark.parametrize("kind", ["memory", "folder"])
def test_contents_come_back_and_the_oldest_go_first(tmp_path: Path, kind: str) -> None:
    now = [time.time()]
    contents: Contents = MemoryContents(100_000)
    if kind == "folder":
        contents = FolderContents(tmp_path / "undo", max_bytes=100_000, seconds=1e9, clock=lambda: now[0])
    digests = []
    for number in range(20):
        now[0] += 1
        digests.append(put(contents, bytes([number]) * 9000))
        put(contents, b"\0" * 9000)
    assert contents.get(digests[0]) == b"\0" * 9000, "what is replaced again stays"
    assert contents.get(digests[1]) is None
    assert contents.get(digests[19]) == bytes([19]) * 9000
    assert contents.get(digest_of(b"never kept")) is None
    if kind == "folder":
        assert sum(path.stat().st_size for path in files(tmp_path)) < 130_000


def test_what_is_kept_is_private_and_kept_once(tmp_path: Path) -> None:
    contents = make(tmp_path)
    for _ in range(3):
        put(contents, b"same")
    put(contents, b"")
    assert len(files(tmp_path)) == 2
    for path in (tmp_path / "undo").rglob("*"):
        assert path.stat().st_mode & 0o077 == 0 or path.name in ("pruned", "grown"), path
    assert (tmp_path / "undo").stat().st_mode & 0o077 == 0


def test_old_contents_go(tmp_path: Path) -> None:
    old = put(make(tmp_path), b"old")
    make(tmp_path, later=500.0).prune()
    assert make(tmp_path).get(old) == b"old"
    make(tmp_path, later=1100.0).prune()
    assert make(tmp_path).get(old) is None


def test_what_was_damaged_is_not_given_back_and_can_be_kept_again(tmp_path: Path) -> None:
    contents = make(tmp_path)
    digest = put(contents, b"right")
    files(tmp_path)[0].write_bytes(b"wrong")
    assert contents.get(digest) is None
    files(tmp_path)[0].write_bytes(b"cut")
    put(contents, b"right")
    assert contents.get(digest) == b"right"


def test_a_process_killed_at_any_moment_leaves_only_whole_contents(tmp_path: Path, root: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from tools.undo.contents import FolderContents, digest_of\n"
        "contents = FolderContents(Path(sys.argv[1]) / 'undo', max_bytes=1 << 30, seconds=1e9)\n"
        "print('on', flush=True)\n"
        "while True:\n    data = os.urandom(200_000); contents.put(digest_of(data), data)\n"
    )
    for enough in (2, 5):
        with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], cwd=root, stdout=subprocess.PIPE) as process:
            while len(files(tmp_path)) < enough:
                assert process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait(60)
    whole = [path for path in files(tmp_path) if path.suffix != ".tmp"]
    assert whole
    assert all(digest_of(path.read_bytes()) == path.parent.name + path.name for path in whole)
    again = FolderContents(tmp_path / "undo", max_bytes=MIB, seconds=1.0, clock=lambda: 1e12)
    again.prune()
    assert files(tmp_path) == []


@pytest.mark.parametrize("kind", ["memory", "files"])
def test_one_at_a_time_has_a_file(tmp_path: Path, kind: str) -> None:
    slots: Slots = MemorySlots() if kind == "memory" else FileSlots(tmp_path / "locks")
    inside: list[int] = []
    most = []

    async def hold(number: int) -> None:
        async with held(slots, ["/a", "/b"] if number % 2 else ["/b", "/a"], 60):
            inside.append(number)
            most.append(len(inside))
            await asyncio.sleep(0.001)
            inside.remove(number)

    async def several() -> None:
        await asyncio.gather(*(hold(number) for number in range(4)))

    threads = [threading.Thread(target=lambda: asyncio.run(several())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1] * 12


def test_a_file_that_is_not_let_go_of_is_not_waited_for_for_ever(tmp_path: Path) -> None:
    async def twice() -> None:
        async with held(FileSlots(tmp_path), ["/a"], 60), held(FileSlots(tmp_path), ["/a"], 0):
            pytest.fail("two had it")

    with pytest.raises(TimeoutError):
        asyncio.run(twice())
