"""A command of the user's own: it runs unasked in the session's shell, except commands that no user may run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.api import assemble
from agent.conversation.own_command import run_own
from agent.store.memory import MemoryStore
from toolcrib import Denied, ExecOutcome


async def outcome_of(folder: Path, *commands: str, mode: str = "", enabled: list[str] | None = None) -> list[ExecOutcome]:
    async with assemble(project_dir=folder, store=MemoryStore()) as crib:
        session = await crib.open(platform="cli", asker=None, mode=mode, enabled=enabled)
        try:
            return [await run_own(session, command, lambda stream, data: None) for command in commands]
        finally:
            await session.close()


def test_nobody_is_asked_about_a_command_of_the_person_s(tmp_path: Path) -> None:
    """No approver is connected, and in this mode a model's command would be refused."""
    (tmp_path / "build").mkdir()
    outcomes = asyncio.run(
        outcome_of(tmp_path, "rm -rf build; X=kept", 'echo "$X"; exit_code() { return 3; }; exit_code', mode="plan")
    )
    assert not (tmp_path / "build").exists()
    assert [(one.exit_code, one.stdout.head) for one in outcomes] == [(0, b""), (3, b"kept\n")]


@pytest.mark.parametrize("enabled", [None, ["file"]])
def test_what_nobody_may_run_is_refused(tmp_path: Path, enabled: list[str] | None) -> None:
    """A session whose model has no terminal judges the command too."""
    with pytest.raises(Denied, match="deletes folders with all their contents: a system root"):
        asyncio.run(outcome_of(tmp_path, "rm -rf --no-preserve-root /", enabled=enabled))
    with pytest.raises(Denied, match="self"):
        asyncio.run(outcome_of(tmp_path, "echo x > ~/.config/toolcrib/config.yaml", enabled=enabled))


def test_what_an_operator_denies_is_refused(tmp_path: Path, config: Callable[[str], Path]) -> None:
    config("approval: {tools: [{tool: terminal, args: {command: '*secret*'}, decision: deny, why: not from here}]}\n")
    with pytest.raises(Denied, match="a rule of the operator denies the command: not from here"):
        asyncio.run(outcome_of(tmp_path, "cat secret"))


def test_an_interrupt_ends_it(tmp_path: Path) -> None:
    async def interrupted() -> None:
        async with assemble(project_dir=tmp_path, store=MemoryStore()) as crib:
            session = await crib.open(platform="cli", asker=None)
            running = asyncio.create_task(run_own(session, "touch begun; sleep 300; touch ended", lambda stream, data: None))
            while not (tmp_path / "begun").exists():
                await asyncio.sleep(0.01)
            session.interrupt()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert (await run_own(session, "echo again", lambda stream, data: None)).stdout.head == b"again\n"
            assert not (tmp_path / "ended").exists()
            await session.close()

    asyncio.run(interrupted())
