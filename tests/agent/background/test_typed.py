"""The record of a user's typing in a terminal."""

from __future__ import annotations

import asyncio
import secrets
from pathlib import Path

from agent.background.attached import LocalAttached
from agent.background.typed import TYPED
from toolcrib import RunIdentity
from toolcrib.contract.terminal import TerminalSize
from tools.dispatch.scope import CallScope
from tools.environments import open_environment
from tools.redact import Redactor

SECRET = "sk-typed-by-a-user-0123456789"


async def type_into(scope: CallScope, folder: str, lines: list[str]) -> list[str | None]:
    """Return what is recorded of these lines."""
    await scope.processes.start("tty", "cat >/dev/null", folder, size=TerminalSize(100, 30))
    attached = LocalAttached(scope, "tty")
    for line in lines:
        await attached.type(f"{line}\r".encode(), TerminalSize(100, 30))
    await attached.close()
    kept = (await scope.states.of("session", scope.identity.session_id))[TYPED.name].value
    return [one.get("line") for one in kept]


def test_the_last_lines_are_kept_without_controls_and_secrets(tmp_path: Path) -> None:
    """003-30"""
    scope = CallScope(
        identity=RunIdentity(f"s-{secrets.token_hex(6)}", user=secrets.token_hex(6)),
        open_environment=lambda: open_environment("local", cwd=str(tmp_path)),
        redactor=Redactor.of({"OPENAI_API_KEY": SECRET}),
    )

    async def run() -> list[str | None]:
        try:
            lines = [f"{number} {'x' * 1_900}" for number in range(20)]
            return await type_into(scope, str(tmp_path), [*lines, f"login {SECRET}", "\x1b[Aa\x7fb"])
        finally:
            await scope.close()

    kept = asyncio.run(run())
    assert kept[-1] is None, "keys that edit are not on the screen as they were pressed"
    assert kept[-2] is not None
    assert kept[-2].startswith("login ")
    assert SECRET not in kept[-2]
    assert [(line or "").split()[0] for line in kept[:-2]] == [str(number) for number in range(4, 20)]
    assert sum(len(line or "") for line in kept) <= 32_768
