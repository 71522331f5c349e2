"""Every backend that runs shells must pass the tests in this folder. A backend that can't start fails here, by its name."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.snippets import ROOT, blocks
from toolcrib import Environment, ExecOutcome, ExecRequest
from tools.environments import open_environment, register_environment
from tools.environments.rows import ROWS

DOCUMENTED = "offline"
"""The backend that docs/backends.md shows."""
BACKENDS: dict[str, dict[str, Any]] = {**{name: {} for name in ROWS}, "bubblewrap": {"sandbox": "bubblewrap"}, DOCUMENTED: {}}
"""Options of each backend. A new row is tested without options, unless it has an entry here."""


def register_documented() -> list[Callable[[], None]]:
    """Register the backend of the page, as its plugin does. Return the functions that remove it."""
    (block,) = [one for one in blocks((ROOT / "docs/backends.md").read_text("utf-8")) if one.file.endswith("offline.py")]
    plugin: dict[str, Any] = {"__name__": DOCUMENTED}
    exec(compile(block.text, "docs/backends.md", "exec"), plugin)  # noqa: S102 - the page's own code
    removals: list[Callable[[], None]] = []
    plugin["register_environment"](lambda name, factory: removals.append(register_environment(name, factory)))
    return removals


@pytest.fixture(params=[pytest.param(name, marks=pytest.mark.xdist_group(name)) for name in BACKENDS])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    """Return the backend's name and the options that open it, in a folder that both sides can write to."""
    (tmp_path / "work").mkdir()
    kind, given = "local" if request.param == "bubblewrap" else request.param, BACKENDS[request.param]
    if kind == "docker":
        given = request.getfixturevalue("engine").options
    if kind == "ssh":
        given = request.getfixturevalue("root_sshd").options
    return kind, {"cwd": str(tmp_path / "work"), **given}


@pytest.fixture
def opened(backend: tuple[str, dict[str, Any]]) -> Iterator[Callable[..., Environment]]:
    """Return a function that opens the backend."""
    made: list[Environment] = []
    kind, given = backend
    removals = register_documented() if kind == DOCUMENTED else []

    def opened(**options: Any) -> Environment:
        made.append(open_environment(kind, **{**given, **options}))
        return made[-1]

    yield opened
    for environment in made:
        asyncio.run(environment.close())
    for remove in removals:
        remove()


@pytest.fixture
def env(opened: Callable[..., Environment]) -> Environment:
    return opened()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path.resolve() / "work"


@pytest.fixture
def run(env: Environment) -> Callable[..., ExecOutcome]:
    """Return a function that runs one command in its own event loop. A safety limit ends a command that should have ended by
    itself.
    """

    def run(command: str, **options: Any) -> ExecOutcome:
        return asyncio.run(env.execute(ExecRequest(command, **{"timeout": 120.0, **options})))

    return run


@pytest.fixture
def says(run: Callable[..., ExecOutcome]) -> Callable[..., str]:
    """Return a function that returns the output of a command that must succeed."""

    def says(command: str, **options: Any) -> str:
        outcome = run(command, **options)
        assert (outcome.exit_code, outcome.ended, outcome.stderr.head) == (0, "exited", b""), outcome
        return outcome.stdout.head.decode()

    return says


class Sleeper:
    """Processes that are recognised by the number of seconds they sleep."""

    def __init__(self) -> None:
        self.seconds = f"300.{secrets.randbelow(10**12):012}"
        self.command = f"sleep {self.seconds}"

    def count(self) -> int:
        found = 0
        for each in Path("/proc").iterdir():
            if each.name.isdigit():
                try:
                    found += each.joinpath("cmdline").read_bytes() == f"sleep\0{self.seconds}\0".encode()
                except OSError:  # it ended in the meantime
                    continue
        return found


@pytest.fixture
def sleeper() -> Sleeper:
    return Sleeper()


@pytest.fixture
def eventually() -> Callable[[Callable[[], object]], None]:
    """Return a function that waits until a condition is true, and fails after a generous time."""

    def eventually(condition: Callable[[], object]) -> None:
        give_up = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < give_up, "it did not come true"
            time.sleep(0.01)

    return eventually
