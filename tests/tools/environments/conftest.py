"""A local environment in its own folder, real ssh servers, and shortcuts to use them."""

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
    """A folder without links in its path, whatever the system's temporary folder is."""
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
    """Return a function that runs one command in its own event loop. A safety limit ends a command that should have ended by
    itself.
    """

    def run(command: str, **options: Any) -> ExecOutcome:
        return asyncio.run(env.execute(ExecRequest(command, **{"timeout": 60.0, **options})))

    return run


@pytest.fixture
def in_time() -> Callable[..., ExecOutcome]:
    """Return a function that runs a command until its time limit, and again with a longer limit if a machine under load had not
    yet done what should happen before.
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
    """Return a function that returns the number of this process's open descriptors."""
    return lambda: len(list(Path("/proc/self/fd").iterdir()))
