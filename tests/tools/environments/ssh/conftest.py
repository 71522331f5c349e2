"""Links to the servers, and shortcuts to use them."""

from __future__ import annotations

import asyncio
import contextlib
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from toolcrib import Environment
from tools.environments import open_environment
from tools.environments.remote.channel import Channel, ChannelEnded
from tools.environments.ssh.link import SshLink
from tools.environments.ssh.target import Wish

_LIMIT = 60.0


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home without the user's files, and without an agent."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return home


@pytest.fixture
def open_link(sshd: Any) -> Iterator[Callable[..., SshLink]]:
    with contextlib.ExitStack() as stack:

        def make(wish: Wish | None = None, **options: object) -> SshLink:
            link = SshLink(wish or sshd.wish(**options))
            stack.callback(link.close)
            return link

        yield make


@pytest.fixture
def opened() -> Iterator[Callable[..., Environment]]:
    """Return a function that opens environments on servers."""
    made: list[Environment] = []

    def opened(server: Any, **options: object) -> Environment:
        made.append(open_environment("ssh", **{**server.options, **options}))
        return made[-1]

    yield opened
    for environment in made:
        asyncio.run(environment.close())


@pytest.fixture
def finish() -> Callable[..., tuple[bytes, bytes, int | None]]:
    """Return a function that feeds a channel and reads it to its end: (stdout, stderr, exit code). Raises ChannelBroken."""

    def finish(channel: Channel, data: bytes = b"") -> tuple[bytes, bytes, int | None]:
        said = {"stdout": bytearray(), "stderr": bytearray()}
        give_up = time.monotonic() + _LIMIT
        try:
            while time.monotonic() < give_up:
                if data:
                    data = data[channel.write(data) :]
                    if not data:
                        channel.close_input()
                found = channel.read()
                if found is not None:
                    said[found[0]] += found[1]
                else:
                    select.select([channel], [], [], 0.005 if data else 1.0)
        except ChannelEnded as end:
            return bytes(said["stdout"]), bytes(said["stderr"]), end.code
        finally:
            channel.close()
        raise AssertionError("it did not end")

    return finish


@pytest.fixture
def free_port() -> Iterator[int]:
    """A port without a listener that no other process can use: we have bound it."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        yield int(sock.getsockname()[1])


@pytest.fixture
def chatter() -> Iterator[Callable[[bytes], int]]:
    """Return a function that starts a server on loopback, which sends a text and hangs up; it returns the port."""
    with contextlib.ExitStack() as stack:

        def serve(text: bytes) -> int:
            sock = stack.enter_context(socket.create_server(("127.0.0.1", 0)))

            def run() -> None:
                with contextlib.suppress(OSError):
                    while True:
                        taken, _ = sock.accept()
                        taken.sendall(text)
                        taken.close()

            thread = threading.Thread(target=run, daemon=True)
            thread.start()
            stack.callback(thread.join)
            stack.callback(sock.shutdown, socket.SHUT_RDWR)
            return int(sock.getsockname()[1])

        yield serve
