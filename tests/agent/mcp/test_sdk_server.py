"""Servers of the official SDK, in both eras of the protocol and over each transport."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Crib
from agent.model_choice.models import ModelChoice
from tests.agent.mcp.conftest import Asked, configure, lock
from toolcrib.contract.types import ToolCall
from toolcrib.testing import ChatServer

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


@pytest.mark.parametrize("protocol", ["legacy", "auto"])
async def test_its_questions_reach_the_user_and_the_model(protocol: str, opened: Callable[[], Crib], asked: Asked) -> None:
    """In both eras: a request while the call runs, and a result that asks for a new call with the answers."""
    configure({"memory": {"command": [sys.executable, SERVER], "protocol": protocol}})
    await asyncio.to_thread(lock, "memory")
    asked.replies = ["2", "yes", "yes"]
    with ChatServer(
        ChatServer.calls(("reserve", {"name": "Ada"})),
        ChatServer.calls(("paint", {})),
        ChatServer.text("red"),
        ChatServer.text("done"),
    ) as model:
        choice = ModelChoice("test-model", model.base_url)
        session = await opened().open(platform="api", asker=asked, enabled=["mcp-memory"], choice=choice)
        assert (await session.ask("go")).text == "done"
        await session.close()
        results = [one["content"] for one in model.requests[-1]["messages"] if one["role"] == "tool"]
    assert "Ada: 2 True" in results[0]
    assert "painted: red" in results[1]


async def test_a_question_reaches_the_session_of_its_call(opened: Callable[[], Crib]) -> None:
    """Since 2026, a question names its call."""
    configure({"memory": {"command": [sys.executable, SERVER]}})
    await asyncio.to_thread(lock, "memory")
    crib, first, second = opened(), Asked(), Asked()
    one, two = [await crib.open(platform="api", asker=asker, enabled=["mcp-memory"]) for asker in (first, second)]
    second.replies = ["2", "yes"]
    slow = asyncio.create_task(one.acall(ToolCall("c1", "slow", {"seconds": 60})))
    while not first.tickets:
        await asyncio.sleep(0.02)
    await asyncio.sleep(0.3)
    assert (await two.acall(ToolCall("c2", "reserve", {"name": "Ada"}))).result.data == "Ada: 2 True"
    assert len(first.tickets) == 1
    slow.cancel()
    await asyncio.wait([slow])
    await one.close()
    await two.close()


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
