"""Tests of the model of a session, of the fallback when it is unavailable, and of its cost."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent.api import Agent, RunResult, Session, assemble
from agent.config import config_path, load_config
from agent.conversation.limits import CostCapReached, RunLimits
from agent.events import Event, Retrying
from agent.model_choice.connecting import open_provider
from agent.model_choice.models import ModelChoice, choose_provider, find_endpoint
from agent.model_choice.retry import RetryPolicy
from agent.policy.confirmation import confirm
from agent.providers.manual import ManualSession
from toolcrib import AuthFailed, ConfigError, Overloaded, ProviderError, RateLimited, StreamBroken
from toolcrib.testing import ChatServer, Response

NOWHERE = "http://127.0.0.1:9/v1"
BUSY = ChatServer.body({"error": {"message": "busy"}}, 503)
ONCE = RetryPolicy(attempts=1)


def configure(**settings: Any) -> None:
    path = config_path()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(settings))
    confirm(load_config())


@pytest.fixture
def gemini() -> Iterator[Callable[..., ChatServer]]:
    opened: list[ChatServer] = []

    def start(*replies: Response) -> ChatServer:
        server = ChatServer(*replies)
        opened.append(server)
        return server.__enter__()

    yield start
    for server in opened:
        server.__exit__()


def gemini_reply(*parts: Any) -> Response:
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": "STOP"}
    usage = {"promptTokenCount": 1000, "candidatesTokenCount": 10}
    return ChatServer.stream({"candidates": [candidate], "usageMetadata": usage, "modelVersion": "g"}, done=False)


def drive(project: Path, act: Callable[[Session], Awaitable[Any]]) -> Any:
    async def go() -> Any:
        async with assemble(project_dir=project) as crib:
            session = await crib.open()
            try:
                return await act(session)
            finally:
                await session.close()

    return asyncio.run(go())


def run(
    project: Path, task: str, choice: ModelChoice | None = None, limits: RunLimits | None = None
) -> tuple[RunResult, list[Event], list[Any]]:
    events: list[Event] = []

    async def act(session: Session) -> Any:
        await session.connect(choice or ModelChoice())
        result = await session.ask(task, emit=events.append, limits=limits or RunLimits(retry=ONCE))
        return result, events, list(await session.records())

    result: tuple[RunResult, list[Event], list[Any]] = drive(project, act)
    return result


# -- the choice --------------------------------------------------------------------------------------------------------


def test_004_22_the_provider_is_chosen_and_opened_with_the_config(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gemini: Callable[..., ChatServer]
) -> None:
    """004-22: the model's name selects the provider, records name its wire, and the configuration sets output and streaming."""
    body = {"candidates": [{"content": {"parts": [{"text": "hi"}]}, "finishReason": "STOP"}]}
    server = gemini(ChatServer.body(body))
    monkeypatch.setenv("GEMINI_BASE_URL", server.base_url)
    monkeypatch.setenv("GEMINI_API_KEY", "k")
    configure(model={"name": "gemini-x", "stream": False, "max_output_tokens": 7})
    result, _, records = run(tmp_path, "hello")
    assert result.text == "hi"
    assert server.requests[0]["generationConfig"] == {"maxOutputTokens": 7}
    assert "Working folder" in server.requests[0]["systemInstruction"]["parts"][0]["text"]
    assert server.paths == ["/v1/models/gemini-x:generateContent"]
    assert records[-1]["native"]["wire"] == "gemini"
    with assemble(project_dir=tmp_path) as crib:
        assert choose_provider(crib.config, ModelChoice()).provider == "gemini"
        assert find_endpoint(crib.config, ModelChoice(provider="manual")) is None


