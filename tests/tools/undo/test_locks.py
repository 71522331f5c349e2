"""A lock allows one writer of a file at a time."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path

import pytest

from tools.undo.locks import FileSlots, MemorySlots, Slots, held


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
