"""List prices: costs and context windows of vendors' models without configured ones, from the installed genai-prices."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import genai_prices
import pytest

from agent.api import Agent
from agent.config import config_path
from agent.context.window import window_of
from agent.conversation.limits import CostCapReached, RunLimits
from agent.model_choice.list_prices import ListPrices, list_prices
from toolcrib import ConfigError
from toolcrib.testing import ChatServer
from tools.dispatch.bridge import run_async

SERVERS = {
    "gpt-5": "https://api.openai.com/v1",
    "claude-sonnet-4-5": "https://api.anthropic.com/v1",
    "gemini-2.5-pro": "https://generativelanguage.googleapis.com/v1beta",
    "mistral-large-latest": "https://api.mistral.ai/v1",
}
VENDOR = "http://openai.azure.com/v1"
"""A vendor's address that can be asked without TLS, through a proxy."""


def found(model: str, base_url: str) -> ListPrices | None:
    return run_async(list_prices({"model": model, "base_url": base_url}))


@pytest.mark.parametrize(("model", "base_url"), SERVERS.items())
def test_vendors_models_have_prices(model: str, base_url: str) -> None:
    """The prices are dated, and equal the library's own results."""
    prices = found(model, base_url)
    assert prices is not None
    usage = genai_prices.Usage(input_tokens=1_000, output_tokens=100)
    expected = genai_prices.calc_price(usage, model, provider_api_url=base_url).total_price
    assert prices.cost({"input": 1_000, "output": 100}) == pytest.approx(float(expected))
    assert prices.cost({"input": 1_000, "output": 100}) == pytest.approx(prices.input / 1_000 + prices.output / 10_000)
    name, _, day = prices.source.partition(", data up to ")
    assert name == f"genai-prices {genai_prices.__version__}"
    assert date(2026, 1, 1) < date.fromisoformat(day) <= date.today()


def test_cached_tokens_have_their_own_prices() -> None:
    prices = found("claude-sonnet-4-5", SERVERS["claude-sonnet-4-5"])
    assert prices is not None
    plain, read, written = (
        prices.cost({"input": 1_000, "output": 1, **more}) for more in ({}, {"cached": 900}, {"cache_written": 900})
    )
    assert read < plain < written
    assert prices.cost({"input": 5, "cached": 10, "cache_written": 10}) <= prices.cost({"input": 5})


@pytest.mark.parametrize(
    ("model", "base_url"),
    [
        ("gpt-5", "http://127.0.0.1:8080/v1"), ("gpt-5", "http://localhost/v1"), ("gpt-5", "https://proxy.example.org/v1"),
        ("no-such-model", SERVERS["gpt-5"]), ("", SERVERS["gpt-5"]), ("gpt-5", ""),
    ],
)  # fmt: skip
def test_a_model_elsewhere_has_no_list_price(model: str, base_url: str) -> None:
    """A self-hosted server does not charge the vendor's price for a model of that name."""
    assert found(model, base_url) is None


def test_nothing_is_downloaded_and_no_other_start_loads_it(tmp_path: Path) -> None:
    code = """
import sys
def hook(event, args):
    assert event not in ("socket.connect", "socket.getaddrinfo"), args
from agent.model_choice.list_prices import list_prices
from tools.dispatch.bridge import run_async
assert run_async(list_prices({"model": "m", "base_url": "http://127.0.0.1/v1"})) is None
assert "genai_prices" not in sys.modules
sys.addaudithook(hook)
print(run_async(list_prices({"model": "gpt-5", "base_url": "https://api.openai.com/v1"})).window)
"""
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "400000"), done.stderr


# -- sessions ------------------------------------------------------------------------------------------------------------

Start = Callable[..., Agent]


