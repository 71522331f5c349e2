"""A user's connection to a terminal, in the process of its session and from another one (003-30)."""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import Any

import pytest

from agent.background.attach_socket import offer
from agent.background.attached import YOU, LocalAttached
from agent.background.remote_attached import RemoteAttached, attach
from agent.config import state_dir
from toolcrib.contract.errors import ToolcribError
from toolcrib.contract.terminal import TerminalSize
from tools.dispatch.scope import CallScope

SIZE = TerminalSize(60, 8)
Attached = LocalAttached | RemoteAttached


async def here(scope: CallScope) -> Attached:
    return LocalAttached(scope, "tty")


async def from_elsewhere(scope: CallScope) -> Attached:
    return await attach(offer(scope, "tty"))


@pytest.mark.parametrize("connect", [here, from_elsewhere])
def test_the_last_view_has_all_that_the_program_printed(scope: CallScope, tmp_path: Path, connect: Any) -> None:
    async def run() -> tuple[str, str]:
        await scope.processes.start("tty", "until [ -e go ]; do sleep 0.01; done; echo why it ended", str(tmp_path), size=SIZE)
        attached = await connect(scope)
        last = await attached.next()
        (tmp_path / "go").touch()
        async with asyncio.timeout(60):
            while (view := await attached.next()) is not None:
                last = view
        await attached.close()
        assert last is not None
        return last.rows[0], attached.end

    assert asyncio.run(run()) == ("why it ended", "has ended with exit code 0")


def test_a_terminal_that_ends_before_the_user_connects_is_shown(scope: CallScope, tmp_path: Path) -> None:
    async def run() -> str:
        await scope.processes.start("tty", "exec cat", str(tmp_path), size=SIZE)
        path = offer(scope, "tty")
        await scope.processes.end("tty")
        await scope.processes.remove("tty")
        attached = await attach(path)
        while await attached.next() is not None:
            pass
        await attached.close()
        return attached.end

    assert asyncio.run(run()) == "has ended with exit code 129"


def test_an_unknown_name_opens_no_environment(scope: CallScope) -> None:
    """It may be a container that has to be started."""
    for connect in (LocalAttached, offer):
        with pytest.raises(ToolcribError, match="nothing"):
            connect(scope, "nothing")
    assert scope.opened is None


def test_an_offer_that_fails_leaves_no_descriptor_open(scope: CallScope, tmp_path: Path) -> None:
    async def run() -> None:
        await scope.processes.start("tty", "exec cat", str(tmp_path), size=SIZE)
        folder = state_dir() / "terminal-sockets"
        folder.mkdir(parents=True)
        folder.chmod(0o755)
        before = len(list(Path("/proc/self/fd").iterdir()))
        with pytest.raises(ToolcribError, match="must be private to this account") as caught:
            offer(scope, "tty")
        assert len(list(Path("/proc/self/fd").iterdir())) == before, caught

    asyncio.run(run())


def test_a_window_closes_if_the_session_s_process_reads_nothing() -> None:
    """As after SIGSTOP: what the user pasted stays in the window's own buffer."""

    async def run() -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            attached = RemoteAttached(*await asyncio.open_unix_connection(sock=ours))
            await attached.type(b"x" * (4 << 20), SIZE)
            async with asyncio.timeout(60):
                await attached.close()

    asyncio.run(run())


def test_a_window_that_is_killed_within_a_message_gives_the_terminal_back(
    scope: CallScope, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        await scope.processes.start("tty", "exec cat", str(tmp_path), size=SIZE)
        attached = await attach(offer(scope, "tty"))
        await attached.type(b"x", SIZE)
        async with asyncio.timeout(60):
            while (view := await attached.next()) is not None and view.typist != YOU:
                pass
            attached._writer.write(b'{"window": [60, 8], "ty')
            await attached.close()
            terminal = scope.processes.terminals.get("tty")
            while terminal is not None and terminal.is_held:
                await asyncio.sleep(0.01)

    asyncio.run(run())
    assert caplog.records == []
