"""Images in a session: recorded, passed to the model that continues, and part of a run's result (004-21)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent, Crib, RunResult, assemble
from agent.conversation.state import RunState
from agent.events import Event, ImageMade, TurnFinished
from agent.store.memory import MemoryStore
from agent.store.sqlite import SqliteStore
from toolcrib import (
    Image,
    ProviderTurn,
    StoreFailed,
    ToolCallContext,
    ToolcribError,
    ToolResult,
)
from toolcrib.contract.store import Store
from toolcrib.testing import ChatServer, ScriptedSession
from tools.dispatch.bridge import run_async

PNG = Image.of(b"\x89PNG\r\n\x1a\n first")
JPEG = Image.of(b"\xff\xd8\xff second")


def part(image: Image) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:{image.media_type};base64,{image.base64}"}}


@pytest.fixture
def crib(tmp_path: Path) -> Iterator[Crib]:
    with assemble(project_dir=tmp_path) as made:
        take_back = made.registry.checkpoint()
        made.registry.register("plot", "terminal", {"description": "Draw."}, plot)
        yield made
        take_back()


def plot(args: Any, ctx: ToolCallContext) -> ToolResult:
    return ToolResult.success_with_images(ctx.tool_name, "a plot", [JPEG])


def run(crib: Crib, model: ScriptedSession, events: list[Event]) -> tuple[RunResult, list[Any]]:
    async def go() -> tuple[RunResult, list[Any]]:
        session = await crib.open()
        session.scope.granted = None
        session.link.use(model)
        try:
            return await session.ask("draw", [PNG], emit=events.append), list(await session.records())
        finally:
            await session.close()

    return asyncio.run(go())


def test_004_21_a_run_keeps_its_images(crib: Crib) -> None:
    events: list[Event] = []
    drawn = ProviderTurn("Here.", images=(PNG, JPEG))
    model = ScriptedSession([("plot", {})], drawn)
    result, records = run(crib, model, events)
    assert (result.text, result.images) == ("Here.", (PNG, JPEG))
    assert [record.get("images") for record in records] == [
        [PNG.to_json()],
        None,
        None,
        [PNG.to_json(), JPEG.to_json()],
    ]
    (told,) = records[2]["results"]
    assert (told["text"], told["images"]) == ('"a plot"', [JPEG.to_json()])
    assert model.results[0][0].result.images == (JPEG,)
    first, second, finished = events[-3:]
    assert isinstance(first, ImageMade)
    assert first.id.endswith("-assistant")
    assert [first, second] == [ImageMade(PNG, first.id), ImageMade(JPEG, first.id)]
    assert finished == TurnFinished(2, "Here.", 0)


def test_004_21_an_agent_is_asked_about_images_and_another_wire_goes_on(tmp_path: Path) -> None:
    """First chat, with the tool's images after its result; then Anthropic, from the records."""
    claude = ChatServer.body({"model": "m2", "content": [{"type": "text", "text": "Two."}], "stop_reason": "end_turn"})
    with ChatServer(ChatServer.calls(("plot", {}), ids=["c1"]), ChatServer.text("A plot."), claude) as server:
        with Agent(model="m", base_url=server.base_url, project_dir=tmp_path) as agent:
            take_back = agent.crib.registry.checkpoint()
            agent.crib.registry.register("plot", "terminal", {"description": "Draw."}, plot)
            agent.session.scope.granted = None
            assert agent.ask("what is it?", images=[PNG]).text == "A plot."
            take_back()
            resume = agent.session.identity.session_id
        options: dict[str, Any] = {"model": "m2", "provider": "anthropic", "resume": resume}
        with Agent(base_url=server.base_url, project_dir=tmp_path, **options) as agent:
            assert agent.ask("how many?").text == "Two."
        first, second, third = (request["messages"] for request in server.requests)
    asked = {"role": "user", "content": [{"type": "text", "text": "what is it?"}, part(PNG)]}
    assert first[-1] == asked
    assert second[-1] == {"role": "user", "content": [{"type": "text", "text": "images from plot:"}, part(JPEG)]}
    kinds = [[block["type"] for block in message["content"]] for message in third]
    assert kinds == [["image", "text"], ["tool_use"], ["tool_result"], ["text"], ["text"]]
    (result,) = third[2]["content"]
    assert [block["type"] for block in result["content"]] == ["image", "text"]
    assert result["content"][0]["source"]["data"] == JPEG.base64


def test_a_schema_and_images_go_together(tmp_path: Path) -> None:
    with (
        ChatServer(ChatServer.text('{"dots": 3}')) as server,
        Agent(model="m", base_url=server.base_url, project_dir=tmp_path) as agent,
    ):
        assert agent.ask("count", images=(PNG,), schema={"type": "object"}).data == {"dots": 3}
        assert server.requests[0]["messages"][-1]["content"][-1] == part(PNG)


def test_nobody_looks_where_a_person_types_the_calls(tmp_path: Path) -> None:
    with Agent(provider="manual", project_dir=tmp_path) as agent, pytest.raises(ToolcribError, match="no model is connected"):
        agent.ask("look", images=[PNG])


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_the_ledger_keeps_a_result_s_images(tmp_path: Path, kind: str) -> None:
    """A session whose process died between a call and its record resumes with the images."""
    store: Store = MemoryStore() if kind == "memory" else SqliteStore(tmp_path / "kept.db")
    with assemble(project_dir=tmp_path, store=store) as crib:
        took_back = crib.registry.checkpoint()
        crib.registry.register("plot", "terminal", {"description": "Draw."}, plot)
        broken = run_async(broken_off(crib))
        took_back()
        session = crib.open_session(resume=broken)
        session.link.use(ScriptedSession("Here."))
        run_async(session.ask("go on"))
        records = run_async(session.records())
        assert [record["role"] for record in records] == ["user", "assistant", "results", "user", "assistant"]
        (told,) = records[2]["results"]
        assert told["images"] == [JPEG.to_json()]
        session.close_sync()


async def broken_off(crib: Crib) -> str:
    """Return the id of a session whose disk became full when the results of its turn were recorded."""
    session = await crib.open()
    session.scope.granted = None
    session.link.use(ScriptedSession([("plot", {})]))
    keep = session.keep

    async def full(state: RunState, messages: Any = (), taken: Any = ()) -> RunState:
        if messages and messages[0]["role"] == "results":
            raise StoreFailed("the disk is full")
        return await keep(state, messages, taken)

    session.keep = full  # type: ignore[method-assign]  # the one write that fails
    with pytest.raises(StoreFailed):
        await session.ask("draw")
    await session.close()
    return session.id
