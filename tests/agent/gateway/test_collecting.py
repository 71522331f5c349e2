"""An idle gateway collects all garbage; young garbage is always collected."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from agent.gateway import collecting as module
from agent.gateway.collecting import collecting


class Ring:
    """An object that only the garbage collector can free."""

    def __init__(self) -> None:
        self.itself = self


def old_ring() -> weakref.ref[Ring]:
    """Return a reference to garbage that has outlived the collections of young objects."""
    ring = Ring()
    known = weakref.ref(ring)
    gc.collect()  # from here on the collections are counted
    gc.collect(1)
    gc.collect(1)
    del ring
    return known


async def freed(known: weakref.ref[Ring], looks: int) -> bool:
    for _ in range(looks):
        await asyncio.sleep(0.02)
        if known() is None:
            return True
    return False


@pytest.fixture(autouse=True)
def _quickly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LOOKS_EVERY", 0.01)


async def test_what_is_old_is_collected_once_it_is_quiet() -> None:
    is_quiet = False
    async with collecting(lambda: is_quiet):
        known = old_ring()
        assert not await freed(known, 10), "a chat waits for an answer"
        is_quiet = True
        gc.collect(1)
        assert await freed(known, 500)


async def test_what_is_old_is_collected_in_the_end_though_there_is_always_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONGEST", 0.0)
    async with collecting(lambda: False):
        known = old_ring()
        assert await freed(known, 500)


async def test_what_is_old_is_collected_after_much_was_allocated_though_there_is_always_work() -> None:
    async with collecting(lambda: False):
        known = old_ring()
        assert not await freed(known, 10)
        gc.collect(1)
        assert await freed(known, 500)


async def test_the_process_has_its_thresholds_back() -> None:
    before = gc.get_threshold()
    async with collecting(lambda: True):
        assert gc.get_threshold()[2] > 1_000_000 > gc.get_threshold()[0]
    assert gc.get_threshold() == before
