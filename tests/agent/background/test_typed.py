"""The record of a user's typing in a terminal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from agent.background.attached import LocalAttached
from agent.background.typed import TYPED
from toolcrib.contract.terminal import TerminalSize
from tools.dispatch.scope import CallScope
from tools.redact import Redactor

SECRET = "sk-typed-by-a-user-0123456789"
SIZE = TerminalSize(100, 30)


async def recorded(scope: CallScope) -> list[str | None]:
    kept = (await scope.states.of("session", scope.identity.session_id))[TYPED.name].value
    return [one.get("line") for one in kept]


async def type_into(scope: CallScope, folder: str, lines: list[str]) -> list[str | None]:
    """Return what is recorded of these lines."""
    await scope.processes.start("tty", "cat >/dev/null", folder, size=SIZE)
    attached = LocalAttached(scope, "tty")
    for line in lines:
        await attached.type(f"{line}\r".encode(), SIZE)
    await attached.close()
    return await recorded(scope)


def test_the_last_lines_are_kept_without_controls_and_secrets(session: Any, tmp_path: Path) -> None:
    """003-30"""
    scope = session(redactor=Redactor.of({"OPENAI_API_KEY": SECRET}))

    async def run() -> list[str | None]:
        lines = [f"{number} {'x' * 1_900}" for number in range(20)]
        return await type_into(scope, str(tmp_path), [*lines, f"login {SECRET}", "\x1b[Aa\x7fb"])

    kept = asyncio.run(run())
    assert kept[-1] is None, "keys that edit are not on the screen as they were pressed"
    assert kept[-2] is not None
    assert kept[-2].startswith("login ")
    assert SECRET not in kept[-2]
    assert [(line or "").split()[0] for line in kept[:-2]] == [str(number) for number in range(4, 20)]
    assert sum(len(line or "") for line in kept) <= 32_768


@pytest.mark.parametrize("typed", [b"hunter2", b"hunter2" * 400], ids=["short", "long"])
def test_an_unfinished_line_that_the_program_hides_is_not_recorded(scope: CallScope, tmp_path: Path, typed: bytes) -> None:
    """003-30: a program that draws its own prompt for a password turns off line input, too."""

    async def run() -> list[str | None]:
        await scope.processes.start("tty", "stty raw -echo; echo ready; cat >/dev/null", str(tmp_path), size=SIZE)
        attached = LocalAttached(scope, "tty")
        while (view := await attached.next()) is not None and view.rows[0] != "ready":
            pass
        await attached.type(typed, SIZE)
        await attached.close()
        return await recorded(scope)

    assert set(asyncio.run(run())) == {None}


def test_a_paste_reaches_the_program_at_once_and_is_recorded_as_hidden(scope: CallScope, tmp_path: Path) -> None:
    """003-30: it may hold anything, and comparing each of its lines with the screen would take minutes."""
    text = "".join(f"line {number}\r" for number in range(3_000))

    async def run() -> list[str | None]:
        await scope.processes.start("tty", "cat >all; sleep 100", str(tmp_path), size=SIZE)
        attached = LocalAttached(scope, "tty")
        await attached.type(text.encode(), SIZE)
        await attached.type(b"the last\r", SIZE)
        await attached.type(b"\x04", SIZE)
        await attached.close()
        return await recorded(scope)

    assert asyncio.run(run())[0] is None
    assert (tmp_path / "all").read_text() == text.replace("\r", "\n") + "the last\n"
