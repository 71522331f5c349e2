"""Every backend that runs shells must pass what is in this folder. One that cannot start fails here, by its name."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Environment, ExecOutcome, ExecRequest
from tools.environments import open_environment

BACKENDS: dict[str, dict[str, Any]] = {"local": {}, "bubblewrap": {"sandbox": "bubblewrap"}, "docker": {}, "ssh": {}}


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in BACKENDS])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Environment]]:
    """Opens the backend, in a folder that can be written from both sides."""
    (tmp_path / "work").mkdir()
    made: list[Environment] = []
    kind, given = "local" if request.param == "bubblewrap" else request.param, BACKENDS[request.param]
    if kind == "docker":
        given = request.getfixturevalue("engine").options
    if kind == "ssh":
        given = request.getfixturevalue("root_sshd").options

    def opened(**options: Any) -> Environment:
        made.append(open_environment(kind, cwd=str(tmp_path / "work"), **{**given, **options}))
        return made[-1]

    yield opened
    for environment in made:
        asyncio.run(environment.close())


@pytest.fixture
def env(opened: Callable[..., Environment]) -> Environment:
    return opened()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "work"


@pytest.fixture
def run(env: Environment) -> Callable[..., ExecOutcome]:
    """Run one command in an event loop of its own. A safety limit ends what should have ended by itself."""

    def run(command: str, **options: Any) -> ExecOutcome:
        return asyncio.run(env.execute(ExecRequest(command, **{"timeout": 120.0, **options})))

    return run


@pytest.fixture
def says(run: Callable[..., ExecOutcome]) -> Callable[..., str]:
    """What a command that must succeed prints."""

    def says(command: str, **options: Any) -> str:
        outcome = run(command, **options)
        assert (outcome.exit_code, outcome.ended, outcome.stderr.head) == (0, "exited", b""), outcome
        return outcome.stdout.head.decode()

    return says


class Sleeper:
    """Processes that can be told from all others by the number of seconds they sleep."""

    def __init__(self) -> None:
        self.seconds = f"300.{secrets.randbelow(10**12):012}"
        self.command = f"sleep {self.seconds}"

    def count(self) -> int:
        found = 0
        for each in Path("/proc").iterdir():
            if each.name.isdigit():
                try:
                    found += each.joinpath("cmdline").read_bytes() == f"sleep\0{self.seconds}\0".encode()
                except OSError:  # it ended while we looked
                    continue
        return found


@pytest.fixture
def sleeper() -> Sleeper:
    return Sleeper()


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Waits until something is true; fails after a generous time."""

    def eventually(condition: Callable[[], object]) -> None:
        give_up = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < give_up, "it did not come true"
            time.sleep(0.01)

    return eventually
