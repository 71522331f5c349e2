"""Stores on the tests' own server, and other processes that use them."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent.store.postgres.store import PostgresStore

Open = Callable[..., PostgresStore]
HEAD = """
import asyncio, sys, threading
from agent.store._owner import new_owner
from agent.store.postgres.store import PostgresStore
from toolcrib import LeaseLost, StoreFailed, ToolCall
from toolcrib.contract.store import Fence, RunRecord
def wait():
    print("ready", flush=True)
    return sys.stdin.readline().strip()
async def main(store):
"""
MAIN = "\nasyncio.run(main(PostgresStore(sys.stdin.readline().strip())))\n"


@pytest.fixture
def url(postgres: Any) -> str:
    """The URL of an empty database."""
    made: str = postgres.new_database()
    return made


@pytest.fixture
def open_store() -> Iterator[Open]:
    """Return a function that opens a store any number of times; all are closed at the end."""
    made: list[PostgresStore] = []

    def make(url: str, **options: Any) -> PostgresStore:
        made.append(PostgresStore(url, **options))
        return made[-1]

    yield make
    for store in made:
        store.close()


class Other:
    """Another process, which runs ``code`` with its own ``store``."""

    def __init__(self, running: subprocess.Popen[str]) -> None:
        self.running = running

    def line(self) -> str:
        assert self.running.stdout is not None
        return self.running.stdout.readline().strip()

    def send_line(self, line: str = "") -> None:
        assert self.running.stdin is not None
        self.running.stdin.write(f"{line}\n")
        self.running.stdin.flush()

    def read_to_end(self) -> str:
        """Return the rest of its output."""
        assert self.running.stdout is not None
        return self.running.stdout.read()


@pytest.fixture
def process(root: Path) -> Callable[[str, str], AbstractContextManager[Other]]:
    """Return a function that starts another process with a URL and its code; at the end it is killed if it still runs."""

    @contextmanager
    def start(url: str, code: str) -> Iterator[Other]:
        whole = HEAD + textwrap.indent(textwrap.dedent(code), "    ") + MAIN
        with subprocess.Popen(
            [sys.executable, "-c", whole], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as running:
            other = Other(running)
            try:
                other.send_line(url)
                yield other
            finally:
                running.kill()

    return start
