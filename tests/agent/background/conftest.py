"""Sessions whose background processes a user looks after."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import RunIdentity
from tools.dispatch.scope import CallScope
from tools.environments import open_environment


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Callable[..., CallScope]]:
    """Return a function that opens a session on this machine."""
    made: list[CallScope] = []

    def session(**options: Any) -> CallScope:
        identity = RunIdentity(f"s-{secrets.token_hex(6)}", user=secrets.token_hex(6))
        made.append(
            CallScope(identity=identity, open_environment=lambda: open_environment("local", cwd=str(tmp_path)), **options)
        )
        return made[-1]

    yield session
    for scope in made:
        asyncio.run(scope.close())


@pytest.fixture
def scope(session: Callable[..., CallScope]) -> CallScope:
    return session()