def configure(**sections: Any) -> None:
    config_path().parent.mkdir(parents=True, exist_ok=True)
    config_path().write_text(json.dumps(sections))


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Return a function that starts an agent with a vendor's model, whose replies come through a proxy."""
    opened: list[Any] = []

    def begin(*responses: Any, model: str = "gpt-4o", **options: Any) -> Agent:
        server = ChatServer(*responses)
        opened.append(server.__enter__())
        monkeypatch.setenv("http_proxy", server.base_url.removesuffix("/v1"))
        agent = Agent(model=model, base_url=VENDOR, project_dir=tmp_path, **options)
        opened.append(agent)
        return agent

    yield begin
    for one in reversed(opened):
        one.__exit__(None, None, None)


def test_a_cost_is_estimated_and_says_so(start: Start) -> None:
    """The estimate is in the result and in the usage, with its source and the source's date."""
    from agent.cli.format_usage import lines_of

    agent = start(ChatServer.text("hi"))
    result = agent.ask("hello")
    prices = found("gpt-4o", VENDOR)
    assert prices is not None
    assert result.cost == pytest.approx(prices.cost({"input": 10, "output": 5}))
    assert result.estimated == prices.source
    (line,) = run_async(lines_of(agent.crib.store, agent.session.id))
    assert line.endswith(f"cost ~{result.cost:.4f} (estimated by {prices.source})")
    (total,) = run_async(agent.crib.store.usage.sums())
    assert (total.cost, total.estimated) == (result.cost, prices.source)


def test_configured_prices_win(start: Start) -> None:
    configure(model={"prices": {"input": 1_000, "output": 0}})
    agent = start(ChatServer.text("hi"))
    result = agent.ask("hello")
    assert (result.cost, result.estimated) == (0.01, "")
    (total,) = run_async(agent.crib.store.usage.sums())
    assert (total.cost, total.estimated) == (0.01, "")


def test_a_spend_cap_by_list_prices(start: Start) -> None:
    configure(run={"max_cost": 0.0001})
    call = ("terminal", {"command": "true"})
    agent = start(*[ChatServer.calls(call)] * 3)
    with pytest.raises(CostCapReached, match=r"0\.0001 spent of 0\.0001"):
        agent.ask("go")


def test_a_spend_cap_without_any_price_asks_nothing(start: Start) -> None:
    agent = start(ChatServer.text("hi"), model="no-such-model", limits=RunLimits(max_cost=1.0))
    with pytest.raises(ConfigError, match=r"no price of no-such-model is known.*; set model\.prices"):
        agent.ask("go")
    assert run_async(agent.crib.store.usage.sums()) == []


def test_without_the_library_a_cap_needs_configured_prices(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)  # as if it were not installed
    configure(run={"max_cost": 1})
    with pytest.raises(ConfigError, match=r"pip install 'toolcrib\[prices\]'"):
        start()
    configure()
    assert start(ChatServer.text("hi")).ask("hello").cost is None


def test_a_context_window_is_listed_and_the_configured_one_wins(start: Start) -> None:
    agent = start(ChatServer.text("hi"), ChatServer.text("ho"))
    agent.ask("hello")
    agent.ask("hello again")
    window = run_async(window_of(agent.session))
    assert window.tokens == agent.session.link.window == 128_000
    assert window.source.startswith(f"by genai-prices {genai_prices.__version__}")
    configure(model={"context_window": 9_000})
    assert run_async(window_of(start().session)).source == "model.context_window"


def test_a_refusal_corrects_a_listed_window(start: Start) -> None:
    """From then on the session uses the window that the server named."""
    said = {"choices": [{"delta": {"content": "word " * 400}, "finish_reason": "stop"}]}
    counted = ChatServer.stream(said, {"choices": [], "usage": {"prompt_tokens": 6_000, "completion_tokens": 10}})
    error = {"message": "maximum context length is 4000 tokens", "code": "context_length_exceeded"}
    agent = start(*[counted] * 6, ChatServer.body({"error": error}, 400), *[ChatServer.text("fine")] * 20)
    for number in range(6):
        agent.ask(f"{number} " * 800)
    assert agent.session.link.window == 128_000
    assert agent.ask("and now?").text == "fine"
    assert agent.session.link.window == 4_000
    assert "learned from a refusal" in run_async(window_of(agent.session)).source
