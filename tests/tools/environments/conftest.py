"""A local environment in a folder of its own, real ssh servers, and short ways to use them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Environment, ExecOutcome, ExecRequest
from tools.environments import open_environment


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Free of links, whatever the system's temporary folder is."""
    folder = tmp_path.resolve() / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def env(folder: Path) -> Iterator[Environment]:
    environment = open_environment("local", cwd=str(folder))
    yield environment
    asyncio.run(environment.close())


@pytest.fixture
def run(env: Environment) -> Callable[..., ExecOutcome]:
    """Run one command in an event loop of its own. A safety limit ends what should have ended by itself."""

    def run(command: str, **options: Any) -> ExecOutcome:
        return asyncio.run(env.execute(ExecRequest(command, **{"timeout": 60.0, **options})))

    return run


@pytest.fixture
def in_time() -> Callable[..., ExecOutcome]:
    """Runs a command that meets its time limit; again, with a longer one, where a machine under load had not come to what was to
    happen before.
    """

    def in_time(run: Callable[[float], ExecOutcome], happened: Callable[[ExecOutcome], object]) -> ExecOutcome:
        outcome = run(0.4)
        for limit in (2.0, 10.0, 30.0):
            if happened(outcome):
                break
            outcome = run(limit)
        return outcome

    return in_time


@pytest.fixture
def open_files() -> Callable[[], int]:
    """How many descriptors this process has open."""
    return lambda: len(list(Path("/proc/self/fd").iterdir()))
