"""Servers of the official SDK, in both eras of the protocol and over each transport."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib
from tests.agent.mcp.conftest import Asked, configure, lock

SERVER = str(Path(__file__).with_name("sdk_server.py"))
UPSERT = "kom.memory.v1.upsert_memory"


@pytest.fixture
def port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def served(port: int) -> Iterator[Callable[[str], None]]:
    """Return a function that starts a server on the port."""
    running: list[subprocess.Popen[bytes]] = []

    def start(transport: str) -> None:
        running.append(subprocess.Popen([sys.executable, SERVER, transport, str(port)], stderr=subprocess.DEVNULL))
        give_up = time.monotonic() + 60
        while time.monotonic() < give_up:
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.05)
        raise AssertionError("the server does not listen")

    yield start
    for one in running:
        one.kill()
        one.wait()


@pytest.mark.parametrize("protocol", ["legacy", "auto"])
def test_over_its_standard_streams(protocol: str, opened: Callable[[], Crib], asked: Asked) -> None:
    """001-17: a tool keeps the server's name."""
    configure({"memory": {"command": [sys.executable, SERVER], "protocol": protocol}})
    lock("memory")
    session = opened().open_session(platform="api", asker=asked, enabled=["mcp-memory"])
    executed = session.call(UPSERT, {"namespace": "project:metal", "items": [1]})
    assert executed.result.data == {"upserted": 1}
    assert session.call("slow", {"seconds": 0.1}).result.data == "done"
    listed = session.call("memory.list_resources", {}).result.data
    assert [one["uri"] for one in listed["resources"]] == ["memory://all"]
    assert [one["uriTemplate"] for one in listed["templates"]] == ["note://{name}"]
    assert session.call("memory.read_resource", {"uri": "note://a"}).result.data == "[note://a]\nthe note a"
    assert [one["name"] for one in session.call("memory.list_prompts", {}).result.data["prompts"]] == ["review"]
    prompt = session.call("memory.get_prompt", {"name": "review", "arguments": {"code": "x = 1"}}).result.data
    assert prompt == "user:\nReview this: x = 1"
    if protocol == "legacy":
        asked.replies = ["2", "yes"]
        assert session.call("book", {}).result.data == "accept people=2 window=True"


@pytest.mark.parametrize(
    ("transport", "path", "protocol"), [("http", "mcp", "auto"), ("http", "mcp", "legacy"), ("sse", "sse", "legacy")]
)
def test_over_http(
    transport: str, path: str, protocol: str, port: int, served: Any, opened: Callable[[], Crib], asked: Asked
) -> None:
    served(transport)
    configure({"memory": {"url": f"http://127.0.0.1:{port}/{path}", "transport": transport, "protocol": protocol}})
    lock("memory")
    session = opened().open_session(platform="api", asker=asked, enabled=["mcp-memory"])
    assert session.call(UPSERT, {"namespace": "project:metal", "items": [1, 2]}).result.data == {"upserted": 2}
    assert session.call("slow", {"seconds": 0.1}).result.data == "done"
