"""MCP servers that are configured and locked, in a Crib."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib, assemble
from agent.config import load_config
from agent.mcp.asking import ACTION
from agent.mcp.lock import lock_path, read_lock, write_server
from agent.mcp.locking import look, proposal
from agent.policy.confirmation import confirm
from toolcrib.contract.context import ToolCallContext
from toolcrib.contract.types import Answer, SuspendTicket

RAW = Path(__file__).with_name("raw_server.py")


class Asked:
    """An approver. It approves calls for the session, and answers questions with ``replies``, in order."""

    def __init__(self) -> None:
        self.tickets: list[SuspendTicket] = []
        self.replies: list[Any] = []

    def __call__(self, ticket: SuspendTicket, ctx: ToolCallContext) -> Answer:
        self.tickets.append(ticket)
        payload = self.replies.pop(0) if ticket.action == ACTION else {"approved": True, "scope": "session"}
        return Answer(ticket.id, payload=payload)


def configure(servers: dict[str, Any], **more: Any) -> Path:
    """Write the user's confirmed configuration, with the sandbox off, and return its path."""
    path = load_config().path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"sandbox": {"mode": "none"}, "mcp": {"servers": servers}, **more}))
    path.chmod(0o600)
    confirm(load_config())
    return path


def lock(name: str, without: Sequence[str] = ()) -> None:
    """Start a server, and lock the tools that it offers."""
    config = load_config()
    path = lock_path(config.path)
    with assemble(config=config) as crib:
        listed = asyncio.run(look(crib.default, name))
    taken = frozenset(crib.registry.names()) | read_lock(path).offered(name)
    write_server(path, name, proposal(config, read_lock(path), name, listed, taken).server)


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def raw(tmp_path: Path) -> dict[str, Any]:
    """Return the configuration of a server that misbehaves; ``tmp_path / "raw"`` is its folder."""
    (tmp_path / "raw").mkdir()
    return {"command": [sys.executable, "-S", str(RAW), str(tmp_path / "raw")], "protocol": "legacy"}


@pytest.fixture
def opened() -> Iterator[Callable[[], Crib]]:
    """Return a function that opens a Crib with the user's configuration, which is closed at the end."""
    with ExitStack() as stack:
        yield lambda: stack.enter_context(assemble(config=load_config()))