def test_without_anything_a_person_types(tmp_path: Path) -> None:
    async def act(session: Session) -> Any:
        return await open_provider(session, ModelChoice())

    assert isinstance(drive(tmp_path, act), ManualSession)


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ({"provider": "gemmini", "name": "x", "base_url": NOWHERE}, r"unknown provider 'gemmini'.*did you mean gemini"),
        ({"provider": "gemini", "base_url": NOWHERE}, "many models; choose one"),
        ({"base_url": NOWHERE, "name": "x", "fallback": [{}]}, "fallback, entry 1: it has no model"),
        ({"base_url": NOWHERE, "name": "x", "fallback": [{"provider": "chat"}]}, "entry 1: .*chat"),
        ({"base_url": NOWHERE, "name": "x", "fallback": [{"base_url": NOWHERE}, {"provider": "zz"}]}, "entry 2: .*zz"),
        ({"base_url": NOWHERE, "name": "x", "fallback": [{"name": "y", "base_url": NOWHERE, "prices": {"input": 1}}]}, "both"),
        ({"base_url": NOWHERE, "name": "x", "fallback": [{"name": "y", "provider": "anthropic"}]}, "entry 1.*ANTHROPIC_API_KEY"),
    ],
)  # fmt: skip
def test_what_cannot_be_opened_is_told_at_once(model: dict[str, Any], words: str, tmp_path: Path) -> None:
    """A fallback is checked at once too, before it is needed."""
    configure(model=model)

    async def act(session: Session) -> Any:
        await open_provider(session, ModelChoice())

    with pytest.raises(ConfigError, match=words):
        drive(tmp_path, act)


# -- fallback ----------------------------------------------------------------------------------------------------------


def test_another_provider_goes_on_where_the_first_is_overloaded(tmp_path: Path, gemini: Callable[..., ChatServer]) -> None:
    """After retries, in the middle of a task, the calls and results are converted, and the user is informed. The other provider
    stays in use.
    """
    call = gemini_reply({"functionCall": {"name": "terminal", "args": {"command": "echo two"}}, "thoughtSignature": "s"})
    other = gemini(call, gemini_reply({"text": "done"}))
    (tmp_path / "a.txt").write_text("one\n")
    with ChatServer(ChatServer.calls(("read_file", {"path": "a.txt"}), ids=("c1",)), BUSY, BUSY) as server:
        fallback = {"name": "gemini-x", "provider": "gemini", "base_url": other.base_url}
        configure(
            model={
                "name": "m",
                "base_url": server.base_url,
                "fallback": [{"name": "gone", "base_url": NOWHERE}, fallback],
            }
        )
        result, events, records = run(tmp_path, "go", limits=RunLimits(retry=RetryPolicy(attempts=2, first=0.01)))
        assert len(server.requests) == 3
    assert result.text == "done"
    told = [event.reason for event in events if isinstance(event, Retrying)]
    assert told[0].startswith("127.0.0.1")
    assert told[1].endswith("gone at 127.0.0.1:9 continues")
    assert told[-1].endswith(f"gemini-x at {fallback['base_url'].split('/')[2]} continues")
    contents = other.requests[0]["contents"]
    assert [one["role"] for one in contents] == ["user", "model", "user"]
    assert contents[1]["parts"][0]["functionCall"] == {"name": "read_file", "args": {"path": "a.txt"}}
    assert "one" in json.dumps(contents[2])
    assert other.requests[1]["contents"][3]["parts"][0]["thoughtSignature"] == "s"
    wires = [record["native"]["wire"] for record in records if record["role"] == "assistant"]
    assert wires == ["chat", "gemini", "gemini"]


@pytest.mark.parametrize(
    ("response", "kind"),
    [
        (ChatServer.body({"error": {"message": "who?"}}, 401), AuthFailed),
        (
            ChatServer.stream({"choices": [{"delta": {"content": "half"}}]}, {"error": {"message": "busy", "code": 503}}),
            Overloaded,
        ),
        (ChatServer.stream({"choices": [{"delta": {"content": "half"}}]}, cut=40), StreamBroken),
    ],
)
def test_a_fault_of_ours_or_half_a_reply_is_no_reason_to_go_on_elsewhere(
    response: Response, kind: type[ProviderError], tmp_path: Path, gemini: Callable[..., ChatServer]
) -> None:
    other = gemini()
    with ChatServer(response) as server:
        configure(model={"name": "m", "base_url": server.base_url, "fallback": [{"name": "n", "base_url": other.base_url}]})
        with pytest.raises(kind):
            run(tmp_path, "go")
    assert other.requests == []


