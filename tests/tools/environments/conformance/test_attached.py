"""A user at a terminal, on every backend (003-30)."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path
from typing import Any

import pytest

from agent.background.attached import NO_ONE, YOU, LocalAttached
from agent.background.typed import TYPED
from tests.tools.environments.conformance.conftest import DOCUMENTED
from toolcrib import Environment, RunIdentity
from toolcrib.contract.terminal import TerminalSize
from tools.dispatch.scope import CallScope
from tools.terminals.terminal import TerminalView

COMMAND = "read -s -p 'Password: ' it; echo; stty size; echo ${#it}; exec cat"


async def until(attached: LocalAttached, text: str) -> TerminalView:
    """Return the first view with a row that begins with the text."""
    async with asyncio.timeout(60):
        while (view := await attached.next()) is not None:
            if any(row.startswith(text) for row in view.rows):
                return view
    raise AssertionError("it ended")


async def attend(scope: CallScope, folder: str) -> None:
    process = await scope.processes.start("tty", COMMAND, folder, size=TerminalSize(100, 30))
    attached, window = LocalAttached(scope, process.name), TerminalSize(70, 20)
    assert (await until(attached, "Password:")).typist == NO_ONE
    for key in b"hunter2\r":
        await attached.type(bytes([key]), window)
    view = await until(attached, "7")
    assert (view.typist, view.columns, len(view.rows), view.rows[:2]) == (YOU, 70, 20, ("Password:", "20 70"))
    await attached.type("sichtbar äöü\r".encode(), window)
    await until(attached, "sichtbar äöü")
    await attached.type(b"\x04", window)
    while await attached.next() is not None:
        pass
    assert attached.end == "has ended with exit code 0"
    await attached.close()
    kept = (await scope.states.of("session", scope.identity.session_id))[TYPED.name].value
    assert [one.get("line") for one in kept] == [None, "sichtbar äöü", "^D"]
    assert [one.get("hidden") for one in kept] == [True, None, None]


def test_a_user_types_a_password_and_a_line(env: Environment, backend: tuple[str, dict[str, Any]], folder: Path) -> None:
    """003-30"""
    if backend[0] == DOCUMENTED:
        pytest.skip("this backend opens no terminals")
    scope = CallScope(identity=RunIdentity(f"s-{secrets.token_hex(6)}", user=secrets.token_hex(6)), open_environment=lambda: env)

    async def run() -> None:
        try:
            await attend(scope, str(folder))
        finally:
            await scope.close()

    asyncio.run(run())
