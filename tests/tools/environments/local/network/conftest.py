"""Servers on this machine's loopback, and network namespaces whose only exit is a guard."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tools.environments.local.network import NetworkGuard

NAMESPACE = ["unshare", "-Urnpf", "--kill-child", "--mount-proc"]
ATTACHED = 'until (exec 3<>/dev/tcp/127.0.0.1/3128) 2>/dev/null; do sleep 0.02; done; exec bash -c "$SCRIPT"'


class Sandbox:
    """A guard, and commands that run in new namespaces attached to it."""

    def __init__(self, guard: NetworkGuard, said: list[str]) -> None:
        self.guard, self.said = guard, said

    def start(self, script: str, **variables: str) -> subprocess.Popen[str]:
        """Start a bash script in new namespaces, after the guard has joined them."""
        argv = [*NAMESPACE, "bash", "-c", ATTACHED]
        environment = {**os.environ, **self.guard.environment(), **variables, "SCRIPT": script, "GIT_CONFIG_NOSYSTEM": "1"}
        process = subprocess.Popen(
            argv, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not (first := children.read_text().split()):  # until the namespaces exist
            assert process.poll() is None
            time.sleep(0.005)
        self.guard.join(int(first[0]))
        return process

    def run(self, script: str, **variables: str) -> str:
        """Return a script's output."""
        with self.start(script, **variables) as process:
            return process.communicate(timeout=120)[0]


@pytest.fixture(scope="session")
def namespaces() -> None:
    if shutil.which("unshare") is None or subprocess.run([*NAMESPACE, "true"], check=False, capture_output=True).returncode != 0:
        pytest.skip("this account may make no network namespace")


@pytest.fixture
def sandbox(namespaces: None) -> Iterator[Callable[..., Sandbox]]:
    """Return a function that makes sandboxes with these rules."""
    with contextlib.ExitStack() as stack:

        def make(*allow: str, find: Callable[[], list[str]] | None = None) -> Sandbox:
            said: list[str] = []
            guard = NetworkGuard(allow, find)
            guard.said = said.append
            stack.callback(guard.close)
            return Sandbox(guard, said)

        yield make


class _Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class names it so
        pass

    def do_GET(self) -> None:
        self.server.seen.append((self.path, dict(self.headers)))  # type: ignore[attr-defined]  # set below
        super().do_GET()


@pytest.fixture
def website(tmp_path: Path) -> Iterator[ThreadingHTTPServer]:
    """A web server on loopback over the folder ``tmp_path/"site"``; ``seen`` has the paths and headers of its requests."""
    site = tmp_path / "site"
    site.mkdir()
    (site / "hello").write_text("hello from outside\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), lambda *args: _Handler(*args, directory=str(site)))
    server.seen = []  # type: ignore[attr-defined]  # for the tests
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()
