"""Runs, turns and calls as spans and metrics, exported by OpenTelemetry's SDK to a receiver over HTTP."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from agent.api import assemble
from agent.config import load_config
from agent.process import Crib
from agent.store.memory import MemoryStore
from tests.plugins.otel.conftest import Receiver
from toolcrib import ConnectionFailed, ProviderTurn, ToolCall
from toolcrib.contract.session import OnEvent
from toolcrib.testing import ScriptedSession

SECRET = "sk-proj-4f9Q2mZ8xK1vT7wR3yB6nC5dH0jL"


@pytest.fixture
def crib(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, receiver: Receiver) -> Any:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("MY_API_KEY", SECRET)

    def opened(endpoint: str = receiver.url, **settings: str) -> Crib:
        given = ", ".join(f"{key}: '{value}'" for key, value in {"endpoint": endpoint, **settings}.items())
        file = tmp_path / "config.yaml"
        file.write_text(f"plugins: {{enabled: [otel], settings: {{otel: {{{given}}}}}}}\n")
        made = assemble(config=load_config(file), project_dir=tmp_path, store=MemoryStore())
        assert [one.error for one in made.plugins if one.name == "otel"] == [""]
        return made

    return opened


def turn(text: str = "", *calls: tuple[str, Any], **more: Any) -> ProviderTurn:
    made = tuple(ToolCall(f"c{number}", name, args) for number, (name, args) in enumerate(calls))
    return ProviderTurn(text, made, "x", {"input": 100, "output": 20, "cached": 60, "reasoning": 5}, "stop", "served-1", **more)


async def run(crib: Crib, *turns: Any) -> None:
    session = await crib.open()
    session.link.use(ScriptedSession(*turns))
    try:
        await session.ask("go")
    finally:
        await session.close()
        await crib.aclose()


async def test_a_run_is_a_tree_of_spans_with_parallel_calls_below_it(crib: Any, receiver: Receiver, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).write_text(f"{SECRET} words of {name}")
    calls = [("read_file", {"path": str(tmp_path / name)}) for name in ("a", "b", "missing")]
    await run(crib(), turn("let me see", *calls), turn("done"))
    [agent] = receiver.named("invoke_agent toolcrib")
    chats, tools = receiver.named("chat"), receiver.named("execute_tool read_file")
    assert {one["trace"] for one in receiver.spans} == {agent["trace"]}
    assert {one["parent"] for one in [*chats, *tools]} == {agent["id"]}
    assert not agent["parent"]
    assert (len(chats), len(tools)) == (2, 3)
    about = chats[0]["attributes"]
    assert about["gen_ai.operation.name"] == "chat"
    assert about["gen_ai.response.model"] == "served-1"
    assert about["gen_ai.response.finish_reasons"] == ["tool_calls"]
    assert (about["gen_ai.usage.input_tokens"], about["gen_ai.usage.output_tokens"]) == (100, 20)
    assert (about["gen_ai.usage.cache_read.input_tokens"], about["gen_ai.usage.reasoning.output_tokens"]) == (60, 5)
    failed = [one for one in tools if "error.type" in one["attributes"]]
    assert [(one["attributes"]["error.type"], one["status"]) for one in failed] == [("NotFound", 2)]
    assert agent["attributes"]["toolcrib.run.stopped"] == "done"
    assert receiver.resource["service.name"] == "toolcrib"
    for hidden in (SECRET, "words of", "let me see", str(tmp_path)):
        assert hidden.encode() not in receiver.raw


async def test_every_attribute_is_one_of_the_conventions(crib: Any, receiver: Receiver, tmp_path: Path) -> None:
    from opentelemetry.semconv._incubating.attributes import gen_ai_attributes as known

    await run(crib(content="true"), turn("", ("read_file", {"path": "x"})), turn("done"))
    names = {getattr(known, name) for name in dir(known) if name.startswith("GEN_AI_")}
    used = {key for one in receiver.spans for key in one["attributes"] if key.startswith("gen_ai.")}
    used |= {key for points in receiver.points.values() for one in points for key in one if key.startswith("gen_ai.")}
    assert len(used) > 12
    assert used <= names


async def test_tokens_and_durations_are_measured(crib: Any, receiver: Receiver) -> None:
    await run(crib(), turn("", ("read_file", {"path": "x"})), turn("done"))
    tokens = {one["gen_ai.token.type"]: (one["sum"], one["count"]) for one in receiver.points["gen_ai.client.token.usage"]}
    assert tokens == {"input": (200, 2), "output": (40, 2)}
    durations = receiver.points["gen_ai.client.operation.duration"]
    counts = {one["gen_ai.operation.name"]: one["count"] for one in durations}
    assert counts == {"invoke_agent": 1, "chat": 2, "execute_tool": 1}
    assert [one["error.type"] for one in durations if "error.type" in one] == ["NotFound"]


async def test_contents_are_there_if_wanted_and_without_secrets(crib: Any, receiver: Receiver, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(f"the key is {SECRET}")
    await run(crib(content="true"), turn(f"I use {SECRET}", ("read_file", {"path": str(tmp_path / "a")})), turn("the end"))
    [tool] = receiver.named("execute_tool read_file")
    assert str(tmp_path / "a") in tool["attributes"]["gen_ai.tool.call.arguments"]
    assert "the key is" in tool["attributes"]["gen_ai.tool.call.result"]
    assert "the end" in receiver.named("chat")[-1]["attributes"]["gen_ai.output.messages"]
    assert SECRET.encode() not in receiver.raw


async def test_a_delegate_is_below_the_call_that_it_is_for(crib: Any, receiver: Receiver) -> None:
    made = crib()
    session = await made.open()
    session.link.use(ScriptedSession(turn("", ("delegate_task", {"task": "look"})), turn("done")))
    from agent.conversation.link import ModelLink

    original = ModelLink.opened

    async def opened(link: ModelLink) -> Any:
        if link.provider is None:
            link.use(ScriptedSession(turn("", ("read_file", {"path": "x"})), turn("looked")))
        return await original(link)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ModelLink, "opened", opened)
        await session.ask("go")
    await session.close()
    await made.aclose()
    agent, below = receiver.named("invoke_agent toolcrib")
    [delegating] = receiver.named("execute_tool delegate_task")
    [reading] = receiver.named("execute_tool read_file")
    assert (delegating["parent"], below["parent"], reading["parent"]) == (agent["id"], delegating["id"], below["id"])
    assert len({one["trace"] for one in receiver.spans}) == 1


class Failing(ScriptedSession):
    async def stream_turn(self, on_event: OnEvent) -> ProviderTurn:
        raise ConnectionFailed("the server said: my words")


async def test_a_model_that_fails_is_an_error_by_its_class_alone(crib: Any, receiver: Receiver) -> None:
    made = crib()
    session = await made.open()
    session.link.use(Failing())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("agent.conversation.asking.with_retry", _once)
        with pytest.raises(ConnectionFailed):
            await session.ask("go")
    await session.close()
    await made.aclose()
    [chat], [agent] = receiver.named("chat"), receiver.named("invoke_agent toolcrib")
    assert chat["attributes"]["error.type"] == agent["attributes"]["error.type"] == "ConnectionFailed"
    assert b"my words" not in receiver.raw


async def _once(attempt: Any, *given: Any, **more: Any) -> Any:
    return await attempt()


async def test_a_dead_receiver_neither_slows_nor_fails_a_run_and_is_told_once(
    crib: Any, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as held:  # a port that accepts connections and never answers
        held.bind(("127.0.0.1", 0))
        held.listen()
        with caplog.at_level(logging.WARNING):
            made = crib(endpoint=f"http://127.0.0.1:{held.getsockname()[1]}")
            session = await made.open()
            session.link.use(ScriptedSession(turn("", *[("read_file", {"path": "x"})] * 3), turn("done")))
            begun = time.monotonic()
            result = await session.ask("go")
            assert time.monotonic() - begun < 3
            assert result.text == "done"
            await session.close()
            begun = time.monotonic()
            await made.aclose()
            assert time.monotonic() - begun < 5
    lines = [one.getMessage() for one in caplog.records if "OpenTelemetry" in one.getMessage() or "opentelemetry" in one.name]
    assert [one for one in lines if "are lost" in one] == lines
    assert len(lines) == 1


async def test_a_refused_connection_is_told_once(crib: Any, caplog: pytest.LogCaptureFixture) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with caplog.at_level(logging.WARNING):
        await asyncio.wait_for(run(crib(endpoint=f"http://127.0.0.1:{port}"), turn("done")), 15)
    lines = [one.getMessage() for one in caplog.records if "opentelemetry" in one.getMessage().lower() + one.name]
    assert len(lines) == 1
    assert "exporting fails" in lines[0] or "are lost" in lines[0]  # either message may come first


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ("{contents: 'true'}", "unknown setting contents; known: content, endpoint"),
        ("{content: maybe}", "content: expected 'true' or 'false', got 'maybe'"),
        ("{endpoint: 'localhost:4318'}", "an address with http:// or https://"),
    ],
)
def test_wrong_settings_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, settings: str, said: str) -> None:
    monkeypatch.setenv("TOOLCRIB_STATE", str(tmp_path / "state"))
    file = tmp_path / "config.yaml"
    file.write_text(f"plugins: {{enabled: [otel], settings: {{otel: {settings}}}}}\n")
    with assemble(config=load_config(file), project_dir=tmp_path, store=MemoryStore()) as made:
        [found] = [one for one in made.plugins if one.name == "otel"]
        assert said in found.error