def test_where_none_is_left_the_fault_is_raised(tmp_path: Path) -> None:
    spent = ChatServer.body({"error": {"message": "slow down"}}, 429)
    with ChatServer(spent, spent) as server:
        entry = {"name": "m", "base_url": server.base_url}
        # The second server would have to list its models, which fails: it is skipped.
        configure(model={**entry, "fallback": [{"base_url": NOWHERE}, entry]})
        with pytest.raises(RateLimited):
            run(tmp_path, "go")
        assert len(server.requests) == 2


def test_the_chain_is_one_session_to_whoever_holds_it(tmp_path: Path) -> None:
    with ChatServer(ChatServer.text("hi")) as server:
        configure(model={"name": "m", "base_url": server.base_url, "fallback": [{"name": "n", "base_url": NOWHERE}]})
        with Agent(project_dir=tmp_path) as agent:
            assert agent.ask("hello").text == "hi"
            assert agent.session.model == "m"


# -- the cost ----------------------------------------------------------------------------------------------------------


def test_a_hard_spend_cap(tmp_path: Path, gemini: Callable[..., ChatServer]) -> None:
    """The cost is computed from the server's usage and the configured prices: a turn of 1,010 tokens costs 0.0013."""
    call = gemini_reply({"functionCall": {"name": "terminal", "args": {"command": "true"}}})
    server = gemini(call, call, call, gemini_reply({"text": "done"}))
    model = {"provider": "gemini", "name": "g", "base_url": server.base_url, "prices": {"input": 1, "output": 30}}
    configure(model=model, run={"max_cost": 0.0026})
    with assemble(project_dir=tmp_path) as crib:
        limits = RunLimits.of(crib.config)
    with pytest.raises(CostCapReached, match=r"0\.0026 spent of 0\.0026"):
        run(tmp_path, "go", limits=limits)
    assert len(server.requests) == 2
    result, _, _ = run(tmp_path, "go", limits=RunLimits(prices=limits.prices, max_cost=1))
    assert result.cost == pytest.approx(0.0026)
    assert run_free(tmp_path, gemini).cost is None


def run_free(tmp_path: Path, gemini: Callable[..., ChatServer]) -> RunResult:
    server = gemini(gemini_reply({"text": "done"}))
    return run(tmp_path, "go", ModelChoice("g", server.base_url, provider="gemini"))[0]


def test_a_cap_that_cannot_be_kept_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cap needs prices, and a server that reports usage; otherwise costs would go unnoticed."""
    monkeypatch.setitem(sys.modules, "genai_prices", None)  # as if the library of list prices were not installed
    configure(run={"max_cost": 1})
    with assemble(project_dir=tmp_path) as crib, pytest.raises(ConfigError, match=r"needs prices"):
        RunLimits.of(crib.config)
    delta = {"choices": [{"delta": {"content": "hi"}, "finish_reason": "stop"}]}
    with ChatServer(ChatServer.stream(delta)) as server:
        configure(model={"name": "m", "base_url": server.base_url, "prices": {"input": 1, "output": 1}}, run={"max_cost": 1})
        with assemble(project_dir=tmp_path) as crib:
            limits = RunLimits.of(crib.config)
        with pytest.raises(CostCapReached, match="does not count tokens"):
            run(tmp_path, "go", limits=limits)


def test_a_fallback_has_prices_of_its_own(tmp_path: Path, gemini: Callable[..., ChatServer]) -> None:
    other = gemini(gemini_reply({"text": "done"}))
    entry = {"name": "g", "provider": "gemini", "base_url": other.base_url, "prices": {"input": 10, "output": 0}}
    configure(model={"name": "m", "base_url": NOWHERE, "prices": {"input": 1, "output": 1}, "fallback": [entry]})
    with assemble(project_dir=tmp_path) as crib:
        limits = RunLimits.of(crib.config)
    result, _, _ = run(tmp_path, "go", limits=RunLimits(retry=ONCE, prices=limits.prices))
    assert result.cost == pytest.approx(0.01)
