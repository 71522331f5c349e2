"""Real ssh servers, one shared by the whole run and others made to order; always stopped, and nothing of them left."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tools.environments.remote.channel import Channel, ChannelEnded
from tools.environments.ssh.link import SshLink
from tools.environments.ssh.target import Wish

_SCRIPT = Path(__file__).parents[3] / "infra" / "sshd.py"
_LIMIT = 60.0


class Sshd:
    """A server as tests/infra/sshd.py runs it."""

    def __init__(self, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(_SCRIPT), *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        word, _, rest = self._answer().partition(" ")
        if word != "ready":
            self.close()
            if word == "missing" and (os.geteuid() != 0 or not Path("/etc/debian_version").exists()):
                pytest.skip(f"no ssh server can run here: {rest}")
            pytest.fail(f"the ssh server did not start: {rest or word}")
        folder, self.host, port, self.user = rest.split()
        self.folder, self.port = Path(folder), int(port)

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def tell(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        assert self._answer() == "ok"

    def wish(self, **options: object) -> Wish:
        given = {
            "host": self.host,
            "port": self.port,
            "user": self.user,
            "identity_file": str(self.folder / "id"),
            "known_hosts": str(self.folder / "known_hosts"),
        }
        return Wish(**{**given, **options})

    def pids(self, command: str = "") -> list[int]:
        """The account's living processes whose command line begins like this."""
        uid = (self.folder / "home").stat().st_uid
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError, IndexError):
                line = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                alive = (folder / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
                if alive and folder.stat().st_uid == uid and line.startswith(command):
                    found.append(int(folder.name))
        return found

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.wait(_LIMIT)
        self._process.stdout.close()


@pytest.fixture(scope="session")
def sshd() -> Iterator[Sshd]:
    server = Sshd()
    yield server
    server.close()


@pytest.fixture
def start_sshd() -> Iterator[Callable[..., Sshd]]:
    with contextlib.ExitStack() as stack:

        def start(*options: str) -> Sshd:
            server = Sshd(*options)
            stack.callback(server.close)
            return server

        yield start


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of our own, with nothing of the person's in it, and no agent."""
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return home


@pytest.fixture
def open_link(sshd: Sshd) -> Iterator[Callable[..., SshLink]]:
    with contextlib.ExitStack() as stack:

        def make(wish: Wish | None = None, **options: object) -> SshLink:
            link = SshLink(wish or sshd.wish(**options))
            stack.callback(link.close)
            return link

        yield make


@pytest.fixture
def finish() -> Callable[..., tuple[bytes, bytes, int | None]]:
    """Feeds a channel and reads it to its end: (stdout, stderr, exit code). Raises ChannelBroken."""

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
def free_port() -> int:
    """Where nobody listens."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@pytest.fixture
def chatter() -> Iterator[Callable[[bytes], int]]:
    """A server on loopback that says something and hangs up; its port."""
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
