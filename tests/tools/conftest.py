"""Checks of processes that a tool started."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def alive() -> Callable[[int], bool]:
    def alive(pid: int) -> bool:
        try:
            return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
        except OSError:
            return False

    return alive


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Return a function that waits until a condition is true, and fails after a generous time."""

    def eventually(condition: Callable[[], object]) -> None:
        give_up = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < give_up, "it did not come true"
            time.sleep(0.01)

    return eventually
